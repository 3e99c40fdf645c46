//! Connections that are served by hyper: HTTP/2, `tower` services, upgrades, and all connections after
//! `Listener::use_hyper`.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;

use super::PeerAddress;
use super::handler::{HttpHandler, handle_request};
use super::http1::WriteTimeout;
use super::listener::AcceptedConnection;
use super::options::ConnectionLimits;
use super::shutdown::GracefulShutdown;

/// Serves one connection with a handler.
pub(super) async fn serve<H: HttpHandler>(connection: AcceptedConnection, handler: Arc<H>) {
    let AcceptedConnection { stream, peer, limits, shutdown, permit } = connection;
    serve_stream(stream, handler, peer, limits, &shutdown).await;
    drop(permit);
}

/// Same as [`serve`], over any byte stream.
pub(super) async fn serve_stream<H: HttpHandler>(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    handler: Arc<H>,
    peer: Option<PeerAddress>,
    limits: ConnectionLimits,
    shutdown: &GracefulShutdown,
) {
    let respond = move |request: Request<Incoming>| {
        let handler = handler.clone();
        async move { Ok::<_, Infallible>(handle_request(&*handler, request, peer).await) }
    };
    serve_connection(io, limits, shutdown, respond).await;
}

/// Serves one connection with a `tower` service.
pub(super) async fn serve_tower<S, B>(connection: AcceptedConnection, service: S)
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let AcceptedConnection { stream, peer, limits, shutdown, permit } = connection;
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
    serve_connection(stream, limits, &shutdown, respond).await;
    drop(permit);
}

/// Serves the requests of one connection until it closes.
async fn serve_connection<I, F, R, B, E>(io: I, limits: ConnectionLimits, shutdown: &GracefulShutdown, respond: F)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<Incoming>) -> R + Send + 'static,
    R: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    // The idle timeout below covers missing request heads, without a timer for each.
    builder.http1().header_read_timeout(None).max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .max_header_list_size(64 * 1024)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(limits.write_timeout);
    let io = TokioIo::new(WriteTimeout::new(io, limits.write_timeout));
    let activity = Activity::default();
    let tracked = activity.clone();
    let service = service_fn(move |request| tracked.track(respond(request)));
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    let mut is_shutting_down = false;
    let serving = poll_fn(|task| {
        if shutdown.is_shutting_down() && !is_shutting_down {
            is_shutting_down = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(task)
    });
    tokio::select! {
        // Clients may disconnect at any time: this is not a server error.
        served = serving => if let Err(error) = served {
            tracing::debug!(error, "a connection broke");
        },
        () = activity.idle_for(limits.header_timeout) => {}
    }
}

/// The number of requests in flight on a connection, and the time since there are none.
#[derive(Debug, Clone)]
struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    requests: usize,
    idle_since: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(ActivityState { requests: 0, idle_since: Instant::now() })))
    }
}

impl Activity {
    fn change(&self, change: impl FnOnce(&mut ActivityState)) {
        change(&mut self.0.lock());
    }

    /// Counts a request until its response is written.
    fn track<R, B, E>(&self, response: R) -> impl Future<Output = Result<Response<TrackedBody<B>>, E>> + use<R, B, E>
    where
        R: Future<Output = Result<Response<B>, E>>,
    {
        self.change(|state| state.requests += 1);
        let request = InFlightRequest(self.clone());
        async move { Ok(response.await?.map(|body| TrackedBody { _request: request, body })) }
    }

    /// Returns the time until the connection has been idle for `limit`.
    fn remaining(&self, limit: Duration) -> Duration {
        let state = self.0.lock();
        if state.requests > 0 { limit } else { limit.saturating_sub(state.idle_since.elapsed()) }
    }

    /// Resolves when the connection has been idle for `limit`, in HTTP/1.1 and HTTP/2.
    async fn idle_for(&self, limit: Duration) {
        loop {
            match self.remaining(limit) {
                Duration::ZERO => return,
                remaining => tokio::time::sleep(remaining).await,
            }
        }
    }
}

/// A request until its response is written.
#[derive(Debug)]
struct InFlightRequest(Activity);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.requests -= 1;
            state.idle_since = Instant::now();
        });
    }
}

pin_project! {
    /// The body of a response, which counts as activity until it is written.
    struct TrackedBody<B> {
        _request: InFlightRequest,
        #[pin]
        body: B,
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(task)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
