use crate::channel::{ConnectError, Connector};

/// A builder of clients that connects with any connector. The extension traits of transports, such as `ConnectHttp`, build on it.
pub trait ConnectClient: Sized + Send + 'static {
    /// The connected client.
    type Client: Send;

    /// Connects with a connector.
    fn connect_client(
        self,
        connector: impl Connector,
    ) -> impl Future<Output = Result<Self::Client, ConnectError>> + Send;
}
