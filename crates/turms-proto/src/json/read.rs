//! How the types of the protocol are read: by our own decoder and by no other.
//!
//! Code for any deserializer is there once for each of them, in each crate that needs it, and the types are many. So a type of
//! the protocol is read by code that is there once, and whatever else holds one is asked for its text first.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexMap;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};

use super::decoder::Decoder;
use super::fault::{Fault, mismatch};
use super::{DecodeError, Number, Object, RawJson};
use crate::{ErrorCode, RequestId};

/// As which name the decoder is asked for the text of a value.
pub(super) const AS_TEXT: &str = "$turms::text";

/// As which name `serde_json` is asked for the text of a value.
const AS_RAW_VALUE: &str = "$serde_json::private::RawValue";

/// A type that is read by our decoder.
pub(crate) trait Read: Sized {
    /// Reads the value at the cursor.
    fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault>;
}

/// Reads a type of the protocol from wherever it is.
pub(crate) fn deserialize<'de, T: Read, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_newtype_struct(AS_TEXT, ReadVisitor(PhantomData))
}

struct ReadVisitor<T>(PhantomData<T>);

impl<'de, T: Read> Visitor<'de> for ReadVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    /// Only our own decoder gives text to whom asks for it by this name.
    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<T, E> {
        read_text(text).map_err(|fault| fault.carried())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        let text = text_of(deserializer)?;
        read_text(&text).map_err(|fault| D::Error::custom(DecodeError::from(fault.explained(&text))))
    }
}

fn read_text<T: Read>(text: &str) -> Result<T, Fault> {
    let mut decoder = Decoder::new(text);
    let value = T::read(&mut decoder)?;
    decoder.finish()?;
    Ok(value)
}

/// The text of a value that somebody else reads: as it stands there if it is JSON, else as JSON has it.
fn text_of<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    struct TextVisitor;

    impl<'de> Visitor<'de> for TextVisitor {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("JSON")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
            map.next_key::<String>()?;
            map.next_value()
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
            serde_json::Value::deserialize(deserializer).map(|value| value.to_string())
        }
    }

    deserializer.deserialize_newtype_struct(AS_RAW_VALUE, TextVisitor)
}

