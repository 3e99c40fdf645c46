//! JSON text becomes values.
//!
//! `serde_json` gathers a text with escapes in a buffer of its own and copies it once more. This reader makes it where it is
//! to stay. It only has to be right, not to explain itself: whatever it does not understand is read by `serde_json` instead,
//! which also says what is wrong. A property test holds the two together.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{BorrowedStrDeserializer, StringDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};

use super::scan::{MAX_DEPTH, Scanner, SyntaxError};

/// The value that a text holds; `None` where `serde_json` has to be asked.
pub(super) fn read<'de, T: Deserialize<'de>>(text: &'de str) -> Option<T> {
    let mut reader = Reader { scanner: Scanner::new(text), depth: 0 };
    reader.scanner.skip_space();
    let value = T::deserialize(&mut reader).ok()?;
    reader.scanner.finish().ok()?;
    // Somebody who goes on after an error has not seen what there is.
    (reader.depth == 0).then_some(value)
}

/// There is something that this reader does not understand. What it is, `serde_json` will say.
#[derive(Debug)]
struct Unclear;

impl fmt::Display for Unclear {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unclear")
    }
}

impl std::error::Error for Unclear {}

impl Error for Unclear {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }

    fn invalid_type(_: serde::de::Unexpected<'_>, _: &dyn serde::de::Expected) -> Self {
        Self
    }

    fn missing_field(_: &'static str) -> Self {
        Self
    }
}

impl From<SyntaxError> for Unclear {
    fn from(_: SyntaxError) -> Self {
        Self
    }
}

impl From<serde_json::Error> for Unclear {
    fn from(_: serde_json::Error) -> Self {
        Self
    }
}

struct Reader<'de> {
    scanner: Scanner<'de>,
    depth: usize,
}

impl<'de> Reader<'de> {
    /// The text of the value at the cursor.
    fn skip(&mut self) -> Result<&'de str, Unclear> {
        Ok(self.scanner.skip_value(self.depth)?)
    }

    fn text<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unclear> {
        match self.scanner.text()?.ok_or(Unclear)? {
            Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
            Cow::Owned(text) => visitor.visit_string(text),
        }
    }

    fn number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unclear> {
        let text = self.skip()?;
        if let Ok(number) = text.parse() {
            return visitor.visit_u64(number);
        }
        match text.parse() {
            Ok(number) if number != 0 => visitor.visit_i64(number),
            // Fractions, what is beyond 64 bits, and -0.
            _ => Ok(serde_json::Deserializer::from_str(text).deserialize_any(visitor)?),
        }
    }

    fn array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unclear> {
        self.scanner.enter_array();
        self.within(|entries| visitor.visit_seq(entries), b']')
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Unclear> {
        self.scanner.enter_object();
        self.within(|entries| visitor.visit_map(entries), b'}')
    }

    fn within<T>(
        &mut self,
        visit: impl FnOnce(&mut Entries<'_, 'de>) -> Result<T, Unclear>,
        end: u8,
    ) -> Result<T, Unclear> {
        if self.depth == MAX_DEPTH {
            return Err(Unclear);
        }
        self.depth += 1;
        let mut entries = Entries { reader: self, first: true, over: false, end };
        let value = visit(&mut entries)?;
        // Whoever does not take everything may be in the wrong.
        if !entries.over && entries.next()? {
            return Err(Unclear);
        }
        self.depth -= 1;
        Ok(value)
    }

    /// Lets `serde_json` read the value at the cursor.
    fn other(&mut self) -> Result<serde_json::Deserializer<serde_json::de::StrRead<'de>>, Unclear> {
        Ok(serde_json::Deserializer::from_str(self.skip()?))
    }
}

