use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use turms_proto::{DecodeError, ErrorObject, format_duration};

use crate::__internal::debug_error;

use super::{ServiceName, ServiceNameError};

/// Error of registering a service.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is invalid.
    #[error(transparent)]
    Name(#[from] ServiceNameError),
    /// The name is taken by another service.
    #[error("service {name:?}: the name is already registered")]
    Taken {
        /// The name.
        name: ServiceName,
    },
    /// The registry cannot be reached.
    #[error("service {name:?}: cannot be registered")]
    Unreachable {
        /// The name.
        name: ServiceName,
        /// The cause.
        source: RegistryError,
    },
}

debug_error! { RegisterError { Name(error), Taken { name }, Unreachable { name, source } } }

impl RegisterError {
    /// Returns `true` if the name is taken by another service.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

/// Error of calling a service.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceCallError {
    /// No service is registered under the name.
    #[error("service {name:?}: not registered")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The service did not respond in time.
    #[error("service {name:?}: no response within {}", format_duration(*after))]
    TimedOut {
        /// The name.
        name: String,
        /// The timeout.
        after: Duration,
    },
    /// The service responded with an error, or panicked.
    #[error("service {name:?}: error response")]
    Service {
        /// The name.
        name: String,
        /// The error response.
        #[source]
        error: Box<ErrorObject>,
    },
    /// The response cannot be decoded as the result of the method.
    #[error("service {name:?}: invalid response")]
    Decode {
        /// The name.
        name: String,
        /// The cause.
        source: DecodeError,
    },
    /// The service cannot be reached. It may be registered.
    #[error("service {name:?}: cannot be reached")]
    Unreachable {
        /// The name.
        name: String,
        /// The cause.
        source: RegistryError,
    },
}

debug_error! {
    ServiceCallError {
        NotFound { name },
        TimedOut { name, after },
        Service { name, error },
        Decode { name, source },
        Unreachable { name, source },
    }
}

impl ServiceCallError {
    /// The name of the service that was called.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::NotFound { name }
            | Self::TimedOut { name, .. }
            | Self::Service { name, .. }
            | Self::Decode { name, .. }
            | Self::Unreachable { name, .. } => name,
        }
    }

    /// Returns `true` if no service is registered under the name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Returns `true` if the service did not respond in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Returns `true` if the service cannot be reached.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// The error response of the service, if there is one.
    #[must_use]
    pub fn service_error(&self) -> Option<&ErrorObject> {
        match self {
            Self::Service { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Error for a registry that cannot be reached. It does not occur with a [`LocalRegistry`](super::LocalRegistry).
#[derive(Clone, thiserror::Error)]
#[error("the registry cannot be reached")]
pub struct RegistryError {
    source: Arc<dyn Error + Send + Sync>,
}

debug_error! { RegistryError |error| { source: error.source } }

impl RegistryError {
    /// Creates an error with its cause.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into().into() }
    }
}
