//! The listener: accepts connections and serves them, with limits on their number and timeouts.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
#[cfg(feature = "server-tls")]
use tokio_rustls::TlsAcceptor;
use turms_core::{BoxFuture, Error, ErrorKind};

use super::handler::HttpHandler;
use super::options::{ConnectionLimits, bounded};
use super::shutdown::GracefulShutdown;
use super::socket::{ConnectionStream, Socket};
use super::{PeerAddress, http1, hyper as by_hyper};

/// Listens on an address and serves HTTP/1.1, and HTTP/2 with the feature `server-http2`.
///
/// ```no_run
/// # mod turms { pub use turms_core::Error; pub use turms_http::{self as http, ServeHttp}; pub use turms_server::Server; }
/// use turms::http::Listener;
/// use turms::{Error, ServeHttp, Server};
///
/// # async fn example() -> Result<(), Error> {
/// let server = Server::new("calculator", "1.0.0");
/// let listener = Listener::bind("127.0.0.1:0").await?;
/// println!("listening at {}", listener.address());
/// listener.serve(server.into_http_service()?).await
/// # }
/// ```
#[must_use]
pub struct Listener {
    acceptor: Acceptor,
    address: String,
    /// Resolves when the shutdown begins.
    shutdown: Option<BoxFuture<'static, ()>>,
    on_shutdown: Vec<Box<dyn FnOnce() + Send>>,
    max_connections: usize,
    drain_timeout: Duration,
    /// `true` if a second signal ends the drain.
    handles_signals: bool,
    uses_hyper: bool,
}

/// Accepts connections, with or without TLS.
struct Acceptor {
    socket: Socket,
    limits: ConnectionLimits,
    #[cfg(feature = "server-tls")]
    tls: Option<TlsAcceptor>,
}

/// An accepted connection.
pub(super) struct AcceptedConnection {
    pub(super) stream: ConnectionStream,
    pub(super) peer: Option<PeerAddress>,
    pub(super) limits: ConnectionLimits,
    pub(super) shutdown: Arc<GracefulShutdown>,
    /// Held until the connection is closed or upgraded.
    pub(super) permit: OwnedSemaphorePermit,
}

/// Timeout for connections to stop after an abort.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay before the next attempt after a failed accept. The usual cause is that the process has no file descriptors
/// left.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

