//! Layers around a [`Service`](crate::Service): timeouts, limits and tracing.
//!
//! Each layer makes a service of the same name: a [`TimeoutLayer`] makes a [`Timeout`]. [`from_fn`] creates a layer from an async function.
//! [`from_tower`] adapts middleware that is written for `tower`.

mod concurrency;
mod from_fn;
mod rate;
mod size;
mod timeout;
mod tower;
mod trace;

pub use tower_layer::Layer;

pub use self::concurrency::{ConcurrencyLimit, ConcurrencyLimitLayer};
pub use self::from_fn::{FromFn, FromFnLayer, Next, from_fn};
pub use self::rate::{RateLimit, RateLimitLayer};
pub use self::size::{ResponseSizeLimit, ResponseSizeLimitLayer};
pub use self::timeout::{Timeout, TimeoutLayer};
pub use self::tower::from_tower;
#[doc(hidden)]
pub use self::tower::{Call, FromTower, FromTowerLayer, ToTower, ToTowerFuture};
pub use self::trace::{Trace, TraceLayer};

#[cfg(test)]
mod tests;
