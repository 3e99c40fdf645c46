//! What opens channels to an HTTP server.

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
use turms_core::{BoxFuture, ConnectContext, ConnectError, Connector, OpenChannel, UrlTransport, error_chain};
use turms_proto::Lines;
use url::Url;

use super::address_check::DialAddress;
use super::authorize::Authorizer;
use super::dial_options::{DialOptions, DialProtocol};
use super::endpoint::{Endpoint, origin};
use super::error::HttpError;
use super::http_client::{HttpClient, HttpService, boxed};
use super::open;

/// Connects a client to a server over HTTP: Streamable HTTP of whatever revision the server speaks, or HTTP+SSE if it speaks
/// nothing newer.
///
/// Proxies are those of the system: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, and the settings of macOS and Windows.
/// Certificates are trusted as the system trusts them. HTTP/2 is used if the server agrees to it by TLS. Connections are kept
/// and used again. Credentials, which are all headers given here, never leave the server's origin: a redirect to another one
/// is an error.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use turms_http::{BearerToken, HttpConnector};
///
/// let connector = HttpConnector::new("https://example.com/mcp")?.authorizer(BearerToken::new("secret")?);
/// # Ok(())
/// # }
/// ```
pub struct HttpConnector {
    url: Url,
    headers: HeaderMap,
    /// What was to be a header and cannot be one.
    wrong: Option<String>,
    authorizer: Option<Arc<dyn Authorizer>>,
    transport: UrlTransport,
    limit: usize,
    max_answers: usize,
    read_timeout: Option<Duration>,
    dial: DialOptions,
    service: Option<Arc<dyn HttpService>>,
    /// Made by the first connection, and used by all later ones.
    client: OnceCell<Arc<HttpClient>>,
    /// Whether the server was last found to speak HTTP+SSE and nothing newer.
    older: AtomicBool,
}

/// The `User-Agent`, unless the user gives another: some firewalls refuse requests without one.
const DEFAULT_USER_AGENT: HeaderValue = HeaderValue::from_static(concat!("turms/", env!("CARGO_PKG_VERSION")));

impl HttpConnector {
    /// Default of [`max_answers`](Self::max_answers).
    pub const DEFAULT_MAX_ANSWERS: usize = 32;

    /// Connects to the server at this URL. A user and a password in it are sent as an `Authorization` header.
    ///
    /// # Errors
    /// When it is not a URL, or does not begin with `http://` or `https://`.
    pub fn new(url: impl AsRef<str>) -> Result<Self, HttpError> {
        let parsed = Url::parse(url.as_ref()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // What is no address may still hold a secret, so only its beginning is repeated.
        let beginning = || url.as_ref().chars().take(16).collect();
        let mut url = parsed.filter(Url::has_host).ok_or_else(|| HttpError::Url(beginning()))?;
        let headers = take_credentials(&mut url);
        Ok(Self {
            url,
            headers,
            wrong: None,
            authorizer: None,
            transport: UrlTransport::Unstated,
            limit: Lines::DEFAULT_LIMIT,
            max_answers: Self::DEFAULT_MAX_ANSWERS,
            read_timeout: None,
            dial: DialOptions::new(),
            service: None,
            client: OnceCell::new(),
            older: AtomicBool::new(false),
        })
    }

    /// With a header on every request, `("x-key", "secret")` for instance. Those of the protocol cannot be replaced. What
    /// cannot be a header is an error when it comes to connecting.
    #[must_use]
    pub fn header(
        mut self,
        name: impl TryInto<HeaderName, Error: Into<http::Error>>,
        value: impl TryInto<HeaderValue, Error: Into<http::Error>>,
    ) -> Self {
        let Ok(name) = name.try_into() else {
            self.wrong = Some("the name of a header is none".to_owned());
            return self;
        };
        match value.try_into() {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.headers.append(name, value);
            }
            // The value may be a secret.
            Err(_) => self.wrong = Some(format!("the value of the header {name:?} holds what a header cannot")),
        }
        self
    }

    /// With headers on every request, as [`header`](Self::header).
    #[must_use]
    pub fn headers(mut self, mut headers: HeaderMap) -> Self {
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        self.headers.extend(headers);
        self
    }

    /// With credentials.
    #[must_use]
    pub fn authorizer(mut self, authorizer: impl Authorizer) -> Self {
        self.authorizer = Some(Arc::new(authorizer));
        self
    }

