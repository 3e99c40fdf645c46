//! Layers around a [`Service`](crate::Service): timeouts, limits and tracing.
//!
//! [`tower()`] adapts middleware that is written for `tower`.

mod concurrency;
mod rate;
mod size;
mod timeout;
mod tower;
mod trace;

pub use tower_layer::Layer;

pub use self::concurrency::{ConcurrencyLimit, ConcurrencyLimitService};
pub use self::rate::{RateLimit, RateLimitService};
pub use self::size::{ResponseSizeLimit, ResponseSizeLimitService};
pub use self::timeout::{Timeout, TimeoutService};
pub use self::tower::{Call, FromTower, ToTower, ToTowerFuture, Tower, tower};
pub use self::trace::{Trace, TraceService};

#[cfg(test)]
mod tests;
