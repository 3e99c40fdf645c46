//! The value that is checked: where its parts are and what they are, found in one walk through its text. Nothing is copied, and
//! escapes are resolved when a rule asks for the text of a string.

use std::borrow::Cow;
use std::ops::ControlFlow;

use turms_proto::{JsonVisitor, MAX_DEPTH, RawJson};

use crate::budget::Budget;
use crate::validator::ValidationError;

/// A value and all parts within, in the order of its text. The parts within a part follow it, up to its `end`.
#[derive(Debug)]
pub(crate) struct Instance<'a> {
    parts: Vec<Part<'a>>,
}

/// One value: the whole, a member, an element.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// As it is written.
    pub(crate) raw: &'a str,
    /// Its name in the object that holds it, with quotes; empty elsewhere.
    quoted_name: &'a str,
    pub(crate) kind: Kind,
    /// Set for a string with escapes, and for an object with escapes in the name of a member.
    is_escaped: bool,
    /// Set if its name has escapes.
    is_name_escaped: bool,
    /// The number of its members or elements.
    pub(crate) len: u32,
    parent: u32,
    /// The place behind the last part that is within this one.
    end: u32,
}

/// The types of JSON; whether a number is an integer is asked of the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// The place of a part. The whole is at [`ROOT`].
pub(crate) type Place = u32;

pub(crate) const ROOT: Place = 0;

const NOWHERE: Place = Place::MAX;

/// Steps for each part of a value.
const PART_STEPS: u64 = 8;

/// Maximum number of parts, which take 48 bytes each; a power of two times what there is room for at first.
const MAX_PARTS: usize = Instance::ROOM << 17;

/// Steps for each string with escapes that is copied.
pub(crate) const UNESCAPE_STEPS: u64 = 20;

impl<'a> Instance<'a> {
    /// Finds the parts of a value.
    ///
    /// # Errors
    /// When it is nested deeper than messages may be, or has more text or parts than the budget allows.
    pub(crate) fn read(value: &'a RawJson, budget: &mut Budget) -> Result<Self, ValidationError> {
        let mut reader = Reader {
            parts: Vec::with_capacity(Self::ROOM),
            open: NOWHERE,
            depth: 0,
            name: ("", false),
            failure: None,
            budget,
        };
        if reader.budget.charge_bytes(value.as_str().len(), 16) {
            value.walk(&mut reader);
        } else {
            reader.failure = Some(too_expensive());
        }
        match reader.failure {
            Some(failure) => Err(failure),
            None => Ok(Self { parts: reader.parts }),
        }
    }

    /// A string that stands alone, such as the name of a member.
    pub(crate) fn of_name(quoted: &'a str, is_escaped: bool) -> Self {
        let part = Part {
            raw: quoted,
            quoted_name: "",
            kind: Kind::String,
            is_escaped,
            is_name_escaped: false,
            len: 0,
            parent: NOWHERE,
            end: 1,
        };
        Self { parts: vec![part] }
    }

    /// The number of parts that a plain object fits in, so that reading it takes one allocation.
    const ROOM: usize = 12;

    pub(crate) fn part(&self, place: Place) -> &Part<'a> {
        &self.parts[place as usize]
    }

    /// Iterates over the members or elements of a part.
    pub(crate) fn within(&self, place: Place) -> impl Iterator<Item = (Place, &Part<'a>)> {
        let (mut at, end) = (place + 1, self.part(place).end);
        std::iter::from_fn(move || {
            let part = self.parts.get(at as usize).filter(|_| at < end)?;
            let found = std::mem::replace(&mut at, part.end);
            Some((found, part))
        })
    }

    /// Returns `true` if there is a member of this name.
    pub(crate) fn has_member(&self, place: Place, name: &str) -> bool {
        self.within(place).any(|(_, part)| part.is_named(name))
    }

    /// The number of members; those of the same name are one.
    pub(crate) fn member_count(&self, place: Place) -> u64 {
        match self.part(place).len {
            len @ 0..2 => len.into(),
            _ => self.members(place).len() as u64,
        }
    }

    /// The members in the order of their names; of several with one name the last one, as most readers have it.
    pub(crate) fn members(&self, place: Place) -> Vec<(Cow<'a, str>, Place)> {
        let mut members: Vec<_> = self.within(place).map(|(place, part)| (part.name(), place)).collect();
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        members.dedup_by(|one, other| one.0 == other.0);
        members
    }

    /// The path to a part: `.items[1]`.
    pub(crate) fn path(&self, place: Place) -> String {
        let mut steps = Vec::new();
        let mut at = place;
        while let Some(part) = self.parts.get(at as usize) {
            steps.push(at);
            at = part.parent;
        }
        let mut path = String::new();
        for step in steps.into_iter().rev().skip(1) {
            let part = self.part(step);
            if self.part(part.parent).kind == Kind::Object {
                path.push('.');
                path.push_str(&crate::explain::shortened(&part.name()));
            } else {
                let index = self.within(part.parent).position(|(place, _)| place == step);
                let index = index.unwrap_or_default();
                path.push_str(&format!("[{index}]"));
            }
        }
        path
    }
}

