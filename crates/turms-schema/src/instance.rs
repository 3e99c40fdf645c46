//! The value under validation: the positions and types of its parts, found in one pass. Nothing is copied, and strings
//! are unescaped only when a rule needs them.

use std::borrow::Cow;
use std::ops::ControlFlow;

use turms_proto::__internal::JsonVisitor;
use turms_proto::{MAX_DEPTH, RawJson};

use crate::budget::Budget;
use crate::validator::ValidationError;

/// A value and all its parts, in source order. The nested parts of a part follow it, up to its `end`.
#[derive(Debug)]
pub(crate) struct Instance<'a> {
    parts: Vec<ValuePart<'a>>,
}

/// A value: the root, a member or an element.
#[derive(Debug)]
pub(crate) struct ValuePart<'a> {
    /// The JSON text.
    pub(crate) raw: &'a str,
    /// The name of the member, with quotes; empty for other parts.
    quoted_name: &'a str,
    pub(crate) kind: PartKind,
    /// `true` for a string with escapes, and for an object with escapes in a member name.
    is_escaped: bool,
    /// `true` if the name has escapes.
    is_name_escaped: bool,
    /// Number of members or elements.
    pub(crate) len: u32,
    parent: u32,
    /// Position after the last nested part.
    end: u32,
}

/// The types of JSON. Integers are distinguished by the value of the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Null,
    Boolean,
    Number,
    String,
    Array,
    Object,
}

/// Position of a part. The root is at [`ROOT`].
pub(crate) type Place = u32;

pub(crate) const ROOT: Place = 0;

const NOWHERE: Place = Place::MAX;

/// Steps for each part of a value.
const PART_STEPS: u64 = 8;

/// Maximum number of parts, which take 48 bytes each. It is a power of two times the initial capacity.
const MAX_PARTS: usize = Instance::ROOM << 17;

/// Steps for each unescaped string.
pub(crate) const UNESCAPE_STEPS: u64 = 20;

impl<'a> Instance<'a> {
    /// Finds the parts of a value.
    ///
    /// # Errors
    /// If it is nested too deeply, or its size exceeds the budget.
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

    /// Creates an instance with a single string, such as the name of a member.
    pub(crate) fn of_name(quoted: &'a str, is_escaped: bool) -> Self {
        let part = ValuePart {
            raw: quoted,
            quoted_name: "",
            kind: PartKind::String,
            is_escaped,
            is_name_escaped: false,
            len: 0,
            parent: NOWHERE,
            end: 1,
        };
        Self { parts: vec![part] }
    }

    /// Number of parts of a typical object, so that reading it takes one allocation.
    const ROOM: usize = 12;

    pub(crate) fn part(&self, place: Place) -> &ValuePart<'a> {
        &self.parts[place as usize]
    }

    /// Iterates over the members or elements of a part.
    pub(crate) fn children(&self, place: Place) -> impl Iterator<Item = (Place, &ValuePart<'a>)> {
        let (mut at, end) = (place + 1, self.part(place).end);
        std::iter::from_fn(move || {
            let part = self.parts.get(at as usize).filter(|_| at < end)?;
            let found = std::mem::replace(&mut at, part.end);
            Some((found, part))
        })
    }

    /// Returns `true` if there is a member with this name.
    pub(crate) fn has_member(&self, place: Place, name: &str) -> bool {
        self.children(place).any(|(_, part)| part.is_named(name))
    }

    /// Returns the number of members; those with the same name count once.
    pub(crate) fn member_count(&self, place: Place) -> u64 {
        match self.part(place).len {
            len @ 0..2 => len.into(),
            _ => self.members(place).len() as u64,
        }
    }

    /// Returns the members sorted by name. If a name occurs several times, the last member is returned, as in most
    /// parsers.
    pub(crate) fn members(&self, place: Place) -> Vec<(Cow<'a, str>, Place)> {
        let mut members: Vec<_> = self.children(place).map(|(place, part)| (part.name(), place)).collect();
        members.sort_unstable_by(|one, other| one.0.cmp(&other.0).then(other.1.cmp(&one.1)));
        members.dedup_by(|one, other| one.0 == other.0);
        members
    }

    /// Returns the path to a part, such as `.items[1]`.
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
            if self.part(part.parent).kind == PartKind::Object {
                path.push('.');
                path.push_str(&crate::explain::shortened(&part.name()));
            } else {
                let index = self.children(part.parent).position(|(place, _)| place == step);
                let index = index.unwrap_or_default();
                path.push_str(&format!("[{index}]"));
            }
        }
        path
    }
}

impl<'a> ValuePart<'a> {
    /// Returns the unescaped name of the member. A name with an unpaired surrogate stays as written.
    pub(crate) fn name(&self) -> Cow<'a, str> {
        let inside = inside(self.quoted_name);
        if !self.is_name_escaped {
            return Cow::Borrowed(inside);
        }
        serde_json::from_str(self.quoted_name).map_or(Cow::Borrowed(inside), Cow::Owned)
    }

    /// Returns the name as written, and `true` if it has escapes.
    pub(crate) fn quoted_name(&self) -> (&'a str, bool) {
        (self.quoted_name, self.is_name_escaped)
    }

    fn is_named(&self, name: &str) -> bool {
        if self.is_name_escaped { self.name() == name } else { inside(self.quoted_name) == name }
    }

    /// Returns `true` if the string, or a member name, must be unescaped.
    pub(crate) fn is_escaped(&self) -> bool {
        self.is_escaped
    }

    /// Returns the decoded string; `None` if it has an unpaired surrogate.
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
    parts: Vec<ValuePart<'a>>,
    /// The container that was entered last.
    open: Place,
    depth: usize,
    /// The name of the next part, and `true` if it has escapes.
    name: (&'a str, bool),
    failure: Option<ValidationError>,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    #[inline(always)]
    fn push(&mut self, raw: &'a str, kind: PartKind, is_escaped: bool) -> ControlFlow<()> {
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
        self.parts.push(ValuePart { raw, quoted_name, kind, is_escaped, is_name_escaped, len: 0, parent, end });
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
            Some(b'"') => PartKind::String,
            Some(b't' | b'f') => PartKind::Boolean,
            Some(b'n') => PartKind::Null,
            _ => PartKind::Number,
        };
        self.push(written, kind, escaped)
    }

    fn enter(&mut self, from_bracket: &'a str) -> ControlFlow<()> {
        if self.depth >= MAX_DEPTH {
            self.failure = Some(ValidationError::ValueTooDeep);
            return ControlFlow::Break(());
        }
        let kind = if from_bracket.starts_with('{') { PartKind::Object } else { PartKind::Array };
        let place = Place::try_from(self.parts.len()).unwrap_or(NOWHERE);
        self.push(from_bracket, kind, false)?;
        self.open = place;
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn leave(&mut self, rest: &'a str) {
        let end = Place::try_from(self.parts.len()).unwrap_or(NOWHERE);
        if let Some(part) = self.parts.get_mut(self.open as usize) {
            // Until it is left, a container has all text after its opening bracket.
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
            let texts: Vec<_> = instance.children(ROOT).map(|(_, part)| part.text().unwrap()).collect();
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
