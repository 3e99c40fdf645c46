//! The only HTTP client of this crate: for metadata, keys and tokens at URLs that foreign documents name.

use std::error::Error;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde::de::DeserializeOwned;
use turms_http::__internal::{DialOptions, DialProtocol, Dialer};
use turms_proto::format_duration;
use url::Url;

use crate::network::{NetworkPolicy, is_loopback};

/// Default maximum size of a response body, in bytes.
const DEFAULT_MAX_RESPONSE_BYTES: usize = 256 * 1024;

/// Default maximum number of redirects of a GET.
const DEFAULT_MAX_REDIRECTS: usize = 3;

/// Default timeout of a request with its redirects.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
#[cfg(any(feature = "client", feature = "remote"))]
const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const AGENT: HeaderValue = HeaderValue::from_static(concat!("turms/", env!("CARGO_PKG_VERSION")));

/// The step of a flow that a request belongs to, for error messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FetchStep {
    /// A request to the MCP server, to learn what it requires.
    Server,
    /// Metadata of the protected resource (RFC 9728).
    ResourceMetadata,
    /// Metadata of the authorization server (RFC 8414, OpenID Connect Discovery).
    ServerMetadata,
    /// Dynamic registration (RFC 7591).
    Registration,
    /// The authorization endpoint, which a browser opens.
    Authorization,
    /// The token endpoint.
    Token,
    /// The token endpoint of the identity provider of an enterprise.
    IdentityProvider,
    /// The endpoint for device codes (RFC 8628).
    DeviceAuthorization,
    /// Revocation (RFC 7009).
    Revocation,
    /// Introspection (RFC 7662).
    Introspection,
    /// The keys of an issuer.
    Keys,
    /// A client ID metadata document.
    ClientDocument,
    /// User information of an upstream provider.
    UserInfo,
}

impl fmt::Display for FetchStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "response",
            Self::ResourceMetadata => "protected resource metadata",
            Self::ServerMetadata => "authorization server metadata",
            Self::Registration => "client registration",
            Self::Authorization => "authorization endpoint",
            Self::Token => "token request",
            Self::IdentityProvider => "token exchange with the identity provider",
            Self::DeviceAuthorization => "device authorization",
            Self::Revocation => "token revocation",
            Self::Introspection => "token introspection",
            Self::Keys => "keys of the issuer",
            Self::ClientDocument => "client metadata document",
            Self::UserInfo => "user information",
        })
    }
}

/// Error of a request to an authorization server or a metadata document. Shows the step and the origin, and never a path, a query,
/// a body or a token.
#[derive(Clone)]
pub struct FetchError {
    step: FetchStep,
    origin: String,
    kind: FetchErrorKind,
}

