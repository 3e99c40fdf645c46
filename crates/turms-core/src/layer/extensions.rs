use std::sync::Arc;

use bytestring::ByteString;
use http::Extensions;
use turms_proto::{ProtocolVersion, RawJson};

use crate::context::CallContext;
use crate::peer::BoxFuture;
use crate::service::{NotifyFuture, Request, ResponseFuture, Service};

/// A service whose calls all see the same extensions, such as those of the request that their connection began with.
#[derive(Debug, Clone)]
pub struct WithExtensions<S> {
    service: S,
    extensions: Arc<Extensions>,
}

impl<S> WithExtensions<S> {
    /// Calls of `service` see these extensions.
    pub fn new(service: S, extensions: impl Into<Arc<Extensions>>) -> Self {
        Self { service, extensions: extensions.into() }
    }
}

impl<S: Service> Service for WithExtensions<S> {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.service.call(request, cx.with_extensions(self.extensions.clone()))
    }

    fn notify(&self, method: ByteString, params: Option<RawJson>, cx: CallContext) -> NotifyFuture {
        self.service.notify(method, params, cx.with_extensions(self.extensions.clone()))
    }

    fn versions(&self) -> &[ProtocolVersion] {
        self.service.versions()
    }

    fn ending(&self) -> BoxFuture<'static, ()> {
        self.service.ending()
    }
}
