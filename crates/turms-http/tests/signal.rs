//! Shutdown on SIGTERM. The signal reaches every test in a binary, so this test has its own binary.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

use turms_http::ServeHttp as _;
use turms_server::Server;
use turms_testkit::raw_http::{Connection, Request};
use turms_testkit::within;

#[tokio::test]
async fn sigterm_ends_an_axum_server_with_an_open_stream() {
    let mcp = Server::new("test", "1.0.0").into_http_service().unwrap();
    let router = axum::Router::new().nest_service("/mcp", mcp.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving =
        tokio::spawn(axum::serve(listener, router).with_graceful_shutdown(mcp.shutdown_signal()).into_future());
    let mut connection = Connection::open(address).await;
    connection.send(&Request::get().path("/mcp/sse")).await;
    let mut stream = within("a stream", connection.into_stream()).await;
    assert_eq!(stream.event().await.kind.as_deref(), Some("endpoint"));
    assert!(!serving.is_finished());
    let sent = Command::new("kill").args(["-TERM", &std::process::id().to_string()]).status().unwrap();
    assert!(sent.success());
    within("the end of the server", serving).await.unwrap().unwrap();
    within("the end of the stream", async { while stream.next().await.is_some() {} }).await;
}