macro_rules! by_kind {
    ($($kind:pat => $method:ident: $($name:ident)+;)+) => {$($(
        fn $name<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
            match self.scanner.peek() {
                Some($kind) => self.$method(visitor),
                _ => Err(Unclear),
            }
        }
    )+)+};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Unclear;

    by_kind! {
        b'"' => text: deserialize_str deserialize_string deserialize_identifier deserialize_char;
        b'-' | b'0'..=b'9' => number:
            deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
            deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
            deserialize_f32 deserialize_f64;
        b'[' => array: deserialize_seq;
        b'{' => object: deserialize_map;
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        match self.scanner.peek() {
            Some(b'"') => self.text(visitor),
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.array(visitor),
            Some(b'-' | b'0'..=b'9') => self.number(visitor),
            _ => match self.skip()? {
                "null" => visitor.visit_unit(),
                word => visitor.visit_bool(word == "true"),
            },
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        match self.skip()? {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(Unclear),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        if self.scanner.peek() != Some(b'n') {
            return visitor.visit_some(self);
        }
        self.skip()?;
        visitor.visit_none()
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        if self.skip()? == "null" { visitor.visit_unit() } else { Err(Unclear) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Unclear> {
        self.deserialize_unit(visitor)
    }

    /// No type of Rust has a name with a `$`: that is how JSON text asks to be left as it is.
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Unclear> {
        if name.starts_with('$') {
            return visitor.visit_map(Verbatim { name: Some(name), text: self.skip()? });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Unclear> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Unclear> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unclear> {
        match self.scanner.peek() {
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.array(visitor),
            _ => Err(Unclear),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unclear> {
        Ok(self.other()?.deserialize_enum(name, variants, visitor)?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        Ok(self.other()?.deserialize_bytes(visitor)?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        Ok(self.other()?.deserialize_byte_buf(visitor)?)
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        Ok(self.other()?.deserialize_i128(visitor)?)
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unclear> {
        Ok(self.other()?.deserialize_u128(visitor)?)
    }
}

/// The entries of an array or an object.
struct Entries<'r, 'de> {
    reader: &'r mut Reader<'de>,
    first: bool,
    over: bool,
    end: u8,
}

impl Entries<'_, '_> {
    /// Puts the cursor on the next entry; false if there is none.
    fn next(&mut self) -> Result<bool, Unclear> {
        if self.over {
            return Ok(false);
        }
        let found = self.reader.scanner.next_entry(std::mem::take(&mut self.first), self.end)?;
        self.over = !found;
        Ok(found)
    }
}

impl<'de> SeqAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Unclear;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Unclear> {
        if self.next()? { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Unclear;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unclear> {
        if !self.next()? {
            return Ok(None);
        }
        let key = self.reader.scanner.key()?;
        match key.text().ok_or(Unclear)? {
            Cow::Borrowed(name) => seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some),
            Cow::Owned(name) => seed.deserialize(StringDeserializer::new(name)).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unclear> {
        seed.deserialize(&mut *self.reader)
    }
}

/// JSON text in the disguise in which it asked for itself: an object whose only member has the name that it asked with.
struct Verbatim<'de> {
    name: Option<&'static str>,
    text: &'de str,
}

impl<'de> MapAccess<'de> for Verbatim<'de> {
    type Error = Unclear;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Unclear> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unclear> {
        seed.deserialize(BorrowedStrDeserializer::new(self.text))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Deserialize;
    use serde::de::DeserializeOwned;
    use serde_json::Value;
    use serde_json::value::RawValue;

    use super::*;
    use crate::{Object, RawJson};

    /// What is read is what `serde_json` reads; answers whether anything was.
    fn agree<T: DeserializeOwned + PartialEq + fmt::Debug>(text: &str) -> bool {
        let read = read::<T>(text);
        if let Some(value) = &read {
            let other = serde_json::from_str::<T>(text);
            assert!(other.as_ref().is_ok_and(|other| other == value), "{text}: {value:?}, not {other:?}");
        }
        read.is_some()
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Newtype(String);

    #[derive(Debug, PartialEq, Deserialize)]
    struct Unit;

    #[derive(Debug, PartialEq, Deserialize)]
    enum Shape {
        Unit,
        Newtype(f32),
        Struct { a: Option<u8>, b: (i8, char) },
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct All {
        text: String,
        newtype: Newtype,
        unit: Unit,
        #[serde(default)]
        shapes: Vec<Shape>,
        numbers: (u8, i64, f64, Option<i128>),
        raw: RawJson,
        object: Object,
        flag: bool,
        map: BTreeMap<String, Vec<Option<bool>>>,
    }

    #[test]
    fn every_kind_of_value_is_read() {
        assert!(agree::<All>(
            r#" {"text":"a\n\u00e9\ud83d\ude00\/","newtype":"n", "unit":null,"flag":true,"unknown":[{"a":1}],
                "shapes":["Unit",{"Newtype":1.5},{"Struct":{"a":null,"b":[-1,"\u0041"]}}],"numbers":[255,-1,0.1,null],
                "raw": {"a": 1e400}, "object":{ } ,"map":{"k\t":[true,null]},"unknown":"x"} "#
        ));
        assert!(agree::<(u64, i64, f64, f64)>("[18446744073709551615,-9223372036854775808,1e3,-0]"));
        assert!(agree::<Vec<f64>>("[18446744073709551616,0.30000000000000004,5e-324]"));
        assert!(agree::<Value>(r#"{"a":[1,-1,1.5,"x\"y",true,false,null,{"b":{}}],"":[]}"#));
        let raw: Box<RawValue> = read("[ 1 ]").unwrap();
        assert_eq!(raw.get(), "[ 1 ]");
    }

    #[test]
    fn what_is_not_read_is_left_to_serde_json() {
        for text in [
            "",
            "[1,]",
            "{\"a\":1,}",
            "01",
            "1 2",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\u+123\"",
            "\"a\nb\"",
            "nul",
            "\"abc",
            "\"\\",
            "[1}",
            "tru",
            "1e400",
            "{1:2}",
        ] {
            assert!(!agree::<Value>(text), "{text}");
        }
        assert!(!agree::<(u8, u8)>("[1,2,3]") && !agree::<u8>("256") && !agree::<Unit>("1") && !agree::<bool>("null"));
        assert!(!agree::<Value>(&("[".repeat(200) + &"]".repeat(200))));
        assert!(agree::<Value>(&("[".repeat(127) + &"]".repeat(127))));
        let numbers: BTreeMap<u32, u8> = crate::decode(r#"{"1":2}"#).unwrap();
        assert_eq!(numbers, BTreeMap::from([(1, 2)]));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC{0,20}".prop_map(Value::from),
            "[\\x00-\\x7f]{0,20}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[\\x00-\\x7fé]{0,6}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_value_is_read_as_serde_json_reads_it(value in value()) {
            prop_assert!(agree::<Value>(&value.to_string()));
            let spread = format!("{value:#}");
            prop_assert!(agree::<Value>(&spread));
        }

        #[test]
        fn nothing_is_read_that_serde_json_refuses(text in r#"[\[\]{}",:0-9truefalsn\\ .eE+\-ud\x00-\x20é]{0,24}"#) {
            agree::<Value>(&text);
            agree::<Value>(&format!("\"{text}\""));
            agree::<Vec<String>>(&format!("[\"{text}\"]"));
        }
    }
}
