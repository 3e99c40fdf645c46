//! The HTTP client: Streamable HTTP in every revision, and HTTP+SSE for servers that support nothing newer.

mod address_check;
mod connect_http;
mod connector;
mod dial_options;
mod dialed_stream;
mod dialer;
mod endpoint;
mod error;
mod headers;
mod http_client;
mod http_sse;
mod open;
mod reply;
mod sent_secrets;
mod session;
mod stateless;
mod tls;
mod transport;

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

pub use self::address_check::DialAddress;
pub use self::connect_http::ConnectHttp;
pub use self::connector::HttpConnector;
pub use self::dial_options::{DialOptions, DialOptionsError, DialProtocol};
pub use self::dialed_stream::{DialedStream, RouteStream};
pub use self::dialer::{DialError, Dialer};
pub use self::error::HttpError;
pub use self::sent_secrets::SentSecrets;
pub use self::transport::HttpTransport;

/// Timeout for the rest of a stream after its response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads the rest of a stream after its response. A connection that is not read to the end cannot be reused, and the next call
/// would have to wait for a new one.
///
/// Most streams end together with the response, as soon as the task of the connection has run. This function yields to it a few
/// times, and only spawns a task for streams that stay open.
async fn read_rest(rest: impl Future<Output = ()> + Send + 'static) {
    let mut rest: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(rest);
    if !ends_within(DRAIN_YIELDS, rest.as_mut()).await {
        tokio::spawn(async move {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, rest).await;
        });
    }
}

/// Number of times to yield to other tasks until the end of a stream is seen.
const DRAIN_YIELDS: usize = 4;

/// Returns `true` if the future completes while yielding to other tasks this number of times.
async fn ends_within(yields: usize, mut work: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    for _ in 0..yields {
        if std::future::poll_fn(|task| Poll::Ready(work.as_mut().poll(task).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
