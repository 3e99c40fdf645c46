//! The connector for HTTP servers.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body::Body;
use tokio::sync::{OnceCell, Semaphore};
use tower_service::Service as TowerService;
use turms_core::__internal::error_chain;
use turms_core::{BoxFuture, ConnectContext, ConnectError, Connector, OpenChannel, TransportKind};
use turms_proto::Lines;
use url::Url;

use super::address_check::DialAddress;
use super::dial_options::{DialOptions, DialProtocol};
use super::endpoint::{HttpEndpoint, origin};
use super::error::HttpError;
use super::http_client::{ErasedHttpService, HttpClient, boxed};
use super::open;
use crate::authorize::{Authorizer, ServerAuthorizer};

/// Connects a client to a server over HTTP: Streamable HTTP in any revision, or HTTP+SSE if the server supports nothing newer.
///
/// Proxies are those of the system: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, and the settings of macOS and Windows.
/// Certificates are trusted as the system trusts them. HTTP/2 is used if the server negotiates it in TLS (ALPN). Connections are
/// pooled. Credentials, which include all headers given here, are only sent to the server's origin: a redirect to another one is
/// an error.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # mod turms { pub use turms_http as http; }
/// use turms::http::{BearerToken, HttpConnector};
///
/// let connector = HttpConnector::new("https://example.com/mcp")?.authorizer(BearerToken::new("secret")?);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "streamable_http")]
#[doc(alias = "sse")]
#[doc(alias = "StreamableHttpService")]
pub struct HttpConnector {
    url: Url,
    headers: HeaderMap,
    /// Error for an invalid header.
    invalid_header: Option<String>,
    authorizer: Option<ServerAuthorizer>,
    authorize_timeout: Duration,
    transport: TransportKind,
    max_message_bytes: usize,
    max_concurrent_responses: usize,
    read_timeout: Option<Duration>,
    dial: DialOptions,
    service: Option<Arc<dyn ErasedHttpService>>,
    /// Created by the first connection and shared by later ones.
    client: OnceCell<Arc<HttpClient>>,
    /// `true` if the last connection used HTTP+SSE because the server supported nothing newer.
    is_http_sse: AtomicBool,
}

/// The `User-Agent`, unless the user sets another: some firewalls reject requests without one.
const DEFAULT_USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("turms/", env!("CARGO_PKG_VERSION")));

impl HttpConnector {
    /// The value of [`max_concurrent_responses`](Self::max_concurrent_responses), unless it is set.
    pub const DEFAULT_MAX_CONCURRENT_RESPONSES: usize = 32;

    /// Connects to the server at this URL. A user and a password in it are sent as an `Authorization` header.
    ///
    /// # Errors
    /// When it is not a URL, or does not begin with `http://` or `https://`.
    pub fn new(url: impl AsRef<str>) -> Result<Self, HttpError> {
        let parsed = Url::parse(url.as_ref()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // An invalid URL may contain a secret, so the error only has its beginning.
        let beginning = || url.as_ref().chars().take(16).collect();
        let mut url = parsed.filter(Url::has_host).ok_or_else(|| HttpError::Url(beginning()))?;
        let headers = take_credentials(&mut url);
        Ok(Self {
            url,
            headers,
            invalid_header: None,
            authorizer: None,
            authorize_timeout: ServerAuthorizer::DEFAULT_TIMEOUT,
            transport: TransportKind::Auto,
            max_message_bytes: Lines::DEFAULT_LIMIT,
            max_concurrent_responses: Self::DEFAULT_MAX_CONCURRENT_RESPONSES,
            read_timeout: None,
            dial: DialOptions::new(),
            service: None,
            client: OnceCell::new(),
            is_http_sse: AtomicBool::new(false),
        })
    }

    /// Adds a header to every request, such as `("x-key", "secret")`. Headers of the protocol cannot be replaced. An invalid
    /// header is reported when connecting.
    #[must_use]
    pub fn header(
        mut self,
        name: impl TryInto<HeaderName, Error: Into<http::Error>>,
        value: impl TryInto<HeaderValue, Error: Into<http::Error>>,
    ) -> Self {
        let Ok(name) = name.try_into() else {
            self.invalid_header = Some("invalid header name".to_owned());
            return self;
        };
        match value.try_into() {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.append(name, value);
            }
            // The value may be a secret.
            Err(_) => self.invalid_header = Some(format!("invalid value of the header {name:?}")),
        }
        self
    }

    /// Adds headers to every request, as [`header`](Self::header) does.
    #[must_use]
    pub fn headers(mut self, mut headers: HeaderMap) -> Self {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        self.headers.extend(headers);
        self
    }

