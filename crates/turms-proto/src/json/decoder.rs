//! JSON text becomes values of any type, with the place of what does not fit.
//!
//! `serde_json` says in which column something is wrong, not in which member. Following the way beside it takes a second
//! deserializer, so that the code for every type is there twice. This one finds the way while an error comes back along it,
//! which costs nothing as long as there is none. It accepts what `serde_json` accepts and says what it says; a property test
//! holds the two together.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Expected, MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::fault::{Fault, mismatch};
use super::name::{Name, Variant, Verbatim};
use super::read::AS_TEXT;
use super::scan::{Key, Scanner};
use super::write::is_verbatim;

/// Decodes one value. If `of_texts`, numbers and truth values may stand in texts.
pub(super) fn decode<'de, T: Deserialize<'de>>(text: &'de str, of_texts: bool) -> Result<T, Fault> {
    let mut decoder = Decoder { of_texts, ..Decoder::new(text) };
    let decoded = T::deserialize(&mut decoder).and_then(|value| decoder.finish().map(|()| value));
    decoded.map_err(|fault| fault.explained(text))
}

/// A cursor that makes values of what it passes.
#[derive(Debug)]
#[expect(unnameable_types, reason = "sealed: only this crate reads types of the protocol by it")]
pub struct Decoder<'de> {
    pub(super) scanner: Scanner<'de>,
    pub(super) depth: usize,
    of_texts: bool,
}

/// The number that a text is, with nothing behind it.
pub(super) fn number_of(text: &str) -> Option<Number> {
    let mut decoder = Decoder { scanner: Scanner::new(text), depth: 0, of_texts: false };
    let is_number = matches!(decoder.scanner.peek(), Some(b'-' | b'0'..=b'9'));
    let number = if is_number { decoder.number().ok()? } else { return None };
    decoder.finish().ok().map(|()| number)
}

/// Why a string is no text, `serde_json` says.
#[cold]
fn unreadable<'de>(quoted: &str) -> Result<Cow<'de, str>, Fault> {
    serde_json::from_str(quoted).map(Cow::Owned).map_err(|error| Fault::new(error.to_string()))
}

/// A number as it is written.
pub(super) enum Number {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
}

impl<'de> Decoder<'de> {
    /// As deep as `serde_json` goes.
    const DEEPEST: usize = 128;

    /// At the value that a text is.
    pub(super) fn new(text: &'de str) -> Self {
        let mut scanner = Scanner::new(text);
        scanner.skip_space();
        Self { scanner, depth: 0, of_texts: false }
    }

    pub(super) fn finish(&mut self) -> Result<(), Fault> {
        Ok(self.scanner.finish()?)
    }