impl Listener {
    /// Listens on a TCP address such as `127.0.0.1:8080`. Port 0 selects any free port.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn bind(address: impl Into<String>) -> Result<Self, Error> {
        let address = address.into();
        match TcpListener::bind(&address).await {
            Ok(socket) => {
                let address = socket.local_addr().map_or(address, |local| local.to_string());
                Ok(Self::new(Socket::Tcp(socket), address))
            }
            Err(source) => Err(bind_error(&address, source)),
        }
    }

    /// Listens on a Unix socket. A stale socket file of an earlier process is replaced.
    ///
    /// # Errors
    /// If the path cannot be bound.
    #[cfg(unix)]
    pub fn bind_unix(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let address = path.display().to_string();
        let is_left_behind = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
        if is_left_behind {
            // If the file cannot be removed, binding fails with a better reason.
            let _ = std::fs::remove_file(path);
        }
        match UnixListener::bind(path) {
            Ok(socket) => Ok(Self::new(Socket::Unix(socket), address)),
            Err(source) => Err(bind_error(&address, source)),
        }
    }

    fn new(socket: Socket, address: String) -> Self {
        let acceptor = Acceptor {
            socket,
            limits: ConnectionLimits::default(),
            #[cfg(feature = "server-tls")]
            tls: None,
        };
        Self {
            acceptor,
            address,
            shutdown: None,
            on_shutdown: Vec::new(),
            max_connections: 16 * 1024,
            drain_timeout: Duration::from_secs(10),
            handles_signals: false,
            uses_hyper: false,
        }
    }

    /// Returns the address as a string, for messages.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the socket address. `None` for a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        match &self.acceptor.socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            #[cfg(unix)]
            Socket::Unix(_) => None,
        }
    }

    /// Shuts down gracefully when this future resolves: no further connections are accepted, and requests in flight may
    /// finish.
    /// Replaces an earlier future and [`Listener::shutdown_on_signal`]. Default: none.
    pub fn with_graceful_shutdown(mut self, shutdown: impl Future<Output = ()> + Send + 'static) -> Self {
        self.shutdown = Some(Box::pin(shutdown));
        self
    }

    /// Adds a callback for the beginning of the shutdown, before the listener waits for requests in flight. Use it to
    /// end streams that have no end of their own.
    pub fn on_shutdown(mut self, callback: impl FnOnce() + Send + 'static) -> Self {
        self.on_shutdown.push(Box::new(callback));
        self
    }

    /// Maximum number of connections. Default: 16 384. Further ones wait. Upgraded connections, for example to
    /// WebSocket, do not count.
    pub fn max_connections(mut self, max: usize) -> Self {
        self.max_connections = max.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        self
    }

    /// Timeout for the head of a request, and for an idle connection. Default: 30 s.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.acceptor.limits.header_timeout = bounded(timeout);
        self
    }

    /// Timeout for a client that does not read the response. Default: 1 min.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.acceptor.limits.write_timeout = bounded(timeout);
        self
    }

    /// Timeout for requests in flight after the shutdown has begun. Default: 10 s.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.drain_timeout = bounded(timeout);
        self
    }

    /// Enables TLS, with a certificate chain and its key in PEM format. Clients reject a self-signed certificate that
    /// is a CA: use `CA:FALSE`.
    ///
    /// # Errors
    /// If the certificate or the key is invalid.
    #[cfg(feature = "server-tls")]
    pub fn tls(mut self, certificate: &[u8], key: &[u8]) -> Result<Self, Error> {
        self.acceptor.tls = Some(super::tls::acceptor(certificate, key)?);
        Ok(self)
    }

    /// Serves HTTP/1.1 with hyper instead of the implementation of this crate.
    ///
    /// Valid requests get the same responses. A connection needs more memory and a call more instructions. Invalid
    /// requests are handled differently:
    ///
    /// - hyper accepts lines that end in LF only, a missing, invalid or repeated `Host`, and `Content-Length` together
    ///   with `Transfer-Encoding`, which it then ignores. Hosts that are not allowed are
    ///   still rejected with 403.
    /// - Its error responses have no body, and an unsupported `Transfer-Encoding` gets the status 400 instead of 501.
    pub fn use_hyper(mut self) -> Self {
        self.uses_hyper = true;
        self
    }

    /// Shuts down gracefully on Ctrl-C or SIGTERM, and at once on a second signal.
    pub fn shutdown_on_signal(mut self) -> Self {
        self.handles_signals = true;
        self.with_graceful_shutdown(termination_signal())
    }

    /// Serves until the server is shut down, or the future of [`Listener::with_graceful_shutdown`] resolves.
    ///
    /// # Errors
    /// Currently never. A failed accept is retried.
    pub async fn serve<H: HttpHandler>(mut self, handler: H) -> Result<(), Error> {
        tracing::info!(address = self.address, "listening");
        let handler = Arc::new(handler);
        let (requested, signal, closing) = (handler.shutdown_requested(), self.shutdown.take(), handler.clone());
        let listener = self.on_shutdown(move || closing.begin_shutdown()).with_graceful_shutdown(async move {
            match signal {
                Some(signal) => tokio::select! { () = signal => {}, () = requested => {} },
                None => requested.await,
            }
        });
        let (uses_hyper, shared) = (listener.uses_hyper || H::UPGRADES, handler.clone());
        if uses_hyper {
            listener.run(move |connection| by_hyper::serve(connection, shared)).await;
        } else {
            listener.run(move |connection| http1::serve(connection, shared)).await;
        }
        handler.close().await;
        Ok(())
    }

    /// Serves a `tower` service, such as an application with this server mounted in it, until the future of
    /// [`Listener::with_graceful_shutdown`] resolves.
    ///
    /// # Errors
    /// Currently never. A failed accept is retried.
    pub async fn serve_tower<S, B>(self, service: S) -> Result<(), Error>
    where
        S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        self.run(move |connection| by_hyper::serve_tower(connection, service)).await;
        Ok(())
    }

    /// Accepts connections until the shutdown, then waits for the open ones.
    async fn run<F>(self, serve: impl FnOnce(AcceptedConnection) -> F + Clone + Send + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        raise_trim_threshold();
        let permits = Arc::new(Semaphore::new(self.max_connections));
        let shutdown = Arc::new(GracefulShutdown::default());
        let Self { acceptor, shutdown: signal, on_shutdown, drain_timeout, max_connections, handles_signals, .. } =
            self;
        let mut signal = signal.unwrap_or_else(|| Box::pin(std::future::pending()));
        loop {
            let permit = tokio::select! {
                permit = permits.clone().acquire_owned() => permit,
                () = &mut signal => break,
            };
            let Ok(permit) = permit else { break };
            tokio::select! {
                accepted = acceptor.accept(permit, serve.clone(), shutdown.clone()) => {
                    if let Err(error) = accepted {
                        tracing::warn!(%error, "a connection cannot be accepted");
                        tokio::time::sleep(ACCEPT_RETRY).await;
                    }
                }
                () = &mut signal => break,
            }
        }
        on_shutdown.into_iter().for_each(|callback| callback());
        // Closes the socket, and with it the queue of pending connections.
        drop(acceptor);
        tracing::debug!("shutting down: waiting for requests in flight");
        shutdown.begin();
        // All permits are returned when all connections are closed.
        let all = max_connections as u32;
        tokio::select! {
            _ = permits.acquire_many(all) => return,
            () = tokio::time::sleep(drain_timeout) => tracing::warn!("some requests did not finish in time"),
            () = termination_signal(), if handles_signals => tracing::warn!("second signal: requests in flight are aborted"),
        }
        shutdown.abort();
        let _ = tokio::time::timeout(ABORT_TIMEOUT, permits.acquire_many(all)).await;
    }
}

