//! [`RawJson`]: a JSON value as text.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use bytestring::ByteString;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::decode::decode_checked;
use super::layout::ParamsLayout;
use super::scanner::{self, LineBreaks, Scanner, SyntaxError};
use super::{DecodeError, EncodeError, Object, scratch, string, writer};

/// A JSON value, stored as text.
///
/// The text is valid JSON without surrounding white space and without line breaks, so it fits on one line. Numbers,
/// key order and unknown members are preserved. Clones and slices share the buffer.
///
/// Two values are equal if their texts are equal.
///
/// ```
/// # mod turms { pub use turms_proto as types; }
/// use turms::types::RawJson;
///
/// let value = RawJson::parse(r#" {"a": 1e400} "#)?;
/// assert_eq!(value.as_str(), r#"{"a": 1e400}"#);
/// assert_eq!(value.member("a").unwrap().as_str(), "1e400");
/// # Ok::<(), turms_proto::SyntaxError>(())
/// ```
#[derive(Clone)]
pub struct RawJson {
    text: ByteString,
    layout: ParamsLayout,
}

impl RawJson {
    /// The value `null`.
    pub const NULL: Self = Self { text: ByteString::from_static("null"), layout: ParamsLayout::NONE };

    /// Parses a JSON value.
    ///
    /// # Errors
    /// If the text is not valid JSON. The error contains the position.
    pub fn parse(text: impl Into<String>) -> Result<Self, SyntaxError> {
        let text = ByteString::from(text.into());
        let line_breaks = scanner::check(&text)?;
        let trimmed = text.slice_ref(text.trim_matches([' ', '\t', '\n', '\r']));
        Ok(Self::trusted(on_one_line(trimmed, line_breaks)))
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// If the value's serializer fails, or if a map has keys that are not strings.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let mut out = scratch::take();
        let written = writer::write(&mut out, value);
        let text = scratch::finish(out);
        written.map_err(EncodeError)?;
        text.map(Self::trusted)
    }

    /// Creates a JSON string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::from(serde_json::Value::from(text))
    }

    /// Creates a JSON number.
    #[must_use]
    pub fn number(number: i64) -> Self {
        Self::trusted(number.to_string().into())
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// If the value does not match the type. The error contains the path.
    pub fn decode<'de, T: Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        decode_checked(self.as_str())
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `true` if the value is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Returns `true` if the value is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.text == "null"
    }

    /// Returns the value as an object; `None` for other values.
    #[must_use]
    pub fn as_object(&self) -> Option<Object> {
        self.is_object().then(|| Object::trusted(self.text.clone()))
    }

    /// Converts the value into an object; `None` for other values.
    #[must_use]
    pub fn into_object(self) -> Option<Object> {
        self.is_object().then(|| Object::trusted(self.text))
    }

    /// Returns the member `name`, if the value is an object that has it. Nothing is copied.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let [member] = self.members([name]);
        member
    }

    /// Returns several members in one pass; see [`RawJson::member`].
    #[must_use]
    pub fn members<const N: usize>(&self, names: [&str; N]) -> [Option<Self>; N] {
        self.member_texts(names).map(|found| found.map(|value| self.part(value)))
    }

    /// Returns the texts of several members in one pass.
    pub(crate) fn member_texts<const N: usize>(&self, names: [&str; N]) -> [Option<&str>; N] {
        let mut found = [None; N];
        for (place, name) in names.iter().enumerate() {
            match self.layout.member(self.as_str(), name) {
                Some(known) => found[place] = known,
                // Either all positions are known or none.
                None => {
                    look_for(self.as_str(), self.layout, &names, &mut found);
                    break;
                }
            }
        }
        found
    }

    /// Returns the values of `name`, `arguments` and `_meta`; `None` if there are other members, duplicates or escaped
    /// keys.
    pub(crate) fn call_members(&self) -> Option<[Option<&str>; 3]> {
        let known = |name| self.layout.member(self.as_str(), name);
        if let (Some(name), Some(arguments), Some(meta)) = (known("name"), known("arguments"), known("_meta")) {
            return Some([name, arguments, meta]);
        }
        let mut found = [None; 3];
        for (key, value) in self.object_members() {
            let place = ["name", "arguments", "_meta"].iter().position(|name| *name == key.raw())?;
            if found[place].replace(value).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// Returns the decoded string, if the value is one. It is copied only if it has escapes.
    #[must_use]
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let inside = self.text.strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inside.as_bytes()).is_some() {
            return self.decode::<String>().ok().map(Cow::Owned);
        }
        Some(Cow::Borrowed(inside))
    }

    /// Returns the decoded string like [`text`](Self::text), and shares the buffer.
    pub(crate) fn shared_text(&self) -> Option<ByteString> {
        let inside = self.text.strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inside.as_bytes()).is_some() {
            return self.decode::<String>().ok().map(Into::into);
        }
        Some(self.text.slice_ref(inside))
    }

    /// Returns the decoded string of a value inside this one, if it is a string.
    pub(crate) fn text_of(&self, value: &str) -> Option<ByteString> {
        let inside = value.strip_prefix('"')?.strip_suffix('"')?;
        if string::is_plain(inside.as_bytes()) {
            return Some(self.text.slice_ref(inside));
        }
        self.part(value).shared_text()
    }

    /// Wraps text that is known to be one JSON value on one line.
    pub(crate) fn trusted(text: ByteString) -> Self {
        Self { text, layout: ParamsLayout::NONE }
    }

    /// Copies text that `serde_json` has checked.
    fn from_raw_value(text: &str) -> Self {
        let line_breaks = match memchr::memchr2(b'\n', b'\r', text.as_bytes()) {
            Some(_) => LineBreaks::Present,
            None => LineBreaks::Absent,
        };
        Self::trusted(on_one_line(text.into(), line_breaks))
    }

    /// Wraps an object on one line with a known layout.
    pub(crate) fn with_layout(text: ByteString, layout: ParamsLayout) -> Self {
        Self { text, layout }
    }

    /// Copies the value, so that it does not keep the buffer of the received message alive.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { text: ByteString::from(&*self.text), layout: self.layout }
    }

    /// Returns the member `_meta`. Its position is usually known.
    #[must_use]
    pub fn meta(&self) -> Option<Self> {
        match self.layout.meta(self.as_str()) {
            Some(known) => known.map(|meta| self.part(meta)),
            None => self.member("_meta"),
        }
    }

    /// Iterates over the members; empty unless this is an object.
    pub(crate) fn object_members(&self) -> RawMembers<'_> {
        RawMembers::new(self.as_str(), self.layout)
    }

    /// Returns a value inside this one, sharing its buffer.
    pub(crate) fn part(&self, value: &str) -> Self {
        Self::trusted(self.text.slice_ref(value))
    }
}

