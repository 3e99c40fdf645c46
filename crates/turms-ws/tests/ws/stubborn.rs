//! Clients that do not read.
#![cfg(target_os = "linux")]

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use turms_core::ConnectionOptions;

use crate::fixture::Served;
use crate::hand::{Hand, PING, PONG, TEXT, frame};
use crate::soon;

const MEGABYTE: usize = 1024 * 1024;

/// How much memory this process has in use.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[tokio::test]
async fn a_client_that_never_reads_is_given_up_and_costs_little() {
    let mut options = ConnectionOptions::default();
    options.write_limit = 64 * 1024;
    options.write_timeout = Duration::from_millis(300);
    options.drain_timeout = Duration::from_millis(100);
    let served = Served::with(|service| service.options(options)).await;
    let mut hand = Hand::open(served.address).await;
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
    // A gigabyte of answers, if all of these were answered.
    let outcome = soon("the end of the connection", async {
        for _ in 0..10_000 {
            hand.stream.write_all(&call).await?;
        }
        Ok::<_, std::io::Error>(())
    })
    .await;
    let grown = memory().saturating_sub(before);
    assert!(grown < 32 * MEGABYTE, "{grown}");
    if outcome.is_ok() {
        // All of it fitted into the buffers of the system. The server closes nonetheless.
        soon("the end of the connection", async { while hand.stream.write_all(&call).await.is_ok() {} }).await;
    }
    served.router.handle().shutdown();
    soon("the end of the server", served.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn pings_without_end_whose_answers_nobody_reads_cost_little() {
    let served = Served::new().await;
    let mut hand = Hand::open(served.address).await;
    let pings = frame(true, PING, &[7; 125]).repeat(1000);
    let before = memory();
    for _ in 0..300 {
        soon("room for more", hand.stream.write_all(&pings)).await.unwrap();
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 16 * MEGABYTE, "{grown}");
    // It is still there for a client that mends its ways. Not every ping is answered, as not every one has to be (RFC 6455,
    // 5.5.3), but the last one is.
    hand.send(PING, b"last").await;
    soon("the last answer", async {
        loop {
            let pong = hand.frame().await;
            assert_eq!(pong.kind, PONG);
            if pong.payload == b"last" {
                break;
            }
        }
    })
    .await;
}
