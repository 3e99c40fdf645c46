//! The client side: Streamable HTTP of every revision, and HTTP+SSE where a server speaks nothing newer.

mod address_check;
mod authorize;
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
mod session;
mod stateless;
mod tls;
mod transport;

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

pub use self::address_check::DialAddress;
pub use self::authorize::{Authorizable, AuthorizeError, Authorizer, BearerToken, Challenge, Decision};
pub use self::connector::HttpConnector;
pub use self::dial_options::{DialOptions, DialOptionsError, DialProtocol};
pub use self::dialed_stream::{DialedStream, RouteStream};
pub use self::dialer::{DialError, Dialer};
pub use self::error::HttpError;
pub use self::transport::HttpTransport;

/// How long the end of a stream may take once the answer is there.
const REST: Duration = Duration::from_secs(5);

/// Reads what is left of a stream whose answer is there. A connection that was not read to the end cannot be used again, and
/// the next call would have to wait for a new one.
///
/// The end of most streams is there together with the answer, and only has to be seen by the task that reads the connection.
/// That is waited for, for a few turns; a task of its own is only for streams that stay open.
async fn read_rest(rest: impl Future<Output = ()> + Send + 'static) {
    let mut rest: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(rest);
    if !ends_within(TURNS, rest.as_mut()).await {
        tokio::spawn(async move {
            let _ = tokio::time::timeout(REST, rest).await;
        });
    }
}

/// How many turns other tasks get to see the end of a stream.
const TURNS: usize = 4;

/// Whether something ends while other tasks have so many turns.
async fn ends_within(turns: usize, mut work: Pin<&mut (impl Future<Output = ()> + ?Sized)>) -> bool {
    for _ in 0..turns {
        if std::future::poll_fn(|task| Poll::Ready(work.as_mut().poll(task).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}