impl<'a> Part<'a> {
    /// The name in the object that holds it. One that is no text (half of a surrogate pair) stays as it is written.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        let inside = inside(self.quoted_name);
        if !self.is_name_escaped {
            return Cow::Borrowed(inside);
        }
        serde_json::from_str(self.quoted_name).map_or(Cow::Borrowed(inside), Cow::Owned)
    }

    /// Its name as it is written, and whether that has escapes.
    pub(crate) fn quoted_name(&self) -> (&'a str, bool) {
        (self.quoted_name, self.is_name_escaped)
    }

    fn is_named(&self, name: &str) -> bool {
        if self.is_name_escaped { self.name() == name } else { inside(self.quoted_name) == name }
    }

    /// Returns `true` if asking for the text, or for the names of members, copies it.
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// The text of a string; `None` if it has half of a surrogate pair, which no text has.
    pub(crate) fn text(&self) -> Option<Cow<'a, str>> {
        if self.is_escaped { serde_json::from_str(self.raw).ok().map(Cow::Owned) } else { Some(self.plain_text()) }
    }

    fn plain_text(&self) -> Cow<'a, str> {
        Cow::Borrowed(inside(self.raw))
    }
}

fn inside(quoted: &str) -> &str {
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default()
}

fn too_expensive() -> ValidationError {
    ValidationError::TooExpensive { path: String::new(), keyword: None }
}

struct Reader<'a, 'b> {
    parts: Vec<Part<'a>>,
    /// The container that was entered last.
    open: Place,
    depth: usize,
    /// The name of the next part, and whether it has escapes.
    name: (&'a str, bool),
    failure: Option<ValidationError>,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    #[inline(always)]
    fn push(&mut self, raw: &'a str, kind: Kind, is_escaped: bool) -> ControlFlow<()> {
        if !self.budget.charge(PART_STEPS) || self.parts.len() >= MAX_PARTS {
            self.failure = Some(too_expensive());
            return ControlFlow::Break(());
        }
        let (quoted_name, is_name_escaped) = std::mem::take(&mut self.name);
        if let Some(container) = self.parts.get_mut(self.open as usize) {
            container.len += 1;
            container.is_escaped |= is_name_escaped;
        }
        let end = Place::try_from(self.parts.len() + 1).unwrap_or(NOWHERE);
        let parent = self.open;
        self.parts.push(Part { raw, quoted_name, kind, is_escaped, is_name_escaped, len: 0, parent, end });
        ControlFlow::Continue(())
    }
}

impl<'a> JsonVisitor<'a> for Reader<'a, '_> {
    #[inline(always)]
    fn name(&mut self, quoted: &'a str, escaped: bool) {
        self.name = (quoted, escaped);
    }

    #[inline(always)]
    fn scalar(&mut self, written: &'a str, escaped: bool) -> ControlFlow<()> {
        let kind = match written.as_bytes().first() {
            Some(b'"') => Kind::String,
            Some(b't' | b'f') => Kind::Boolean,
            Some(b'n') => Kind::Null,
            _ => Kind::Number,
        };
        self.push(written, kind, escaped)
    }

    fn enter(&mut self, from_bracket: &'a str) -> ControlFlow<()> {
        if self.depth >= MAX_DEPTH {
            self.failure = Some(ValidationError::ValueTooDeep);
            return ControlFlow::Break(());
        }
        let kind = if from_bracket.starts_with('{') { Kind::Object } else { Kind::Array };
        let place = Place::try_from(self.parts.len()).unwrap_or(NOWHERE);
        self.push(from_bracket, kind, false)?;
        self.open = place;
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn leave(&mut self, rest: &'a str) {
        let end = Place::try_from(self.parts.len()).unwrap_or(NOWHERE);
        if let Some(part) = self.parts.get_mut(self.open as usize) {
            // Until it is left, a container has all the text that follows its bracket.
            part.raw = &part.raw[..part.raw.len() - rest.len()];
            part.end = end;
            self.open = part.parent;
            self.depth -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(text: &str, look: impl FnOnce(&Instance<'_>) -> T) -> T {
        let value = RawJson::parse(text.to_owned()).unwrap();
        look(&Instance::read(&value, &mut Budget::new(u64::MAX)).unwrap())
    }

    fn paths(text: &str) -> Vec<String> {
        with(text, |instance| {
            let places = 0..Place::try_from(instance.parts.len()).unwrap();
            places.map(|place| format!("it{} = {}", instance.path(place), instance.part(place).raw)).collect()
        })
    }

    #[test]
    fn every_part_knows_its_place_and_its_text() {
        assert_eq!(paths("1.5"), ["it = 1.5"]);
        assert_eq!(
            paths(r#"{"a": [1, {"b" : null}, []] , "c\"d":"x\ty", "": {}}"#),
            [
                r#"it = {"a": [1, {"b" : null}, []] , "c\"d":"x\ty", "": {}}"#,
                r#"it.a = [1, {"b" : null}, []]"#,
                "it.a[0] = 1",
                r#"it.a[1] = {"b" : null}"#,
                "it.a[1].b = null",
                "it.a[2] = []",
                r#"it.c"d = "x\ty""#,
                "it. = {}",
            ]
        );
        with(r#"["a\u0062", "c"]"#, |instance| {
            let texts: Vec<_> = instance.within(ROOT).map(|(_, part)| part.text().unwrap()).collect();
            assert_eq!((texts, instance.part(ROOT).len), (vec!["ab".into(), "c".into()], 2));
        });
    }

    #[test]
    fn half_of_a_surrogate_pair_is_no_text() {
        with(r#"{"a":"\ud800","\udc00":1}"#, |instance| {
            assert_eq!(instance.part(1).text(), None);
            assert_eq!(instance.part(2).name(), "\\udc00");
        });
    }

    #[test]
    fn a_plain_object_takes_one_allocation() {
        let value = RawJson::parse(r#"{"a":1,"b":"two","c":true,"d":null,"e\n":"\t"}"#).unwrap();
        let counted = allocation_counter::measure(|| drop(Instance::read(&value, &mut Budget::new(1000)).unwrap()));
        assert_eq!(counted.count_total, 1);
    }
}
