//! JSON that is carried rather than understood: exact text, cheap to clone, decoded once, by whoever wants it.

mod canonical;
pub(crate) mod decoder;
pub(crate) mod fault;
mod name;
mod number;
mod object;
pub(crate) mod outline;
pub(crate) mod read;
pub(crate) mod scan;
mod scratch;
mod skip;
pub(crate) mod text;
pub(crate) mod write;

use std::fmt;
use std::hash::{Hash, Hasher};

use bytestring::ByteString;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub use self::canonical::CanonicalError;
pub use self::number::Number;
pub(crate) use self::object::ObjectBuilder;
pub use self::object::{Members, Object};
use self::outline::Outline;
use self::scan::{Layout, Scanner};
pub use self::scan::{MAX_DEPTH, Problem, SyntaxError};

/// One JSON value as text.
///
/// The text is valid JSON, has no white space around it and no line breaks in it (so it may be put on a line of its own).
/// Numbers, key order and unknown members stay exactly as they came. Cloning and slicing share the text.
///
/// Two values are equal when their text is.
///
/// ```
/// use turms_proto::RawJson;
///
/// let value = RawJson::parse(r#" {"a": 1e400} "#)?;
/// assert_eq!(value.as_str(), r#"{"a": 1e400}"#);
/// assert_eq!(value.member("a").unwrap().as_str(), "1e400");
/// # Ok::<(), turms_proto::SyntaxError>(())
/// ```
#[derive(Clone)]
pub struct RawJson {
    text: ByteString,
    outline: Outline,
}

impl RawJson {
    /// The value `null`.
    pub const NULL: Self = Self { text: ByteString::from_static("null"), outline: Outline::NONE };

    /// Takes text that should be one JSON value.
    ///
    /// # Errors
    /// When it is not, with the place of the problem.
    pub fn parse(text: impl Into<ByteString>) -> Result<Self, SyntaxError> {
        let text = text.into();
        let layout = scan::check(&text)?;
        let trimmed = text.slice_ref(text.trim_matches([' ', '\t', '\n', '\r']));
        Ok(Self::trusted(on_one_line(trimmed, layout)))
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// When the value's own serializer fails, or it has a map whose keys are not strings.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let mut out = scratch::take();
        let written = write::write(&mut out, value);
        let text = scratch::keep(out);
        written.map_err(EncodeError)?;
        text.map(Self::trusted)
    }

    /// A JSON string.
    #[must_use]
    pub fn string(text: &str) -> Self {
        Self::from(serde_json::Value::from(text))
    }

    /// A JSON number.
    #[must_use]
    pub fn number(number: i64) -> Self {
        Self::trusted(number.to_string().into())
    }

    /// Decodes into the type that is expected here.
    ///
    /// # Errors
    /// When the value is of another shape; the error names the place.
    pub fn decode<'de, T: Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        decode(self.as_str())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.text.starts_with('{')
    }

    /// Whether this is `null`.
    #[must_use]
    pub fn is_null(&self) -> bool {
        &*self.text == "null"
    }

    /// This value as an object, if it is one.
    #[must_use]
    pub fn as_object(&self) -> Option<Object> {
        self.is_object().then(|| Object::trusted(self.text.clone()))
    }

    /// As [`RawJson::as_object`], of a value that nobody else wants.
    #[must_use]
    pub fn into_object(self) -> Option<Object> {
        self.is_object().then(|| Object::trusted(self.text))
    }

