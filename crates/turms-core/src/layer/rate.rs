use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::Notification;

use super::Layer;
use crate::{CallContext, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};

/// Lets only so many calls in per stretch of time, with some allowance for bursts; the others are refused.
///
/// A bucket holds as many tokens as a burst may have calls and is refilled evenly; each call takes one.
#[derive(Debug, Clone, Copy)]
pub struct RateLimit {
    calls: u32,
    per: Duration,
    burst: u32,
}

impl RateLimit {
    /// So many calls per stretch of time, all of which may come at once.
    #[must_use]
    pub fn new(calls: u32, per: Duration) -> Self {
        Self { calls, per, burst: calls }
    }

    /// How many may come at once.
    #[must_use]
    pub fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }
}

impl<S: Service> Layer<S> for RateLimit {
    type Service = RateLimitService<S>;

    fn layer(&self, inner: S) -> RateLimitService<S> {
        RateLimitService { inner: Arc::new(inner), bucket: Arc::new(Bucket { limit: *self, level: Mutex::new(None) }) }
    }
}

/// See [`RateLimit`].
#[derive(Debug)]
pub struct RateLimitService<S> {
    inner: Arc<S>,
    bucket: Arc<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    limit: RateLimit,
    /// `None` before the first call.
    level: Mutex<Option<Level>>,
}

#[derive(Debug, Clone, Copy)]
struct Level {
    tokens: f64,
    filled_at: Instant,
}

impl Bucket {
    /// Takes a token; if there is none, the error is the time until there is one.
    fn take(&self, now: Instant) -> Result<(), Duration> {
        let (burst, rate) = (f64::from(self.limit.burst), f64::from(self.limit.calls) / self.limit.per.as_secs_f64());
        let mut level = self.level.lock();
        let level = level.get_or_insert(Level { tokens: burst, filled_at: now });
        let elapsed = now.saturating_duration_since(level.filled_at).as_secs_f64();
        level.tokens = (level.tokens + elapsed * rate).min(burst);
        level.filled_at = now;
        if level.tokens < 1.0 {
            return Err(Duration::try_from_secs_f64((1.0 - level.tokens) / rate).unwrap_or(Duration::MAX));
        }
        level.tokens -= 1.0;
        Ok(())
    }
}

impl<S: Service> Service for RateLimitService<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (inner, bucket) = (self.inner.clone(), self.bucket.clone());
        Box::pin(async move {
            match bucket.take(Instant::now()) {
                Ok(()) => inner.call(request, cx).await,
                Err(wait) => {
                    let message = format!("too many calls of {}: try again in {wait:.1?}", request.method);
                    Err(ServiceError::retry_after(ErrorOrigin::RateLimited, message, wait))
                }
            }
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}
