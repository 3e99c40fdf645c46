//! Whether anything happens on a connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
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
