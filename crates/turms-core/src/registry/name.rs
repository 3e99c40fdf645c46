use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytestring::ByteString;

/// The name of a service: 1 to 128 ASCII letters, digits and `_ - . : /`, so that it can be part of an address.
///
/// ```
/// # use turms_core as turms;
/// use turms::registry::ServiceName;
///
/// assert_eq!(ServiceName::new("tools/clock:v2")?.as_str(), "tools/clock:v2");
/// assert!(ServiceName::new("a clock").is_err());
/// # Ok::<(), turms_core::registry::ServiceNameError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(ByteString);

impl ServiceName {
    /// Maximum length of a name in bytes: 128.
    pub const MAX_LEN: usize = 128;

    /// Creates a name.
    ///
    /// # Errors
    /// If it is empty, too long, or has a character that is not allowed.
    pub fn new(name: impl Into<String>) -> Result<Self, ServiceNameError> {
        let name = ByteString::from(name.into());
        match name.len() {
            0 => return Err(ServiceNameError::Empty),
            len if len > Self::MAX_LEN => return Err(ServiceNameError::TooLong { len }),
            _ => {}
        }
        match name.chars().find(|character| !is_allowed(*character)) {
            Some(character) => Err(ServiceNameError::Character { name: String::from(&*name), character }),
            None => Ok(Self(name)),
        }
    }

    /// The name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | ':' | '/')
}

impl FromStr for ServiceName {
    type Err = ServiceNameError;

    fn from_str(name: &str) -> Result<Self, ServiceNameError> {
        Self::new(name)
    }
}

/// Allows to look up a name in a map by a string.
impl Borrow<str> for ServiceName {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for ServiceName {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for ServiceName {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Error for an invalid name of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceNameError {
    /// The name is empty.
    #[error("invalid service name: it is empty")]
    Empty,
    /// The name is too long.
    #[error("invalid service name: {len} bytes, more than the limit of {}", ServiceName::MAX_LEN)]
    TooLong {
        /// The length in bytes.
        len: usize,
    },
    /// The name has a character that is not allowed.
    #[error("invalid service name {name:?}: {character:?} is not allowed; use ASCII letters, digits and _ - . : /")]
    Character {
        /// The invalid name.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_some_punctuation() {
        for name in ["a", "Z9", "tools/clock:v2", "a-b_c.d", "/", &"x".repeat(128)] {
            assert_eq!(ServiceName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn an_invalid_name_is_explained() {
        let problem = |name: &str| ServiceName::new(name).unwrap_err().to_string();
        assert_eq!(problem(""), "invalid service name: it is empty");
        assert_eq!(problem(&"x".repeat(129)), "invalid service name: 129 bytes, more than the limit of 128");
        assert_eq!(
            problem("a clock"),
            r#"invalid service name "a clock": ' ' is not allowed; use ASCII letters, digits and _ - . : /"#
        );
        for name in ["*", ">", "é", "a\n", "a\0", "$a"] {
            assert!(matches!(ServiceName::new(name), Err(ServiceNameError::Character { .. })), "{name:?}");
        }
    }
}
