//! WebSocket connectors for URLs.

use std::fmt;
use std::sync::Arc;

use turms_core::{ConnectError, Connector, ServerUrl, TransportKind, UrlTransport};

use crate::connector::WsConnector;

/// Creates connectors for WebSocket URLs, such as those of a configuration file.
///
/// ```
/// # mod turms { pub use turms_core as transport; pub use turms_ws as ws; }
/// use turms::transport::{ServerUrl, UrlTransport as _};
/// use turms::ws::WsTransport;
///
/// let connector = WsTransport::new().connector(&ServerUrl::new("wss://example.com/mcp"))?;
/// assert!(connector.is_repeatable());
/// # Ok::<(), turms_core::ConnectError>(())
/// ```
#[derive(Clone)]
pub struct WsTransport {
    configure: Arc<dyn Fn(WsConnector) -> WsConnector + Send + Sync>,
}

impl WsTransport {
    /// Creates a transport with the default options for its connectors.
    #[must_use]
    pub fn new() -> Self {
        Self { configure: Arc::new(|connector| connector) }
    }

    /// Configures each connector with a function, such as its timeouts. A second function is applied after the first.
    #[must_use]
    pub fn configure(self, configure: impl Fn(WsConnector) -> WsConnector + Send + Sync + 'static) -> Self {
        let before = self.configure;
        Self { configure: Arc::new(move |connector| configure(before(connector))) }
    }
}

impl Default for WsTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl UrlTransport for WsTransport {
    fn supports(&self, transport: TransportKind) -> bool {
        transport == TransportKind::WebSocket
    }

    fn connector(&self, target: &ServerUrl) -> Result<Arc<dyn Connector>, ConnectError> {
        let connector = WsConnector::new(&target.url).map_err(|error| ConnectError::unreachable("the URL", error))?;
        Ok(Arc::new((self.configure)(connector.headers(target.headers.clone()))))
    }
}

impl fmt::Debug for WsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WsTransport").finish_non_exhaustive()
    }
}
