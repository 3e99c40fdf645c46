//! A connection without a socket, for the fuzz targets. Not part of the API.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::handler::HttpHandler;
use super::http1::HttpConnection;
use super::options::ConnectionLimits;

/// Serves one connection over HTTP/1.1, as a listener does.
pub async fn serve_connection<H, I>(io: I, handler: &H)
where
    H: HttpHandler,
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let hour = Duration::from_secs(3_600);
    let limits = ConnectionLimits { header_timeout: hour, write_timeout: hour };
    HttpConnection::new(io, None, limits, Arc::default()).serve(handler).await;
}