    /// The text of the value at the cursor.
    pub(crate) fn skip(&mut self) -> Result<&'de str, Fault> {
        Ok(self.scanner.skip_value(self.depth)?)
    }

    /// The text of the value at the cursor, and of all that follows if nothing may: whoever gets it will check.
    fn whole(&mut self) -> Result<&'de str, Fault> {
        if self.depth > 0 {
            return self.skip();
        }
        let rest = &self.scanner.text[self.scanner.at..];
        self.scanner.at = self.scanner.text.len();
        Ok(rest)
    }

    pub(super) fn text(&mut self) -> Result<Cow<'de, str>, Fault> {
        let start = self.scanner.at;
        if let Some(text) = self.scanner.text()? {
            return Ok(text);
        }
        unreadable(&self.scanner.text[start..self.scanner.at])
    }

    /// The name of the next member, which is text as well.
    pub(super) fn key(&mut self) -> Result<(Key<'de>, Cow<'de, str>), Fault> {
        let key = self.scanner.key()?;
        let name = key.text().map_or_else(|| unreadable(&format!("\"{}\"", key.raw())), Ok)?;
        Ok((key, name))
    }

    fn number(&mut self) -> Result<Number, Fault> {
        if let Some(number) = self.scanner.small_integer() {
            return Ok(Number::Unsigned(number));
        }
        let text = self.skip()?;
        if let Ok(number) = text.parse() {
            return Ok(Number::Unsigned(number));
        }
        // There is no integer that is the zero below zero.
        if let Some(number) = text.parse().ok().filter(|number| *number != 0) {
            return Ok(Number::Signed(number));
        }
        match text.parse() {
            Ok(number) if f64::is_finite(number) => Ok(Number::Float(number)),
            _ => Err(Fault::new("number out of range".to_owned())),
        }
    }

    /// What a text says where something else is expected.
    #[cold]
    fn said<T>(&mut self, expected: &dyn Expected, read: impl FnOnce(&str) -> Option<T>) -> Result<T, Fault> {
        if !self.of_texts || self.scanner.peek() != Some(b'"') {
            return Err(self.mismatch(expected));
        }
        let text = self.text()?;
        read(text.trim()).ok_or_else(|| Fault::new(mismatch("type", Unexpected::Str(&text), expected)))
    }

    pub(super) fn enter(&mut self) -> Result<(), Fault> {
        self.depth += 1;
        if self.depth >= Self::DEEPEST {
            return Err(Fault::new("recursion limit exceeded".to_owned()));
        }
        Ok(())
    }

    fn object<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        self.enter()?;
        self.scanner.enter_object();
        let mut entries = Entries { decoder: self, first: true, over: false, index: 0, key: None };
        let value = visitor.visit_map(&mut entries)?;
        entries.end(b'}')?;
        self.depth -= 1;
        Ok(value)
    }

    fn array<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value, Fault> {
        self.enter()?;
        self.scanner.enter_array();
        let mut entries = Entries { decoder: self, first: true, over: false, index: 0, key: None };
        let value = visitor.visit_seq(&mut entries)?;
        entries.end(b']')?;
        self.depth -= 1;
        Ok(value)
    }

    /// Something else stands where a value of one type is expected.
    #[cold]
    #[inline(never)]
    pub(crate) fn mismatch(&mut self, expected: &dyn Expected) -> Fault {
        let found = match self.scanner.peek() {
            Some(b'"') => self.text().map(|text| mismatch("type", Unexpected::Str(&text), expected)),
            Some(b'{') => Ok(mismatch("type", Unexpected::Map, expected)),
            Some(b'[') => Ok(mismatch("type", Unexpected::Seq, expected)),
            Some(b't' | b'f') => self.skip().map(|word| mismatch("type", Unexpected::Bool(word == "true"), expected)),
            Some(b'n') => Ok(mismatch("type", Unexpected::Unit, expected)),
            _ => self.number().map(|number| mismatch("type", number.unexpected(), expected)),
        };
        found.map_or_else(|fault| fault, Fault::new)
    }
}

impl Number {
    fn said(text: &str) -> Option<Self> {
        let unsigned = text.parse().ok().map(Self::Unsigned);
        let whole = unsigned.or_else(|| text.parse().ok().map(Self::Signed));
        whole.or_else(|| text.parse().ok().map(Self::Float))
    }

    fn unexpected(&self) -> Unexpected<'static> {
        match *self {
            Self::Unsigned(number) => Unexpected::Unsigned(number),
            Self::Signed(number) => Unexpected::Signed(number),
            Self::Float(number) => Unexpected::Float(number),
        }
    }

    pub(super) fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Unsigned(number) => visitor.visit_u64(number),
            Self::Signed(number) => visitor.visit_i64(number),
            Self::Float(number) => visitor.visit_f64(number),
        }
    }
}

macro_rules! numbers {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.scanner.peek() {
                Some(b'-' | b'0'..=b'9') => self.number()?.visit(visitor),
                _ => self.said(&visitor, Number::said)?.visit(visitor),
            }
        }
    )* };
}

macro_rules! wide_numbers {
    ($($method:ident $visit:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.scanner.peek() {
                Some(b'-' | b'0'..=b'9') => match self.skip()?.parse() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(Fault::new("number out of range".to_owned())),
                },
                _ => Err(self.mismatch(&visitor)),
            }
        }
    )* };
}

macro_rules! texts {
    ($($method:ident)*) => { $(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.scanner.peek() {
                Some(b'"') => match self.text()? {
                    Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                    Cow::Owned(text) => visitor.visit_string(text),
                },
                _ => Err(self.mismatch(&visitor)),
            }
        }
    )* };
}

