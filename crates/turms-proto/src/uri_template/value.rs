//! What goes into a template and what comes out of a URI.

/// The value of one variable.
///
/// Anything that converts into one can be given to [`UriTemplate::expand`](super::UriTemplate::expand); look at one
/// directly when a template explodes a list (`{tags*}`). RFC 6570 also knows associative arrays; these are not
/// supported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A string, possibly empty.
    Text(String),
    /// A list of strings. An empty list is the same as no value.
    List(Vec<String>),
}

impl Value {
    /// The string, unless this is a list. Use it for every variable without `*`.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }

    /// The items of the list; a string is a list of one. Use it for a variable with `*`.
    #[must_use]
    pub fn items(&self) -> &[String] {
        match self {
            Self::Text(text) => std::slice::from_ref(text),
            Self::List(items) => items,
        }
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl<T: Into<String>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<String>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }
}

impl From<&Self> for Value {
    fn from(value: &Self) -> Self {
        value.clone()
    }
}

/// The values [`UriTemplate::matches`](super::UriTemplate::matches) found in a URI, decoded, by variable name.
///
/// Variables the URI says nothing about are absent. Give a reference back to
/// [`UriTemplate::expand`](super::UriTemplate::expand) to build the URI again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    entries: Vec<(String, Value)>,
}

impl Captures {
    /// The value of a variable. Use [`text`](Self::text) where a string is expected.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of a variable if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// Names and values, in the order of the template.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many variables have a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no variable has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn push(&mut self, name: &str, value: Value) {
        self.entries.push((name.to_owned(), value));
    }
}

impl IntoIterator for Captures {
    type Item = (String, Value);
    type IntoIter = std::vec::IntoIter<(String, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

impl<'a> IntoIterator for &'a Captures {
    type Item = (&'a str, &'a Value);
    type IntoIter =
        std::iter::Map<std::slice::Iter<'a, (String, Value)>, fn(&'a (String, Value)) -> (&'a str, &'a Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }
}
