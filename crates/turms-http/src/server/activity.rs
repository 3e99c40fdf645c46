//! Whether anything happens on a connection.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pin_project_lite::pin_project;
use tokio::time::Instant;

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
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn begin(&self) -> Busy {
        self.change(|pulse| pulse.requests += 1);
        Busy(self.clone())
    }

    /// How much longer nothing may happen.
    fn patience(&self, limit: Duration) -> Duration {
        let pulse = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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

/// A service whose requests are counted until their answers are written.
#[derive(Clone)]
pub(super) struct Watched<S> {
    pub(super) service: S,
    pub(super) activity: Activity,
}

impl<S, B> tower_service::Service<Request<Incoming>> for Watched<S>
where
    S: tower_service::Service<Request<Incoming>, Response = Response<B>>,
{
    type Response = Response<WatchedBody<B>>;
    type Error = S::Error;
    type Future = WatchedFuture<S::Future>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(task)
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        WatchedFuture { busy: Some(self.activity.begin()), answer: self.service.call(request) }
    }
}

pin_project! {
    pub(super) struct WatchedFuture<F> {
        busy: Option<Busy>,
        #[pin]
        answer: F,
    }
}

impl<F: Future<Output = Result<Response<B>, E>>, B, E> Future for WatchedFuture<F> {
    type Output = Result<Response<WatchedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let busy = this.busy;
        this.answer.poll(task).map_ok(|answer| answer.map(|body| WatchedBody { busy: busy.take(), body }))
    }
}

pin_project! {
    pub(super) struct WatchedBody<B> {
        busy: Option<Busy>,
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
