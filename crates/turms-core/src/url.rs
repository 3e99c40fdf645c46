//! Servers that are identified by a URL, and the transports that connect to them.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;

use crate::channel::{ConnectError, Connector};

/// A server that is identified by a URL.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerUrl {
    /// The URL. It may contain a secret.
    pub url: String,
    /// Headers for every request.
    pub headers: HeaderMap,
    /// The transport.
    pub transport: TransportKind,
}

impl ServerUrl {
    /// Creates a target without headers, with [`TransportKind::Auto`].
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: HeaderMap::new(), transport: TransportKind::Auto }
    }

    /// Sets the headers for every request.
    #[must_use]
    pub fn headers(mut self, headers: HeaderMap) -> Self {
        self.headers = headers;
        self
    }

    /// Sets the transport.
    #[must_use]
    pub fn transport(mut self, transport: TransportKind) -> Self {
        self.transport = transport;
        self
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // URLs and headers often contain keys.
        f.debug_struct("ServerUrl").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// The transport of a [`ServerUrl`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum TransportKind {
    /// Streamable HTTP, or HTTP+SSE if the server does not support that. The default.
    #[default]
    Auto,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE, the transport of 2024-11-05.
    #[doc(alias = "sse")]
    HttpSse,
    /// WebSocket.
    WebSocket,
}

/// Creates connectors for URLs. Crates that provide a transport implement it; code that reads URLs from a configuration calls it.
pub trait UrlTransport: Send + Sync + 'static {
    /// Returns `true` if connectors can be created for this kind of transport.
    fn supports(&self, transport: TransportKind) -> bool;

    /// Creates a connector for a URL.
    ///
    /// # Errors
    /// If the URL is invalid for the transport.
    fn connector(&self, target: &ServerUrl) -> Result<Arc<dyn Connector>, ConnectError>;
}