    /// Sets the source of credentials. Its headers replace those [set here](Self::header).
    ///
    /// The timeouts of calls and of connecting do not run while it works. A [custom HTTP client](Self::http_service) must not follow
    /// redirects by itself: each redirect is authorized with its own URL.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.authorizer = Some(ServerAuthorizer::new(authorizer, &self.url));
        self
    }

    /// Timeout for the authorizer to obtain credentials for one request, such as by a login. Default: 10 min.
    #[must_use]
    pub fn authorize_timeout(mut self, timeout: Duration) -> Self {
        self.authorize_timeout = timeout;
        self
    }

    /// Sets the transport, instead of detecting it.
    #[must_use]
    pub fn transport(mut self, transport: TransportKind) -> Self {
        self.transport = transport;
        self
    }

    /// Maximum size of a response or an event, in bytes. Default: 16 MiB.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Maximum number of responses to requests of the server that are posted at once in a session. Default: 32; minimum: 1. When
    /// it is reached, the client stops reading the server's streams until the server accepts one of them.
    #[must_use]
    pub fn max_concurrent_responses(mut self, responses: usize) -> Self {
        self.max_concurrent_responses = responses.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Timeout for a connection: name resolution, TCP, the proxy and TLS together. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.dial.set_connect_timeout(timeout);
        self
    }

    /// Timeout for the next bytes of the server, on any stream; after it the connection counts as broken. Default: none; a
    /// stream may be silent for long, and each request has a timeout.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }

    /// Connects through this proxy, instead of those of the system: `http://user:password@proxy.example.com:8080`. The proxy
    /// forwards plain requests and opens tunnels for `https://`, both with the credentials of its URL. An `https://` proxy is
    /// connected to over TLS. An invalid URL is reported when connecting.
    #[must_use]
    pub fn proxy(mut self, url: impl AsRef<str>) -> Self {
        self.dial.set_proxy(url.as_ref());
        self
    }

    /// Connects without a proxy.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.dial.set_no_proxy();
        self
    }

    /// Trusts these PEM certificates in addition to those of the system, for a private certificate authority. Invalid ones are
    /// reported when connecting.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.dial.add_root_certificates(pem.as_ref());
        self
    }

    /// Connects to this Unix socket, without a proxy. Requests have the host and path of the URL.
    #[cfg(unix)]
    #[must_use]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.dial.set_unix_socket(path.into());
        self
    }

    /// Checks each IP address before connecting. An error rejects the connection, even if the host has other addresses.
    ///
    /// An address in the URL is checked, and all addresses that its host name resolves to. With a proxy, the addresses of the
    /// proxy are checked, and that of the server if the URL has one; a host name is resolved by the proxy.
    ///
    /// ```
    /// # fn main() -> Result<(), turms_http::HttpError> {
    /// # mod turms { pub use turms_http as http; }
    /// use turms::http::HttpConnector;
    ///
    /// let connector = HttpConnector::new("https://example.com/mcp")?.address_check(|address| {
    ///     if address.ip.is_loopback() { Err("loopback is not allowed") } else { Ok(()) }
    /// });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn address_check<E: Into<Box<dyn Error + Send + Sync>>>(
        mut self,
        check: impl Fn(&DialAddress<'_>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        self.dial.set_address_check(check);
        self
    }

    /// Sends all requests with this tower service: a custom HTTP client, for example to share its connections or to add layers.
    /// Only [`read_timeout`](Self::read_timeout) applies; all other options of connections are up to the service.
    ///
    /// The service must not follow redirects: that could send credentials to other origins.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use hyper_util::client::legacy::{Client, Error, ResponseFuture, connect};
    /// use hyper_util::rt::TokioExecutor;
    /// # mod turms { pub use turms_http as http; }
    /// use turms::http::HttpConnector;
    ///
    /// /// A client of hyper-util.
    /// #[derive(Clone)]
    /// struct Plain(Client<connect::HttpConnector, Full<Bytes>>);
    ///
    /// impl tower_service::Service<http::Request<Bytes>> for Plain {
    ///     type Response = http::Response<hyper::body::Incoming>;
    ///     type Error = Error;
    ///     type Future = ResponseFuture;
    ///
    ///     fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Error>> {
    ///         std::task::Poll::Ready(Ok(()))
    ///     }
    ///
    ///     fn call(&mut self, request: http::Request<Bytes>) -> ResponseFuture {
    ///         self.0.request(request.map(Full::new))
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), turms_http::HttpError> {
    /// let client = Plain(Client::builder(TokioExecutor::new()).build_http());
    /// let connector = HttpConnector::new("http://127.0.0.1:8080/mcp")?.http_service(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With `reqwest` and `tower` it is a function:
    ///
    /// ```text
    /// let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
    /// let service = tower::service_fn(move |request: http::Request<Bytes>| {
    ///     let client = client.clone();
    ///     async move { client.execute(request.try_into()?).await.map(http::Response::<reqwest::Body>::from) }
    /// });
    /// let connector = HttpConnector::new("https://example.com/mcp")?.http_service(service);
    /// ```
    #[must_use]
    pub fn http_service<S, B>(mut self, service: S) -> Self
    where
        S: TowerService<
                Request<Bytes>,
                Response = Response<B>,
                Error: Into<Box<dyn Error + Send + Sync>>,
                Future: Send,
            > + Clone
            + Send
            + 'static,
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        self.service = Some(boxed(service));
        self
    }

    async fn endpoint(&self) -> Result<HttpEndpoint, HttpError> {
        if let Some(invalid_header) = &self.invalid_header {
            return Err(HttpError::Setup(invalid_header.clone()));
        }
        let uri = Uri::try_from(self.url.as_str()).map_err(|_| HttpError::Url(origin(&self.url)))?;
        let client = self.client.get_or_try_init(async || self.http_client(&uri)).await?.clone();
        let mut headers = self.headers.clone();
        headers.entry(USER_AGENT).or_insert(DEFAULT_USER_AGENT);
        // The HTTP client sets these from the body.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        Ok(HttpEndpoint {
            url: self.url.clone(),
            uri,
            client,
            headers,
            authorizer: self.authorizer.clone().map(|authorizer| authorizer.timeout(self.authorize_timeout)),
            max_message_bytes: self.max_message_bytes,
            max_concurrent_responses: self.max_concurrent_responses,
        })
    }

    fn http_client(&self, uri: &Uri) -> Result<Arc<HttpClient>, HttpError> {
        if let Some(service) = &self.service {
            return Ok(Arc::new(HttpClient::with_service(service.clone(), self.read_timeout)));
        }
        let dialer = self.dial.build(uri, DialProtocol::Http);
        let dialer = dialer.map_err(|error| HttpError::Setup(error_chain(&error)))?;
        Ok(Arc::new(HttpClient::new(dialer, uri, self.read_timeout)))
    }
}

