//! A flat map of strings as a serde `Deserializer`, for prompt arguments and URI variables.

use std::collections::{BTreeMap, BTreeSet, btree_map};

use serde::de::value::{BorrowedStrDeserializer, MapAccessDeserializer};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_json::Error;

use super::decode::path_of;
use super::raw::RAW_VALUE_TOKEN;
use super::{DecodeError, scanner};

/// Decodes a map of strings into a type. Fields may be numbers, booleans and enums, or lists and objects written as
/// JSON.
///
/// ```
/// use std::collections::BTreeMap;
///
/// #[derive(serde::Deserialize)]
/// struct Page {
///     number: u32,
///     tags: Vec<String>,
/// }
///
/// let strings = BTreeMap::from([("number".to_owned(), "7".to_owned()), ("tags".to_owned(), r#"["a"]"#.to_owned())]);
/// let page: Page = turms_proto::decode_strings(&strings)?;
/// assert_eq!((page.number, page.tags.len()), (7, 1));
/// # Ok::<(), turms_proto::DecodeError>(())
/// ```
///
/// # Errors
/// If the strings do not match the type. The error contains the path.
pub fn decode_strings<'de, T: Deserialize<'de>>(strings: &'de BTreeMap<String, String>) -> Result<T, DecodeError> {
    let mut json = BTreeSet::new();
    loop {
        let access = StringMapAccess { entries: strings.iter(), value: None, json: &json };
        let error = match serde_path_to_error::deserialize(MapAccessDeserializer::new(access)) {
            Ok(value) => return Ok(value),
            Err(error) => DecodeError::shape(path_of(error.path()), error.inner()),
        };
        // The field may expect a list or object instead of a string, which is only known after a failure.
        match strings.get_key_value(error.path()).filter(|(_, text)| is_container(text)) {
            Some((name, _)) if json.insert(name.as_str()) => {}
            _ => return Err(error),
        }
    }
}

/// Returns `true` if the text is a JSON list or object.
fn is_container(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{']) && scanner::check(text).is_ok()
}

struct StringMapAccess<'a, 'de> {
    entries: btree_map::Iter<'de, String, String>,
    value: Option<(&'de str, &'de str)>,
    /// Names of the strings to decode as JSON.
    json: &'a BTreeSet<&'de str>,
}

impl<'de> MapAccess<'de> for StringMapAccess<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.value = self.entries.next().map(|(name, value)| (name.as_str(), value.as_str()));
        self.value.map(|(name, _)| seed.deserialize(BorrowedStrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (name, text) = self.value.take().unwrap_or_default();
        match self.json.contains(name) {
            true => seed.deserialize(&mut serde_json::Deserializer::from_str(text)),
            false => seed.deserialize(StringValue(text)),
        }
    }
}

/// A string that is decoded as the type that the visitor expects.
struct StringValue<'de>(&'de str);

impl<'de> StringValue<'de> {
    fn parse<T: std::str::FromStr>(&self) -> Option<T> {
        self.0.trim().parse().ok()
    }

    fn mismatch(&self, expected: &dyn serde::de::Expected) -> Error {
        Error::invalid_type(Unexpected::Str(self.0), expected)
    }
}

macro_rules! parsed {
    ($($method:ident $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.parse() {
                Some(value) => visitor.$visit(value),
                None => Err(self.mismatch(&visitor)),
            }
        }
    )* };
}

/// Numbers are passed with the widest type, so that the visitor reports values that are out of range. JSON has no
/// infinite numbers.
macro_rules! numbers {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            if let Some(number) = self.parse() {
                return visitor.visit_u64(number);
            }
            if let Some(number) = self.parse() {
                return visitor.visit_i64(number);
            }
            match self.parse().filter(|number: &f64| number.is_finite()) {
                Some(number) => visitor.visit_f64(number),
                None => Err(self.mismatch(&visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for StringValue<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_borrowed_str(self.0)
    }

    parsed! { deserialize_bool visit_bool deserialize_i128 visit_i128 deserialize_u128 visit_u128 }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == RAW_VALUE_TOKEN {
            return serde_json::Value::from(self.0).deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        BorrowedStrDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Colour {
        Red,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    struct Wanted {
        id: u32,
        name: String,
        colour: Option<Colour>,
        share: Option<f64>,
        sure: Option<bool>,
        tags: Option<Vec<u8>>,
    }

    fn strings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn strings_become_the_types_of_the_fields() {
        let pairs =
            [("id", " 7"), ("name", "8"), ("colour", "red"), ("share", "-0.5"), ("sure", "true"), ("tags", "[1]")];
        let wanted = Wanted {
            id: 7,
            name: "8".into(),
            colour: Some(Colour::Red),
            share: Some(-0.5),
            sure: Some(true),
            tags: Some(vec![1]),
        };
        assert_eq!(decode_strings(&strings(&pairs)), Ok(wanted));
    }

    #[test]
    fn a_string_that_does_not_fit_is_named() {
        for (pairs, problem) in [
            (&[("id", "x"), ("name", "")][..], r#"id: invalid type: string "x", expected u32"#),
            (&[("id", "-1"), ("name", "")], r#"id: invalid value: integer "-1", expected u32"#),
            (&[("id", "1")], r#"missing field "name""#),
            (&[("id", "1"), ("name", ""), ("share", "inf")], r#"share: invalid type: string "inf", expected f64"#),
            (&[("id", "1"), ("name", ""), ("sure", "yes")], r#"sure: invalid type: string "yes", expected a boolean"#),
            (
                &[("id", "1"), ("name", ""), ("tags", "[1,300]")],
                r#"tags[1]: invalid value: integer "300", expected u8"#,
            ),
            (&[("id", "1"), ("name", ""), ("tags", "a")], r#"tags: invalid type: string "a", expected a sequence"#),
        ] {
            assert_eq!(decode_strings::<Wanted>(&strings(pairs)).unwrap_err().to_string(), problem);
        }
    }

    #[test]
    fn raw_json_is_the_string_as_json() {
        let found: BTreeMap<String, crate::RawJson> = decode_strings(&strings(&[("a", "1\"")])).unwrap();
        assert_eq!(found["a"].as_str(), r#""1\"""#);
    }
}
