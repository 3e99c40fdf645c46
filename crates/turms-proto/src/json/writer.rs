//! A serde `Serializer` that writes JSON text.
//!
//! `serde_json` checks each byte of a string and validates raw JSON again. This writer copies plain segments in bulk
//! and writes [`RawJson`](crate::RawJson) unchanged: 282 000 instructions for a result of 100 KiB and 245 000 for a
//! list of 100 tools, compared with 1 008 000 and 402 000. A property test compares the two.

use std::fmt;

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

use super::raw::SERDE_JSON_PREFIX;
use super::string::{Specials, is_plain, plain_length};

/// Appends a value.
///
/// # Errors
/// If its serializer fails, or if a map has keys that are not strings. Partial output stays in the buffer.
pub(crate) fn write<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), Error> {
    value.serialize(Writer { out, verbatim: false })
}

/// Appends a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    if out.capacity() - out.len() < text.len() + 2 {
        // Reserve some extra space, because most long texts contain line breaks and quotes.
        out.reserve(text.len() + text.len() / 8 + 2);
    }
    out.push(b'"');
    let text = text.as_bytes();
    if text.len() <= 16 && is_plain(text) {
        // Most names are this short.
        out.extend_from_slice(text);
        return out.push(b'"');
    }
    let plain = plain_length(text);
    out.extend_from_slice(&text[..plain]);
    if plain < text.len() {
        write_escaped(out, text, plain);
    }
    out.push(b'"');
}

/// Appends the rest of a text, from the position of its first special character.
#[inline(never)]
fn write_escaped(out: &mut Vec<u8>, text: &[u8], mut at: usize) {
    let mut specials = Specials::new(text);
    while let Some(special) = text.get(at) {
        write_escape(out, *special);
        let after = at + 1;
        at = specials.find(after);
        out.extend_from_slice(&text[after..at]);
    }
}

/// Letters of the short escapes, by character; 0 for characters without one. With a `match`, the processor must predict
/// a jump for each: 100 KiB with quotes and line breaks in random order take 25 us, and 13 us with this table.
const SHORT_ESCAPES: [u8; 256] = {
    let mut letters = [0; 256];
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters[b'\n' as usize] = b'n';
    letters[b'\r' as usize] = b'r';
    letters[b'\t' as usize] = b't';
    letters[0x08] = b'b';
    letters[0x0c] = b'f';
    letters
};

fn write_escape(out: &mut Vec<u8>, special: u8) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match SHORT_ESCAPES[usize::from(special)] {
        0 => {
            let digits = [HEX[usize::from(special >> 4)], HEX[usize::from(special & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
        }
        letter => out.extend_from_slice(&[b'\\', letter]),
    }
}

/// Newtype name that marks JSON text to be written unchanged; see [`splice`].
const VERBATIM: &str = "$turms_proto::RawJson";

/// Serializes JSON text: unchanged into a [`Writer`], as a `RawValue` into other serializers.
pub(super) fn splice<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(VERBATIM, &Spliced(text))
}

struct Spliced<'a>(&'a str);

impl Serialize for Spliced<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return serializer.serialize_str(self.0);
        }
        // `RawValue` has no unchecked constructor, so the text is checked again.
        let raw: &serde_json::value::RawValue = serde_json::from_str(self.0).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

/// Returns `true` for the names that mark text to be written unchanged: our JSON text, and raw values and long numbers
/// of `serde_json`.
fn is_verbatim(name: &str) -> bool {
    name == VERBATIM || name.starts_with(SERDE_JSON_PREFIX)
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// `true` if the next string is JSON text.
    verbatim: bool,
}