/// Takes a user and a password out of a URL and returns them as a header.
fn take_credentials(url: &mut Url) -> HeaderMap {
    let decoded = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    let mut credentials = decoded(url.username());
    credentials.push(b':');
    credentials.extend(decoded(url.password().unwrap_or_default()));
    if credentials == b":" {
        return HeaderMap::new();
    }
    // Only fails for a URL without a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let mut headers = HeaderMap::new();
    if let Ok(mut value) = HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credentials))) {
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    headers
}

impl Connector for HttpConnector {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        Box::pin(async move {
            let endpoint = self.endpoint().await;
            let endpoint = endpoint.map_err(|error| ConnectError::unreachable(origin(&self.url), error))?;
            let endpoint = Arc::new(endpoint);
            // Connections are opened by the requests of the handshake.
            cx.initializing();
            if self.is_http_sse.load(Ordering::Relaxed) {
                match open::open(endpoint.clone(), &cx, TransportKind::HttpSse).await {
                    Ok((established, _)) => return Ok(established),
                    // The user is not asked twice.
                    Err(error @ ConnectError::Unauthorized { .. }) => return Err(error),
                    // The server may support something newer now.
                    Err(_) => self.is_http_sse.store(false, Ordering::Relaxed),
                }
            }
            let (established, transport) = open::open(endpoint, &cx, self.transport).await?;
            self.is_http_sse.store(transport == TransportKind::HttpSse, Ordering::Relaxed);
            Ok(established)
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(match self.dial.unix_socket() {
            Some(socket) => format!("{} {}", self.url, socket.display()),
            None => self.url.to_string(),
        })
    }
}

impl fmt::Debug for HttpConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path and the query of a URL may be secrets.
        f.debug_struct("HttpConnector")
            .field("server", &origin(&self.url))
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, bytes, count, time, when};

        let it = HttpConnector::new("https://example.com/mcp").unwrap();
        let code = [
            ("HttpConnector::authorize_timeout", time(it.authorize_timeout)),
            ("HttpConnector::max_message_bytes", bytes(it.max_message_bytes)),
            ("HttpConnector::max_concurrent_responses", count(it.max_concurrent_responses)),
            ("HttpConnector::connect_timeout", time(it.dial.timeout)),
            ("HttpConnector::read_timeout", when(it.read_timeout.is_none(), "none")),
        ];
        assert_documented(include_str!("connector.rs"), &code);
    }
}
