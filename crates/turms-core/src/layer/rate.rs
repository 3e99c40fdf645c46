use std::time::Duration;

use bytestring::ByteString;
use parking_lot::Mutex;
use tokio::time::Instant;
use turms_proto::RawJson;

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
        RateLimitService { inner, limit: *self, bucket: Mutex::new(None) }
    }
}

/// See [`RateLimit`].
#[derive(Debug)]
pub struct RateLimitService<S> {
    inner: S,
    limit: RateLimit,
    bucket: Mutex<Option<Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    tokens: f64,
    filled: Instant,
}

impl<S> RateLimitService<S> {
    /// Takes a token, or says how long it takes until there is one.
    fn take(&self, now: Instant) -> Result<(), Duration> {
        let (burst, rate) = (f64::from(self.limit.burst), f64::from(self.limit.calls) / self.limit.per.as_secs_f64());
        let mut bucket = self.bucket.lock();
        let bucket = bucket.get_or_insert(Bucket { tokens: burst, filled: now });
        let since = now.saturating_duration_since(bucket.filled).as_secs_f64();
        bucket.tokens = (bucket.tokens + since * rate).min(burst);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            return Err(Duration::try_from_secs_f64((1.0 - bucket.tokens) / rate).unwrap_or(Duration::MAX));
        }
        bucket.tokens -= 1.0;
        Ok(())
    }
}

impl<S: Service> Service for RateLimitService<S> {
    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: CallContext) -> NotifyFuture {
        self.inner.notify(method, params, cx)
    }

    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        match self.take(Instant::now()) {
            Ok(()) => self.inner.call(request, cx),
            Err(wait) => {
                let message = format!("too many calls of {}: try again in {wait:.1?}", request.method);
                ResponseFuture::now(Err(ServiceError::internal(ErrorOrigin::Overloaded, message)))
            }
        }
    }
}
