//! [`MethodName`].

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use bytestring::ByteString;

/// Name of a method, such as `tools/call`.
///
/// Clones do not copy the text. It dereferences to `str`.
///
/// ```
/// use turms_proto::MethodName;
///
/// const PRICE: MethodName = MethodName::from_static("prices/get");
/// assert_eq!(PRICE, MethodName::from(String::from("prices/get")));
/// assert!(PRICE.starts_with("prices/"));
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodName(ByteString);

impl MethodName {
    /// Creates a name without copying it.
    #[must_use]
    pub const fn from_static(name: &'static str) -> Self {
        Self(ByteString::from_static(name))
    }

    /// Wraps a part of a message, and shares its buffer.
    pub(crate) fn shared(text: ByteString) -> Self {
        Self(text)
    }

    /// The name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for MethodName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Allows to look up a name in a map by a string.
impl Borrow<str> for MethodName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for MethodName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for MethodName {
    /// Copies the name; [`MethodName::from_static`] does not.
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for MethodName {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

impl PartialEq<str> for MethodName {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for MethodName {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&*self.0, f)
    }
}

impl fmt::Debug for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
