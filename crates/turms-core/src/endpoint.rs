use std::fmt;
use std::sync::Arc;

use turms_proto::ProtocolVersion;
use turms_proto::types::Implementation;

use crate::error::Error;
use crate::layer::Layer;
use crate::limits::Limits;
use crate::service::Service;
use crate::shutdown::Shutdown;

/// A service with everything that transports need to serve it: its name, revisions, limits and shutdown.
///
/// A layer around an endpoint keeps them. A layered service alone is not an endpoint, so it cannot be served by mistake without
/// them:
///
/// ```
/// use std::time::Duration;
///
/// # mod turms {
/// #     pub use turms_core as server;
/// #     pub mod layer { pub use turms_core::Service; pub use turms_core::layer::RateLimitLayer; }
/// #     pub use turms_proto::{ProtocolVersion, types};
/// # }
/// use turms::ProtocolVersion;
/// use turms::layer::{RateLimitLayer, Service};
/// use turms::server::{Endpoint, EndpointInfo};
/// use turms::types::Implementation;
///
/// # fn example(service: impl Service) {
/// let info = EndpointInfo::new(Implementation::new("echo", "1.0.0")).versions([ProtocolVersion::V2025_11_25]);
/// let endpoint = Endpoint::new(service, info).layer(RateLimitLayer::new(100, Duration::from_secs(1)));
/// assert_eq!(endpoint.info().versions, [ProtocolVersion::V2025_11_25]);
/// # }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    service: Arc<dyn Service>,
    info: Arc<EndpointInfo>,
    shutdown: Shutdown,
}

/// The properties of a service that transports and clients need.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointInfo {
    /// The name and version of the server.
    pub server_info: Implementation,
    /// The revisions that the service supports, oldest first.
    pub versions: Vec<ProtocolVersion>,
    /// The limits of each connection and session.
    pub limits: Limits,
}

impl EndpointInfo {
    /// Creates the properties of a service that supports every revision, with the default limits.
    #[must_use]
    pub fn new(server_info: Implementation) -> Self {
        Self { server_info, versions: ProtocolVersion::ALL.to_vec(), limits: Limits::default() }
    }

    /// Sets the revisions that the service supports, oldest first. Default: all.
    #[must_use]
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        self.versions = versions.into_iter().collect();
        self
    }

    /// Sets the limits of each connection and session.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }
}

impl Endpoint {
    /// Creates an endpoint from a service.
    pub fn new(service: impl Service, info: EndpointInfo) -> Self {
        Self::with_shutdown(Arc::new(service), info, Shutdown::new())
    }

    /// Creates an endpoint from a service that has a shutdown already.
    #[must_use]
    pub fn with_shutdown(service: Arc<dyn Service>, info: EndpointInfo, shutdown: Shutdown) -> Self {
        Self { service, info: Arc::new(info), shutdown }
    }

    /// Puts a layer around the service.
    #[must_use]
    pub fn layer<L>(self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>>,
        L::Service: Service,
    {
        Self { service: Arc::new(layer.layer(self.service)), ..self }
    }

    /// The service.
    #[must_use]
    pub fn service(&self) -> &Arc<dyn Service> {
        &self.service
    }

    /// The properties of the service that transports and clients need.
    #[must_use]
    pub fn info(&self) -> &EndpointInfo {
        &self.info
    }

    /// The shutdown of the server.
    #[must_use]
    pub fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("info", &self.info).finish_non_exhaustive()
    }
}

/// Conversion into an [`Endpoint`], for endpoints and for servers that are built on conversion.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be served",
    label = "not an endpoint",
    note = "a service needs a name, revisions and limits to be served: `Endpoint::new(service, EndpointInfo::new(..))`",
    note = "to put a layer around a server, use `Server::layer` or `Endpoint::layer`, which keep them"
)]
pub trait IntoEndpoint {
    /// Converts into an endpoint.
    ///
    /// # Errors
    /// If a component of the server is invalid, such as a tool with an invalid schema.
    fn into_endpoint(self) -> Result<Endpoint, Error>;
}

impl IntoEndpoint for Endpoint {
    fn into_endpoint(self) -> Result<Endpoint, Error> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let info = EndpointInfo::new(Implementation::new("server", "1"));
        let code = [("EndpointInfo::versions", when(info.versions == ProtocolVersion::ALL, "all"))];
        assert_documented(include_str!("endpoint.rs"), &code);
    }
}