/// Reason of a [`FetchError`].
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum FetchErrorKind {
    /// The URL is invalid, has control characters, or has a user name.
    #[error("not a valid http:// or https:// URL")]
    Url,
    /// The URL has to begin with `https://`.
    #[error(
        "https is required; http is allowed for loopback if the MCP server itself is on loopback, and with allow_private_network"
    )]
    NotHttps,
    /// The address may not be connected to.
    #[error("the address {0} is not allowed; addresses of private networks need allow_private_network")]
    Address(std::net::IpAddr),
    /// The HTTP client cannot be set up.
    #[error("cannot set up the HTTP client: {0}")]
    Setup(String),
    /// There is no connection.
    #[error("cannot connect")]
    Connect(#[source] Arc<dyn Error + Send + Sync>),
    /// The connection closed before the end of the response.
    #[error("connection closed before the end of the response")]
    Closed(#[source] Arc<dyn Error + Send + Sync>),
    /// No response within the timeout.
    #[error("no response within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The response is too long.
    #[error("the response is longer than the limit of {0} bytes")]
    TooLarge(usize),
    /// A redirect that is not followed.
    #[error("redirect with status {0} is not followed")]
    Redirect(StatusCode),
    /// An error status.
    #[error("status {0}")]
    Status(StatusCode),
    /// The response is not JSON.
    #[error("the response is not JSON: content type {0:?}")]
    ContentType(String),
    /// The response is compressed, although that was not asked for.
    #[error("the response is compressed")]
    Compressed,
    /// The response is JSON of another form.
    #[error("the response is not valid: {0}")]
    Invalid(String),
}

/// Returns the origin of a URL. Empty if it has none.
fn origin_of(url: &str) -> String {
    match Url::parse(url) {
        Ok(url) if url.has_host() => url.origin().ascii_serialization(),
        _ => String::new(),
    }
}

fn at(origin: &str) -> String {
    if origin.is_empty() { String::new() } else { format!(" from {origin}") }
}

impl FetchError {
    /// Creates an error for a URL, of which only the origin is kept.
    pub(crate) fn new(step: FetchStep, url: &str, kind: FetchErrorKind) -> Self {
        Self { step, origin: origin_of(url), kind }
    }

    /// Returns the step that failed.
    #[must_use]
    pub fn step(&self) -> FetchStep {
        self.step
    }

    /// Returns the reason.
    #[must_use]
    pub fn kind(&self) -> &FetchErrorKind {
        &self.kind
    }

    /// Returns `true` if the same request may succeed later: no connection, a timeout, 429, or a status of 500 or more.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.kind {
            FetchErrorKind::Connect(_) | FetchErrorKind::Closed(_) | FetchErrorKind::Timeout(_) => true,
            FetchErrorKind::Status(status) => {
                status.is_server_error()
                    || matches!(*status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
            }
            _ => false,
        }
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.step, at(&self.origin), self.kind)
    }
}

impl Error for FetchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The message has that of the reason.
        self.kind.source()
    }
}

impl fmt::Debug for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&turms_core::__internal::error_chain(self))
    }
}

/// A response with its body.
#[derive(Clone)]
pub(crate) struct FetchResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    step: FetchStep,
    url: String,
}

impl FetchResponse {
    /// Decodes the body of a success.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        if !self.status.is_success() {
            return Err(self.status_error());
        }
        self.any_json()
    }

    fn media_type(&self) -> String {
        let content_type = self.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }

    /// Returns `true` if the content type is JSON.
    pub(crate) fn is_json(&self) -> bool {
        let media_type = self.media_type();
        media_type == "application/json" || (media_type.starts_with("application/") && media_type.ends_with("+json"))
    }

    /// Returns the origin of the URL.
    #[cfg(feature = "client")]
    pub(crate) fn origin(&self) -> String {
        origin_of(&self.url)
    }

    /// Decodes the body, whatever the status.
    pub(crate) fn any_json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        if !self.is_json() {
            let media_type = self.media_type().chars().take(64).collect();
            return Err(self.error(FetchErrorKind::ContentType(media_type)));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            // The message of serde may repeat values of the body.
            let place = format!("line {}, column {}", error.line(), error.column());
            self.error(FetchErrorKind::Invalid(match error.classify() {
                serde_json::error::Category::Data => format!("unexpected JSON at {place}"),
                _ => format!("invalid JSON at {place}"),
            }))
        })
    }

    /// Creates an error for the status.
    pub(crate) fn status_error(&self) -> FetchError {
        self.error(FetchErrorKind::Status(self.status))
    }

    pub(crate) fn error(&self, kind: FetchErrorKind) -> FetchError {
        FetchError::new(self.step, &self.url, kind)
    }
}

/// The HTTP client for metadata, keys and tokens. Cheap to clone; clones share connections.
///
/// The URLs of these requests are chosen by other servers, so each is checked: HTTPS only, and public addresses only, also after name
/// resolution and for each redirect. If the MCP server itself is on loopback, then loopback is allowed, too, with and without TLS.
/// Link-local addresses and metadata services of cloud providers are never connected to. Behind a proxy only schemes and hosts that are
/// addresses or names of this machine can be checked, because the proxy resolves other names.
///
/// Redirects of POST requests are not followed. Responses must be JSON and are not decompressed.
///
/// ```
/// use std::time::Duration;
/// use turms_oauth::Fetcher;
///
/// let server = "https://notes.example.com/mcp".parse()?;
/// let fetcher = Fetcher::for_server(&server).timeout(Duration::from_secs(5));
/// # Ok::<(), url::ParseError>(())
/// ```
#[derive(Clone)]
pub struct Fetcher(Arc<FetcherState>);