/// Returns the member `name` of valid JSON; the last one if it is repeated, as in most parsers.
pub(crate) fn find_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let [member] = find_members(text, [name]);
    member
}

/// Returns several members in one pass; see [`find_member`].
pub(crate) fn find_members<'a, const N: usize>(text: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    look_for(text, ParamsLayout::NONE, &names, &mut found);
    found
}

fn look_for<'a>(text: &'a str, layout: ParamsLayout, names: &[&str], found: &mut [Option<&'a str>]) {
    if !text.starts_with('{') {
        return;
    }
    // The text is already checked, so this cannot fail.
    let _ = Scanner::new(text).with_layout(layout).each_member(0, |key, value| {
        let place = match key.plain() {
            Some(plain) => names.iter().position(|name| *name == plain),
            None => names.iter().position(|name| *name == key.name()),
        };
        if let Some(place) = place {
            found[place] = Some(value);
        }
    });
}

/// Iterates over the members of valid JSON; empty unless it is an object.
pub(crate) fn object_members(text: &str) -> RawMembers<'_> {
    RawMembers::new(text, ParamsLayout::NONE)
}

/// Iterator returned by [`object_members`].
#[derive(Debug, Clone)]
pub(crate) struct RawMembers<'a> {
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> RawMembers<'a> {
    fn new(text: &'a str, layout: ParamsLayout) -> Self {
        let is_object = text.starts_with('{');
        let mut scanner = Scanner::new(text).with_layout(layout);
        if is_object {
            scanner.enter_object();
        }
        Self { scanner: is_object.then_some(scanner), first: true }
    }
}

impl<'a> Iterator for RawMembers<'a> {
    type Item = (scanner::Key<'a>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        // The text is already checked, so an error can only mean the end of the object.
        self.scanner.as_mut()?.next_member(std::mem::take(&mut self.first), 1).ok().flatten()
    }
}

/// Replaces line breaks by spaces. In valid JSON they occur only between tokens.
pub(crate) fn on_one_line(text: ByteString, line_breaks: LineBreaks) -> ByteString {
    match line_breaks {
        LineBreaks::Absent => text,
        LineBreaks::Present => text.replace(['\n', '\r'], " ").into(),
    }
}

