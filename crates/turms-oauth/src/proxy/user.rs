//! People: as the provider knows them, and as tokens name them.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::server::claims::Claims;

/// A person who has logged in at the provider.
#[derive(Clone)]
pub struct UpstreamUser {
    subject: String,
    claims: Claims,
}

impl UpstreamUser {
    pub(super) fn new(subject: String, claims: Claims) -> Self {
        Self { subject, claims }
    }

    /// Returns the id of the person, which is unique at the provider.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Decodes a claim of the ID token, or a member of the user information, such as `email`. `None` if it is absent or of another type.
    #[must_use]
    pub fn claim<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        T::deserialize(self.claims.get(name)?).ok()
    }
}

/// Shows only the subject.
impl fmt::Debug for UpstreamUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamUser").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// A person as tokens of the proxy name them.
#[derive(Clone)]
#[must_use]
pub struct ProxyUser {
    pub(super) subject: String,
    pub(super) claims: Claims,
    pub(super) scopes: Option<Vec<String>>,
}

impl ProxyUser {
    /// Creates a user with a subject, who may have all scopes.
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), claims: Claims::new(), scopes: None }
    }

    /// Adds a claim to tokens, such as `email`. Clients can read it. Default: none.
    ///
    /// # Panics
    /// If the value cannot be written as JSON.
    pub fn claim(mut self, name: impl Into<String>, value: impl Serialize) -> Self {
        let value: Value = serde_json::to_value(value).expect("claims are JSON");
        self.claims.insert(name.into(), value);
        self
    }

    /// Sets the scopes that the user may have. A login that asks for others gets only these. Default: all.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }
}

/// Shows no claims.
impl fmt::Debug for ProxyUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyUser")
            .field("subject", &self.subject)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = ProxyUser::new("ann");
        let code = [
            ("ProxyUser::claim", when(it.claims.is_empty(), "none")),
            ("ProxyUser::scopes", when(it.scopes.is_none(), "all")),
        ];
        assert_documented(include_str!("user.rs"), &code);
    }
}
