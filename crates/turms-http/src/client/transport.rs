use std::fmt;
use std::sync::Arc;

use turms_core::{ConnectError, Connector, UrlConnector, UrlTarget, UrlTransport};

use super::connector::HttpConnector;

/// Creates connectors for `http://` and `https://` URLs, such as those in a configuration file.
///
/// ```
/// use turms_core::{UrlConnector as _, UrlTarget};
/// use turms_http::HttpTransport;
///
/// let connector = HttpTransport::new().connector(&UrlTarget::new("https://example.com/mcp"))?;
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
        Self::configured(|connector| connector)
    }

    /// Creates a transport that configures its connectors with a function: other timeouts, an authorizer.
    pub fn configured(configure: impl Fn(HttpConnector) -> HttpConnector + Send + Sync + 'static) -> Self {
        Self { configure: Arc::new(configure) }
    }
}

impl Default for HttpTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl UrlConnector for HttpTransport {
    fn speaks(&self, transport: UrlTransport) -> bool {
        matches!(transport, UrlTransport::Unstated | UrlTransport::StreamableHttp | UrlTransport::Sse)
    }

    fn connector(&self, target: &UrlTarget) -> Result<Arc<dyn Connector>, ConnectError> {
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