fn bind_error(address: &str, source: io::Error) -> Error {
    Error::with_source(ErrorKind::Bind, format!("cannot listen on {address}"), source)
}

impl Acceptor {
    /// Accepts a connection and spawns the task that serves it.
    async fn accept<F>(
        &self,
        permit: OwnedSemaphorePermit,
        serve: impl FnOnce(AcceptedConnection) -> F + Send + 'static,
        shutdown: Arc<GracefulShutdown>,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (stream, peer) = self.socket.accept().await?;
        let (peer, limits) = (peer.map(PeerAddress), self.limits);
        let connection = AcceptedConnection { stream, peer, limits, shutdown: shutdown.clone(), permit };
        #[cfg(feature = "server-tls")]
        if let Some(tls) = self.tls.clone() {
            tokio::spawn(async move {
                if let Some(connection) = connection.handshake(&tls).await {
                    shutdown.run(serve(connection)).await;
                }
            });
            return Ok(());
        }
        tokio::spawn(shutdown.run(serve(connection)));
        Ok(())
    }
}

#[cfg(feature = "server-tls")]
impl AcceptedConnection {
    /// Performs the TLS handshake. Returns `None` if it fails or times out, or if the listener shuts down.
    async fn handshake(self, tls: &TlsAcceptor) -> Option<Self> {
        let Self { stream, peer, limits, shutdown, permit } = self;
        let handshake = tokio::time::timeout(limits.header_timeout, tls.accept(stream));
        match shutdown.clone().run_until_begun(handshake).await {
            Some(Ok(Ok(stream))) => {
                Some(Self { stream: ConnectionStream::Tls(Box::new(stream)), peer, limits, shutdown, permit })
            }
            _ => None,
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Resolves on Ctrl-C or SIGTERM.
pub(super) async fn termination_signal() {
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

#[cfg(all(test, unix))]
mod tests {
    use turms_server::Server;

    use super::*;
    use crate::server::ServeHttp as _;

    /// Each connection has such a task, so its size matters for idle connections.
    #[tokio::test]
    async fn the_task_of_a_connection_is_small() {
        let (stream, _other) = tokio::net::UnixStream::pair().unwrap();
        let shutdown = Arc::<GracefulShutdown>::default();
        let connection = AcceptedConnection {
            stream: ConnectionStream::Unix(stream),
            peer: None,
            limits: ConnectionLimits::default(),
            shutdown: shutdown.clone(),
            permit: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
        };
        let handler = Arc::new(Server::new("test", "1").into_http_service().unwrap());
        let task = shutdown.run(http1::serve(connection, handler));
        let (size, max) = (size_of_val(&task), 2432);
        assert!(size <= max, "{size} bytes, more than {max}");
    }

    #[tokio::test]
    async fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, time, when};

        let it = Listener::bind("127.0.0.1:0").await.unwrap();
        let limits = it.acceptor.limits;
        let code = [
            ("Listener::with_graceful_shutdown", when(it.shutdown.is_none(), "none")),
            ("Listener::max_connections", count(it.max_connections)),
            ("Listener::header_timeout", time(limits.header_timeout)),
            ("Listener::write_timeout", time(limits.write_timeout)),
            ("Listener::drain_timeout", time(it.drain_timeout)),
        ];
        assert_documented(include_str!("listener.rs"), &code);
    }
}

/// Lets glibc keep 2 MiB of free memory for the next request. By default it returns free memory above 128 KiB to the kernel, and a
/// call of 100 KiB may get it back page by page: 226 us of CPU time instead of 153. Freeing a large block raises the threshold to
/// twice the size of the block (`M_MMAP_THRESHOLD` in `mallopt(3)`). With other allocators it has no effect.
fn raise_trim_threshold() {
    const BLOCK: usize = 1024 * 1024;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(BLOCK)));
}
