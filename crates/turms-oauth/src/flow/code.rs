//! The authorization code flow.

use crate::secret::Secret;

/// The parameters of a callback: what the authorization server appends to the redirect URI.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Callback {
    /// The authorization code.
    pub code: Option<Secret>,
    /// The `state` of the request.
    pub state: Option<String>,
    /// The issuer.
    pub iss: Option<String>,
    /// The error code.
    pub error: Option<String>,
    /// The description of the error.
    pub error_description: Option<String>,
}
