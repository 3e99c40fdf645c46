//! What opens channels to an HTTP server.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;
use reqwest::redirect::Policy;
use tokio::sync::{OnceCell, Semaphore};
use turms_core::{BoxFuture, ConnectError, Connector, Established, Service, UrlTransport};
use turms_proto::Lines;
use turms_proto::session::ClientOptions;

use super::authorize::Authorizer;
use super::endpoint::{Endpoint, Way, origin};
use super::error::HttpError;
use super::open;
use super::wire::Wire;

/// Connects a client to a server over HTTP: Streamable HTTP of whatever revision the server speaks, or HTTP+SSE if it speaks
/// nothing newer.
///
/// Proxies are those of the system (`HTTP_PROXY` and the like), certificates are trusted as the system trusts them. TCP
/// connections are kept and used again. Credentials, which are all headers given here, never leave the server's origin: a
/// redirect to another one is an error.
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
    connect_timeout: Duration,
    read_timeout: Option<Duration>,
    proxy: Proxies,
    socket: Option<PathBuf>,
    client: Brought,
    way: OnceCell<Way>,
    /// Whether the server was last found to speak HTTP+SSE and nothing newer.
    older: AtomicBool,
}

/// Who we say we are, unless the user says otherwise: some firewalls dislike those who say nothing.
pub(super) const USER_AGENT: &str = concat!("turms/", env!("CARGO_PKG_VERSION"));

/// Which proxies are used.
enum Proxies {
    System,
    Only(Box<reqwest::Proxy>),
    None,
}

/// An HTTP client that is not made here.
enum Brought {
    No,
    Client(reqwest::Client),
    Builder(Box<dyn Fn() -> reqwest::ClientBuilder + Send + Sync>),
}

impl HttpConnector {
    /// Default of [`max_answers`](Self::max_answers).
    pub const DEFAULT_MAX_ANSWERS: usize = 32;

