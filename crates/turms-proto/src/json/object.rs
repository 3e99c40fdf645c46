use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use bytestring::ByteString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{
    DecodeError, EncodeError, RawJson, RawMembers, SyntaxError, decode_checked, find_member, object_members, writer,
};

/// A JSON object, stored as text. Used for schemas, arguments, metadata and unknown members.
///
/// Reading a member scans the text, and changing one rewrites it. This suits objects that are mostly forwarded.
///
/// ```
/// # mod turms { pub use turms_proto as types; }
/// use turms::types::Object;
///
/// let mut object = Object::new();
/// object.insert("name", "Ann")?;
/// object.insert("age", &30)?;
/// assert_eq!(object.as_str(), r#"{"name":"Ann","age":30}"#);
/// assert_eq!(object.get_as::<u8>("age").unwrap()?, 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Object(ByteString);

impl Object {
    /// Creates an empty object.
    #[must_use]
    pub const fn new() -> Self {
        Self(ByteString::from_static("{}"))
    }

    /// Parses a JSON object.
    ///
    /// # Errors
    /// If the text is not a valid JSON object.
    pub fn parse(text: impl Into<String>) -> Result<Self, SyntaxError> {
        let value = RawJson::parse(text)?;
        value.as_object().ok_or(SyntaxError { offset: 0, kind: super::SyntaxErrorKind::UnexpectedCharacter })
    }

    /// Encodes a value that serializes as an object, such as a struct or map.
    ///
    /// # Errors
    /// If the value does not serialize as an object, or its serializer fails.
    pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let value = RawJson::encode(value)?;
        value.as_object().ok_or_else(|| EncodeError::custom(format_args!("expected an object, not {value}")))
    }

    /// Decodes the whole object.
    ///
    /// # Errors
    /// If the object does not match the type.
    pub fn decode<'de, T: Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        decode_checked(self.as_str())
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the object has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.len() == 2 || self.0[1..].trim_start_matches([' ', '\t', '\n', '\r']).starts_with('}')
    }

    /// Returns the member `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<RawJson> {
        find_member(self.as_str(), name).map(|value| self.part(value))
    }

    /// Decodes the member `name`. An error contains `name` in its path.
    #[must_use]
    pub fn get_as<'de, T: Deserialize<'de>>(&'de self, name: &str) -> Option<Result<T, DecodeError>> {
        find_member(self.as_str(), name).map(|value| decode_checked(value).map_err(|error| error.within(name)))
    }

    /// Returns `true` if there is a member `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        find_member(self.as_str(), name).is_some()
    }

    /// Iterates over the members in source order.
    #[must_use]
    pub fn iter(&self) -> Members<'_> {
        self.into_iter()
    }

    /// Sets a member. An existing member of that name is replaced in place. To set many, use [`Object::extend`].
    ///
    /// # Errors
    /// If the value cannot be encoded as JSON.
    pub fn insert<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), EncodeError> {
        self.insert_raw(name, &RawJson::encode(value)?);
        Ok(())
    }

    /// Sets a member to a value that is already JSON; see [`Object::insert`].
    pub fn insert_raw(&mut self, name: &str, value: &RawJson) {
        if find_member(self.as_str(), name).is_none() {
            return self.append(name, value);
        }
        let mut builder = ObjectBuilder::default();
        let mut replaced = false;
        for (key, old) in object_members(self.as_str()) {
            if key.name() != name {
                builder.push_raw(key.raw(), old);
            } else if !replaced {
                replaced = true;
                builder.push(name, value.as_str());
            }
        }
        *self = builder.finish();
    }

    /// Appends a member that does not exist yet.
    fn append(&mut self, name: &str, value: &RawJson) {
        let members = self.as_str().strip_suffix('}').unwrap_or_default().trim_ascii_end();
        let mut builder = ObjectBuilder(String::with_capacity(members.len() + name.len() + value.as_str().len() + 8));
        builder.0.push_str(if members == "{" { "" } else { members });
        builder.push(name, value.as_str());
        *self = builder.finish();
    }

    /// Sets all members of another object, replacing those with the same names. Faster than setting members one by
    /// one, which rewrites the text each time.
    pub fn extend(&mut self, other: &Self) {
        if self.is_empty() {
            *self = other.clone();
            return;
        }
        let new: HashSet<Cow<'_, str>> = object_members(other.as_str()).map(|(key, _)| key.name()).collect();
        let mut builder = ObjectBuilder::default();
        for (key, value) in object_members(self.as_str()) {
            if !new.contains(&key.name()) {
                builder.push_raw(key.raw(), value);
            }
        }
        for (key, value) in object_members(other.as_str()) {
            builder.push_raw(key.raw(), value);
        }
        *self = builder.finish();
    }

    /// Removes a member and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<RawJson> {
        let removed = self.get(name)?;
        self.retain(|key| key != name);
        Some(removed)
    }

    /// Keeps only the members with names that satisfy the predicate.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        let mut builder = ObjectBuilder::default();
        for (key, value) in object_members(self.as_str()) {
            if keep(&key.name()) {
                builder.push_raw(key.raw(), value);
            }
        }
        *self = builder.finish();
    }

    /// Wraps text that is known to be an object on one line.
    pub(crate) fn trusted(text: ByteString) -> Self {
        Self(text)
    }

    pub(crate) fn into_text(self) -> ByteString {
        self.0
    }

    /// Returns a value inside this one, sharing its buffer.
    pub(crate) fn part(&self, value: &str) -> RawJson {
        RawJson::trusted(self.0.slice_ref(value))
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<serde_json::Map<String, serde_json::Value>> for Object {
    fn from(map: serde_json::Map<String, serde_json::Value>) -> Self {
        Self(serde_json::Value::Object(map).to_string().into())
    }
}

impl<K: AsRef<str>> FromIterator<(K, RawJson)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, RawJson)>>(members: I) -> Self {
        let mut builder = ObjectBuilder::default();
        for (name, value) in members {
            builder.push(name.as_ref(), value.as_str());
        }
        builder.finish()
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = (Cow<'a, str>, RawJson);
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Self::IntoIter {
        Members { object: self, members: object_members(self.as_str()) }
    }
}

impl Serialize for Object {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        writer::splice(self.as_str(), serializer)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawJson::deserialize(deserializer)?
            .into_object()
            .ok_or_else(|| serde::de::Error::custom("invalid type: expected an object"))
    }
}

