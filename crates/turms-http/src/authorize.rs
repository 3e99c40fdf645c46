//! Authorization of the requests of clients: the [`Authorizer`], its types, and the loop of attempts that HTTP and WebSocket share.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use smallvec::{SmallVec, smallvec};
use turms_core::BoxFuture;
use turms_proto::format_duration;
use url::Url;

use crate::challenge::Challenge;

/// A source of credentials for the requests of a client, such as a fixed token or an OAuth client.
///
/// It is called before each request, and when the server rejects a request with 401 or 403. Its headers are only sent to the
/// server's origin. Redirects are authorized again, with their own URL.
///
/// The timeouts of a request and of connecting do not run while the authorizer works, so that it can ask the user to log in. It must
/// have timeouts of its own; a connector gives up after its `authorize_timeout`. Its futures are dropped when a request is
/// cancelled: work that must not be lost, such as a refresh of a token, belongs in a task.
///
/// ```
/// use http::HeaderValue;
/// # mod turms { pub use turms_core as layer; pub use turms_http as http; }
/// use turms::http::{AuthorizeError, AuthorizeRequest, Authorizer, Credentials, Decision, UnauthorizedResponse};
/// use turms::layer::BoxFuture;
///
/// /// An API key from the environment.
/// struct EnvironmentKey;
///
/// impl Authorizer for EnvironmentKey {
///     fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
///         Box::pin(async {
///             let key = std::env::var("API_KEY").map_err(|_| AuthorizeError::new("API_KEY is not set"))?;
///             let value = HeaderValue::try_from(key).map_err(|_| AuthorizeError::new("API_KEY is not a header value"))?;
///             Ok(Credentials::none().header(http::HeaderName::from_static("x-api-key"), value))
///         })
///     }
///
///     fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
///         Box::pin(std::future::ready(Ok(Decision::Fail)))
///     }
/// }
/// ```
#[doc(alias = "oauth")]
#[doc(alias = "token")]
#[doc(alias = "auth")]
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the authorizer for one server. Called once per connector, with the URL of its server. Default: `None`; this authorizer
    /// is used.
    fn for_server(&self, url: &Url) -> Option<Arc<dyn Authorizer>> {
        let _ = url;
        None
    }

    /// Returns the credentials for a request if they are available without waiting. Default: `None`; then
    /// [`authorize`](Self::authorize) is called.
    fn cached(&self, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        let _ = request;
        None
    }

    /// Returns the credentials for a request. Empty if it needs none.
    ///
    /// # Errors
    /// When there are no credentials, and the request would fail without them.
    fn authorize<'a>(&'a self, request: &'a AuthorizeRequest<'a>)
    -> BoxFuture<'a, Result<Credentials, AuthorizeError>>;

    /// Called when the server rejected a request with 401 or 403. Obtains other credentials and decides about a retry.
    ///
    /// # Errors
    /// When other credentials could not be obtained.
    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>>;

    /// Called with the head of every other response if [`observes_responses`](Self::observes_responses), such as for its
    /// `DPoP-Nonce`. Must not block.
    fn responded(&self, response: &AuthorizedResponse<'_>) {
        let _ = response;
    }

    /// Returns `true` to be called with [responses](Self::responded). Asked once per connector. Default: `false`.
    fn observes_responses(&self) -> bool {
        false
    }
}

impl<A: Authorizer + ?Sized> Authorizer for Arc<A> {
    fn for_server(&self, url: &Url) -> Option<Arc<dyn Authorizer>> {
        (**self).for_server(url)
    }

    fn cached(&self, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        (**self).cached(request)
    }

    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizeRequest<'a>,
    ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        (**self).authorize(request)
    }

    fn rejected<'a>(&'a self, response: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        (**self).rejected(response)
    }

    fn responded(&self, response: &AuthorizedResponse<'_>) {
        (**self).responded(response);
    }

    fn observes_responses(&self) -> bool {
        (**self).observes_responses()
    }
}

/// A request that is about to be sent.
#[non_exhaustive]
pub struct AuthorizeRequest<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// URL of the request: with the scheme `http` or `https`, also for WebSocket.
    pub url: &'a Url,
    /// Purpose of the request.
    pub purpose: RequestPurpose,
    /// Number of the attempt, starting at 0. Redirects count, too.
    pub attempt: u32,
}

impl<'a> AuthorizeRequest<'a> {
    /// Creates the first attempt of a call, for tests of authorizers.
    #[must_use]
    pub fn new(method: &'a Method, url: &'a Url) -> Self {
        Self { method, url, purpose: RequestPurpose::Call, attempt: 0 }
    }
}

