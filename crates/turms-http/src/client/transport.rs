use std::fmt;
use std::sync::Arc;

use turms_core::{ConnectError, Connector, ServerUrl, TransportKind, UrlTransport};

use super::connector::HttpConnector;

/// Creates connectors for `http://` and `https://` URLs, such as those in a configuration file.
///
/// ```
/// # mod turms { pub use turms_core as transport; pub use turms_http as http; }
/// use turms::http::HttpTransport;
/// use turms::transport::{ServerUrl, UrlTransport as _};
///
/// let connector = HttpTransport::new().connector(&ServerUrl::new("https://example.com/mcp"))?;
/// assert!(connector.is_repeatable());
/// # Ok::<(), turms_core::ConnectError>(())
/// ```
#[derive(Clone)]
pub struct HttpTransport {
    configure: Arc<dyn Fn(HttpConnector) -> HttpConnector + Send + Sync>,
}

impl HttpTransport {
    /// Creates a transport with default options.
    #[must_use]
    pub fn new() -> Self {
        Self { configure: Arc::new(|connector| connector) }
    }

    /// Configures each connector with a function, such as its timeouts. A second function is applied after the first.
    #[must_use]
    pub fn configure(self, configure: impl Fn(HttpConnector) -> HttpConnector + Send + Sync + 'static) -> Self {
        let before = self.configure;
        Self { configure: Arc::new(move |connector| configure(before(connector))) }
    }
}

impl Default for HttpTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl UrlTransport for HttpTransport {
    fn supports(&self, transport: TransportKind) -> bool {
        matches!(transport, TransportKind::Auto | TransportKind::StreamableHttp | TransportKind::HttpSse)
    }

    fn connector(&self, target: &ServerUrl) -> Result<Arc<dyn Connector>, ConnectError> {
        let connector = HttpConnector::new(&target.url).map_err(|error| ConnectError::unreachable("the URL", error))?;
        let connector = connector.headers(target.headers.clone()).transport(target.transport);
        Ok(Arc::new((self.configure)(connector)))
    }
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport").finish_non_exhaustive()
    }
}
