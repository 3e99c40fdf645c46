use turms_core::__internal::ConnectClient;
use turms_core::ConnectError;

use super::connector::HttpConnector;

/// Extension trait for connecting a client over HTTP. Implemented for the builder of clients, and for no other type.
pub trait ConnectHttp: ConnectClient {
    /// Connects to the server at a URL with the default options of [`HttpConnector`]: by Streamable HTTP, or by HTTP+SSE if the server
    /// does not support that. Use `connect(HttpConnector::new(url)?)` for other options.
    ///
    /// ```no_run
    /// # use turms_core::__internal::ConnectClient;
    /// # use turms_core::ConnectError;
    /// # use turms_http as turms;
    /// use turms::ConnectHttp as _;
    ///
    /// # async fn example<B: ConnectClient>(builder: B) -> Result<B::Client, ConnectError> {
    /// let client = builder.connect_http("https://example.com/mcp").await?;
    /// # Ok(client)
    /// # }
    /// ```
    ///
    /// # Errors
    /// If the URL is invalid, the server cannot be reached, or the negotiation fails.
    fn connect_http(
        self,
        url: impl AsRef<str> + Send,
    ) -> impl Future<Output = Result<Self::Client, ConnectError>> + Send {
        async move {
            let connector = HttpConnector::new(url).map_err(|error| ConnectError::unreachable("the URL", error))?;
            self.connect_client(connector).await
        }
    }
}

impl<B: ConnectClient> ConnectHttp for B {}
