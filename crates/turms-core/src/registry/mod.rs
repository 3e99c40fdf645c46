//! Services by name: register one, and whoever has the registry can call it.
//!
//! - [`Services`] is what most code holds: a registry with typed calls, timeouts and metadata in front of it.
//! - [`LocalRegistry`] is the registry of one process. Values move through it and are never written as JSON.
//! - [`Registry`] is the trait behind both, for registries that reach further than one process. [`contract`] has the
//!   tests that each must pass.
//!
//! ```
//! use turms_core::registry::Services;
//! use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
//! use turms_proto::Notification;
//! use turms_proto::types::{CallTool, CallToolParams, Outcome, ToolResult};
//!
//! struct Clock;
//!
//! impl Service for Clock {
//!     fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
//!         Box::pin(async { Ok(Payload::new(Outcome::Complete(ToolResult::of_text("noon")))) })
//!     }
//!
//!     fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
//!         Box::pin(async {})
//!     }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let services = Services::local();
//! let clock = services.register("clock", Clock).await?;
//!
//! let answer = services.call_method::<CallTool>("clock", CallToolParams::new("time")).await?;
//! assert_eq!(answer.complete().map(|result| result.text()), Some("noon".into()));
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
pub use self::name::{InvalidName, ServiceName};
pub use self::registration::Registration;
pub use self::services::{ServiceCall, ServiceCallFuture, Services};
use crate::{BoxFuture, Payload, Request, Service};

/// Where services are found by name.
///
/// Most code calls through [`Services`]; this is for those who make a registry. Nothing happens before a future is polled.
///
/// Two registries know nothing of each other's names unless they are made to share them. An implementation shows that it
/// keeps to the rules by passing [`contract::check`].
pub trait Registry: Send + Sync + 'static {
    /// Registers a service. It can be found when this is done, until the registration is dropped.
    ///
    /// # Errors
    /// When the name is taken, or the registry cannot be reached.
    fn register(
        &self,
        name: ServiceName,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'static, Result<Registration, RegisterError>>;

    /// Calls a service. Dropping the future gives the call up.
    ///
    /// `name` is whatever the caller asks for; what is no [`ServiceName`] is not found. A call that has begun is finished
    /// even if the registration ends meanwhile, and a service that panics has answered with an error.
    ///
    /// # Errors
    /// When there is no such service, when it answers with an error or not in time, or when it cannot be reached.
    fn call(
        &self,
        name: &str,
        request: Request,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<Payload, ServiceCallError>>;

    /// Tells a service something. Done when the service has heard it, or when it is on its way to another process.
    ///
    /// # Errors
    /// When there is no such service, when it does not listen in time, or when it cannot be reached.
    fn notify(
        &self,
        name: &str,
        notification: Notification,
        options: ServiceCallOptions,
    ) -> BoxFuture<'static, Result<(), ServiceCallError>>;

    /// The names of all services, in alphabetical order.
    ///
    /// # Errors
    /// When the registry cannot be reached.
    fn names(&self) -> BoxFuture<'static, Result<Vec<ServiceName>, RegistryError>>;

    /// Whether a service is there and can be called now.
    ///
    /// The service itself is not asked: there is no method that every service answers.
    ///
    /// # Errors
    /// When there is no such service, or it cannot be reached.
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

/// How a service is called.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServiceCallOptions {
    /// How long to wait for the answer. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// What the service finds in [`CallContext::meta`](crate::CallContext::meta).
    pub meta: Option<Meta>,
}

impl ServiceCallOptions {
    /// How long a call waits unless it says otherwise.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

    /// With another timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.timeout = timeout.into();
        self
    }

    /// With metadata.
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
