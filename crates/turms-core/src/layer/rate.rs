use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::{Notification, format_duration};

use super::Layer;
use crate::{CallContext, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};

/// Limits the rate of calls, with bursts. Calls over the limit are refused.
///
/// A token bucket: it holds as many tokens as a burst may have calls, is refilled evenly, and each call takes one token.
#[derive(Debug, Clone, Copy)]
pub struct RateLimitLayer {
    calls: u32,
    per: Duration,
    burst: u32,
}

impl RateLimitLayer {
    /// Creates a layer with a maximum number of calls per period. The default burst is the same number.
    #[must_use]
    pub fn new(calls: u32, per: Duration) -> Self {
        Self { calls, per, burst: calls }
    }

    /// Sets the maximum number of calls in a burst.
    #[must_use]
    pub fn burst(mut self, burst: u32) -> Self {
        self.burst = burst;
        self
    }
}

impl<S: Service> Layer<S> for RateLimitLayer {
    type Service = RateLimit<S>;

    fn layer(&self, inner: S) -> RateLimit<S> {
        RateLimit { inner: Arc::new(inner), bucket: Arc::new(TokenBucket { limit: *self, level: Mutex::new(None) }) }
    }
}

/// Service with a maximum rate of calls, made by a [`RateLimitLayer`].
#[derive(Debug)]
pub struct RateLimit<S> {
    inner: Arc<S>,
    bucket: Arc<TokenBucket>,
}

#[derive(Debug)]
struct TokenBucket {
    limit: RateLimitLayer,
    /// `None` before the first call.
    level: Mutex<Option<BucketLevel>>,
}

#[derive(Debug, Clone, Copy)]
struct BucketLevel {
    tokens: f64,
    filled_at: Instant,
}

impl TokenBucket {
    /// Takes a token. The error is the time until there is one.
    fn take(&self, now: Instant) -> Result<(), Duration> {
        let (burst, rate) = (f64::from(self.limit.burst), f64::from(self.limit.calls) / self.limit.per.as_secs_f64());
        let mut level = self.level.lock();
        let level = level.get_or_insert(BucketLevel { tokens: burst, filled_at: now });
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

impl<S: Service> Service for RateLimit<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (inner, bucket) = (self.inner.clone(), self.bucket.clone());
        Box::pin(async move {
            match bucket.take(Instant::now()) {
                Ok(()) => inner.call(request, cx).await,
                Err(wait) => {
                    let message = format!("{}: too many calls; try again in {}", request.method, format_duration(wait));
                    Err(ServiceError::retry_after(ErrorOrigin::RateLimited, message, wait))
                }
            }
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}
