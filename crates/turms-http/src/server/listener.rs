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
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
#[cfg(feature = "tls")]
use tokio_rustls::TlsAcceptor;
use turms_core::{BoxFuture, ServeError};

use super::PeerAddress;
use super::activity::Activity;
use super::options::bounded;
use super::stall::Stall;

/// Listens at an address and serves whoever comes, over HTTP/1.1 and HTTP/2.
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
    header_timeout: Duration,
    write_timeout: Duration,
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
            header_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
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
        self.max_connections = max.min(Semaphore::MAX_PERMITS);
        self
    }

    /// How long the head of a request may take to arrive, and a connection may be idle: 30 seconds unless said otherwise.
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.door.header_timeout = bounded(timeout);
        self
    }

    /// How long a client may leave what was written to it unread: 60 seconds unless said otherwise.
    pub fn write_timeout(mut self, timeout: Duration) -> Self {
        self.door.write_timeout = bounded(timeout);
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
    pub async fn serve<S: Served>(mut self, service: S) -> Result<(), ServeError> {
        tracing::info!(address = self.address, "listening");
        let service = Arc::new(service);
        let (ending, asked, closing) = (service.ending(), self.until.take(), service.clone());
        let end = async move {
            match asked {
                Some(asked) => tokio::select! { () = asked => {}, () = ending => {} },
                None => ending.await,
            }
            closing.begin_closing();
        };
        let answering = service.clone();
        let respond_to = move |peer| {
            let service = answering.clone();
            move |request| {
                let service = service.clone();
                async move { Ok::<_, Infallible>(service.respond(request, peer).await) }
            }
        };
        let served = self.until(end).run(respond_to).await;
        service.close().await;
        served
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
        let respond_to = move |peer: Option<PeerAddress>| {
            let service = service.clone();
            move |mut request: Request<Incoming>| {
                if let Some(peer) = peer {
                    request.extensions_mut().insert(peer);
                }
                let mut service = service.clone();
                async move {
                    poll_fn(|task| service.poll_ready(task)).await?;
                    service.call(request).await
                }
            }
        };
        self.run(respond_to).await
    }

    /// Serves whoever comes. `respond_to` makes what answers the requests of one connection.
    async fn run<M, F, A, B, E>(self, respond_to: M) -> Result<(), ServeError>
    where
        M: Fn(Option<PeerAddress>) -> F,
        F: Fn(Request<Incoming>) -> A + Send + 'static,
        A: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let room = Arc::new(Semaphore::new(self.max_connections));
        let graceful = GracefulShutdown::new();
        let (cut, _) = watch::channel(false);
        let Self { door, until, drain_timeout, max_connections, heeds_signals, .. } = self;
        let mut end = until.unwrap_or_else(|| Box::pin(std::future::pending()));
        loop {
            let permit = tokio::select! {
                permit = room.clone().acquire_owned() => permit,
                () = &mut end => break,
            };
            let Ok(permit) = permit else { break };
            tokio::select! {
                accepted = door.accept(permit, &respond_to, &graceful, &cut) => {
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
        tokio::select! {
            () = graceful.shutdown() => {}
            () = tokio::time::sleep(drain_timeout) => tracing::warn!("some requests did not finish in time"),
            () = told_to_end(), if heeds_signals => tracing::warn!("told twice to end: what runs is cut"),
        }
        cut.send_replace(true);
        // What is cut has ended when all permits are back.
        let all = u32::try_from(max_connections).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(LAST_MOMENT, room.acquire_many(all)).await;
        Ok(())
    }
}

impl Door {
    /// Lets the next one in.
    async fn accept<M, F, A, B, E>(
        &self,
        permit: OwnedSemaphorePermit,
        respond_to: &M,
        graceful: &GracefulShutdown,
        cut: &watch::Sender<bool>,
    ) -> io::Result<()>
    where
        M: Fn(Option<PeerAddress>) -> F,
        F: Fn(Request<Incoming>) -> A + Send + 'static,
        A: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let (watcher, cut) = (graceful.watcher(), cut.subscribe());
        let bounds = Bounds { header: self.header_timeout, write: self.write_timeout, watcher, cut };
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Answers are written whole; waiting for more would only make them late.
                let _ = stream.set_nodelay(true);
                let respond = respond_to(Some(PeerAddress(peer)));
                #[cfg(feature = "tls")]
                if let Some(tls) = self.tls.clone() {
                    tokio::spawn(async move {
                        if let Ok(Ok(stream)) = tokio::time::timeout(bounds.header, tls.accept(stream)).await {
                            bounds.converse(stream, respond, permit).await;
                        }
                    });
                    return Ok(());
                }
                tokio::spawn(bounds.converse(stream, respond, permit));
            }
            #[cfg(unix)]
            Socket::Unix(socket) => {
                let (stream, _) = socket.accept().await?;
                tokio::spawn(bounds.converse(stream, respond_to(None), permit));
            }
        }
        Ok(())
    }
}

/// What answers requests and can be ended well.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not served by `Listener::serve`",
    note = "for `tower` services, such as the router of an application, there is `Listener::serve_tower`"
)]
pub trait Served: Send + Sync + 'static {
    /// What its answers are made of.
    type Body: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static;

    /// Answers a request of whoever is at the other end of the connection.
    fn respond(
        &self,
        request: Request<Incoming>,
        peer: Option<PeerAddress>,
    ) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Comes when it is to serve nobody any more.
    fn ending(&self) -> BoxFuture<'static, ()>;

    /// Ends what would go on for ever, such as streams that belong to no call. What runs may finish.
    fn begin_closing(&self);

    /// Ends what is left, and waits for it.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// What a connection is held to.
struct Bounds {
    header: Duration,
    write: Duration,
    watcher: Watcher,
    cut: watch::Receiver<bool>,
}

impl Bounds {
    async fn converse<I, F, A, B, E>(mut self, io: I, respond: F, permit: OwnedSemaphorePermit)
    where
        I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
        F: Fn(Request<Incoming>) -> A + Send + 'static,
        A: Future<Output = Result<Response<B>, E>> + Send + 'static,
        B: Body + Send + 'static,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        // Heads that do not arrive are seen to below, without a timer for each.
        builder.http1().header_read_timeout(None).max_buf_size(64 * 1024);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(256)
            .max_header_list_size(64 * 1024)
            .keep_alive_interval(Some(Duration::from_secs(30)))
            .keep_alive_timeout(self.write);
        let io = TokioIo::new(Stall::new(io, self.write));
        let activity = Activity::default();
        let watched = activity.clone();
        let service = service_fn(move |request| watched.watch(respond(request)));
        let connection = builder.serve_connection_with_upgrades(io, service);
        let idle = activity.is_idle_for(self.header);
        tokio::select! {
            // Clients that go away, or speak something else, are none of our concern.
            ended = self.watcher.watch(connection) => if let Err(error) = ended {
                tracing::debug!(error, "a connection ended");
            },
            // A head that takes too long, and a connection on which nothing happens, in either version of HTTP.
            () = idle => {}
            _ = self.cut.wait_for(|cut| *cut) => {}
        }
        drop(permit);
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