impl PartialEq for RawJson {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RawJson {}

impl Hash for RawJson {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Default for RawJson {
    fn default() -> Self {
        Self::NULL
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::trusted(value.to_string().into())
    }
}

impl From<Object> for RawJson {
    fn from(object: Object) -> Self {
        Self::trusted(object.into_text())
    }
}

impl From<Box<RawValue>> for RawJson {
    fn from(value: Box<RawValue>) -> Self {
        Self::from_raw_value(value.get())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        writer::splice(self.as_str(), serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_newtype_struct(RAW_VALUE_TOKEN, RawJsonVisitor)
    }
}

/// The name by which `serde_json` recognises `RawValue`, for reading and writing. Reading `RawValue` itself would copy
/// the text into a box first, and a flattened field cannot hold one.
pub(super) const RAW_VALUE_TOKEN: &str = "$serde_json::private::RawValue";

/// Prefix of that name, and of the name for numbers with the feature `arbitrary_precision` of `serde_json`.
pub(super) const SERDE_JSON_PREFIX: &str = "$serde_json::private::";

struct RawJsonVisitor;

impl<'de> Visitor<'de> for RawJsonVisitor {
    type Value = RawJson;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    /// `serde_json` passes a map with one member, which has the text.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawJson, A::Error> {
        map.next_key::<IgnoredAny>()?;
        map.next_value_seed(StringSeed).map(|text| RawJson::from_raw_value(&text))
    }

    /// Other deserializers, such as those of flattened fields, pass a newtype struct.
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<RawJson, D::Error> {
        serde_json::Value::deserialize(deserializer).map(RawJson::from)
    }
}

/// Reads a string, borrowed from the input if possible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StringSeed;

impl<'de> DeserializeSeed<'de> for StringSeed {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for StringSeed {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::decode;
    use super::*;

    #[test]
    fn text_stays_as_it_came_but_on_one_line() {
        let value = RawJson::parse("\n{\"b\": 1.10,\r\n\"a\": [ ]}\n").unwrap();
        assert_eq!(value.as_str(), "{\"b\": 1.10,  \"a\": [ ]}");
        let nested: Vec<RawJson> = serde_json::from_str("[{\"a\":\n1}]").unwrap();
        assert_eq!(nested[0].as_str(), "{\"a\": 1}");
        assert_eq!(serde_json::to_string(&nested).unwrap(), "[{\"a\": 1}]");
    }

    /// The name is private to `serde_json`. This test fails if another version changes it.
    #[test]
    fn raw_values_and_their_text_are_interchangeable() {
        let text = r#"{"a": 1e400,"b":"\u0061"}"#;
        // Reading: with another name, `serde_json` would decode the value, and `1e400` is out of range.
        let raw: RawJson = serde_json::from_str(text).unwrap();
        assert_eq!(raw.as_str(), text);
        // Writing: with another name, an object with one member would be written.
        let value: Box<RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(RawJson::encode(&value).unwrap().as_str(), text);
        assert_eq!(serde_json::to_string(&raw).unwrap(), text);
        assert!(RAW_VALUE_TOKEN.starts_with(SERDE_JSON_PREFIX));
    }

    #[test]
    fn members_are_found_under_escaped_keys_and_the_last_one_counts() {
        let value = RawJson::parse(r#"{"a":1,"\u0061":2}"#).unwrap();
        assert_eq!(value.member("a").unwrap().as_str(), "2");
        assert!(value.member("b").is_none());
        assert!(RawJson::parse("[1]").unwrap().member("a").is_none());
        let [b, a] = value.members(["b", "a"]);
        assert!(b.is_none() && a.unwrap().as_str() == "2");
    }

    #[test]
    fn a_string_is_the_text_between_its_quotes() {
        let text = |json: &str| RawJson::parse(json.to_owned()).unwrap().text().map(Cow::into_owned);
        assert_eq!(text(r#""add""#).as_deref(), Some("add"));
        assert_eq!(text(r#""""#).as_deref(), Some(""));
        assert_eq!(text(r#""a\u0062\"""#).as_deref(), Some("ab\""));
        assert_eq!(text(r#""\ud800""#), None);
        assert_eq!((text("1"), text("{}"), text("null")), (None, None, None));
    }

    #[test]
    fn decoding_names_the_place() {
        let error = decode::<std::collections::BTreeMap<String, Vec<u8>>>(r#"{"a":[1,"x"]}"#).unwrap_err();
        assert_eq!(error.path(), "a[1]");
        assert_eq!(error.to_string(), "a[1]: invalid type: string \"x\", expected u8");
        assert_eq!(error.within("params").path(), "params.a[1]");
    }
}
