//! A connection without a socket, for the fuzz targets. No part of the API.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;

use super::handler::Served;
use super::http1;
use super::listener::Bounds;
use super::shutdown::Ward;

/// Serves one connection over HTTP/1.1, as a listener does.
pub async fn serve_connection<S, I>(io: I, service: &S)
where
    S: Served,
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Ok(permit) = Arc::new(Semaphore::new(1)).acquire_owned().await else { return };
    let hour = Duration::from_secs(3_600);
    http1::converse(io, service, None, &Bounds::new(hour, hour, Arc::new(Ward::default()), permit)).await;
}