    /// The member `name`, if this is an object that has it. Nothing is copied.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let [member] = self.members([name]);
        member
    }

    /// As [`RawJson::member`], of several members in one pass.
    #[must_use]
    pub fn members<const N: usize>(&self, names: [&str; N]) -> [Option<Self>; N] {
        self.member_texts(names).map(|found| found.map(|value| self.part(value)))
    }

    /// As [`RawJson::members`], as text.
    pub(crate) fn member_texts<const N: usize>(&self, names: [&str; N]) -> [Option<&str>; N] {
        let mut found = [None; N];
        for (place, name) in names.iter().enumerate() {
            match self.outline.member(self.as_str(), name) {
                Some(known) => found[place] = known,
                // Either all are known or none is.
                None => {
                    look_for(self.as_str(), self.outline, &names, &mut found);
                    break;
                }
            }
        }
        found
    }

    /// The values of `name`, `arguments` and `_meta`, if there is nothing else, none of them twice and no key with escapes.
    pub(crate) fn call_members(&self) -> Option<[Option<&str>; 3]> {
        let known = |name| self.outline.member(self.as_str(), name);
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

    /// The text that this value is, if it is a string. Nothing is copied unless it has escapes.
    #[must_use]
    pub fn text(&self) -> Option<ByteString> {
        let inside = self.text.strip_prefix('"')?.strip_suffix('"')?;
        if memchr::memchr(b'\\', inside.as_bytes()).is_some() {
            return self.decode::<String>().ok().map(Into::into);
        }
        Some(self.text.slice_ref(inside))
    }

    /// The text that a value inside this one is, if it is a string.
    pub(crate) fn text_of(&self, value: &str) -> Option<ByteString> {
        let inside = value.strip_prefix('"')?.strip_suffix('"')?;
        if text::is_plain(inside.as_bytes()) {
            return Some(self.text.slice_ref(inside));
        }
        self.part(value).text()
    }

    /// A value whose text is known to be one JSON value on one line.
    pub(crate) fn trusted(text: ByteString) -> Self {
        Self { text, outline: Outline::NONE }
    }

    /// As [`RawJson::trusted`], of an object of which this is known.
    pub(crate) fn outlined(text: ByteString, outline: Outline) -> Self {
        Self { text, outline }
    }

    /// A copy that does not share the buffer the value was read from. A part of a message keeps the whole message in memory.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self { text: ByteString::from(&*self.text), outline: self.outline }
    }

    /// The member `_meta`, which is looked for more often than any other.
    #[must_use]
    pub fn meta(&self) -> Option<Self> {
        match self.outline.meta(self.as_str()) {
            Some(known) => known.map(|meta| self.part(meta)),
            None => self.member("_meta"),
        }
    }

    /// The members of the object that this is, none if it is none.
    pub(crate) fn object_members(&self) -> RawMembers<'_> {
        RawMembers::new(self.as_str(), self.outline)
    }

    /// A value inside this one, sharing its text.
    pub(crate) fn part(&self, value: &str) -> Self {
        Self::trusted(self.text.slice_ref(value))
    }
}

/// The text of the member `name` of valid JSON text; the last one if the key is repeated, as most parsers have it.
pub(crate) fn find_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let [member] = find_members(text, [name]);
    member
}

/// As [`find_member`], of several members in one pass.
pub(crate) fn find_members<'a, const N: usize>(text: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    look_for(text, Outline::NONE, &names, &mut found);
    found
}

fn look_for<'a>(text: &'a str, outline: Outline, names: &[&str], found: &mut [Option<&'a str>]) {
    if !text.starts_with('{') {
        return;
    }
    // The text was checked when it came in, so there is no error here.
    let _ = Scanner::new(text).knowing(outline).each_member(0, |key, value| {
        let place = match key.plain() {
            Some(plain) => names.iter().position(|name| *name == plain),
            None => names.iter().position(|name| *name == key.name()),
        };
        if let Some(place) = place {
            found[place] = Some(value);
        }
    });
}

/// The members of valid JSON text, none if it is no object.
pub(crate) fn object_members(text: &str) -> RawMembers<'_> {
    RawMembers::new(text, Outline::NONE)
}

/// See [`object_members`].
#[derive(Debug, Clone)]
pub(crate) struct RawMembers<'a> {
    scanner: Option<Scanner<'a>>,
    first: bool,
}