struct FetcherState {
    options: FetcherOptions,
    https: OnceLock<HyperClient>,
    http: OnceLock<HyperClient>,
}

#[derive(Clone)]
struct FetcherOptions {
    policy: NetworkPolicy,
    dial: DialOptions,
    timeout: Duration,
    max_response_bytes: usize,
    max_redirects: usize,
}

type HyperClient = Client<Dialer, Full<Bytes>>;

impl Fetcher {
    /// Creates a fetcher for the documents and endpoints of an MCP server. Only its host matters: it decides whether loopback is
    /// allowed.
    #[must_use]
    pub fn for_server(server: &Url) -> Self {
        Self::new(NetworkPolicy::of_server(server), DialOptions::new())
    }

    /// Creates a fetcher. `dial` has the proxies and certificates.
    pub(crate) fn new(policy: NetworkPolicy, dial: DialOptions) -> Self {
        Self::with_options(FetcherOptions {
            policy,
            dial,
            timeout: DEFAULT_TIMEOUT,
            max_response_bytes: DEFAULT_MAX_RESPONSE_BYTES,
            max_redirects: DEFAULT_MAX_REDIRECTS,
        })
    }

    fn with_options(options: FetcherOptions) -> Self {
        Self(Arc::new(FetcherState { options, https: OnceLock::new(), http: OnceLock::new() }))
    }

    fn change(&self, change: impl FnOnce(&mut FetcherOptions)) -> Self {
        let mut options = self.0.options.clone();
        change(&mut options);
        Self::with_options(options)
    }

    /// Allows private and loopback addresses, and HTTP without TLS to them. Default: no; loopback is allowed
    /// if the MCP server is on loopback.
    #[must_use]
    pub fn allow_private_network(self) -> Self {
        self.change(|options| options.policy = NetworkPolicy::Private)
    }

