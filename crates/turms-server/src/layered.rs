//! Layers around one tool, one prompt or one resource.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use turms_core::layer::Layer;
use turms_core::{CallContext, CallResult, ErrorOrigin, NotifyFuture, Request, ResponseFuture, Service, ServiceError};
use turms_proto::Notification;

use crate::context::Context;

/// A stack of layers, outermost last.
#[derive(Default)]
pub(crate) struct LayerStack(Vec<BoxLayer>);

type BoxLayer = Box<dyn Fn(Arc<dyn Service>) -> Arc<dyn Service> + Send + Sync>;

impl LayerStack {
    pub(crate) fn push<L>(&mut self, layer: L)
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.0.push(Box::new(move |inner| Arc::new(layer.layer(inner))));
    }

    /// Wraps a service in the layers. Returns `None` if there are no layers.
    pub(crate) fn wrap(&self, service: impl Service) -> Option<Arc<dyn Service>> {
        if self.0.is_empty() {
            return None;
        }
        Some(self.0.iter().fold(Arc::new(service) as Arc<dyn Service>, |inner, layer| layer(inner)))
    }
}

impl fmt::Debug for LayerStack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LayerStack({})", self.0.len())
    }
}

/// Calls an item through its layers. The layers receive the client's request, and the item receives what they make of
/// it.
pub(crate) async fn call_layered<R: DeserializeOwned + 'static>(
    service: Arc<dyn Service>,
    request: Request,
    context: Context,
) -> Result<R, ServiceError> {
    let payload = service.call(request, context.into_layered()).await?;
    payload.take().map_err(|error| {
        ServiceError::internal(
            ErrorOrigin::Internal,
            format!("a layer has replaced the result by an invalid one: {error}"),
        )
    })
}

/// The innermost service of an item's layers: the item itself.
pub(crate) struct Innermost<F>(pub(crate) F);

impl<F, Fut> Service for Innermost<F>
where
    F: Fn(Request, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = CallResult> + Send + 'static,
{
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        match Context::from_layered(cx) {
            Some(context) => Box::pin((self.0)(request, context)),
            None => {
                let message = "a layer has called the item with another context than it was called with";
                Box::pin(std::future::ready(Err(ServiceError::internal(ErrorOrigin::Internal, message))))
            }
        }
    }

    /// Does nothing: notifications are not addressed to an item.
    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}