impl<'de> Deserializer<'de> for &mut Decoder<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'"') => self.deserialize_str(visitor),
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.array(visitor),
            Some(b't' | b'f') => self.deserialize_bool(visitor),
            Some(b'n') => self.deserialize_unit(visitor),
            _ => self.number()?.visit(visitor),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    wide_numbers! { deserialize_i128 visit_i128 deserialize_u128 visit_u128 }

    texts! { deserialize_str deserialize_string deserialize_char deserialize_identifier }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b't' | b'f') => visitor.visit_bool(self.skip()? == "true"),
            _ => {
                let truth = self.said(&visitor, |text| text.parse().ok())?;
                visitor.visit_bool(truth)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'n') => self.skip().and_then(|_| visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'n') => self.skip().and_then(|_| visitor.visit_unit()),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Fault> {
        if name == AS_TEXT {
            return visitor.visit_borrowed_str(self.whole()?);
        }
        if is_verbatim(name) {
            return visitor.visit_map(Verbatim { name: Some(name), text: self.skip()? });
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'[') => self.array(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'{') => self.object(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'{') => self.object(visitor),
            Some(b'[') => self.array(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'"') => visitor.visit_enum(Variant(self.text()?)),
            Some(b'{') => {
                self.enter()?;
                self.scanner.enter_object();
                let mut entries = Entries { decoder: self, first: true, over: false, index: 0, key: None };
                let value = visitor.visit_enum(&mut entries)?;
                entries.end(b'}').map_err(|_| Fault::new("expected value".to_owned()))?;
                self.depth -= 1;
                Ok(value)
            }
            _ => Err(Fault::new("expected value".to_owned())),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.skip()?;
        visitor.visit_unit()
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.scanner.peek() {
            Some(b'"') => match self.text()? {
                Cow::Borrowed(text) => visitor.visit_borrowed_bytes(text.as_bytes()),
                Cow::Owned(text) => visitor.visit_bytes(text.as_bytes()),
            },
            Some(b'[') => self.array(visitor),
            _ => Err(self.mismatch(&visitor)),
        }
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_bytes(visitor)
    }
}

/// The members of an object or the elements of an array.
struct Entries<'a, 'de> {
    decoder: &'a mut Decoder<'de>,
    first: bool,
    over: bool,
    index: usize,
    key: Option<Key<'de>>,
}

impl<'de> Entries<'_, 'de> {
    fn next(&mut self, end: u8) -> Result<bool, Fault> {
        if self.over {
            return Ok(false);
        }
        let found = self.decoder.scanner.next_entry(std::mem::take(&mut self.first), end)?;
        self.over = !found;
        Ok(found)
    }

    /// Nobody may leave something unread.
    fn end(&mut self, end: u8) -> Result<(), Fault> {
        if self.next(end)? { Err(Fault::new("trailing characters".to_owned())) } else { Ok(()) }
    }

    fn name(&self) -> Cow<'de, str> {
        self.key.map_or(Cow::Borrowed(""), Key::name)
    }
}

impl<'de> MapAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        if !self.next(b'}')? {
            return Ok(None);
        }
        let (key, name) = self.decoder.key()?;
        self.key = Some(key);
        seed.deserialize(Name(name)).map(Some).map_err(|fault| fault.within(&self.name()))
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        seed.deserialize(&mut *self.decoder).map_err(|fault| fault.within(&self.name()))
    }
}

impl<'de> SeqAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        if !self.next(b']')? {
            return Ok(None);
        }
        let index = self.index;
        self.index += 1;
        seed.deserialize(&mut *self.decoder).map(Some).map_err(|fault| fault.at(index))
    }
}

/// `{"Variant": value}`.
impl<'de> EnumAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        if !self.next(b'}')? {
            return Err(Fault::new("expected value".to_owned()));
        }
        let (key, name) = self.decoder.key()?;
        self.key = Some(key);
        Ok((seed.deserialize(Name(name))?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut Entries<'_, 'de> {
    type Error = Fault;

    fn unit_variant(mut self) -> Result<(), Fault> {
        self.next_value()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(mut self, seed: T) -> Result<T::Value, Fault> {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        self.decoder.deserialize_seq(visitor).map_err(|fault| fault.within(&self.name()))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], visitor: V) -> Result<V::Value, Fault> {
        self.decoder.deserialize_struct("", &[], visitor).map_err(|fault| fault.within(&self.name()))
    }
}
