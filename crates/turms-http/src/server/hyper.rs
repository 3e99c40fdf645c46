//! Connections that hyper speaks for us: those of HTTP/2, of whole applications, and of what upgrades them.

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

use super::http1::WriteTimeout;
use super::options::ConnectionLimits;
use super::shutdown::GracefulShutdown;

/// Answers the requests of one connection until it ends.
pub(super) async fn converse<I, F, A, B, E>(io: I, limits: ConnectionLimits, shutdown: &GracefulShutdown, respond: F)
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
        .keep_alive_timeout(limits.write_timeout);
    let io = TokioIo::new(WriteTimeout::new(io, limits.write_timeout));
    let activity = Activity::default();
    let watched = activity.clone();
    let service = service_fn(move |request| watched.watch(respond(request)));
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    let mut is_told = false;
    let conversation = poll_fn(|task| {
        if shutdown.is_shutting_down() && !is_told {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(task)
    });
    tokio::select! {
        // Clients that go away, or speak something else, are none of our concern.
        ended = conversation => if let Err(error) = ended {
            tracing::debug!(error, "a connection ended");
        },
        // A head that takes too long, and a connection on which nothing happens, in either version of HTTP.
        () = activity.is_idle_for(limits.header_timeout) => {}
    }
}

/// The requests of a connection that are not answered to the end yet.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<Pulse>>);

#[derive(Debug)]
struct Pulse {
    requests: usize,
    idle_since: Instant,
}

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Pulse { requests: 0, idle_since: Instant::now() })))
    }
}

impl Activity {
    fn change(&self, change: impl FnOnce(&mut Pulse)) {
        change(&mut self.0.lock());
    }

    /// Counts a request until its answer is written.
    pub(super) fn watch<A, B, E>(
        &self,
        answer: A,
    ) -> impl Future<Output = Result<Response<WatchedBody<B>>, E>> + use<A, B, E>
    where
        A: Future<Output = Result<Response<B>, E>>,
    {
        self.change(|pulse| pulse.requests += 1);
        let busy = Busy(self.clone());
        async move { Ok(answer.await?.map(|body| WatchedBody { _busy: busy, body })) }
    }

    /// How much longer nothing may happen.
    fn patience(&self, limit: Duration) -> Duration {
        let pulse = self.0.lock();
        if pulse.requests > 0 { limit } else { limit.saturating_sub(pulse.idle_since.elapsed()) }
    }

    /// Comes when nothing has happened for so long.
    pub(super) async fn is_idle_for(&self, limit: Duration) {
        loop {
            match self.patience(limit) {
                Duration::ZERO => return,
                patience => tokio::time::sleep(patience).await,
            }
        }
    }
}

/// A request that is not answered to the end yet.
#[derive(Debug)]
struct Busy(Activity);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.change(|pulse| {
            pulse.requests -= 1;
            pulse.idle_since = Instant::now();
        });
    }
}

pin_project! {
    pub(super) struct WatchedBody<B> {
        _busy: Busy,
        #[pin]
        body: B,
    }
}

impl<B: Body> Body for WatchedBody<B> {
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
