//! URI templates of resources (RFC 6570).
//!
//! A server lists `users://{id}/profile` in `resources/templates/list`. A client expands it, and the server matches
//! the URI of `resources/read` to get the values back. [`UriTemplate`] does both.
#![doc = include_str!("grammar.md")]

mod character;
mod matcher;
mod parse;

use std::fmt;
use std::str::FromStr;

use self::character::UriCharacter;
pub use self::parse::{MAX_LEN, MAX_VARIABLES, TemplateError};
use self::parse::{Reading, TemplatePart, Variable};

/// A compiled URI template for expansion and matching.
///
/// Parse a template once, and call [`expand`](Self::expand) or [`matches`](Self::matches) as often as needed.
///
/// # Examples
///
/// ```
/// use turms_proto::uri_template::UriTemplate;
///
/// let profile = UriTemplate::parse("users://{id}/profile")?;
/// assert_eq!(profile.expand([("id", "René")]), "users://Ren%C3%A9/profile");
///
/// let captures = profile.matches("users://Ren%c3%a9/profile").expect("this is a profile");
/// assert_eq!(captures.text("id"), Some("René"));
/// assert_eq!(profile.matches("users://a/b/profile"), None);
/// # Ok::<(), turms_proto::uri_template::TemplateError>(())
/// ```
#[derive(Clone)]
pub struct UriTemplate {
    text: String,
    parts: Vec<TemplatePart>,
    /// Prefix of every matching URI, to reject most others quickly.
    prefix: String,
}

impl UriTemplate {
    /// Compiles a template.
    ///
    /// Supports RFC 6570 except for associative arrays, which [`Value`] cannot represent.
    ///
    /// # Errors
    ///
    /// Returns an error if the text violates RFC 6570, is longer than [`MAX_LEN`] or has more than [`MAX_VARIABLES`]
    /// variables. Also if a variable occurs twice, or the percent-encoded bytes of a literal or name are not UTF-8,
    /// because such a template cannot be matched reliably.
    pub fn parse(template: impl Into<String>) -> Result<Self, TemplateError> {
        let text = template.into();
        let parts = parse::parse(&text)?;
        let prefix = match parts.first() {
            Some(TemplatePart::Literal(literal)) => literal.plain_prefix(),
            Some(TemplatePart::Expression(_)) | None => String::new(),
        };
        Ok(Self { text, parts, prefix })
    }

    /// Returns the template as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the names of the variables, in order.
    ///
    /// ```
    /// # use turms_proto::uri_template::UriTemplate;
    /// let search = UriTemplate::parse("search://{index}/items{?q,limit}")?;
    /// assert_eq!(search.variables().collect::<Vec<_>>(), ["index", "q", "limit"]);
    /// # Ok::<(), turms_proto::uri_template::TemplateError>(())
    /// ```
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.all_variables().map(|variable| variable.name.as_str())
    }

    /// Expands the template with pairs of name and value.
    ///
    /// Unknown names are ignored, the last of several values is used, and variables without a value are omitted. An
    /// empty list counts as no value, as does a list for a variable with a prefix length, which RFC 6570 does not
    /// define.
    ///
    /// ```
    /// # use turms_proto::uri_template::{UriTemplate, Value};
    /// let search = UriTemplate::parse("search://items{?q,tags*}")?;
    /// let values = [("q", Value::from("50%")), ("tags", Value::from(["new", "blue"]))];
    /// assert_eq!(search.expand(values), "search://items?q=50%25&tags=new&tags=blue");
    /// # Ok::<(), turms_proto::uri_template::TemplateError>(())
    /// ```
    #[must_use]
    pub fn expand<N, V>(&self, values: impl IntoIterator<Item = (N, V)>) -> String
    where
        N: AsRef<str>,
        V: Into<Value>,
    {
        let names: Vec<&str> = self.variables().collect();
        let mut slots = vec![None; names.len()];
        for (name, value) in values {
            if let Some(i) = names.iter().position(|&known| known == name.as_ref()) {
                slots[i] = Some(value.into());
            }
        }
        let mut uri = String::new();
        let mut slots = slots.as_slice();
        for part in &self.parts {
            match part {
                TemplatePart::Literal(literal) => literal.expand(&mut uri),
                TemplatePart::Expression(expression) => {
                    let (values, rest) = slots.split_at(expression.variables.len());
                    expression.expand(values, &mut uri);
                    slots = rest;
                }
            }
        }
        uri
    }

    /// Matches a URI, and returns the values of the variables; `None` if the template does not match.
    ///
    /// A variable that is empty in the URI is absent from the captures: `users://{id}/profile` also matches
    /// `users:///profile`, which is its expansion without an `id`.
    ///
    /// The [module documentation](self) lists which values are recovered. Time is at most proportional to the length
    /// of the URI times the number of variables.
    ///
    /// ```
    /// # use turms_proto::uri_template::UriTemplate;
    /// let search = UriTemplate::parse("search://items{?q,limit}")?;
    /// let captures = search.matches("search://items?limit=5&q=red%20shoes").expect("a search");
    /// assert_eq!(captures.text("q"), Some("red shoes"));
    /// assert_eq!(captures.text("limit"), Some("5"));
    ///
    /// let captures = search.matches("search://items").expect("parameters can be left out");
    /// assert!(captures.is_empty());
    /// # Ok::<(), turms_proto::uri_template::TemplateError>(())
    /// ```
    #[must_use]
    pub fn matches(&self, uri: &str) -> Option<Captures> {
        if !uri.starts_with(&self.prefix) {
            return None;
        }
        let uri = UriCharacter::read_all(uri)?;
        matcher::captures(&self.parts, &uri, Reading::Strict).or_else(|| {
            let sorted = matcher::sort_query(&self.parts, &uri).unwrap_or(uri);
            matcher::captures(&self.parts, &sorted, Reading::Lenient)
        })
    }

    fn all_variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().flat_map(|part| match part {
            TemplatePart::Literal(_) => &[],
            TemplatePart::Expression(expression) => expression.variables.as_slice(),
        })
    }
}

impl FromStr for UriTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for UriTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UriTemplate").field(&self.text).finish()
    }
}

impl PartialEq for UriTemplate {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for UriTemplate {}

/// The value of one variable.
///
/// [`UriTemplate::expand`](UriTemplate::expand) accepts anything that converts into a value. Matches contain lists for
/// exploded variables (`{tags*}`). Associative arrays of RFC 6570 are not supported.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Value {
    /// A string, possibly empty.
    Text(String),
    /// A list of strings. An empty list counts as no value.
    List(Vec<String>),
}

impl Value {
    /// Returns the string; `None` for a list. Use it for variables without `*`.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::List(_) => None,
        }
    }

    /// Returns the items; a string is a list of one item. Use it for variables with `*`.
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

/// The decoded values that [`UriTemplate::matches`](UriTemplate::matches) found in a URI, by variable name.
///
/// Variables that are not in the URI are absent. Pass a reference to [`UriTemplate::expand`](UriTemplate::expand) to
/// build the URI again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captures {
    entries: Vec<(String, Value)>,
}

impl Captures {
    /// Returns the value of a variable. For strings, use [`text`](Self::text).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.entries.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Returns the value of a variable if it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_text()
    }

    /// Iterates over names and values, in template order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.entries.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// Returns the number of variables that have a value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if no variable has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn push(&mut self, name: &str, value: Value) {
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

#[cfg(test)]
mod tests;
