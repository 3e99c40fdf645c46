use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use turms_proto::method::Method;
use turms_proto::types::Meta;
use turms_proto::{DecodeError, MethodName, Notification};

use super::{
    LocalRegistry, RegisterError, Registration, Registry, RegistryError, ServiceCallError, ServiceCallOptions,
    ServiceName,
};
use crate::{BoxFuture, Payload, Request, Service};

/// A handle to a registry, to register and to call services. Clones share the registry.
///
/// ```
/// use std::time::Duration;
/// # mod turms {
/// #     pub use turms_core::{self as layer, registry};
/// #     pub use turms_proto as jsonrpc;
/// #     pub mod types { pub use turms_proto::{RawJson, types::Meta}; }
/// # }
///
/// use turms::jsonrpc::Notification;
/// use turms::layer::{CallContext, NotifyFuture, Request, ResponseFuture, Service};
/// use turms::registry::ServiceRegistry;
/// use turms::types::{Meta, RawJson};
///
/// struct Echo;
///
/// impl Service for Echo {
///     fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
///         Box::pin(async move { Ok(request.params) })
///     }
///
///     fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
///         Box::pin(async {})
///     }
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let services = ServiceRegistry::local();
/// let _echo = services.register("echo", Echo).await?;
///
/// let response = services
///     .call("echo", "say", RawJson::string("hello"))
///     .timeout(Duration::from_secs(2))
///     .meta(Meta::new().with("caller", "example")?)
///     .await?;
/// assert_eq!(response.take::<String>()?, "hello");
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct ServiceRegistry(Arc<dyn Registry>);

impl ServiceRegistry {
    /// Creates a handle to a registry.
    pub fn new(registry: impl Registry) -> Self {
        Self(Arc::new(registry))
    }

    /// Creates an empty registry within this process.
    #[must_use]
    pub fn local() -> Self {
        Self::new(LocalRegistry::new())
    }

    /// The registry.
    #[must_use]
    pub fn registry(&self) -> &dyn Registry {
        &*self.0
    }

    /// Registers a service until the registration is dropped.
    ///
    /// # Errors
    /// If the name is taken or invalid, or the registry cannot be reached.
    pub fn register(
        &self,
        name: impl Into<String>,
        service: impl Service,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>> {
        match ServiceName::new(name) {
            Ok(name) => self.0.register(name, Arc::new(service)),
            Err(error) => Box::pin(std::future::ready(Err(error.into()))),
        }
    }

    /// Creates a call of any method. It is sent when it is awaited; dropping the future cancels it.
    ///
    /// [`Payload::take`] moves the value out of the response or decodes it.
    pub fn call<'a>(
        &'a self,
        name: &'a str,
        method: impl Into<MethodName>,
        params: impl Into<Payload>,
    ) -> ServiceCall<'a> {
        self.prepare(name, Request::raw(method, params), Ok)
    }

    /// Creates a call of a known method with typed parameters. See [`ServiceRegistry::call`].
    pub fn call_method<'a, M: Method>(&'a self, name: &'a str, params: M::Params) -> ServiceCall<'a, M::Result> {
        self.prepare(name, Request::new::<M>(params), Payload::take)
    }

    fn prepare<'a, T>(&'a self, name: &'a str, request: Request, decode: DecodeResponse<T>) -> ServiceCall<'a, T> {
        ServiceCall { registry: &*self.0, name, request, options: ServiceCallOptions::default(), decode }
    }

    /// Sends a notification to a service.
    ///
    /// # Errors
    /// If the service is not registered, does not handle the notification in time, or cannot be reached.
    pub fn notify(&self, name: &str, notification: Notification) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        self.0.notify(name, notification, ServiceCallOptions::default())
    }

    /// Returns the names of all services, in alphabetical order.
    ///
    /// # Errors
    /// If the registry cannot be reached.
    #[must_use = "futures do nothing unless polled"]
    pub fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>> {
        self.0.names()
    }

    /// Checks that a service is registered and can be reached.
    ///
    /// # Errors
    /// If the service is not registered or cannot be reached.
    #[must_use = "futures do nothing unless polled"]
    pub fn check(&self, name: &str) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        self.0.check(name)
    }
}

/// A registry within this process.
impl Default for ServiceRegistry {
    fn default() -> Self {
        Self::local()
    }
}

impl fmt::Debug for ServiceRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceRegistry").finish_non_exhaustive()
    }
}

/// Converts a response to the type of the call.
type DecodeResponse<T> = fn(Payload) -> Result<T, DecodeError>;

/// A call of a service. Await it to send it.
#[must_use = "a call is sent when it is awaited"]
pub struct ServiceCall<'a, T = Payload> {
    registry: &'a dyn Registry,
    name: &'a str,
    request: Request,
    options: ServiceCallOptions,
    decode: DecodeResponse<T>,
}

impl<T> ServiceCall<'_, T> {
    /// Sets the timeout for the response; `None` for no timeout. Default: 30 s.
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.options.timeout = timeout.into();
        self
    }

    /// Sets the metadata, which the service sees in [`CallContext::meta`](crate::CallContext::meta).
    pub fn meta(mut self, meta: impl Into<Option<Meta>>) -> Self {
        self.options.meta = meta.into();
        self
    }

    /// Replaces all options.
    pub fn options(mut self, options: ServiceCallOptions) -> Self {
        self.options = options;
        self
    }
}

impl<'a, T> IntoFuture for ServiceCall<'a, T> {
    type Output = Result<T, ServiceCallError>;
    type IntoFuture = ServiceCallFuture<'a, T>;

    fn into_future(self) -> ServiceCallFuture<'a, T> {
        let response = self.registry.call(self.name, self.request, self.options);
        ServiceCallFuture { name: self.name, response, decode: self.decode }
    }
}

impl<T> fmt::Debug for ServiceCall<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut call = f.debug_struct("ServiceCall");
        call.field("name", &self.name).field("method", &self.request.method).finish_non_exhaustive()
    }
}

/// The future of a [`ServiceCall`].
#[must_use = "futures do nothing unless polled"]
pub struct ServiceCallFuture<'a, T = Payload> {
    name: &'a str,
    response: BoxFuture<'static, Result<Payload, ServiceCallError>>,
    decode: DecodeResponse<T>,
}

impl<T> Future for ServiceCallFuture<'_, T> {
    type Output = Result<T, ServiceCallError>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.response).poll(task).map(|response| {
            let decode_error = |source| ServiceCallError::Decode { name: self.name.to_owned(), source };
            (self.decode)(response?).map_err(decode_error)
        })
    }
}

impl<T> fmt::Debug for ServiceCallFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCallFuture").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time};

        let services = ServiceRegistry::local();
        let call = services.call("a", "ping", turms_proto::RawJson::from(turms_proto::Object::new()));
        let code = [("ServiceCall::timeout", time(call.options.timeout.unwrap()))];
        assert_documented(include_str!("services.rs"), &code);
    }
}
