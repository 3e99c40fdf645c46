/// The authenticated caller, set by middleware that checks tokens.
#[doc(alias = "user")]
#[doc(alias = "identity")]
#[doc(alias = "access_token")]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// The unique id of the caller.
    pub subject: String,
    /// The scopes that the caller has.
    pub scopes: Vec<String>,
}

impl From<&str> for Principal {
    fn from(subject: &str) -> Self {
        Self::new(subject)
    }
}

impl Principal {
    /// Creates a principal without scopes.
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), scopes: Vec::new() }
    }

    /// Sets the scopes.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Returns `true` if the caller has this scope.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|own| own == scope)
    }
}