    /// To this address.
    ///
    /// # Errors
    /// When it is none, or does not begin with `http://` or `https://`.
    pub fn new(url: impl AsRef<str>) -> Result<Self, HttpError> {
        let parsed = Url::parse(url.as_ref()).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        // What is no address may still hold a secret, so only its beginning is repeated.
        let beginning = || url.as_ref().chars().take(16).collect();
        let url = parsed.filter(Url::has_host).ok_or_else(|| HttpError::Url(beginning()))?;
        Ok(Self {
            url,
            headers: HeaderMap::new(),
            wrong: None,
            authorizer: None,
            transport: UrlTransport::Unstated,
            limit: Lines::DEFAULT_LIMIT,
            max_answers: Self::DEFAULT_MAX_ANSWERS,
            connect_timeout: Duration::from_secs(10),
            read_timeout: None,
            proxy: Proxies::System,
            socket: None,
            client: Brought::No,
            way: OnceCell::new(),
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

    /// How long it may take to connect; 10 s unless said otherwise.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long the server may say nothing, on any stream, before the connection counts as broken. No such limit unless said
    /// otherwise: a stream may be quiet for long, and each request has a timeout anyway.
    #[must_use]
    pub fn read_timeout(mut self, timeout: Duration) -> Self {
        self.read_timeout = Some(timeout);
        self
    }

    /// Through this proxy, rather than those of the system.
    #[must_use]
    pub fn proxy(mut self, proxy: reqwest::Proxy) -> Self {
        self.proxy = Proxies::Only(Box::new(proxy));
        self
    }

    /// Through no proxy.
    #[must_use]
    pub fn no_proxy(mut self) -> Self {
        self.proxy = Proxies::None;
        self
    }

    /// Over this Unix socket. The address still says which host and path are asked for.
    #[cfg(unix)]
    #[must_use]
    pub fn unix_socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// With an HTTP client that is there already, to share its connections. What it is set up with counts, rather than the
    /// timeouts, the proxy and the socket given here.
    ///
    /// It should be built with [`Policy::none`]: a client that follows redirects by itself may take headers to other origins
    /// before anybody here can see it.
    #[must_use]
    pub fn http_client(mut self, client: reqwest::Client) -> Self {
        self.client = Brought::Client(client);
        self
    }

    /// With an HTTP client that is built so: with other certificates, or an identity. The timeouts, the proxy and the socket
    /// given here are added, and it follows no redirects by itself.
    #[must_use]
    pub fn http_client_builder(mut self, builder: impl Fn() -> reqwest::ClientBuilder + Send + Sync + 'static) -> Self {
        self.client = Brought::Builder(Box::new(builder));
        self
    }

    /// Made when it is first needed, and by everybody who connects later.
    async fn endpoint(&self) -> Result<Endpoint, HttpError> {
        if let Some(wrong) = &self.wrong {
            return Err(HttpError::Setup(wrong.clone()));
        }
        let way = self.way.get_or_try_init(async || self.way()).await?.clone();
        Ok(Endpoint {
            url: self.url.clone(),
            way,
            headers: self.headers.clone(),
            authorizer: self.authorizer.clone(),
            limit: self.limit,
            max_answers: self.max_answers,
        })
    }

    /// The plain way, where nothing stands against it.
    fn way(&self) -> Result<Way, HttpError> {
        let (may_be_plain, minds_proxies) = match (&self.client, &self.proxy, &self.socket) {
            (Brought::No, Proxies::System, None) => (true, true),
            (Brought::No, Proxies::None, None) => (true, false),
            _ => (false, false),
        };
        let wire = || Wire::new(&self.url, minds_proxies, self.connect_timeout, self.read_timeout);
        match may_be_plain.then(wire).flatten() {
            Some(wire) => Ok(Way::Wire(Arc::new(wire))),
            None => self.build().map(Way::Reqwest),
        }
    }

    fn build(&self) -> Result<reqwest::Client, HttpError> {
        let builder = match &self.client {
            Brought::Client(client) => return Ok(client.clone()),
            Brought::Builder(build) => {
                tls::ensure_provider();
                build()
            }
            Brought::No => {
                let builder = reqwest::Client::builder().user_agent(USER_AGENT);
                builder.tls_backend_preconfigured(tls::config(self.url.scheme())?)
            }
        };
        let mut builder =
            builder.redirect(Policy::none()).referer(false).tcp_nodelay(true).connect_timeout(self.connect_timeout);
        if let Some(timeout) = self.read_timeout {
            builder = builder.read_timeout(timeout);
        }
        builder = match &self.proxy {
            Proxies::System => builder,
            Proxies::Only(proxy) => builder.proxy((**proxy).clone()),
            Proxies::None => builder.no_proxy(),
        };
        #[cfg(unix)]
        if let Some(socket) = &self.socket {
            builder = builder.no_proxy().unix_socket(socket.clone());
        }
        builder.build().map_err(|error| HttpError::Setup(describe(&error)))
    }
}

impl Connector for HttpConnector {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<Established, ConnectError>> {
        Box::pin(async move {
            let endpoint = self.endpoint().await;
            let endpoint = endpoint.map_err(|error| ConnectError::unreachable(origin(&self.url), error))?;
            let endpoint = Arc::new(endpoint);
            if self.older.load(Ordering::Relaxed) {
                match open::open(endpoint.clone(), client.clone(), service.clone(), UrlTransport::Sse).await {
                    Ok((established, _)) => return Ok(established),
                    // It may have learnt something newer.
                    Err(_) => self.older.store(false, Ordering::Relaxed),
                }
            }
            let (established, transport) = open::open(endpoint, client, service, self.transport).await?;
            self.older.store(transport == UrlTransport::Sse, Ordering::Relaxed);
            Ok(established)
        })
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn identity(&self) -> Option<String> {
        Some(match &self.socket {
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

/// An error and its causes.
fn describe(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

mod tls {
    //! Certificates as the system trusts them, cryptography by ring; nothing is set for the rest of the process.

    use std::sync::Arc;

    use rustls::crypto::{CryptoProvider, ring};
    use rustls::{ClientConfig, RootCertStore};
    use rustls_platform_verifier::BuilderVerifierExt as _;

    use super::{HttpError, describe};

    pub(super) fn config(scheme: &str) -> Result<ClientConfig, HttpError> {
        let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| Arc::new(ring::default_provider()));
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| HttpError::Setup(describe(&error)))?;
        let mut config = if scheme == "https" {
            let builder = builder.with_platform_verifier().map_err(|error| HttpError::Setup(describe(&error)))?;
            builder.with_no_client_auth()
        } else {
            // No TLS will be spoken: nobody is redirected to another scheme, so nobody has to be trusted. Machines without
            // any certificates are good enough for that.
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        };
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    /// A builder of an HTTP client looks for cryptography where the process has it.
    pub(super) fn ensure_provider() {
        if CryptoProvider::get_default().is_none() {
            // Somebody else may have been quicker.
            let _ = ring::default_provider().install_default();
        }
    }
}
