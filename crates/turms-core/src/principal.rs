/// Who a client has proved to be, as whatever checks tokens has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Principal {
    /// A name that is theirs alone.
    pub subject: String,
    /// What they may do.
    pub scopes: Vec<String>,
}

impl Principal {
    /// Somebody who may do nothing in particular.
    pub fn new(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), scopes: Vec::new() }
    }

    /// With what they may do.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Whether they may do this.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        self.scopes.iter().any(|own| own == scope)
    }
}
