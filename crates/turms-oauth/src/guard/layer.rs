//! A `tower` layer that guards other routes of an application.

use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;
use turms_core::BoxFuture;
use turms_http::GuardRequest;

use super::TokenGuard;

/// A `tower` layer that checks tokens, for routes of an application that are not MCP. Created by [`TokenGuard::layer`].
///
/// The principal is in the extensions of accepted requests. A proof of possession must be for the URL with the origin of the resource and
/// the path of the request. A layer for CORS belongs outside of this one, because preflight requests have no token.
#[derive(Debug, Clone)]
pub struct TokenGuardLayer(pub(super) TokenGuard);

impl<S> Layer<S> for TokenGuardLayer {
    type Service = GuardedService<S>;

    fn layer(&self, service: S) -> GuardedService<S> {
        GuardedService { guard: self.0.clone(), service }
    }
}

/// A service behind a [`TokenGuardLayer`].
#[derive(Debug, Clone)]
pub struct GuardedService<S> {
    guard: TokenGuard,
    service: S,
}

impl<S, B, R> Service<Request<B>> for GuardedService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: From<Bytes> + Send,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<R>, S::Error>>;

    fn poll_ready(&mut self, task: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(task)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The service that is ready is the one to call.
        let clone = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, clone);
        let guard = self.guard.clone();
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let url = guard.0.resource.at_path(parts.uri.path());
            match guard.0.check(&GuardRequest::new(&parts), Some(url)).await {
                Ok(principal) => {
                    parts.extensions.insert(principal);
                    service.call(Request::from_parts(parts, body)).await
                }
                Err(rejection) => Ok(rejection.into_response().map(R::from)),
            }
        })
    }
}
