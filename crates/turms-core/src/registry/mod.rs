//! A registry of services by name.
//!
//! - [`ServiceRegistry`] is the handle that most code uses: typed calls with timeouts and metadata.
//! - [`LocalRegistry`] is the registry of one process. Values are moved and never encoded as JSON.
//! - [`Registry`] is the trait of all registries, for implementations that span processes. [`contract`] has the tests that each must
//!   pass.
//!
//! ```
//! use turms_core::registry::ServiceRegistry;
//! use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
//! use turms_proto::Notification;
//! use turms_proto::types::{CallTool, CallToolParams, Outcome, CallToolResult};
//!
//! struct Clock;
//!
//! impl Service for Clock {
//!     fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
//!         Box::pin(async { Ok(Payload::new(Outcome::Complete(CallToolResult::from_text("noon")))) })
//!     }
//!
//!     fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
//!         Box::pin(async {})
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let services = ServiceRegistry::local();
//! let clock = services.register("clock", Clock).await?;
//!
//! let response = services.call_method::<CallTool>("clock", CallToolParams::new("time")).await?;
//! assert_eq!(response.complete().map(|result| result.text()), Some("noon".into()));
//!
//! drop(clock);
//! assert!(services.check("clock").await.is_err());
//! # Ok(())
//! # }
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(example()).unwrap();
//! ```

pub mod contract;
mod error;
mod local;
mod name;
mod registration;
mod services;

use std::sync::Arc;
use std::time::Duration;

use turms_proto::Notification;
use turms_proto::types::Meta;

pub use self::error::{RegisterError, RegistryError, ServiceCallError};
pub use self::local::LocalRegistry;
pub use self::name::{ServiceName, ServiceNameError};
pub use self::registration::Registration;
pub use self::services::{ServiceCall, ServiceCallFuture, ServiceRegistry};
use crate::{BoxFuture, Payload, Request, Service};

/// A registry of services by name. Implement it for another kind of registry; to call services, use [`ServiceRegistry`].
///
/// Nothing happens before a future is polled. Two registries do not share names unless they are connected. An implementation must pass
/// [`contract::check`].
pub trait Registry: Send + Sync + 'static {
    /// Registers a service. It can be called from when the future resolves until the registration is dropped.
    ///
    /// # Errors
    /// If the name is taken, or the registry cannot be reached.
    fn register(
        &self,
        name: ServiceName,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>>;

    /// Calls a service. Dropping the future cancels the call.
    ///
    /// A `name` that is not a valid [`ServiceName`] is not found. A running call finishes even if its service is unregistered meanwhile. A
    /// panic of the service is an error response.
    ///
    /// # Errors
    /// If the service is not registered, responds with an error or not in time, or cannot be reached.
    fn call(
        &self,
        name: &str,
        request: Request,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<Payload, ServiceCallError>>;

    /// Sends a notification to a service. Resolves when the service has handled it, or when it is sent to another process.
    ///
    /// # Errors
    /// If the service is not registered, does not handle the notification in time, or cannot be reached.
    fn notify(
        &self,
        name: &str,
        notification: Notification,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<(), ServiceCallError>>;

    /// Returns the names of all services, in alphabetical order.
    ///
    /// # Errors
    /// If the registry cannot be reached.
    fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>>;

    /// Checks that a service is registered and can be reached.
    ///
    /// The service itself is not called: there is no method that every service has.
    ///
    /// # Errors
    /// If the service is not registered or cannot be reached.
    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), ServiceCallError>>;
}

impl<R: Registry + ?Sized> Registry for Arc<R> {
    fn register(
        &self,
        name: ServiceName,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>> {
        (**self).register(name, service)
    }

    fn call(
        &self,
        name: &str,
        request: Request,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<Payload, ServiceCallError>> {
        (**self).call(name, request, options)
    }

    fn notify(
        &self,
        name: &str,
        notification: Notification,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        (**self).notify(name, notification, options)
    }

    fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>> {
        (**self).names()
    }

    fn check(&self, name: &str) -> BoxFuture<'static, Result<(), ServiceCallError>> {
        (**self).check(name)
    }
}

/// The options of a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceCallOptions {
    /// Timeout for the response; `None` for no timeout. Default: 30 s.
    pub timeout: Option<Duration>,
    /// The metadata, which the service sees in [`CallContext::meta`](crate::CallContext::meta).
    pub meta: Option<Meta>,
}

impl ServiceCallOptions {
    /// The timeout for the response, unless it is set.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// Sets the timeout for the response; `None` for no timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn meta(mut self, meta: impl Into<Option<Meta>>) -> Self {
        self.meta = meta.into();
        self
    }
}

impl Default for ServiceCallOptions {
    fn default() -> Self {
        Self { timeout: Some(Self::DEFAULT_TIMEOUT), meta: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time};

        let timeout = ServiceCallOptions::default().timeout.unwrap();
        let code = [("ServiceCallOptions::timeout", time(timeout))];
        assert_documented(include_str!("mod.rs"), &code);
    }
}
