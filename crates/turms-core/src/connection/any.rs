use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use super::{Connection, ConnectionError};
use crate::peer::BoxFuture;
use crate::service::Service;

/// A connection over whatever byte stream there is.
pub type AnyConnection = Connection<Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>>;

impl AnyConnection {
    /// As [`Connection::run`], by code that a program has once, however many kinds of streams and services it joins.
    ///
    /// # Errors
    /// When reading or writing fails other than by the peer's going away.
    #[must_use]
    pub fn run_any(self, service: Arc<dyn Service>) -> BoxFuture<'static, Result<(), ConnectionError>> {
        Box::pin(self.run(service))
    }
}
