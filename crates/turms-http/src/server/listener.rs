//! Listening for connections, with bounds on how many there are and how slow they may be.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
#[cfg(feature = "tls")]
use tokio_rustls::TlsAcceptor;
use turms_core::{BoxFuture, ServeError};

use super::PeerAddress;
use super::handler::{self, HttpHandler};
use super::options::{ConnectionLimits, bounded};
use super::shutdown::GracefulShutdown;
use super::socket::Accepted;
use super::{http1, hyper as by_hyper};

/// Listens at an address and serves whoever comes, over HTTP/1.1, and over HTTP/2 with the feature `http2`.
///
/// ```no_run
/// use turms_http::{Listener, ServeHttp};
/// use turms_server::{ServeError, Server};
///
/// # async fn example() -> Result<(), ServeError> {
/// let server = Server::new("calculator", "1.0.0");
/// let listener = Listener::bind("127.0.0.1:0").await?;
/// println!("listening at {}", listener.address());
/// listener.serve(server.http()).await
/// # }
/// ```
#[must_use]
pub struct Listener {
    door: Door,
    address: String,
    until: Option<BoxFuture<'static, ()>>,
    max_connections: usize,
    drain_timeout: Duration,
    /// Whether to end at once when told to end once more.
    heeds_signals: bool,
}

/// Where connections come in.
struct Door {
    socket: Socket,
    limits: ConnectionLimits,
    #[cfg(feature = "tls")]
    tls: Option<TlsAcceptor>,
}

/// How long what was cut may take to notice.
const LAST_MOMENT: Duration = Duration::from_secs(1);

enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener),
}

impl Listener {
    /// Listens at a TCP address such as `127.0.0.1:8080`; port 0 takes any that is free.
    ///
    /// # Errors
    /// When it cannot be listened at.
    pub async fn bind(address: impl Into<String>) -> Result<Self, ServeError> {
        let address = address.into();
        match TcpListener::bind(&address).await {
            Ok(socket) => {
                let address = socket.local_addr().map_or(address, |local| local.to_string());
                Ok(Self::new(Socket::Tcp(socket), address))
            }
            Err(source) => Err(ServeError::Listen { address, source }),
        }
    }

    /// Listens at a Unix socket. A socket that an earlier process left behind is replaced.
    ///
    /// # Errors
    /// When it cannot be listened at.
    #[cfg(unix)]
    pub fn bind_unix(path: impl AsRef<Path>) -> Result<Self, ServeError> {
        let path = path.as_ref();
        let address = path.display().to_string();
        let is_left_behind = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if is_left_behind {
            // If it cannot be removed, it cannot be listened at either, which says more.
            let _ = std::fs::remove_file(path);
        }
        match UnixListener::bind(path) {
            Ok(socket) => Ok(Self::new(Socket::Unix(socket), address)),
            Err(source) => Err(ServeError::Listen { address, source }),
        }
    }

    fn new(socket: Socket, address: String) -> Self {
        let door = Door {
            socket,
            limits: ConnectionLimits::default(),
            #[cfg(feature = "tls")]
            tls: None,
        };
        Self {
            door,
            address,
            until: None,
            max_connections: 16 * 1024,
            drain_timeout: Duration::from_secs(10),
            heeds_signals: false,
        }
    }

