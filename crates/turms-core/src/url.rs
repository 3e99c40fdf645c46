//! Servers that are named by an address, and what connects to them.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;

use crate::channel::{ConnectError, Connector};

/// A server that is named by an address.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UrlTarget {
    /// The address. It may hold a secret.
    pub url: String,
    /// Headers for every request.
    pub headers: HeaderMap,
    /// How to speak there.
    pub transport: UrlTransport,
}

impl UrlTarget {
    /// An address, spoken to in whatever way it understands.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: HeaderMap::new(), transport: UrlTransport::Unstated }
    }

    /// With headers for every request.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Spoken to in this way.
    #[must_use]
    pub fn transport(mut self, transport: UrlTransport) -> Self {
        self.transport = transport;
        self
    }
}

impl fmt::Debug for UrlTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses and headers hold keys often enough.
        f.debug_struct("UrlTarget").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// How to speak to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum UrlTransport {
    /// Nobody says; the address is one of HTTP. Streamable HTTP first, HTTP+SSE where that is not understood.
    #[default]
    Unstated,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE, the transport of 2024-11-05.
    Sse,
    /// WebSocket.
    WebSocket,
}

/// What makes connectors for addresses. A crate that brings a transport implements it; whoever reads addresses out of a
/// configuration asks it.
pub trait UrlConnector: Send + Sync + 'static {
    /// Whether it speaks this.
    fn speaks(&self, transport: UrlTransport) -> bool;

    /// What connects to an address.
    ///
    /// # Errors
    /// When it cannot be one.
    fn connector(&self, target: &UrlTarget) -> Result<Arc<dyn Connector>, ConnectError>;
}
