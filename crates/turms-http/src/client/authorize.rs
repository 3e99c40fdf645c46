//! The hook for authorization.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use turms_core::BoxFuture;
use url::Url;

/// What has credentials for a server: a fixed token, or somebody who can get one.
///
/// It is asked before each request and told when the server refuses one with 401 or 403. What it gives is sent to the
/// server's own origin and nowhere else.
///
/// A request does not wait for its authorizer longer than for anything else. One that asks a person should do so in a task of
/// its own, so that the next request finds what came of it.
pub trait Authorizer: Send + Sync + 'static {
    /// The headers that a request needs, which is `Authorization` as a rule. Empty if it needs none.
    ///
    /// # Errors
    /// When there are no credentials to be had, and the request would be pointless without.
    fn authorize<'a>(&'a self, request: &'a Authorizable<'a>) -> BoxFuture<'a, Result<HeaderMap, AuthorizeError>>;

    /// The server has refused a request with 401 or 403. Get other credentials and say whether to try again.
    ///
    /// # Errors
    /// When that failed, and why is worth telling.
    fn refused<'a>(&'a self, refusal: &'a Challenge) -> BoxFuture<'a, Result<Decision, AuthorizeError>>;
}

/// A request that is about to be sent.
#[derive(Debug)]
#[non_exhaustive]
pub struct Authorizable<'a> {
    /// Its method.
    pub method: &'a Method,
    /// Where it goes.
    pub url: &'a Url,
    /// Why this request was refused before, if it was.
    pub refusal: Option<&'a Challenge>,
}

/// How a server refused a request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Challenge {
    /// 401 or 403.
    pub status: StatusCode,
    /// All headers of the response, `WWW-Authenticate` among them.
    pub headers: HeaderMap,
    /// How often this request has been refused, this time included.
    pub times: u32,
}

impl Challenge {
    /// The values of `WWW-Authenticate`.
    pub fn challenges(&self) -> impl Iterator<Item = &HeaderValue> {
        self.headers.get_all(http::header::WWW_AUTHENTICATE).iter()
    }
}

/// What to do about a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// There are other credentials now. Nobody tries more than [three times](Challenge::times).
    TryAgain,
    /// The refusal stands.
    GiveUp,
}

/// Why there are no credentials.
#[derive(Debug, Clone)]
pub struct AuthorizeError(Arc<dyn Error + Send + Sync>);

impl AuthorizeError {
    /// For this reason.
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

/// A bearer token that never changes.
#[derive(Clone)]
pub struct BearerToken(HeaderValue);

impl BearerToken {
    /// This token.
    ///
    /// # Errors
    /// When it holds what a header cannot.
    pub fn new(token: impl AsRef<str>) -> Result<Self, AuthorizeError> {
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.as_ref()))
            .map_err(|_| AuthorizeError::new("the token holds characters that a header cannot"))?;
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