impl<'a> Writer<'a> {
    fn open(self, bracket: &[u8], close: &'static [u8]) -> Compound<'a> {
        self.out.extend_from_slice(bracket);
        Compound { out: self.out, close, first: true, verbatim: false }
    }

    /// Opens an object with one member. `close` closes the value and the object.
    fn open_variant(self, variant: &str, bracket: &[u8], close: &'static [u8]) -> Compound<'a> {
        self.out.push(b'{');
        write_string(self.out, variant);
        self.out.push(b':');
        self.open(bracket, close)
    }

    /// Writes a number in the format of `serde_json`.
    fn number(self, number: impl Serialize) -> Result<(), Error> {
        serde_json::to_writer(self.out, &number)
    }
}

macro_rules! numbers {
    ($($name:ident: $Number:ty,)+) => {$(
        fn $name(self, number: $Number) -> Result<(), Error> {
            self.number(number)
        }
    )+};
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Compound<'a>;
    type SerializeTuple = Compound<'a>;
    type SerializeTupleStruct = Compound<'a>;
    type SerializeTupleVariant = Compound<'a>;
    type SerializeMap = Compound<'a>;
    type SerializeStruct = Compound<'a>;
    type SerializeStructVariant = Compound<'a>;

    numbers! {
        serialize_i8: i8, serialize_i16: i16, serialize_i32: i32, serialize_i64: i64, serialize_i128: i128,
        serialize_u8: u8, serialize_u16: u16, serialize_u32: u32, serialize_u64: u64, serialize_u128: u128,
        serialize_f32: f32, serialize_f64: f64,
    }

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, text: &str) -> Result<(), Error> {
        if self.verbatim {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            write_string(self.out, text);
        }
        Ok(())
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<(), Error> {
        self.collect_seq(bytes)
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        value.serialize(Writer { verbatim: is_verbatim(name), ..self })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        let compound = self.open_variant(variant, b"", b"}");
        write(compound.out, value)?;
        compound.close()
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Compound<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple(self, _: usize) -> Result<Compound<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Compound<'a>, Error> {
        Ok(self.open(b"[", b"]"))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a>, Error> {
        Ok(self.open_variant(variant, b"[", b"]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Compound<'a>, Error> {
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Compound<'a>, Error> {
        if is_verbatim(name) {
            return Ok(Compound { out: self.out, close: b"", first: true, verbatim: true });
        }
        Ok(self.open(b"{", b"}"))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Compound<'a>, Error> {
        Ok(self.open_variant(variant, b"{", b"}}"))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.serialize_str(&value.to_string())
    }

    fn is_human_readable(&self) -> bool {
        !self.verbatim
    }
}

/// An array or object being written.
struct Compound<'a> {
    out: &'a mut Vec<u8>,
    close: &'static [u8],
    first: bool,
    /// `true` for JSON text that is serialized as a struct, not an object.
    verbatim: bool,
}

impl Compound<'_> {
    fn comma(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
    }

    fn entry<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.comma();
        write(self.out, value)
    }

    fn member<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
        if self.verbatim {
            return self.splice_foreign(value);
        }
        self.comma();
        write_string(self.out, name);
        self.out.push(b':');
        write(self.out, value)
    }

    /// Writes JSON text that `serde_json` has checked. Line breaks are replaced by spaces.
    fn splice_foreign<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        let start = self.out.len();
        value.serialize(Writer { out: self.out, verbatim: true })?;
        let text = &mut self.out[start..];
        if memchr::memchr2(b'\n', b'\r', text).is_some() {
            text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        }
        Ok(())
    }

    /// Writes a key. Numbers and booleans become strings, as in `serde_json`.
    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.comma();
        let start = self.out.len();
        write(self.out, key)?;
        match self.out.get(start) {
            Some(b'"') => Ok(()),
            Some(b'-' | b'0'..=b'9' | b't' | b'f') => {
                self.out.insert(start, b'"');
                self.out.push(b'"');
                Ok(())
            }
            _ => Err(Error::custom("key must be a string")),
        }
    }

    fn close(self) -> Result<(), Error> {
        self.out.extend_from_slice(self.close);
        Ok(())
    }
}