impl<'a> RawMembers<'a> {
    fn new(text: &'a str, outline: Outline) -> Self {
        let is_object = text.starts_with('{');
        let mut scanner = Scanner::new(text).knowing(outline);
        if is_object {
            scanner.enter_object();
        }
        Self { scanner: is_object.then_some(scanner), first: true }
    }
}

impl<'a> Iterator for RawMembers<'a> {
    type Item = (scan::Key<'a>, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        // The text was checked when it came in, so an error here can only mean that the object is over.
        self.scanner.as_mut()?.next_member(std::mem::take(&mut self.first), 1).ok().flatten()
    }
}

/// Line breaks stand only between tokens of JSON, so a space says the same.
pub(crate) fn on_one_line(text: ByteString, layout: Layout) -> ByteString {
    match layout {
        Layout::OneLine => text,
        Layout::ManyLines => text.replace(['\n', '\r'], " ").into(),
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
        let text = String::from(Box::<str>::from(value));
        let layout = match memchr::memchr2(b'\n', b'\r', text.as_bytes()) {
            Some(_) => Layout::ManyLines,
            None => Layout::OneLine,
        };
        Self::trusted(on_one_line(text.into(), layout))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        write::splice(self.as_str(), serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// Decodes JSON text, naming the place of what does not fit.
///
/// # Errors
/// When the text is not JSON or not of the expected shape.
pub fn decode<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, DecodeError> {
    decoder::decode(text, false).map_err(DecodeError::from)
}

/// As [`decode`], from a `serde_json::Value`.
///
/// # Errors
/// When the value is not of the expected shape.
pub fn decode_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, DecodeError> {
    RawJson::from(value).decode()
}

/// A value was JSON, but not of the shape that is expected where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    problem: String,
}

impl DecodeError {
    fn new(path: String, text: &str) -> Self {
        // Positions count from the start of a fragment nobody sees; the path says where.
        Self { path, problem: without_position(text).replace('`', "\"") }
    }

    /// A decode error for a reason of the caller's own.
    pub fn custom(problem: impl fmt::Display) -> Self {
        Self { path: String::new(), problem: problem.to_string() }
    }

    /// Where the problem is, such as `arguments.items[2].name`; empty for the value itself.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is wrong there.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The same error, seen from a value that holds this one in its member `outer`.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => outer.to_owned(),
            path if path.starts_with('[') => format!("{outer}{path}"),
            path => format!("{outer}.{path}"),
        };
        self
    }
}

/// Without the ` at line 1 column 2` that `serde_json` ends its errors with.
fn without_position(text: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.rsplit_once(" at line ") {
        Some((problem, position)) => match position.split_once(" column ") {
            Some((line, column)) if is_number(line) && is_number(column) => problem,
            _ => text,
        },
        None => text,
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for DecodeError {}

impl From<fault::Fault> for DecodeError {
    #[cold]
    fn from(fault: fault::Fault) -> Self {
        let (path, problem) = fault.into_parts();
        Self::new(path, &problem)
    }
}

/// A value of this process could not be written as JSON.
#[derive(Debug, thiserror::Error)]
#[error("cannot be written as JSON")]
pub struct EncodeError(#[source] pub(crate) serde_json::Error);

impl EncodeError {
    /// An encode error for a reason of the caller's own.
    pub fn custom(reason: impl fmt::Display) -> Self {
        Self(serde_json::Error::custom(reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_as_it_came_but_on_one_line() {
        let value = RawJson::parse("\n{\"b\": 1.10,\r\n\"a\": [ ]}\n").unwrap();
        assert_eq!(value.as_str(), "{\"b\": 1.10,  \"a\": [ ]}");
        let nested: Vec<RawJson> = serde_json::from_str("[{\"a\":\n1}]").unwrap();
        assert_eq!(nested[0].as_str(), "{\"a\": 1}");
        assert_eq!(serde_json::to_string(&nested).unwrap(), "[{\"a\": 1}]");
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
        let text = |json: &str| RawJson::parse(json.to_owned()).unwrap().text();
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
