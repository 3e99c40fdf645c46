//! Decoding from texts: prompt arguments and template variables are strings on the wire, whatever a handler wants of them.

use serde::de::value::{Error, MapDeserializer, StringDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};

/// Decodes texts into a type, reading numbers and truth values out of the texts where the type wants them.
///
/// # Errors
/// When a text is not what the type wants, or one is missing.
pub(crate) fn decode<T: DeserializeOwned>(texts: impl IntoIterator<Item = (String, String)>) -> Result<T, String> {
    let members = texts.into_iter().map(|(name, text)| (name, Text(text)));
    T::deserialize(MapDeserializer::<_, Error>::new(members)).map_err(|error| error.to_string().replace('`', "\""))
}

struct Text(String);

impl IntoDeserializer<'_, Error> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

macro_rules! parsed {
    ($($method:ident => $visit:ident: $Type:ty),+ $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0.trim().parse::<$Type>() {
                Ok(value) => visitor.$visit(value),
                Err(error) => Err(Error::custom(format_args!("{:?}: {error}", self.0))),
            }
        }
    )+};
}

impl<'de> Deserializer<'de> for Text {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        StringDeserializer::new(self.0).deserialize_enum(name, variants, visitor)
    }

    parsed! {
        deserialize_bool => visit_bool: bool,
        deserialize_i8 => visit_i8: i8,
        deserialize_i16 => visit_i16: i16,
        deserialize_i32 => visit_i32: i32,
        deserialize_i64 => visit_i64: i64,
        deserialize_u8 => visit_u8: u8,
        deserialize_u16 => visit_u16: u16,
        deserialize_u32 => visit_u32: u32,
        deserialize_u64 => visit_u64: u64,
        deserialize_f32 => visit_f32: f32,
        deserialize_f64 => visit_f64: f64,
    }

    serde::forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

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
    }

    fn texts(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn texts_become_what_is_wanted() {
        let wanted = decode(texts(&[("id", "7"), ("name", "Ann"), ("colour", "red")]));
        assert_eq!(wanted, Ok(Wanted { id: 7, name: "Ann".into(), colour: Some(Colour::Red) }));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = decode::<Wanted>(texts(&[("id", "x"), ("name", "")])).unwrap_err();
        assert_eq!(error, "\"x\": invalid digit found in string");
        let error = decode::<Wanted>(texts(&[("id", "1")])).unwrap_err();
        assert_eq!(error, "missing field \"name\"");
    }
}
