//! Layers around a [`Service`](crate::Service): timeouts, limits and tracing.
//!
//! [`from_fn`] creates a layer from an async function. [`tower()`] adapts middleware that is written for `tower`.

mod concurrency;
mod from_fn;
mod rate;
mod size;
mod timeout;
mod tower;
mod trace;

pub use tower_layer::Layer;

pub use self::concurrency::{ConcurrencyLimit, ConcurrencyLimitService};
pub use self::from_fn::{FromFn, FromFnLayer, Next, from_fn};
pub use self::rate::{RateLimit, RateLimitService};
pub use self::size::{ResponseSizeLimit, ResponseSizeLimitService};
pub use self::timeout::{Timeout, TimeoutService};
pub use self::tower::{Call, FromTower, ToTower, ToTowerFuture, Tower, tower};
pub use self::trace::{Trace, TraceService};

#[cfg(test)]
mod tests;
