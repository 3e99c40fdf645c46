//! The hook for authorization.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use turms_core::BoxFuture;
use url::Url;

/// A source of credentials for a server, such as a fixed token or an OAuth client.
///
/// It is called before each request, and when the server rejects a request with 401 or 403. Its headers are only sent to the
/// server's origin.
///
/// The timeout of a request includes the authorizer. An authorizer that needs the user should run in its own task, so that a later
/// request uses the result.
#[doc(alias = "oauth")]
#[doc(alias = "token")]
#[doc(alias = "auth")]
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the headers for a request, usually `Authorization`. Empty if it needs none.
    ///
    /// # Errors
    /// When there are no credentials, and the request would fail without them.
    fn authorize<'a>(&'a self, request: &'a Authorizable<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthorizeError>>;

    /// Called when the server rejected a request with 401 or 403. Obtains other credentials and decides about a retry.
    ///
    /// # Errors
    /// When other credentials could not be obtained.
    fn refused<'a>(&'a self, refusal: &'a Challenge) -> BoxFuture<'a, Result<Decision, AuthorizeError>>;
}

/// A request that is about to be sent.
#[derive(Debug)]
#[non_exhaustive]
pub struct Authorizable<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// URL of the request.
    pub url: &'a Url,
    /// The rejection of the previous attempt.
    pub refusal: Option<&'a Challenge>,
}

/// The rejection of a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Challenge {
    /// HTTP status: 401 or 403.
    pub status: StatusCode,
    /// Headers of the response, including `WWW-Authenticate`.
    pub headers: HeaderMap,
    /// Number of rejections of this request, starting at 1.
    pub times: u32,
}

impl Challenge {
    /// Iterates over the values of `WWW-Authenticate`.
    pub fn challenges(&self) -> impl Iterator<Item = &HeaderValue> {
        self.headers.get_all(http::header::WWW_AUTHENTICATE).iter()
    }
}

/// Decision about a rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Retry with other credentials. A request is retried at most [three times](Challenge::times).
    TryAgain,
    /// Fail the request.
    GiveUp,
}

/// Error for missing credentials.
#[derive(Debug, Clone)]
pub struct AuthorizeError(Arc<dyn Error + Send + Sync>);

impl AuthorizeError {
    /// Creates an error with a reason.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(Arc::from(reason.into()))
    }
}

impl fmt::Display for AuthorizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for AuthorizeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

/// A fixed bearer token.
#[doc(alias = "oauth")]
#[doc(alias = "token")]
#[doc(alias = "auth")]
#[derive(Clone)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// Creates the credentials from a token.
    ///
    /// # Errors
    /// When the token contains characters that are invalid in a header.
    pub fn new(token: impl AsRef<str>) -> Result<Self, AuthorizeError> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.as_ref()))
            .map_err(|_| AuthorizeError::new("the token contains characters that are invalid in a header"))?;
        value.set_sensitive(true);
        Ok(Self(value))
    }
}

impl Authorizer for BearerToken {
    fn authorize<'a>(&'a self, _: &'a Authorizable<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthorizeError>> {
        let headers = HeaderMap::from_iter([(http::header::AUTHORIZATION, self.0.clone())]);
        Box::pin(std::future::ready(Ok(headers)))
    }

    fn refused<'a>(&'a self, _: &'a Challenge) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(std::future::ready(Ok(Decision::GiveUp)))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}