    /// Speaks only this, rather than whatever the server understands.
    #[must_use]
    pub fn transport(mut self, transport: UrlTransport) -> Self {
        self.transport = transport;
        self
    }

    /// How long an answer or an event may be, in bytes; 16 MiB unless said otherwise.
    #[must_use]
    pub fn message_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Maximum number of answers to requests of the server that are posted at once in a session (default 32). When it is
    /// reached, no more of what the server says is read until one of them is taken. At least one.
    #[must_use]
    pub fn max_answers(mut self, answers: usize) -> Self {
        self.max_answers = answers.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Timeout for a connection: name resolution, TCP, the proxy and TLS together (default 10 seconds).
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.dial.set_connect_timeout(timeout);
        self
    }

    /// Timeout for the next bytes of the server, on any stream, after which the connection counts as broken (default: none).
    /// A stream may be silent for long, and each request has a timeout anyway.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }

    /// Connects through this proxy, rather than those of the system: `http://user:password@proxy.example.com:8080`. Plain
    /// requests are sent to it, and for `https://` it is asked for a tunnel, both with the credentials of its URL. A proxy
    /// whose URL begins with `https://` is spoken to over TLS. An invalid URL is an error when it comes to connecting.
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

    /// Trusts these certificates, in PEM, beside those that the system trusts: for a private authority. Invalid ones are an
    /// error when it comes to connecting.
    #[must_use]
    pub fn root_certificates(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.dial.add_root_certificates(pem.as_ref());
        self
    }

    /// Connects to this Unix socket, without a proxy. The URL still says which host and path are asked for.
    #[cfg(unix)]
    #[must_use]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.dial.set_unix_socket(path.into());
        self
    }

    /// Checks each address before it is connected to. An error refuses the connection, whatever other addresses the host has.
    ///
    /// Addresses in the URL are checked, and all that its name is resolved to; nothing else is connected to. With a proxy, the
    /// addresses of the proxy are checked, and the server's if the URL has one; a name is resolved by the proxy.
    ///
    /// ```
    /// # fn main() -> Result<(), turms_http::HttpError> {
    /// use turms_http::HttpConnector;
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

    /// Sends all requests by this tower service: an HTTP client of one's own, to share its connections, or layers around one.
    /// Only [`read_timeout`](Self::read_timeout) is applied here; everything else about connections is up to the service.
    ///
    /// The service must not follow redirects: it could take credentials to other origins.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use http_body_util::Full;
    /// use hyper_util::client::legacy::{Client, Error, ResponseFuture, connect};
    /// use hyper_util::rt::TokioExecutor;
    /// use turms_http::HttpConnector;
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

    async fn endpoint(&self) -> Result<Endpoint, HttpError> {
        if let Some(wrong) = &self.wrong {
            return Err(HttpError::Setup(wrong.clone()));
        }
        let uri = Uri::try_from(self.url.as_str()).map_err(|_| HttpError::Url(origin(&self.url)))?;
        let client = self.client.get_or_try_init(async || self.http_client(&uri)).await?.clone();
        let mut headers = self.headers.clone();
        headers.entry(USER_AGENT).or_insert(DEFAULT_USER_AGENT);
        // The body decides how the request is framed.
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        Ok(Endpoint {
            url: self.url.clone(),
            uri,
            client,
            headers,
            authorizer: self.authorizer.clone(),
            limit: self.limit,
            max_answers: self.max_answers,
        })
    }

    fn http_client(&self, uri: &Uri) -> Result<Arc<HttpClient>, HttpError> {
        if let Some(service) = &self.service {
            return Ok(Arc::new(HttpClient::with_service(service.clone(), self.read_timeout)));
        }
        let dialer = self.dial.build(uri, DialProtocol::Http, None);
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
    // A URL that has a host can be without them.
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
            let ConnectContext { client, incoming, .. } = cx;
            if self.older.load(Ordering::Relaxed) {
                match open::open(endpoint.clone(), client.clone(), incoming.clone(), UrlTransport::Sse).await {
                    Ok((established, _)) => return Ok(established),
                    // It may have learnt something newer.
                    Err(_) => self.older.store(false, Ordering::Relaxed),
                }
            }
            let (established, transport) = open::open(endpoint, client, incoming, self.transport).await?;
            self.older.store(transport == UrlTransport::Sse, Ordering::Relaxed);
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
        // The path and the query of an address may be keys.
        f.debug_struct("HttpConnector")
            .field("server", &origin(&self.url))
            .field("transport", &self.transport)
            .finish_non_exhaustive()
    }
}
