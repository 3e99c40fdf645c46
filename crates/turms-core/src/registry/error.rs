use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use turms_proto::{DecodeError, ErrorObject, format_duration};

use super::{InvalidName, ServiceName};

/// Why a service was not registered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name is not one.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Another service has the name.
    #[error("service {name:?}: the name is taken")]
    Taken {
        /// The name.
        name: ServiceName,
    },
    /// The registry could not be asked.
    #[error("service {name:?}: cannot be registered")]
    Unreachable {
        /// The name.
        name: ServiceName,
        /// Why not.
        source: RegistryError,
    },
}

impl RegisterError {
    /// Whether another service has the name.
    #[must_use]
    pub fn is_taken(&self) -> bool {
        matches!(self, Self::Taken { .. })
    }
}

/// Why a service did not answer, or not well.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceCallError {
    /// No service has the name.
    #[error("service {name:?}: not registered")]
    NotFound {
        /// The name.
        name: String,
    },
    /// The service did not answer in time.
    #[error("service {name:?}: no response within {}", format_duration(*after))]
    TimedOut {
        /// The name.
        name: String,
        /// How long it had.
        after: Duration,
    },
    /// The service answered with an error, or panicked.
    #[error("service {name:?}: answered with an error")]
    Service {
        /// The name.
        name: String,
        /// What it answered.
        #[source]
        error: Box<ErrorObject>,
    },
    /// The service answered with something else than what was asked for.
    #[error("service {name:?}: the answer is not what was asked for")]
    Decode {
        /// The name.
        name: String,
        /// What is wrong with it.
        source: DecodeError,
    },
    /// The service is registered, or may be, but is out of reach.
    #[error("service {name:?}: cannot be reached")]
    Unreachable {
        /// The name.
        name: String,
        /// Why not.
        source: RegistryError,
    },
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

    /// Whether no service has the name.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether the service did not answer in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether the service is out of reach.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    /// The error that the service answered with, if it did.
    #[must_use]
    pub fn service_error(&self) -> Option<&ErrorObject> {
        match self {
            Self::Service { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// The registry itself cannot be reached. Never so within one process.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the registry cannot be reached")]
pub struct RegistryError {
    source: Arc<dyn Error + Send + Sync>,
}

impl RegistryError {
    /// For this reason.
    pub fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: source.into().into() }
    }
}