/// Shows the origin of the URL only: its path and query may contain a secret.
impl fmt::Debug for AuthorizeRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizeRequest")
            .field("method", self.method)
            .field("server", &self.url.origin().ascii_serialization())
            .field("purpose", &self.purpose)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

/// Purpose of a request. Only a [`Call`](Self::Call) may ask the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RequestPurpose {
    /// A request that a caller waits for, such as a call or connecting.
    Call,
    /// A request in the background, such as an event stream or a reconnection.
    Stream,
    /// The end of a session.
    Close,
}

/// Credentials for one request: usually an `Authorization` header.
///
/// A clone is cheap, and up to two headers need no allocation. Values are marked as sensitive.
#[derive(Clone, Default)]
pub struct Credentials {
    headers: SmallVec<[(HeaderName, HeaderValue); 2]>,
    serial: Option<u64>,
}

impl Credentials {
    /// Creates credentials without a header, for a request that needs none.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates credentials from the value of `Authorization`.
    #[must_use]
    pub fn new(mut authorization: HeaderValue) -> Self {
        authorization.set_sensitive(true);
        Self { headers: smallvec![(AUTHORIZATION, authorization)], serial: None }
    }

    /// Adds a header, such as `DPoP`. It replaces headers of this name in the request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        self.headers.push((name, value));
        self
    }

    /// Sets the serial number, which [`UnauthorizedResponse::sent`] contains if the server rejects the credentials. Of many requests
    /// that were rejected with the same credentials, only one needs to renew them.
    #[must_use]
    pub fn serial(mut self, serial: u64) -> Self {
        self.serial = Some(serial);
        self
    }

    /// Returns the serial number.
    #[must_use]
    pub fn get_serial(&self) -> Option<u64> {
        self.serial
    }

    /// Iterates over the headers.
    pub fn headers(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.headers.iter().map(|(name, value)| (name, value))
    }

    /// Adds the headers to those of a request. Headers of the same name are replaced.
    pub fn apply(self, headers: &mut HeaderMap) {
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
    }
}

/// Shows the names of the headers only.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Credentials").field("headers", &names).field("serial", &self.serial).finish()
    }
}

/// The rejection of a request with 401 or 403.
#[derive(Clone)]
#[non_exhaustive]
pub struct UnauthorizedResponse {
    /// HTTP status: 401 or 403.
    pub status: StatusCode,
    /// Headers of the response, including `WWW-Authenticate`.
    pub headers: HeaderMap,
    /// HTTP method of the request.
    pub method: Method,
    /// URL of the request.
    pub url: Url,
    /// Purpose of the request.
    pub purpose: RequestPurpose,
    /// Serial number of the credentials that were rejected.
    pub sent: Option<u64>,
    /// `true` if the request had an `Authorization` header.
    pub was_authorized: bool,
    /// Number of rejections of this request, starting at 1.
    pub rejections: u32,
}

impl UnauthorizedResponse {
    /// Creates the first rejection of a call without credentials, for tests of authorizers.
    #[must_use]
    pub fn new(status: StatusCode, headers: HeaderMap, method: Method, url: Url) -> Self {
        let purpose = RequestPurpose::Call;
        Self { status, headers, method, url, purpose, sent: None, was_authorized: false, rejections: 1 }
    }

    /// Parses the challenges of all `WWW-Authenticate` headers.
    #[must_use]
    pub fn challenges(&self) -> Vec<Challenge> {
        Challenge::of_headers(&self.headers)
    }
}

/// Shows the origin of the URL, the challenges and no other headers: they may contain a secret.
impl fmt::Debug for UnauthorizedResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnauthorizedResponse")
            .field("status", &self.status)
            .field("challenges", &self.challenges())
            .field("method", &self.method)
            .field("server", &self.url.origin().ascii_serialization())
            .field("purpose", &self.purpose)
            .field("sent", &self.sent)
            .field("rejections", &self.rejections)
            .finish_non_exhaustive()
    }
}

/// The head of a response that is not a rejection of credentials.
#[non_exhaustive]
pub struct AuthorizedResponse<'a> {
    /// URL of the request.
    pub url: &'a Url,
    /// HTTP status.
    pub status: StatusCode,
    /// Headers of the response.
    pub headers: &'a HeaderMap,
}

impl<'a> AuthorizedResponse<'a> {
    /// Creates the head of a response, for tests of authorizers.
    #[must_use]
    pub fn new(url: &'a Url, status: StatusCode, headers: &'a HeaderMap) -> Self {
        Self { url, status, headers }
    }
}

