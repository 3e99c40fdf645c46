//! The issuers of tokens, and the ways to verify their tokens.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use turms_core::BoxFuture;

use crate::jws::{Algorithm, Jwk, JwkSet, Jws};
use crate::metadata::Introspection;
use crate::secret::Secret;

/// Maximum number of keys that a token without a key id is tried with.
const MAX_TRIED_KEYS: usize = 8;

/// An issuer of tokens that a [`TokenGuard`](super::TokenGuard) accepts.
///
/// A signed token (JWT) names its issuer by the claim `iss`, which must equal the identifier exactly. If the guard does not have an
/// issuer with this identifier, the token is refused without a request. All other tokens are opaque: they are verified by the issuers
/// with introspection and custom verifiers, in the order in which they were added, until one knows the token.
pub struct Issuer {
    pub(super) identifier: Option<String>,
    pub(super) source: IssuerSource,
}

pub(super) enum IssuerSource {
    Keys(JwkSet),
    #[cfg(feature = "remote")]
    Discover,
    #[cfg(feature = "remote")]
    KeyUrl(String),
    #[cfg(feature = "remote")]
    Introspect {
        url: String,
        client_id: String,
        secret: Secret,
    },
    Custom(Arc<dyn Verifier>),
}

impl Issuer {
    /// Creates an issuer of signed tokens with keys at hand.
    pub fn keys(issuer: impl Into<String>, keys: JwkSet) -> Self {
        Self::new(issuer, IssuerSource::Keys(keys))
    }

    /// Creates an issuer of signed tokens with keys that its metadata names (RFC 8414 or OpenID Connect Discovery).
    #[cfg(feature = "remote")]
    pub fn discover(issuer: impl Into<String>) -> Self {
        Self::new(issuer, IssuerSource::Discover)
    }

    /// Creates an issuer of signed tokens with keys at a URL.
    #[cfg(feature = "remote")]
    pub fn jwks_uri(issuer: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(issuer, IssuerSource::KeyUrl(url.into()))
    }

    /// Creates an issuer of tokens that are verified by its introspection endpoint (RFC 7662). The guard authenticates with a client id
    /// and a secret.
    #[cfg(feature = "remote")]
    pub fn introspect(
        issuer: impl Into<String>,
        url: impl Into<String>,
        client_id: impl Into<String>,
        secret: impl Into<Secret>,
    ) -> Self {
        let source = IssuerSource::Introspect { url: url.into(), client_id: client_id.into(), secret: secret.into() };
        Self::new(issuer, source)
    }

    /// Creates an issuer of tokens that your code verifies.
    pub fn custom(issuer: impl Into<String>, verifier: impl Verifier) -> Self {
        Self::new(issuer, IssuerSource::Custom(Arc::new(verifier)))
    }

    /// Creates a source of opaque tokens without an authorization server, such as API keys, that your code verifies. Its principals have
    /// no issuer.
    pub fn without_identifier(verifier: impl Verifier) -> Self {
        Self { identifier: None, source: IssuerSource::Custom(Arc::new(verifier)) }
    }

    fn new(issuer: impl Into<String>, source: IssuerSource) -> Self {
        Self { identifier: Some(issuer.into()), source }
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuer").field("identifier", &self.identifier).finish_non_exhaustive()
    }
}

/// Verifies tokens that are not signed, or not signed with public keys. Implemented for async functions of a
/// [`Secret`].
///
/// The result has the form of an introspection response. As from other sources, `aud` must contain the resource, `exp` is required,
/// and `sub` or `client_id`. Results are cached as those of introspection. Calls have no timeout of their own.
///
/// ```
/// use serde_json::json;
/// use turms_oauth::{Introspection, Issuer, Secret, VerifyError};
///
/// async fn verify(token: Secret) -> Result<Introspection, VerifyError> {
///     if token != Secret::new("key-of-ann") {
///         return Ok(Introspection::inactive());
///     }
///     let claims = json!({ "sub": "ann", "aud": "https://notes.example.com/mcp", "exp": 4102444800u64, "scope": "notes:read" });
///     Ok(Introspection::active(claims.as_object().cloned().unwrap_or_default()))
/// }
/// let issuer = Issuer::without_identifier(verify);
/// ```
pub trait Verifier: Send + Sync + 'static {
    /// Verifies a token.
    ///
    /// # Errors
    /// If the token cannot be verified at the moment. The request is refused with status 503.
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Introspection, VerifyError>>;
}

impl<F, R> Verifier for F
where
    F: Fn(Secret) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Introspection, VerifyError>> + Send + 'static,
{
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Introspection, VerifyError>> {
        Box::pin(self(Secret::new(token)))
    }
}

/// Error of a [`Verifier`]: the token cannot be verified at the moment.
#[derive(Debug, thiserror::Error)]
#[error("cannot verify a token")]
pub struct VerifyError(#[source] Box<dyn Error + Send + Sync>);

impl VerifyError {
    /// Creates an error. The message must not contain the token.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// Returns the keys for a token: those with its key id, or all if it has none. Their type must fit the algorithm.
pub(super) fn fitting<'a>(
    keys: &'a [Jwk],
    kid: Option<&'a str>,
    algorithm: Algorithm,
) -> impl Iterator<Item = &'a Jwk> {
    let has_id = move |key: &&Jwk| kid.is_none() || key.kid.as_deref() == kid;
    keys.iter().filter(has_id).filter(move |key| key.supports(algorithm))
}

/// Returns `true` if one of the keys verifies a token.
pub(crate) fn is_signed(jws: &Jws<'_>, keys: &[Jwk]) -> bool {
    let fitting = fitting(keys, jws.header("kid"), jws.algorithm());
    fitting.take(MAX_TRIED_KEYS).any(|key| jws.verify(key).is_ok())
}
