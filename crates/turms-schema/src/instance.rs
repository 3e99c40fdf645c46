//! The value that is held against a schema, read from its text in one pass: where its parts are and what they are, nothing
//! copied but strings with escapes.

use std::borrow::Cow;

use turms_proto::MAX_DEPTH;

use crate::budget::Budget;
use crate::validator::{ValidationError, Violation};

/// A value and all that is within, in the order of its text. The parts within a part follow it, up to its `end`.
#[derive(Debug)]
pub(crate) struct Instance<'a> {
    parts: Vec<Part<'a>>,
}

/// One value: the whole, a member, an element.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    /// What it is called in the object that holds it.
    pub(crate) name: Cow<'a, str>,
    /// As it is written.
    pub(crate) raw: &'a str,
    /// The text of a string whose escapes had to be resolved.
    resolved: Option<Box<str>>,
    /// How many members or elements it has.
    pub(crate) len: u32,
    parent: u32,
    /// Behind the last part that is within this one.
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

/// Where a part is. The whole is at [`ROOT`].
pub(crate) type Place = u32;

pub(crate) const ROOT: Place = 0;

const NOWHERE: Place = Place::MAX;

impl<'a> Instance<'a> {
    /// Reads the text of one valid JSON value.
    ///
    /// # Errors
    /// Names the place of a string that is no text, because it has half of a surrogate pair, and of what is nested deeper than
    /// messages may be. Says so if the value has more text or parts than the budget allows.
    pub(crate) fn read(text: &'a str, budget: &mut Budget) -> Result<Self, ValidationError> {
        let too_expensive = || ValidationError::TooExpensive { path: String::new(), keyword: None };
        if !budget.charge_bytes(text.len(), 4) {
            return Err(too_expensive());
        }
        let mut reader = Reader { text, at: 0, open: NOWHERE, depth: 0, parts: Vec::with_capacity(Self::ROOM), budget };
        let read = reader.read();
        let instance = Self { parts: reader.parts };
        match read {
            Ok(()) => Ok(instance),
            Err(Broken::Text(place)) => {
                let message = "a string that is no text".to_owned();
                let violation = Violation { path: instance.path(place), keyword: "type", message };
                Err(ValidationError::Invalid(vec![violation]))
            }
            Err(Broken::TooDeep) => Err(ValidationError::ValueTooDeep),
            Err(Broken::TooMany) => Err(too_expensive()),
        }
    }

    /// A string that stands alone, such as the name of a member.
    pub(crate) fn of_name(name: &'a str, quoted: &'a str) -> Self {
        let part = Part {
            kind: Kind::String,
            name: Cow::Borrowed(""),
            raw: quoted,
            resolved: Some(name.into()),
            len: 0,
            parent: NOWHERE,
            end: 1,
        };
        Self { parts: vec![part] }
    }

    /// A plain object fits in here, so that reading it takes one allocation.
    const ROOM: usize = 12;

    pub(crate) fn part(&self, place: Place) -> &Part<'a> {
        &self.parts[place as usize]
    }

    /// The members or elements of a part.
    pub(crate) fn within(&self, place: Place) -> impl Iterator<Item = (Place, &Part<'a>)> {
        let (mut at, end) = (place + 1, self.part(place).end);
        std::iter::from_fn(move || {
            let part = self.parts.get(at as usize).filter(|_| at < end)?;
            let found = std::mem::replace(&mut at, part.end);
            Some((found, part))
        })
    }

    /// The member of this name; the last one if there are several, as most readers have it.
    pub(crate) fn member(&self, place: Place, name: &str) -> Option<Place> {
        self.within(place).filter(|(_, part)| part.name == name).last().map(|(place, _)| place)
    }

    /// The number of members; those of the same name are one.
    pub(crate) fn member_count(&self, place: Place) -> u64 {
        match self.part(place).len {
            len @ 0..2 => len.into(),
            _ => self.members(place).len() as u64,
        }
    }

    /// The members in the order of their names; of several with one name the last one, as most readers have it.
    pub(crate) fn members(&self, place: Place) -> Vec<(&str, Place)> {
        let mut members: Vec<_> = self.within(place).map(|(place, part)| (&*part.name, place)).collect();
        members.sort_unstable_by(|one, other| one.0.cmp(other.0).then(other.1.cmp(&one.1)));
        members.dedup_by_key(|(name, _)| *name);
        members
    }

    /// The place in words: `arguments.items[1]`.
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
                path.push_str(&super::explain::shortened(&part.name));
            } else {
                let index = self.within(part.parent).position(|(place, _)| place == step);
                let index = index.unwrap_or_default();
                path.push_str(&format!("[{index}]"));
            }
        }
        path
    }
}

