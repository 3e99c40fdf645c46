//! `connect_ws`, for builders of clients.

use turms_core::__internal::ConnectClient;
use turms_core::ConnectError;

use crate::connector::WsConnector;

/// Extension trait for connecting a client over WebSocket. Implemented for the client builder only.
pub trait ConnectWs: ConnectClient {
    /// Connects to the server at a URL, `ws://…` or `wss://…`, with the default options of [`WsConnector`]. Use
    /// `connect(WsConnector::new(url)?)` for other options.
    ///
    /// # Errors
    /// If the URL is invalid, the server cannot be reached, or the negotiation fails.
    fn connect_ws(
        self,
        url: impl AsRef<str> + Send,
    ) -> impl Future<Output = Result<Self::Client, ConnectError>> + Send {
        async move {
            let connector = WsConnector::new(url).map_err(|error| ConnectError::unreachable("the URL", error))?;
            self.connect_client(connector).await
        }
    }
}

impl<B: ConnectClient> ConnectWs for B {}