/// Iterator over the members of an [`Object`], in source order.
pub struct Members<'a> {
    object: &'a Object,
    members: RawMembers<'a>,
}

impl fmt::Debug for Members<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").finish_non_exhaustive()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, RawJson);

    fn next(&mut self) -> Option<Self::Item> {
        self.members.next().map(|(key, value)| (key.name(), self.object.part(value)))
    }
}

/// Builds an object member by member. Allocates with the first member.
#[derive(Debug, Default)]
pub(crate) struct ObjectBuilder(String);

impl ObjectBuilder {
    pub(crate) fn push(&mut self, name: &str, value: &str) {
        let quoted = serde_json::Value::from(name).to_string();
        self.push_raw(&quoted[1..quoted.len() - 1], value);
    }

    /// Appends a member with an escaped name.
    fn push_raw(&mut self, escaped_name: &str, value: &str) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.extend(["\"", escaped_name, "\":", value]);
    }

    pub(crate) fn finish(mut self) -> Object {
        if self.0.is_empty() {
            return Object::new();
        }
        self.0.push('}');
        Object(self.0.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_and_removing_keep_the_order() {
        let mut object = Object::parse(r#"{"a":1, "b\n":2,"c":3}"#).unwrap();
        object.insert("b\n", "two").unwrap();
        assert_eq!(object.as_str(), r#"{"a":1,"b\n":"two","c":3}"#);
        assert_eq!(object.remove("a").unwrap().as_str(), "1");
        assert_eq!(object.iter().map(|(key, _)| key.into_owned()).collect::<Vec<_>>(), ["b\n", "c"]);
        object.retain(|_| false);
        assert_eq!(object, Object::new());
        assert!(object.is_empty() && Object::parse("{ }").unwrap().is_empty());
    }

    #[test]
    fn many_members_are_set_at_once() {
        let mut object = Object::parse(r#"{"a":1,"b":2}"#).unwrap();
        object.extend(&Object::parse(r#"{"b":3,"c":4}"#).unwrap());
        assert_eq!(object.as_str(), r#"{"a":1,"b":3,"c":4}"#);
        let mut empty = Object::new();
        empty.extend(&object);
        assert_eq!(empty, object);
    }

    #[test]
    fn only_objects_are_objects() {
        assert!(Object::parse("[]").is_err());
        assert!(Object::encode("text").is_err());
        assert!(serde_json::from_str::<Object>("null").is_err());
    }
}