/// Shows the status and the origin of the URL only.
impl fmt::Debug for AuthorizedResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizedResponse")
            .field("server", &self.url.origin().ascii_serialization())
            .field("status", &self.status)
            .finish_non_exhaustive()
    }
}

/// Decision about a rejected request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Retry with other credentials. At most three times per request.
    Retry,
    /// Retry with the nonce of the response (RFC 9449, section 9). Does not count as a retry, but is not granted twice in a row.
    RetryWithNonce,
    /// Fail the request.
    Fail,
}

/// Error for missing credentials.
#[derive(Debug, Clone)]
pub struct AuthorizeError {
    reason: Arc<dyn Error + Send + Sync>,
    transient: bool,
}

impl AuthorizeError {
    /// Creates an error with a reason, such as a login that the user cancelled. It is final: clients do not reconnect after it.
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { reason: Arc::from(reason.into()), transient: false }
    }

    /// Marks the error as transient, such as for an authorization server that cannot be reached. Clients may reconnect after it.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.transient = true;
        self
    }

    /// Returns `true` if another attempt may succeed without the user.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        self.transient
    }

    /// Returns the reason, if it is of this type.
    #[must_use]
    pub fn downcast_ref<E: Error + 'static>(&self) -> Option<&E> {
        self.reason.downcast_ref()
    }
}

impl fmt::Display for AuthorizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl Error for AuthorizeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.reason.source()
    }
}

turms_core::__internal::into_error! {
    Other: AuthorizeError,
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
    fn cached(&self, _: &AuthorizeRequest<'_>) -> Option<Credentials> {
        Some(Credentials::new(self.0.clone()))
    }

    fn authorize<'a>(&'a self, _: &'a AuthorizeRequest<'a>) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
        Box::pin(std::future::ready(Ok(Credentials::new(self.0.clone()))))
    }

    fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
        Box::pin(std::future::ready(Ok(Decision::Fail)))
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

/// The authorizer of one connector.
#[derive(Clone)]
pub struct ServerAuthorizer {
    authorizer: Arc<dyn Authorizer>,
    observes_responses: bool,
    /// Timeout for one call of the authorizer.
    timeout: Duration,
}

impl ServerAuthorizer {
    /// The timeout, unless it is set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);

    /// Asks the authorizer for that of the server at `url`.
    pub fn new(authorizer: impl Authorizer, url: &Url) -> Self {
        let authorizer = authorizer.for_server(url).unwrap_or_else(|| Arc::new(authorizer));
        Self { observes_responses: authorizer.observes_responses(), authorizer, timeout: Self::DEFAULT_TIMEOUT }
    }

    /// Sets the timeout for one call of the authorizer.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Reports the head of a response, unless it rejects the credentials.
    pub fn responded(&self, url: &Url, status: StatusCode, headers: &HeaderMap) {
        if self.observes_responses && !is_rejection(status) {
            self.authorizer.responded(&AuthorizedResponse { url, status, headers });
        }
    }

    async fn in_time<T>(&self, work: BoxFuture<'_, Result<T, AuthorizeError>>) -> Result<T, AuthorizeError> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or_else(|_| {
            Err(AuthorizeError::new(format!("the authorizer did not finish within {}", format_duration(self.timeout))))
        })
    }
}

impl fmt::Debug for ServerAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAuthorizer").finish_non_exhaustive()
    }
}

/// Returns `true` for a status that goes to [`Authorizer::rejected`].
#[must_use]
pub fn is_rejection(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

/// Maximum number of retries of one request with other credentials.
const MAX_RETRIES: u32 = 3;

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// The attempts to send one request with credentials.
#[derive(Debug)]
pub struct AuthorizeAttempts<'a> {
    server: Option<&'a ServerAuthorizer>,
    method: &'a Method,
    purpose: RequestPurpose,
    attempt: u32,
    sent: Option<u64>,
    rejections: u32,
    retries: u32,
    /// `true` if the last rejection was retried with a nonce.
    has_nonce: bool,
}

impl<'a> AuthorizeAttempts<'a> {
    /// Creates the attempts of a request; without an authorizer there are no credentials.
    #[must_use]
    pub fn new(server: Option<&'a ServerAuthorizer>, method: &'a Method, purpose: RequestPurpose) -> Self {
        Self { server, method, purpose, attempt: 0, sent: None, rejections: 0, retries: 0, has_nonce: false }
    }

    /// Returns the credentials for the next attempt, if they are available without waiting.
    pub fn cached(&mut self, url: &Url) -> Option<Credentials> {
        let Some(server) = self.server else { return Some(Credentials::none()) };
        let credentials = server.authorizer.cached(&self.request(url))?;
        Some(self.record(credentials))
    }

