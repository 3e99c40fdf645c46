use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytestring::ByteString;
use turms_proto::method::{Method, Notification as NotificationMethod};
use turms_proto::session::{RequestError, RequestOptions, SessionError};
use turms_proto::{EncodeError, Notification, RawJson};

/// A future that can be kept in a field.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A way to reach the other side of a connection.
pub trait PeerTransport: Send + Sync + 'static {
    /// Tells it something. Waits while it does not listen.
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>>;

    /// Tells it something if it listens now; false if not.
    fn try_notify(&self, notification: Notification) -> bool;

    /// Asks it something.
    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>>;
}

/// Why the other side could not be reached, or did not answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// There is nobody, or nobody any more.
    #[error("the connection is closed")]
    Closed,
    /// Nothing can be asked on this connection.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// It was asked, and did not answer well.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It could not be carried there, or the answer could not be carried back. The channel itself is still open, and the
    /// next request may fare better.
    #[error("the request was lost on the way")]
    Unreachable {
        /// Whether the other side may have seen it. If not, it has certainly not run.
        sent: bool,
        /// What happened to it.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// It was not let in: there are no credentials for it, or others are wanted. It has certainly not run.
    #[error("the request is not authorized")]
    Unauthorized(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The question could not be written as JSON.
    #[error("the question cannot be written as JSON: {0}")]
    Encode(Arc<EncodeError>),
    /// The answer was not what the question asks for.
    #[error("the answer is not what was asked for: {0}")]
    Decode(#[from] turms_proto::DecodeError),
}

impl From<EncodeError> for PeerError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(Arc::new(error))
    }
}

/// The other side of a connection, as a service sees it.
#[derive(Clone)]
pub struct Peer(Option<Arc<dyn PeerTransport>>);

impl Peer {
    /// Nobody: what is told is lost, what is asked fails.
    #[must_use]
    pub fn nobody() -> Self {
        Self(None)
    }

    /// Whoever is at the other end of a link.
    pub fn new(link: impl PeerTransport) -> Self {
        Self(Some(Arc::new(link)))
    }

    /// As [`Peer::new`], of a link that is shared already.
    #[must_use]
    pub fn shared(link: Arc<dyn PeerTransport>) -> Self {
        Self(Some(link))
    }

    /// Whether there is anybody.
    #[must_use]
    pub fn is_somebody(&self) -> bool {
        self.0.is_some()
    }

    /// Tells the peer something.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn notify_raw(&self, notification: Notification) -> Result<(), PeerError> {
        match &self.0 {
            Some(link) => link.notify(notification).await,
            None => Ok(()),
        }
    }

    /// Tells the peer something without waiting; false if it is lost because the peer does not listen.
    #[must_use]
    pub fn try_notify_raw(&self, notification: Notification) -> bool {
        self.0.as_ref().is_some_and(|link| link.try_notify(notification))
    }

    /// Tells the peer something that the protocol defines.
    ///
    /// # Errors
    /// When the connection is closed.
    pub async fn notify<N: NotificationMethod>(&self, params: &N::Params) -> Result<(), PeerError> {
        self.notify_raw(Notification::new::<N>(params)?).await
    }

    /// Asks the peer something.
    ///
    /// # Errors
    /// When nothing can be asked, or the answer is an error or none.
    pub async fn request_raw(
        &self,
        method: impl Into<ByteString>,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> Result<RawJson, PeerError> {
        match &self.0 {
            Some(link) => link.request(method.into(), params, options).await,
            None => Err(PeerError::Closed),
        }
    }

    /// Asks the peer something that the protocol defines.
    ///
    /// # Errors
    /// When nothing can be asked, or the answer is an error, none, or of the wrong shape.
    pub async fn request<M: Method>(
        &self,
        params: &M::Params,
        options: RequestOptions,
    ) -> Result<M::Result, PeerError> {
        let params = RawJson::encode(params)?;
        let result = self.request_raw(ByteString::from_static(M::NAME), Some(params), options).await?;
        Ok(result.decode()?)
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Peer" } else { "Peer::nobody" })
    }
}