    /// Where it listens, for people.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where it listens; `None` if that is not a TCP address.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.door.socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            #[cfg(unix)]
            Socket::Unix(_) => None,
        }
    }

    /// Ends gracefully when this comes: nobody new is let in, and what runs may finish.
    pub fn until(mut self, end: impl Future<Output = ()> + Send + 'static) -> Self {
        self.until = Some(Box::pin(end));
        self
    }

    /// Does this when it ends, before it waits for what runs: the place to end what would go on for ever.
    pub fn on_end(mut self, end: impl FnOnce() + Send + 'static) -> Self {
        let until = self.until.take();
        self.until(async move {
            match until {
                Some(until) => until.await,
                None => std::future::pending().await,
            }
            end();
        })
    }

    /// How many connections there may be at once; more have to wait. One that was upgraded, to WebSocket for example, does not
    /// count any more.
    pub fn max_connections(mut self, max: usize) -> Self {
        self.max_connections = max.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        self
    }

    /// How long the head of a request may take to arrive, and a connection may be idle: 30 seconds unless said otherwise.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.door.limits.header_timeout = bounded(timeout);
        self
    }

    /// How long a client may leave what was written to it unread: 60 seconds unless said otherwise.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.door.limits.write_timeout = bounded(timeout);
        self
    }

    /// How long what runs may take to finish in the end: 10 seconds unless said otherwise.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = bounded(timeout);
        self
    }

    /// Speaks TLS, with a certificate (and those that it stands on) and its key, both in PEM. A certificate that signs itself
    /// must not be one that may sign others (`CA:FALSE`), or clients refuse it.
    ///
    /// # Errors
    /// When they cannot be used.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, certificate: &[u8], key: &[u8]) -> Result<Self, ServeError> {
        self.door.tls = Some(super::tls::acceptor(certificate, key)?);
        Ok(self)
    }

    /// Ends gracefully when the process is told to end, by Ctrl-C or SIGTERM, and at once when it is told so again.
    pub fn until_told_to_end(mut self) -> Self {
        self.heeds_signals = true;
        self.until(told_to_end())
    }

    /// Serves until the server is shut down, or what [`Listener::until`] was given comes.
    ///
    /// # Errors
    /// None at present; connections that cannot be accepted are tried again.
    pub async fn serve<S: HttpHandler>(mut self, service: S) -> Result<(), ServeError> {
        tracing::info!(address = self.address, "listening");
        let service = Arc::new(service);
        let (ending, asked, closing) = (service.shutdown_requested(), self.until.take(), service.clone());
        let end = async move {
            match asked {
                Some(asked) => tokio::select! { () = asked => {}, () = ending => {} },
                None => ending.await,
            }
            closing.begin_shutdown();
        };
        let served = self.until(end).host(service.clone()).await;
        service.close().await;
        served
    }

    /// Serves in the way that the service needs. No future has room for both, so that programs have only what they use.
    fn host<S: HttpHandler>(self, service: Arc<S>) -> BoxFuture<'static, Result<(), ServeError>> {
        if S::UPGRADES { Box::pin(self.run(Upgrading(service))) } else { Box::pin(self.run(service)) }
    }

    /// Serves any `tower` service, such as an application that has this server at one of its addresses, until what
    /// [`Listener::until`] was given.
    ///
    /// # Errors
    /// None at present; connections that cannot be accepted are tried again.
    pub async fn serve_tower<S, B>(self, service: S) -> Result<(), ServeError>
    where
        S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run(Application(service)).await
    }

    /// Serves whoever comes.
    async fn run<H: Host>(self, host: H) -> Result<(), ServeError> {
        let room = Arc::new(Semaphore::new(self.max_connections));
        let shutdown = Arc::new(GracefulShutdown::default());
        let Self { door, until, drain_timeout, max_connections, heeds_signals, .. } = self;
        let mut end = until.unwrap_or_else(|| Box::pin(std::future::pending()));
        loop {
            let permit = tokio::select! {
                permit = room.clone().acquire_owned() => permit,
                () = &mut end => break,
            };
            let Ok(permit) = permit else { break };
            tokio::select! {
                accepted = door.accept(permit, &host, &shutdown) => {
                    if let Err(error) = accepted {
                        // Most likely there are no descriptors left: some will be given back.
                        tracing::warn!(%error, "a connection cannot be accepted");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                }
                () = &mut end => break,
            }
        }
        // Nobody new gets in, not even into the queue.
        drop(door);
        tracing::debug!("nobody new is let in; what runs may finish");
        shutdown.begin();
        // All have ended when all permits are back.
        let all = max_connections as u32;
        tokio::select! {
            _ = room.acquire_many(all) => return Ok(()),
            () = tokio::time::sleep(drain_timeout) => tracing::warn!("some requests did not finish in time"),
            () = told_to_end(), if heeds_signals => tracing::warn!("told twice to end: what runs is cut"),
        }
        shutdown.abort();
        let _ = tokio::time::timeout(LAST_MOMENT, room.acquire_many(all)).await;
        Ok(())
    }
}

