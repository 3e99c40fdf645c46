//! Text that must not be shown or logged.

use std::fmt;

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// A token, password or key. `Debug` does not show it, its memory is overwritten when it is dropped, and it is compared in
/// constant time.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Self(Zeroizing::new(secret.into()))
    }

    /// Returns the secret itself.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the secret is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T: Into<String>> From<T> for Secret {
    fn from(secret: T) -> Self {
        Self::new(secret)
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// Serializes a secret, for the encrypted store and for requests. Not `Serialize`, so that no other value with a secret in it is
/// written by accident.
pub(crate) mod exposed {
    use serde::{Serialize as _, Serializer};

    use super::Secret;

    #[allow(dead_code, reason = "only some features write secrets")]
    pub(crate) fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        secret.expose().serialize(serializer)
    }

    pub(crate) mod option {
        use super::{Secret, Serializer};
        use serde::Serialize as _;

        #[allow(dead_code, reason = "only some features write secrets")]
        pub(crate) fn serialize<S: Serializer>(secret: &Option<Secret>, serializer: S) -> Result<S::Ok, S::Error> {
            secret.as_ref().map(Secret::expose).serialize(serializer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret:?} {:?}", Some(&secret)), "Secret(..) Some(Secret(..))");
        assert_eq!(secret.expose(), "hunter2");
    }

    #[test]
    fn secrets_are_compared_by_their_text() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("ab"));
    }
}