    /// Returns the credentials for the next attempt.
    pub async fn authorize(&mut self, url: &Url) -> Result<Credentials, AuthorizeError> {
        let Some(server) = self.server else { return Ok(Credentials::none()) };
        let request = self.request(url);
        let credentials = server.in_time(server.authorizer.authorize(&request)).await?;
        Ok(self.record(credentials))
    }

    /// Reports a rejection. Returns `true` for a retry.
    pub async fn rejected(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        url: &Url,
        was_authorized: bool,
    ) -> Result<bool, AuthorizeError> {
        self.rejections += 1;
        let may_retry = self.retries < MAX_RETRIES;
        let may_use_nonce = !self.has_nonce;
        let Some(server) = self.server else { return Ok(false) };
        // After the last retry, only a nonce helps: the authorizer must not ask the user for nothing.
        let may_help = may_retry || (may_use_nonce && headers.contains_key(DPOP_NONCE));
        if !may_help {
            return Ok(false);
        }
        let response = UnauthorizedResponse {
            status,
            headers: headers.clone(),
            method: self.method.clone(),
            url: url.clone(),
            purpose: self.purpose,
            sent: self.sent,
            was_authorized,
            rejections: self.rejections,
        };
        let decision = server.in_time(server.authorizer.rejected(&response)).await?;
        self.has_nonce = decision == Decision::RetryWithNonce;
        if self.has_nonce {
            // It does not reject the token.
            self.rejections -= 1;
        }
        Ok(match decision {
            Decision::Retry => {
                self.retries += 1;
                may_retry
            }
            Decision::RetryWithNonce => may_use_nonce,
            Decision::Fail => false,
        })
    }

    fn request<'r>(&self, url: &'r Url) -> AuthorizeRequest<'r>
    where
        'a: 'r,
    {
        AuthorizeRequest { method: self.method, url, purpose: self.purpose, attempt: self.attempt }
    }

    fn record(&mut self, credentials: Credentials) -> Credentials {
        self.sent = credentials.serial;
        self.attempt += 1;
        credentials
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_show_no_value() {
        let value = |text| HeaderValue::from_static(text);
        let credentials = Credentials::new(value("Bearer s3cret")).header(DPOP_NONCE, value("n0nce")).serial(7);
        assert_eq!(
            format!("{credentials:?}"),
            r#"Credentials { headers: ["authorization", "dpop-nonce"], serial: Some(7) }"#
        );
        assert_eq!(credentials.get_serial(), Some(7));
        assert!(!credentials.headers.spilled());
        assert!(credentials.headers().all(|(_, value)| value.is_sensitive()));
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, value("Basic old"))]);
        credentials.apply(&mut headers);
        assert_eq!((headers.len(), headers[AUTHORIZATION].as_bytes()), (2, &b"Bearer s3cret"[..]));
    }

    #[test]
    fn secrets_of_the_url_and_of_headers_are_not_shown() {
        let url = Url::parse("https://example.com/s3cret?key=s3cret").unwrap();
        let headers = HeaderMap::from_iter([(http::header::SET_COOKIE, HeaderValue::from_static("s3cret"))]);
        let response = UnauthorizedResponse::new(StatusCode::FORBIDDEN, headers.clone(), Method::GET, url.clone());
        let request = AuthorizeRequest::new(&Method::GET, &url);
        let authorized = AuthorizedResponse::new(&url, StatusCode::OK, &headers);
        for shown in [format!("{request:?}"), format!("{response:?}"), format!("{authorized:?}")] {
            assert!(shown.contains("https://example.com") && !shown.contains("s3cret"), "{shown}");
        }
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        struct NoCredentials;
        impl Authorizer for NoCredentials {
            fn authorize<'a>(
                &'a self,
                _: &'a AuthorizeRequest<'a>,
            ) -> BoxFuture<'a, Result<Credentials, AuthorizeError>> {
                Box::pin(async { Ok(Credentials::default()) })
            }
            fn rejected<'a>(&'a self, _: &'a UnauthorizedResponse) -> BoxFuture<'a, Result<Decision, AuthorizeError>> {
                Box::pin(async { Ok(Decision::Fail) })
            }
        }
        let url = Url::parse("https://example.com/mcp").unwrap();
        let request = AuthorizeRequest::new(&Method::POST, &url);
        let code = [
            ("Authorizer::for_server", when(NoCredentials.for_server(&url).is_none(), "`None`")),
            ("Authorizer::cached", when(NoCredentials.cached(&request).is_none(), "`None`")),
            ("Authorizer::observes_responses", when(!NoCredentials.observes_responses(), "`false`")),
        ];
        assert_documented(include_str!("authorize.rs"), &code);
    }
}
