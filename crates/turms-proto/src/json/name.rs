//! The names of members, decoded: texts for the most part, but keys of maps may be numbers and variants.

use std::borrow::Cow;

use serde::de::value::BorrowedStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, IntoDeserializer as _, MapAccess, Unexpected, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::decoder::number_of;
use super::fault::{Fault, mismatch};

/// The name of a member, which may stand for a number.
pub(super) struct Name<'de>(pub(super) Cow<'de, str>);

macro_rules! numeric_names {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match number_of(&self.0) {
                Some(number) => number.visit(visitor),
                None => Err(mismatched_name(&self.0, &visitor)),
            }
        }
    )* };
}

/// JSON text in the disguise in which it asked for itself: an object whose only member has the name that it asked with.
pub(super) struct Verbatim<'de> {
    pub(super) name: Option<&'static str>,
    pub(super) text: &'de str,
}

impl<'de> MapAccess<'de> for Verbatim<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        self.name.take().map(|name| seed.deserialize(name.into_deserializer())).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(BorrowedStrDeserializer::new(self.text))
    }
}

/// A variant that is nothing but its name.
pub(super) struct Variant<'de>(pub(super) Cow<'de, str>);

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        Ok((seed.deserialize(Name(self.0.clone()))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Fault> {
        Err(self.lacks("newtype variant"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(self.lacks("tuple variant"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Fault> {
        Err(self.lacks("struct variant"))
    }
}

impl Variant<'_> {
    #[cold]
    fn lacks(&self, what: &str) -> Fault {
        Fault::new(mismatch("type", Unexpected::UnitVariant, &what)).within(&self.0)
    }
}

#[cold]
fn mismatched_name(name: &str, expected: &dyn Expected) -> Fault {
    Fault::new(mismatch("type", Unexpected::Str(name), expected))
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Cow::Borrowed(name) => visitor.visit_borrowed_str(name),
            Cow::Owned(name) => visitor.visit_string(name),
        }
    }

    numeric_names! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    fn deserialize_i128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.parse() {
            Ok(number) => visitor.visit_i128(number),
            Err(_) => Err(mismatched_name(&self.0, &visitor)),
        }
    }

    fn deserialize_u128<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0.parse() {
            Ok(number) => visitor.visit_u128(number),
            Err(_) => Err(mismatched_name(&self.0, &visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &*self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            name => Err(mismatched_name(name, &visitor)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.0 {
            Cow::Borrowed(text) => BorrowedStrDeserializer::new(text).deserialize_enum(name, variants, visitor),
            Cow::Owned(text) => text.into_deserializer().deserialize_enum(name, variants, visitor),
        }
    }

    forward_to_deserialize_any! {
        char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
