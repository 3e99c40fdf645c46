use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use turms_proto::method::{Method, NotificationMethod};
use turms_proto::session::{RequestError, RequestOptions, SessionError};
use turms_proto::{EncodeError, ErrorObject, MethodName, Notification, RawJson, format_duration};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends messages to the peer of a connection. The implementation behind a [`Peer`].
pub trait PeerTransport: Send + Sync + 'static {
    /// Sends a notification. Waits while the queue is full.
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>>;

    /// Sends a notification without waiting. Returns `false` if it was dropped, such as because the queue is full.
    fn try_notify(&self, notification: Notification) -> bool;

    /// Sends a request and waits for its response.
    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>>;
}

/// Error of a request or a notification to a peer.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is no connection, it is not open yet, or it is closed. The request was not sent.
    #[error("connection closed")]
    Closed,
    /// The connection closed while the request was waiting for its response.
    #[error("connection closed before the response")]
    ClosedBeforeResponse,
    /// The revision has no requests of servers.
    #[error("a server cannot send requests in this revision of the protocol")]
    NoServerRequests,
    /// The peer responded with an error.
    #[error("error response")]
    ErrorResponse(#[source] Box<ErrorObject>),
    /// The response is not valid JSON-RPC, or does not belong to the request.
    #[error("invalid response: {0}")]
    InvalidResponse(String),
    /// The response was longer than the limit, so it was not read. The request may have run.
    #[error(
        "response is longer than the limit of {limit} bytes: raise max_message_bytes of the connector or of the connection"
    )]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// No response and no progress within the timeout.
    #[error("no response within {} (timeout)", format_duration(*.0))]
    TimedOut(Duration),
    /// No response within the maximum duration, which progress does not extend.
    #[error("no response within {} (max_duration)", format_duration(*.0))]
    MaxDuration(Duration),
    /// The transport could not deliver the request or its response. The channel is still open, and the next request may succeed.
    #[error("{}", if *sent { "connection closed before the response" } else { "the request could not be sent" })]
    Unreachable {
        /// `true` if the peer may have received the request. If `false`, the request has not run.
        sent: bool,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The peer requires credentials, or others than those sent. The request has not run.
    #[error("the request is not authorized")]
    Unauthorized(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The request cannot be encoded as JSON.
    #[error("cannot encode the request: {0}")]
    Encode(Arc<EncodeError>),
    /// The response is not a valid result of the method.
    #[error("invalid response: {0}")]
    Decode(#[from] turms_proto::DecodeError),
}

crate::__internal::debug_error! {
    PeerError {
        Closed,
        ClosedBeforeResponse,
        NoServerRequests,
        ErrorResponse(error),
        InvalidResponse(problem),
        TooLarge { limit },
        TimedOut(limit),
        MaxDuration(limit),
        Unreachable { sent, source },
        Unauthorized(source),
        Encode(error),
        Decode(error),
    }
}

impl PeerError {
    /// Returns `true` if the peer did not respond in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::MaxDuration(_))
    }
}

impl From<RequestError> for PeerError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Peer(error) => Self::ErrorResponse(error),
            RequestError::Invalid(problem) => Self::InvalidResponse(problem),
            RequestError::TooLong { limit } => Self::TooLarge { limit },
            RequestError::TimedOut(limit) => Self::TimedOut(limit),
            RequestError::MaxDuration(limit) => Self::MaxDuration(limit),
            RequestError::Closed => Self::ClosedBeforeResponse,
            other => Self::InvalidResponse(other.to_string()),
        }
    }
}

impl From<SessionError> for PeerError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::NoServerRequests => Self::NoServerRequests,
            _ => Self::Closed,
        }
    }
}

impl From<EncodeError> for PeerError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(Arc::new(error))
    }
}

/// The peer of a connection, for notifications and requests to it. Clones are cheap.
#[derive(Clone)]
pub struct Peer(Option<Arc<dyn PeerTransport>>);

impl Peer {
    /// Creates a peer without a connection: notifications are dropped and requests fail.
    #[must_use]
    pub fn disconnected() -> Self {
        Self(None)
    }

    /// Creates a peer that is reached by a transport.
    pub fn new(transport: impl PeerTransport) -> Self {
        Self(Some(Arc::new(transport)))
    }

    /// Creates a peer from a transport that is shared already.
    #[must_use]
    pub fn shared(transport: Arc<dyn PeerTransport>) -> Self {
        Self(Some(transport))
    }

    /// Returns `true` if there is a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.0.is_some()
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn notify_raw(&self, notification: Notification) -> Result<(), PeerError> {
        match &self.0 {
            Some(transport) => transport.notify(notification).await,
            None => Ok(()),
        }
    }

    /// Sends a notification without waiting. Returns `false` if it was dropped.
    #[must_use]
    pub fn try_notify_raw(&self, notification: Notification) -> bool {
        self.0.as_ref().is_some_and(|transport| transport.try_notify(notification))
    }

    /// Tells the peer something that the protocol defines.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn notify<N: NotificationMethod>(&self, params: &N::Params) -> Result<(), PeerError> {
        self.notify_raw(Notification::new::<N>(params)?).await
    }

    /// Sends a request and waits for its response.
    ///
    /// # Errors
    /// If the request cannot be sent, or the response is an error or does not arrive.
    pub async fn request_raw(
        &self,
        method: impl Into<MethodName>,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> Result<RawJson, PeerError> {
        match &self.0 {
            Some(transport) => transport.request(method.into(), params, options).await,
            None => Err(PeerError::Closed),
        }
    }

    /// Sends a request of a known method and waits for its response.
    ///
    /// # Errors
    /// If the request cannot be sent, or the response is an error, is invalid or does not arrive.
    pub async fn request<M: Method>(
        &self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Result<M::Result, PeerError> {
        let params = RawJson::encode(params)?;
        let result = self.request_raw(MethodName::from_static(M::NAME), Some(params), options).await?;
        Ok(result.decode()?)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Peer" } else { "Peer::disconnected" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_whether_the_request_was_sent() {
        let error =
            |sent| PeerError::Unreachable { sent, source: Arc::new(std::io::Error::other("reset")) }.to_string();
        assert_eq!(error(true), "connection closed before the response");
        assert_eq!(error(false), "the request could not be sent");
    }
}
