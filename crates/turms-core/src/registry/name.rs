use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use bytestring::ByteString;

/// The name of a service: 1 to 128 letters, digits and `_ - . : /`.
///
/// Letters and digits are those of ASCII, so that a name can be part of an address wherever a registry keeps it.
///
/// ```
/// use turms_core::registry::ServiceName;
///
/// assert_eq!(ServiceName::new("tools/clock:v2")?.as_str(), "tools/clock:v2");
/// assert!(ServiceName::new("a clock").is_err());
/// # Ok::<(), turms_core::registry::InvalidName>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(ByteString);

impl ServiceName {
    /// How long a name can be.
    pub const MAX_LEN: usize = 128;

    /// A name, if that is what it is.
    ///
    /// # Errors
    /// When it is empty, too long, or has characters that names do not have.
    pub fn new(name: impl Into<ByteString>) -> Result<Self, InvalidName> {
        let name = name.into();
        match name.len() {
            0 => return Err(InvalidName::Empty),
            len if len > Self::MAX_LEN => return Err(InvalidName::TooLong { len }),
            _ => {}
        }
        match name.chars().find(|character| !is_allowed(*character)) {
            Some(character) => Err(InvalidName::Character { name: String::from(&*name), character }),
            None => Ok(Self(name)),
        }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_allowed(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.' | ':' | '/')
}

impl FromStr for ServiceName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::new(name)
    }
}

/// Lets a name be looked up in a map as text.
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

/// Why something is not the name of a service.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// There is nothing.
    #[error("the name of a service cannot be empty")]
    Empty,
    /// There is too much.
    #[error("the name of a service can have {} bytes, not {len}", ServiceName::MAX_LEN)]
    TooLong {
        /// How many bytes there are.
        len: usize,
    },
    /// Something in it is not allowed.
    #[error("service {name:?}: {character:?} cannot be in a name, only letters, digits and _ - . : /")]
    Character {
        /// What was to be a name.
        name: String,
        /// The first character that is not allowed.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_letters_digits_and_a_few_marks() {
        for name in ["a", "Z9", "tools/clock:v2", "a-b_c.d", "/", &"x".repeat(128)] {
            assert_eq!(ServiceName::new(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn what_is_no_name_says_why() {
        let problem = |name: &str| ServiceName::new(name).unwrap_err().to_string();
        assert_eq!(problem(""), "the name of a service cannot be empty");
        assert_eq!(problem(&"x".repeat(129)), "the name of a service can have 128 bytes, not 129");
        assert_eq!(
            problem("a clock"),
            r#"service "a clock": ' ' cannot be in a name, only letters, digits and _ - . : /"#
        );
        for name in ["*", ">", "é", "a\n", "a\0", "$a"] {
            assert!(matches!(ServiceName::new(name), Err(InvalidName::Character { .. })), "{name:?}");
        }
    }
}