impl<'de> Decoder<'de> {
    /// Reads an object: `take` gets the name of each member, with the cursor on its value.
    pub(crate) fn members(
        &mut self,
        expected: &'static str,
        take: &mut dyn FnMut(&mut Self, &str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if self.scanner.peek() != Some(b'{') {
            return Err(self.mismatch(&expected));
        }
        self.enter()?;
        self.scanner.enter_object();
        let mut first = true;
        while self.scanner.next_entry(std::mem::take(&mut first), b'}')? {
            let (_, name) = self.key()?;
            take(self, &name)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Reads an array: `take` is called with the cursor on each element.
    fn elements(&mut self, take: &mut dyn FnMut(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.scanner.peek() != Some(b'[') {
            return Err(self.mismatch(&"a sequence"));
        }
        self.enter()?;
        self.scanner.enter_array();
        let mut index = 0;
        while self.scanner.next_entry(index == 0, b']')? {
            take(self).map_err(|fault| fault.at(index))?;
            index += 1;
        }
        self.depth -= 1;
        Ok(())
    }

    /// The text that stands here.
    pub(crate) fn string(&mut self) -> Result<Cow<'de, str>, Fault> {
        match self.scanner.peek() {
            Some(b'"') => self.text(),
            _ => Err(self.mismatch(&"a string")),
        }
    }

    /// The text of the first member `name` of the object that stands here, which is still to be read.
    pub(crate) fn look_for(&mut self, name: &str, expected: &'static str) -> Result<Option<Cow<'de, str>>, Fault> {
        if self.scanner.peek() != Some(b'{') {
            return Err(self.mismatch(&expected));
        }
        let start = self.scanner.clone();
        self.scanner.enter_object();
        let mut first = true;
        let mut found = None;
        while let Some(key) = self.scanner.next_key(std::mem::take(&mut first))? {
            if key.name() == name {
                found = Some(self.string().map_err(|fault| fault.within(name))?);
                break;
            }
            self.scanner.skip_value(self.depth + 1)?;
        }
        self.scanner = start;
        Ok(found)
    }

    /// What begins here, by its first byte.
    pub(crate) fn first_byte(&self) -> Option<u8> {
        self.scanner.peek()
    }

    /// A text that none of those is that are expected here.
    pub(crate) fn unexpected_text(text: &str, expected: &'static str) -> Fault {
        Fault::new(mismatch("value", Unexpected::Str(text), &expected))
    }
}

/// Types that are nothing but one value.
macro_rules! single_values {
    ($($Name:ty),+) => { $(
        impl Read for $Name {
            #[inline(never)]
            fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault> {
                Self::deserialize(decoder)
            }
        }
    )+ };
}

single_values!(bool, i64, String, Number, RawJson, Object, RequestId, ErrorCode);

impl<T: Read> Read for Option<T> {
    fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault> {
        match decoder.scanner.peek() {
            Some(b'n') => decoder.skip().map(|_| None),
            _ => T::read(decoder).map(Some),
        }
    }
}

impl<T: Read> Read for Box<T> {
    fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault> {
        T::read(decoder).map(Self::new)
    }
}

impl<T: Read> Read for Vec<T> {
    #[inline(never)]
    fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault> {
        let mut list = Self::new();
        decoder.elements(&mut |decoder| {
            list.push(T::read(decoder)?);
            Ok(())
        })?;
        Ok(list)
    }
}

macro_rules! maps {
    ($($Map:ident),+) => { $(
        impl<T: Read> Read for $Map<String, T> {
            #[inline(never)]
            fn read(decoder: &mut Decoder<'_>) -> Result<Self, Fault> {
                let mut map = Self::new();
                decoder.members("a map", &mut |decoder, name| {
                    let value = T::read(decoder).map_err(|fault| fault.within(name))?;
                    map.insert(name.to_owned(), value);
                    Ok(())
                })?;
                Ok(map)
            }
        }
    )+ };
}

maps!(BTreeMap, IndexMap);

#[cfg(test)]
mod tests {
    use crate::types::{Content, Tool, ToolResult};

    const TOOL: &str = r#"{"name":"a","inputSchema":{"type":"object"},"later":1e400}"#;

    #[derive(Debug, serde::Deserialize)]
    struct Holder {
        tools: Vec<Tool>,
        other: Option<Content>,
    }

    #[test]
    fn a_type_is_read_wherever_it_stands() {
        let text = format!(r#"{{"tools":[{TOOL}, {TOOL} ],"other":null}}"#);
        let holders: [Holder; 2] = [crate::decode(&text).unwrap(), serde_json::from_str(&text).unwrap()];
        for holder in holders {
            assert_eq!(holder.tools.len(), 2);
            assert!(holder.other.is_none());
            // The text of what nobody here knows stays as it came, whoever held it.
            assert_eq!(holder.tools[1].extra.as_str(), r#"{"later":1e400}"#);
        }
    }

    #[test]
    fn a_type_is_read_from_what_is_no_text() {
        #[derive(serde::Deserialize)]
        struct Flat {
            #[serde(flatten)]
            block: Content,
        }
        let flat: Flat = serde_json::from_str(r#"{"text":"a","type":"text"}"#).unwrap();
        assert_eq!(flat.block, Content::text("a"));
        let value = serde_json::json!({ "content": [{ "type": "text", "text": "a" }] });
        assert_eq!(serde_json::from_value::<ToolResult>(value).unwrap().text(), "a");
    }

    #[test]
    fn the_place_of_a_problem_is_named_whoever_holds_the_type() {
        let text = r#"{"tools":[{"name":"a","inputSchema":{},"icons":[{"src":1}]}],"other":null}"#;
        let error = crate::decode::<Holder>(text).unwrap_err();
        assert_eq!(error.path(), "tools[0].icons[0].src");
        assert_eq!(error.problem(), "invalid type: integer \"1\", expected a string");
        let error = serde_json::from_str::<Holder>(text).unwrap_err().to_string();
        assert!(error.starts_with("icons[0].src: invalid type: integer \"1\", expected a string"), "{error}");
    }

    #[test]
    fn what_is_no_json_is_called_so() {
        for text in [r#"{"name":"a",}"#, &format!("{TOOL} x"), r#"{"name":"#, ""] {
            let ours = crate::decode::<Tool>(text).unwrap_err();
            assert_eq!(ours.path(), "");
            let theirs = serde_json::from_str::<serde_json::Value>(text).unwrap_err().to_string();
            assert!(theirs.starts_with(ours.problem()), "{text}: {ours} {theirs}");
        }
    }
}