impl Part<'_> {
    /// What a string says; nothing for what is no string.
    pub(crate) fn text(&self) -> Option<&str> {
        if self.kind != Kind::String {
            return None;
        }
        self.resolved.as_deref().or_else(|| self.raw.strip_prefix('"')?.strip_suffix('"'))
    }
}

enum Broken {
    /// Somewhere is a string that is no text.
    Text(Place),
    TooDeep,
    /// There are more parts than the budget allows.
    TooMany,
}

/// Steps for each part of a value, for its place in memory as well as for the time.
const PART_STEPS: u64 = 30;

/// Steps for each string with escapes, which is copied.
const RESOLVE_STEPS: u64 = 20;

struct Reader<'a, 'b> {
    text: &'a str,
    at: usize,
    /// The container that the cursor is in.
    open: Place,
    depth: usize,
    parts: Vec<Part<'a>>,
    budget: &'b mut Budget,
}

impl<'a> Reader<'a, '_> {
    /// The text was checked when it came in. So what is not where it should be can only mean that the text is over.
    fn read(&mut self) -> Result<(), Broken> {
        loop {
            let (name, is_text) = match self.kind_of_open() {
                Some(Kind::Object) => self.name(),
                _ => (Cow::Borrowed(""), true),
            };
            let place = self.value(name);
            if !is_text || place.is_none() {
                return place.map_or(Ok(()), |place| Err(Broken::Text(place)));
            }
            if self.parts.last().is_some_and(|part| part.kind == Kind::String && part.text().is_none()) {
                return Err(Broken::Text(Place::try_from(self.parts.len() - 1).unwrap_or_default()));
            }
            if self.depth > MAX_DEPTH {
                return Err(Broken::TooDeep);
            }
            if !self.budget.charge(PART_STEPS) {
                return Err(Broken::TooMany);
            }
            if !self.step() {
                return Ok(());
            }
        }
    }

    /// Goes on to where the next value begins; false if there is none.
    fn step(&mut self) -> bool {
        loop {
            if self.open == NOWHERE {
                return false;
            }
            match self.skip_space() {
                Some(b',') => {
                    self.at += 1;
                    return true;
                }
                Some(b'}' | b']') => self.close(),
                // The first value of a container.
                Some(_) => return true,
                None => return false,
            }
        }
    }

    fn close(&mut self) {
        self.at += 1;
        let (end, at, text) = (self.parts.len(), self.at, self.text);
        if let Some(part) = self.parts.get_mut(self.open as usize) {
            // Until it is closed, a container has all the text that is left.
            part.raw = &text[text.len() - part.raw.len()..at];
            part.end = Place::try_from(end).unwrap_or(NOWHERE);
            self.open = part.parent;
            self.depth -= 1;
        }
    }

    fn kind_of_open(&self) -> Option<Kind> {
        self.parts.get(self.open as usize).map(|part| part.kind)
    }

    /// The name of a member, and whether it is text.
    fn name(&mut self) -> (Cow<'a, str>, bool) {
        self.skip_space();
        let raw = self.string();
        if self.skip_space() == Some(b':') {
            self.at += 1;
        }
        let inside = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        match memchr::memchr(b'\\', raw.as_bytes()) {
            None => (Cow::Borrowed(inside), true),
            Some(_) => self.resolve(raw).map_or((Cow::Borrowed(inside), false), |text| (Cow::Owned(text.into()), true)),
        }
    }

    /// Reads a scalar, or the beginning of a container.
    fn value(&mut self, name: Cow<'a, str>) -> Option<Place> {
        let first = self.skip_space()?;
        let start = self.at;
        let kind = match first {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Boolean,
            b'n' => Kind::Null,
            _ => Kind::Number,
        };
        let mut resolved = None;
        let raw = match kind {
            Kind::Object | Kind::Array => {
                self.at += 1;
                &self.text[start..]
            }
            Kind::String => {
                let raw = self.string();
                if memchr::memchr(b'\\', raw.as_bytes()).is_some() {
                    resolved = Some(self.resolve(raw));
                }
                raw
            }
            Kind::Null | Kind::Boolean | Kind::Number => self.word(),
        };
        let place = Place::try_from(self.parts.len()).ok().filter(|place| *place < NOWHERE)?;
        if let Some(container) = self.parts.get_mut(self.open as usize) {
            container.len += 1;
        }
        // A string that is no text is one without quotes.
        let (raw, resolved) = match resolved {
            Some(None) => ("", None),
            Some(resolved) => (raw, resolved),
            None => (raw, None),
        };
        let is_container = matches!(kind, Kind::Object | Kind::Array);
        let end = if is_container { NOWHERE } else { place + 1 };
        self.parts.push(Part { kind, name, raw, resolved, len: 0, parent: self.open, end });
        if is_container {
            self.open = place;
            self.depth += 1;
        }
        Some(place)
    }

    /// What a string with escapes says. Beyond the budget, reading ends with the part that it belongs to.
    fn resolve(&mut self, raw: &str) -> Option<Box<str>> {
        self.budget.charge(RESOLVE_STEPS + raw.len() as u64 / 4);
        serde_json::from_str(raw).ok()
    }

    fn skip_space(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(self.at) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// A string with its quotes.
    fn string(&mut self) -> &'a str {
        let bytes = self.text.as_bytes();
        let start = self.at;
        self.at += 1;
        loop {
            match bytes.get(self.at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
                Some(ahead) if bytes[self.at + ahead] == b'"' => {
                    self.at += ahead + 1;
                    return &self.text[start..self.at];
                }
                Some(ahead) => self.at += ahead + 2,
                None => {
                    self.at = bytes.len();
                    return self.text.get(start..).unwrap_or_default();
                }
            }
        }
    }

    fn word(&mut self) -> &'a str {
        let start = self.at;
        let rest = &self.text.as_bytes()[start..];
        let is_over = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().position(is_over).unwrap_or(rest.len()).max(1);
        self.text.get(start..self.at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Instance<'_>, ValidationError> {
        Instance::read(text, &mut Budget::new(u64::MAX))
    }

    fn paths(text: &str) -> Vec<String> {
        let instance = read(text).unwrap();
        (0..instance.parts.len())
            .map(|place| {
                let place = Place::try_from(place).unwrap();
                format!("it{} = {}", instance.path(place), instance.part(place).raw)
            })
            .collect()
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
        let instance = read(r#"["a\u0062", "c"]"#).unwrap();
        let texts: Vec<_> = instance.within(ROOT).map(|(_, part)| part.text().unwrap().to_owned()).collect();
        assert_eq!((texts, instance.part(ROOT).len), (vec!["ab".to_owned(), "c".to_owned()], 2));
    }

    #[test]
    fn a_string_that_is_no_text_is_named() {
        for (text, place) in
            [(r#""\ud800""#, "it"), (r#"{"a":[1,"\ud800"]}"#, "it.a[1]"), (r#"{"\udc00":1}"#, "it.\\udc00")]
        {
            let error = read(text).unwrap_err();
            assert_eq!(error.messages("it"), [format!("{place}: a string that is no text")]);
        }
    }

    #[test]
    fn strings_with_escapes_take_more_steps() {
        let is_read = |text: &str, steps| Instance::read(text, &mut Budget::new(steps)).is_ok();
        for (plain, escaped) in [(r#"["nn"]"#, r#"["\n"]"#), (r#"{"nn":1}"#, r#"{"\n":1}"#)] {
            let steps = 2 * PART_STEPS + 3;
            assert!(
                is_read(plain, steps) && !is_read(escaped, steps) && is_read(escaped, steps + RESOLVE_STEPS + 1),
                "{plain}"
            );
        }
    }

    #[test]
    fn a_plain_object_takes_one_allocation() {
        let text = r#"{"a":1,"b":"two","c":true,"d":null,"e":3.5}"#;
        let counted = allocation_counter::measure(|| drop(read(text).unwrap()));
        assert_eq!(counted.count_total, 1);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[\[\]{}",:\\u0-9a-e \pL]{0,40}"#) {
            drop(read(&text));
        }
    }
}
