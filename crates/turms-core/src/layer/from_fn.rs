//! Layers from async functions.

use std::fmt;
use std::sync::Arc;

use turms_proto::Notification;

use super::Layer;
use crate::{CallContext, CallResult, NotifyFuture, Request, ResponseFuture, Service};

/// Creates a layer from an async function. It receives each request with its context, and [`Next`] for the rest of the
/// layers and the server. It may change the request, the context or the result, or respond by itself. Notifications pass
/// the layer unchanged.
///
/// ```
/// # mod turms { pub mod layer { pub use turms_core::layer::*; pub use turms_core::{CallContext, Request}; } }
/// use turms::layer::{self, CallContext, Next, Request};
///
/// let timing = layer::from_fn(|request: Request, context: CallContext, next: Next| async move {
///     let (method, started) = (request.method.clone(), std::time::Instant::now());
///     let result = next.run(request, context).await;
///     println!("{method}: {:?}", started.elapsed());
///     result
/// });
/// # let _ = timing;
/// ```
pub fn from_fn<F, Fut>(function: F) -> FromFnLayer<F>
where
    F: Fn(Request, CallContext, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = CallResult> + Send + 'static,
{
    FromFnLayer(function)
}

/// A layer from an async function. Created by [`from_fn`].
#[derive(Clone, Copy)]
pub struct FromFnLayer<F>(F);

impl<F> fmt::Debug for FromFnLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFnLayer").finish_non_exhaustive()
    }
}

impl<S: Service, F: Clone> Layer<S> for FromFnLayer<F> {
    type Service = FromFn<F>;

    fn layer(&self, inner: S) -> FromFn<F> {
        FromFn { function: self.0.clone(), inner: Arc::new(inner) }
    }
}

/// The service of [`FromFnLayer`].
#[derive(Clone)]
pub struct FromFn<F> {
    function: F,
    inner: Arc<dyn Service>,
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").finish_non_exhaustive()
    }
}

impl<F, Fut> Service for FromFn<F>
where
    F: Fn(Request, CallContext, Next) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = CallResult> + Send + 'static,
{
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let (function, next) = (self.function.clone(), Next(self.inner.clone()));
        // The function is called when the future is polled, as for every service.
        Box::pin(async move { function(request, cx, next).await })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.inner.notify(notification, cx)
    }
}

/// The service below a layer that [`from_fn`] creates: the remaining layers and the server.
pub struct Next(Arc<dyn Service>);

impl Next {
    /// Passes the request on and returns the result.
    ///
    /// # Errors
    /// If the call fails.
    pub async fn run(self, request: Request, context: CallContext) -> CallResult {
        self.0.call(request, context).await
    }
}

impl fmt::Debug for Next {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}