    /// Sets the timeout of a request with its redirects. Default: 10 s.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.change(|options| options.timeout = timeout)
    }

    /// Sets the maximum size of a response body in bytes. Default: 256 KiB.
    #[must_use]
    pub fn max_response_bytes(self, bytes: usize) -> Self {
        self.change(|options| options.max_response_bytes = bytes)
    }

    /// Sets the maximum number of redirects of a GET. Default: 3.
    #[must_use]
    pub fn max_redirects(self, redirects: usize) -> Self {
        self.change(|options| options.max_redirects = redirects)
    }

    /// Connects through this proxy, with its credentials in the URL, instead of those of the system.
    #[must_use]
    pub fn proxy(self, url: impl AsRef<str>) -> Self {
        self.change(|options| options.dial.set_proxy(url.as_ref()))
    }

    /// Connects without a proxy, instead of those of the system.
    #[must_use]
    pub fn no_proxy(self) -> Self {
        self.change(|options| options.dial.set_no_proxy())
    }

    /// Trusts the certificates of a PEM file in addition to those of the system.
    #[must_use]
    pub fn root_certificates(self, pem: impl AsRef<[u8]>) -> Self {
        self.change(|options| options.dial.add_root_certificates(pem.as_ref()))
    }

    /// Sends a GET, and follows redirects.
    pub(crate) async fn get(&self, step: FetchStep, url: &str) -> Result<FetchResponse, FetchError> {
        self.get_with(step, url, HeaderMap::new()).await
    }

    /// Sends a GET with headers, which are not sent to other origins.
    pub(crate) async fn get_with(
        &self,
        step: FetchStep,
        url: &str,
        headers: HeaderMap,
    ) -> Result<FetchResponse, FetchError> {
        self.in_time(step, url, self.follow(step, url, headers)).await
    }

    /// Sends a GET without following redirects: a client ID metadata document is at its own URL.
    #[cfg(feature = "server")]
    pub(crate) async fn get_direct(&self, step: FetchStep, url: &str) -> Result<FetchResponse, FetchError> {
        let work = async {
            let target = self.check(step, url)?;
            let response = self.send(step, &target, Method::GET, HeaderMap::new(), Bytes::new()).await?;
            if response.status.is_redirection() {
                return Err(response.error(FetchErrorKind::Redirect(response.status)));
            }
            Ok(response)
        };
        self.in_time(step, url, work).await
    }

    /// Posts a form. Redirects are not followed.
    #[cfg(any(feature = "client", feature = "remote"))]
    pub(crate) async fn post_form(
        &self,
        step: FetchStep,
        url: &str,
        form: &[(&str, &str)],
        mut headers: HeaderMap,
    ) -> Result<FetchResponse, FetchError> {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        headers.insert(CONTENT_TYPE, FORM);
        self.post(step, url, body.into(), headers).await
    }

    /// Posts JSON. Redirects are not followed.
    #[cfg(feature = "client")]
    pub(crate) async fn post_json(
        &self,
        step: FetchStep,
        url: &str,
        body: &impl serde::Serialize,
        mut headers: HeaderMap,
    ) -> Result<FetchResponse, FetchError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| FetchError::new(step, url, FetchErrorKind::Invalid(error.to_string())))?;
        headers.insert(CONTENT_TYPE, JSON);
        self.post(step, url, body.into(), headers).await
    }

    #[cfg(any(feature = "client", feature = "remote"))]
    async fn post(
        &self,
        step: FetchStep,
        url: &str,
        body: Bytes,
        headers: HeaderMap,
    ) -> Result<FetchResponse, FetchError> {
        let work = async {
            let target = self.check(step, url)?;
            let response = self.send(step, &target, Method::POST, headers, body).await?;
            if response.status.is_redirection() {
                return Err(response.error(FetchErrorKind::Redirect(response.status)));
            }
            Ok(response)
        };
        self.in_time(step, url, work).await
    }

    async fn in_time<T>(
        &self,
        step: FetchStep,
        url: &str,
        work: impl Future<Output = Result<T, FetchError>>,
    ) -> Result<T, FetchError> {
        let timeout = self.0.options.timeout;
        let late = |_| Err(FetchError::new(step, url, FetchErrorKind::Timeout(timeout)));
        tokio::time::timeout(timeout, work).await.unwrap_or_else(late)
    }

    async fn follow(&self, step: FetchStep, url: &str, mut headers: HeaderMap) -> Result<FetchResponse, FetchError> {
        let mut target = self.check(step, url)?;
        let mut last = StatusCode::FOUND;
        for _ in 0..=self.0.options.max_redirects {
            let response = self.send(step, &target, Method::GET, headers.clone(), Bytes::new()).await?;
            if !matches!(response.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
                return Ok(response);
            }
            last = response.status;
            let location = response.headers.get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| target.join(location).ok());
            let next = next.ok_or_else(|| response.error(FetchErrorKind::Redirect(response.status)))?;
            let next = self.check(step, next.as_str())?;
            if next.origin() != target.origin() {
                headers.clear();
            }
            target = next;
        }
        Err(FetchError::new(step, url, FetchErrorKind::Redirect(last)))
    }

    /// Returns `true` if tokens may be sent to this server, as far as its URL tells: with TLS, or where HTTP is allowed.
    #[cfg(feature = "client")]
    pub(crate) fn allows_tokens(&self, server: &Url) -> bool {
        server.scheme() == "https" || self.0.options.policy.allows_http(server)
    }

    /// Checks the scheme and a host that is an address or a name of this machine. Other names are checked when they are resolved.
    pub(crate) fn check(&self, step: FetchStep, url: &str) -> Result<Url, FetchError> {
        let refused = |kind| FetchError::new(step, url, kind);
        // The parser removes some control characters without an error.
        if url.contains(|letter: char| letter.is_control() || letter.is_whitespace()) {
            return Err(refused(FetchErrorKind::Url));
        }
        let parsed = Url::parse(url).map_err(|_| refused(FetchErrorKind::Url))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(refused(FetchErrorKind::Url));
        }
        let policy = self.0.options.policy;
        let is_https = match parsed.scheme() {
            "https" => true,
            "http" if policy.allows_http(&parsed) => false,
            "http" => return Err(refused(FetchErrorKind::NotHttps)),
            _ => return Err(refused(FetchErrorKind::Url)),
        };
        let ip = match parsed.host() {
            Some(url::Host::Ipv4(ip)) => Some(ip.into()),
            Some(url::Host::Ipv6(ip)) => Some(ip.into()),
            // Names of this machine need no resolver, and a proxy would resolve them to itself.
            Some(url::Host::Domain(_)) if is_loopback(&parsed) => Some(Ipv4Addr::LOCALHOST.into()),
            Some(url::Host::Domain(_)) => None,
            None => return Err(refused(FetchErrorKind::Url)),
        };
        match ip {
            Some(ip) if !policy.allows(ip, is_https) => Err(refused(FetchErrorKind::Address(ip))),
            _ => Ok(parsed),
        }
    }

    async fn send(
        &self,
        step: FetchStep,
        url: &Url,
        method: Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<FetchResponse, FetchError> {
        let failed = |kind| FetchError::new(step, url.as_str(), kind);
        let uri = Uri::try_from(url.as_str()).map_err(|_| failed(FetchErrorKind::Url))?;
        let client = self.client(&uri).map_err(failed)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        let headers = request.headers_mut();
        headers.entry(ACCEPT).or_insert(JSON);
        headers.insert(USER_AGENT, AGENT);
        headers.insert(CACHE_CONTROL, NO_STORE);
        let response = client.request(request).await.map_err(|error| failed(send_error(error)))?;
        let (head, mut body) = response.into_parts();
        if head.headers.get(CONTENT_ENCODING).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Err(failed(FetchErrorKind::Compressed));
        }
        let limit = self.0.options.max_response_bytes;
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| failed(FetchErrorKind::Closed(Arc::new(error))))?;
            let Ok(data) = frame.into_data() else { continue };
            if read.len() + data.len() > limit {
                return Err(failed(FetchErrorKind::TooLarge(limit)));
            }
            read.extend_from_slice(&data);
        }
        Ok(FetchResponse {
            status: head.status,
            headers: head.headers,
            body: read.freeze(),
            step,
            url: url.as_str().to_owned(),
        })
    }

    /// Returns the client for the scheme of a URL. Its resolver checks addresses, and exactly those are connected to.
    fn client(&self, uri: &Uri) -> Result<&HyperClient, FetchErrorKind> {
        let state = &*self.0;
        let is_https = uri.scheme() == Some(&http::uri::Scheme::HTTPS);
        let cell = if is_https { &state.https } else { &state.http };
        if let Some(client) = cell.get() {
            return Ok(client);
        }
        let mut dial = state.options.dial.clone();
        let policy = state.options.policy;
        dial.set_address_check(move |address| {
            // Proxies are chosen by the user.
            if address.is_proxy || policy.allows(address.ip, is_https) {
                Ok(())
            } else {
                Err(RefusedAddress(address.ip))
            }
        });
        let dialer = dial.build(uri, DialProtocol::Http);
        let dialer = dialer.map_err(|error| FetchErrorKind::Setup(turms_core::__internal::error_chain(&error)))?;
        let mut builder = Client::builder(TokioExecutor::new());
        builder.timer(TokioTimer::new()).pool_timer(TokioTimer::new()).pool_max_idle_per_host(4);
        Ok(cell.get_or_init(|| builder.build(dialer)))
    }
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FetcherOptions { policy, timeout, .. } = &self.0.options;
        f.debug_struct("Fetcher").field("policy", policy).field("timeout", timeout).finish_non_exhaustive()
    }
}

/// The error of the address check.
#[derive(Debug, thiserror::Error)]
#[error("the address {0} is not allowed")]
struct RefusedAddress(std::net::IpAddr);

fn send_error(error: hyper_util::client::legacy::Error) -> FetchErrorKind {
    let mut source: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = source {
        if let Some(RefusedAddress(ip)) = error.downcast_ref() {
            return FetchErrorKind::Address(*ip);
        }
        source = error.source();
    }
    if error.is_connect() { FetchErrorKind::Connect(Arc::new(error)) } else { FetchErrorKind::Closed(Arc::new(error)) }
}

#[cfg(test)]
mod tests;