macro_rules! sequences {
    ($($Trait:ident: $name:ident,)+) => {$(
        impl $Trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.entry(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )+};
}

sequences! {
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field,
}

macro_rules! structs {
    ($($Trait:ident),+) => {$(
        impl $Trait for Compound<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), Error> {
                self.member(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )+};
}

structs!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for Compound<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.out.push(b':');
        write(self.out, value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde::Serialize;
    use serde_json::Value;

    use super::*;
    use crate::RawJson;

    fn written<T: Serialize + ?Sized>(value: &T) -> Result<String, String> {
        let mut out = Vec::new();
        write(&mut out, value).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn agree<T: Serialize + ?Sized>(value: &T) {
        assert_eq!(written(value), serde_json::to_string(value).map_err(|error| error.to_string()));
    }

    #[derive(Serialize)]
    enum Shape {
        Unit,
        Newtype(f32),
        Tuple(i8, char),
        Struct { a: Option<u8>, b: () },
    }

    #[derive(Serialize)]
    struct Wrapped(String);

    #[derive(Serialize)]
    struct Pair(bool, u128);

    #[derive(Serialize)]
    struct Unit;

    #[test]
    fn every_kind_of_value_is_written_as_serde_json_writes_it() {
        agree(&[Shape::Unit, Shape::Newtype(1.5), Shape::Tuple(-1, '"'), Shape::Struct { a: None, b: () }]);
        agree(&(Wrapped("a\n".into()), Pair(true, u128::MAX), Unit, [(); 0], Some(0.1_f64), f64::NAN, i128::MIN));
        agree(&BTreeMap::from([(0_u8, [1_u8; 0])]));
        agree(&BTreeMap::from([(true, 1), (false, 2)]));
        agree(&BTreeMap::from([(-5, "x"), (7, "y")]));
        agree(&BTreeMap::from([('\u{1}', "x")]));
        agree(&BTreeMap::from([((1, 2), 3)]));
        agree(&BTreeMap::from([((), 3)]));
        agree(&std::net::Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn json_text_is_spliced_in_as_it_is() {
        let text = r#"{"a": [1e400, "\u0041"]}"#;
        let raw = serde_json::value::RawValue::from_string(text.to_owned()).unwrap();
        let json = RawJson::parse(text).unwrap();
        assert_eq!(written(&(&raw, &json, "\"")).unwrap(), format!(r#"[{text},{text},"\""]"#));
        agree(&(raw, json));
    }

    #[test]
    fn json_text_of_others_is_put_on_one_line() {
        let raw = serde_json::value::RawValue::from_string("{\r\n\"a\\n\": [\n1]}".to_owned()).unwrap();
        assert_eq!(written(&[raw]).unwrap(), "[{  \"a\\n\": [ 1]}]");
    }

    #[derive(Serialize)]
    #[serde(rename = "$ref")]
    struct Odd(String);

    #[derive(Serialize)]
    #[serde(rename = "$odd")]
    struct OddPair {
        a: String,
        b: u8,
    }

    #[test]
    fn types_may_have_names_that_no_type_of_rust_has() {
        agree(&Odd("a\",\"b".into()));
        agree(&OddPair { a: "\"".into(), b: 1 });
    }

    #[test]
    fn every_byte_of_a_text_is_escaped_as_serde_json_escapes_it() {
        for length in 0..40 {
            for special in (0..0x30).chain([0x5c, 0x7f]).map(char::from).chain(['é', '\u{2028}', '😀']) {
                agree(&format!("{}{special}{}", "x".repeat(length), "y".repeat(40 - length)));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_written_as_serde_json_writes_it(text in "\\PC{0,30}[\\x00-\\x7f]{0,30}\\PC{0,30}") {
            prop_assert_eq!(written(&text).unwrap(), serde_json::to_string(&text).unwrap());
            let key = BTreeMap::from([(text, Value::Null)]);
            prop_assert_eq!(written(&key).unwrap(), serde_json::to_string(&key).unwrap());
        }

        #[test]
        fn long_texts_are_written_as_serde_json_writes_them(
            pieces in prop::collection::vec("[a-zé😀]{0,40}[\\x00-\\x1f\"\\\\\\x7f]{0,3}", 0..30),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(written(&text).unwrap(), serde_json::to_string(&text).unwrap());
        }
    }
}
