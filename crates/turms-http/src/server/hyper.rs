//! Connections that hyper speaks for us: those of HTTP/2, of whole applications, and of what upgrades them.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};

use super::activity::Activity;
use super::http1::Stall;
use super::listener::Bounds;

/// Answers the requests of one connection until it ends.
pub(super) async fn converse<I, F, A, B, E>(io: I, bounds: &Bounds, respond: F)
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<Incoming>) -> A + Send + 'static,
    A: Future<Output = Result<Response<B>, E>> + Send + 'static,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>> + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    // Heads that do not arrive are seen to below, without a timer for each.
    builder.http1().header_read_timeout(None).max_buf_size(64 * 1024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(256)
        .max_header_list_size(64 * 1024)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(bounds.write);
    let io = TokioIo::new(Stall::new(io, bounds.write));
    let activity = Activity::default();
    let watched = activity.clone();
    let service = service_fn(move |request| watched.watch(respond(request)));
    let mut connection = pin!(builder.serve_connection_with_upgrades(io, service));
    let mut is_told = false;
    let conversation = poll_fn(|task| {
        if bounds.ward.is_ending() && !is_told {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        connection.as_mut().poll(task)
    });
    tokio::select! {
        // Clients that go away, or speak something else, are none of our concern.
        ended = conversation => if let Err(error) = ended {
            tracing::debug!(error, "a connection ended");
        },
        // A head that takes too long, and a connection on which nothing happens, in either version of HTTP.
        () = activity.is_idle_for(bounds.header) => {}
    }
}