impl Door {
    /// Lets the next one in.
    async fn accept<H: Host>(
        &self,
        permit: OwnedSemaphorePermit,
        host: &H,
        shutdown: &Arc<GracefulShutdown>,
    ) -> io::Result<()> {
        let (host, shutdown, limits) = (host.clone(), shutdown.clone(), self.limits);
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Answers are written whole; waiting for more would only make them late.
                let _ = stream.set_nodelay(true);
                let peer = Some(PeerAddress(peer));
                #[cfg(feature = "tls")]
                if let Some(tls) = self.tls.clone() {
                    tokio::spawn(Box::pin(async move {
                        let handshake = tokio::time::timeout(limits.header_timeout, tls.accept(stream));
                        if let Some(Ok(Ok(stream))) = shutdown.run_until_begun(handshake).await {
                            attend(host, Box::new(stream), peer, limits, shutdown, permit).await;
                        }
                    }));
                    return Ok(());
                }
                tokio::spawn(Box::pin(attend(host, Accepted::Tcp(stream), peer, limits, shutdown, permit)));
            }
            #[cfg(unix)]
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                tokio::spawn(Box::pin(attend(host, Accepted::Unix(stream), None, limits, shutdown, permit)));
            }
        }
        Ok(())
    }
}

/// Talks to whoever was let in. All that its task does, which is as large as the largest that is ever done in it.
async fn attend<H, I>(
    host: H,
    io: I,
    peer: Option<PeerAddress>,
    limits: ConnectionLimits,
    shutdown: Arc<GracefulShutdown>,
    _permit: OwnedSemaphorePermit,
) where
    H: Host,
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    shutdown.run(host.converse(io, peer, limits, &shutdown)).await;
}

/// What talks to whoever was let in.
trait Host: Clone + Send + 'static {
    fn converse<I>(
        self,
        io: I,
        peer: Option<PeerAddress>,
        limits: ConnectionLimits,
        shutdown: &GracefulShutdown,
    ) -> impl Future<Output = ()> + Send
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static;
}

impl<S: HttpHandler> Host for Arc<S> {
    async fn converse<I>(self, io: I, peer: Option<PeerAddress>, limits: ConnectionLimits, shutdown: &GracefulShutdown)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let _spoken = http1::serve_connection(io, &*self, peer, limits, shutdown).await;
        #[cfg(feature = "http2")]
        if let Some(io) = _spoken {
            Box::pin(Upgrading(self).converse(io, peer, limits, shutdown)).await;
        }
    }
}

/// What hyper speaks for: HTTP/2, and connections that may be upgraded.
struct Upgrading<S>(Arc<S>);

impl<S> Clone for Upgrading<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: HttpHandler> Host for Upgrading<S> {
    async fn converse<I>(self, io: I, peer: Option<PeerAddress>, limits: ConnectionLimits, shutdown: &GracefulShutdown)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let respond = move |request: Request<Incoming>| {
            let service = self.0.clone();
            async move { Ok::<_, Infallible>(handler::handle_request(&*service, request, peer).await) }
        };
        by_hyper::converse(io, limits, shutdown, respond).await;
    }
}

/// A whole application.
#[derive(Clone)]
struct Application<S>(S);

impl<S, B> Host for Application<S>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    async fn converse<I>(self, io: I, peer: Option<PeerAddress>, limits: ConnectionLimits, shutdown: &GracefulShutdown)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let service = self.0;
        let respond = move |mut request: Request<Incoming>| {
            if let Some(peer) = peer {
                request.extensions_mut().insert(peer);
            }
            let mut service = service.clone();
            async move {
                poll_fn(|task| service.poll_ready(task)).await?;
                service.call(request).await
            }
        };
        by_hyper::converse(io, limits, shutdown, respond).await;
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Comes when the process is told to end.
async fn told_to_end() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! { () = interrupt => {}, () = terminate => {} }
}
