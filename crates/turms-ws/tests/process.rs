//! Memory use for clients that do not read. These tests run alone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinHandle;
use turms_core::{Error, Limits};

use turms_http::Listener;
use turms_server::{Args, Server, ServerHandle, Tool};
use turms_testkit::process::{alone, memory};
use turms_testkit::raw_ws::{PING, PONG, TEXT, WsConnection, frame};
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsService};

const MEGABYTE: usize = 1024 * 1024;

/// A server with the tool `repeat`, whose result has ten bytes for each of `tens`.
struct TestServer {
    address: SocketAddr,
    handle: ServerHandle,
    serving: JoinHandle<Result<(), Error>>,
}

impl TestServer {
    async fn with(limits: Limits, settings: impl FnOnce(WsService) -> WsService) -> Self {
        let repeat = Tool::builder("repeat").handler_sync(|Args(arguments): Args<Value>| {
            "0123456789".repeat(arguments["tens"].as_u64().unwrap_or_default() as usize)
        });
        let router = Server::new("fixture", "1.0.0").tool(repeat).limits(limits).build().unwrap();
        let handle = router.handle().clone();
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(listener.serve(settings(router.into_ws_service().unwrap())));
        Self { address, handle, serving }
    }
}

#[tokio::test]
async fn a_client_that_never_reads_is_disconnected_and_uses_little_memory() {
    let _alone = alone().await;
    let mut options = Limits::default();
    options.max_write_buffer_bytes = 64 * 1024;
    options.write_timeout = Duration::from_millis(300);
    options.drain_timeout = Duration::from_millis(100);
    let server = TestServer::with(options, |service| service).await;
    let mut raw = WsConnection::open(server.address).await;
    let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "repeat",
        "arguments": { "tens": 10_000 },
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    } });
    let call = frame(true, TEXT, call.to_string().as_bytes());
    let before = memory();
    // A gigabyte of responses, if the server read all of these requests.
    let outcome = within("the end of the connection", async {
        for _ in 0..10_000 {
            raw.stream.write_all(&call).await?;
        }
        Ok::<_, std::io::Error>(())
    })
    .await;
    let grown = memory().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown}");
    if outcome.is_ok() {
        // All requests fitted into the buffers of the system. The server closes the connection nonetheless.
        within("the end of the connection", async { while raw.stream.write_all(&call).await.is_ok() {} }).await;
    }
    server.handle.shutdown();
    within("the end of the server", server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn endless_pings_without_reading_pongs_use_little_memory() {
    let _alone = alone().await;
    let server = TestServer::with(Limits::default(), |service| service).await;
    let mut raw = WsConnection::open(server.address).await;
    let pings = frame(true, PING, &[7; 125]).repeat(1000);
    let before = memory();
    for _ in 0..300 {
        within("a write", raw.stream.write_all(&pings)).await.unwrap();
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 * MEGABYTE, "{grown}");
    // The connection still works once the client reads. Not every ping needs a pong (RFC 6455, 5.5.3), but the last one does.
    raw.send(PING, b"last").await;
    within("the last pong", async {
        loop {
            let pong = raw.frame().await;
            assert_eq!(pong.kind, PONG);
            if pong.payload == b"last" {
                break;
            }
        }
    })
    .await;
}
