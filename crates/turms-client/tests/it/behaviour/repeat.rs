//! Calls in a cached revision that the server no longer supports, and which of them are repeated.

use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;
use turms_client::{Backoff, Client, ClientBuilder, VersionCache};
use turms_proto::ProtocolVersion::V2025_11_25;
use turms_testkit::within;

use crate::behaviour::memory::{by_hand, meet_newest, remembering};
use crate::behaviour::peer::{Peer, discovered, said, tools};

/// The error code that proves that a request was not processed. It is about the revision of a request, so no tool
/// returns it.
const NOT_UNDERSTOOD: i64 = -32022;
/// Error codes that a tool may return after it has run.
const MAY_HAVE_RUN: [i64; 9] = [-32700, -32600, -32601, -32603, -32602, -32000, -32002, 0, 404];

fn error(code: i64) -> Value {
    json!({ "code": code, "message": "no" })
}

/// Connects a client with a cached entry of the newest revision, without a probe.
async fn by_memory(settings: impl FnOnce(ClientBuilder) -> ClientBuilder) -> (Client, Peer, UnboundedReceiver<Peer>) {
    let memory = VersionCache::new();
    meet_newest(&memory, "a").await;
    let (connector, mut started) = by_hand("a");
    let client = settings(remembering(&memory)).connect(connector).await.unwrap();
    let peer = started.recv().await.unwrap();
    (client, peer, started)
}

/// Returns the next connection, to a server that now speaks an older revision.
async fn older(started: &mut UnboundedReceiver<Peer>) -> Peer {
    let mut peer = within("another connection", started.recv()).await.unwrap();
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, error(-32601)).await;
    peer.shake_hands(V2025_11_25).await;
    peer
}

#[tokio::test]
async fn a_tool_that_may_have_run_is_not_called_again() {
    for code in MAY_HAVE_RUN {
        for probe_code in [-32601, -32602, -32603, -32000] {
            let (client, mut peer, mut started) = by_memory(|builder| builder).await;
            let call = tokio::spawn(client.call_tool("pay", ()).into_future());
            let request = peer.expect("tools/call").await;
            peer.refuse(&request, error(code)).await;
            let probe = peer.expect("server/discover").await;
            peer.refuse(&probe, error(probe_code)).await;
            if probe_code == -32601 {
                // The next call opens the next connection.
                peer = older(&mut started).await;
            }
            let failed = within("the call", call).await.unwrap().unwrap_err();
            assert_eq!(failed.error_response().map(|error| error.code.0), Some(code), "{failed}");
            if probe_code == -32601 {
                let next = tokio::spawn(client.list_tools().into_future());
                let request = peer.expect("tools/list").await;
                peer.answer(&request, tools(&json!([]))).await;
                within("the next call", next).await.unwrap().unwrap();
            }
        }
    }
}

#[tokio::test]
async fn a_tool_call_with_an_unsupported_version_is_repeated() {
    let (client, mut peer, mut started) = by_memory(|builder| builder).await;
    let call = tokio::spawn(client.call_tool("pay", ()).into_future());
    let request = peer.expect("tools/call").await;
    peer.refuse(&request, error(NOT_UNDERSTOOD)).await;
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, error(-32601)).await;
    let mut peer = older(&mut started).await;
    let request = peer.expect("tools/call").await;
    peer.answer(&request, said("paid")).await;
    assert_eq!(within("the call", call).await.unwrap().unwrap().text(), "paid");
}

#[tokio::test]
async fn a_read_is_repeated_after_any_error() {
    let (client, mut peer, mut started) = by_memory(|builder| builder).await;
    let call = tokio::spawn(client.list_tools().into_future());
    let request = peer.expect("tools/list").await;
    peer.refuse(&request, error(-32602)).await;
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, error(-32602)).await;
    let mut peer = older(&mut started).await;
    let request = peer.expect("tools/list").await;
    peer.answer(&request, tools(&json!([]))).await;
    assert!(within("the list", call).await.unwrap().unwrap().is_empty());
}

#[tokio::test]
async fn an_idempotent_tool_call_is_repeated_after_any_error() {
    let (client, mut peer, mut started) = by_memory(|builder| builder.reconnect(Backoff::new())).await;
    let call = tokio::spawn(client.call_tool("look", ()).idempotent().into_future());
    let request = peer.expect("tools/call").await;
    peer.refuse(&request, error(-32602)).await;
    let probe = peer.expect("server/discover").await;
    peer.refuse(&probe, error(-32601)).await;
    let mut peer = older(&mut started).await;
    let request = peer.expect("tools/call").await;
    peer.answer(&request, said("seen")).await;
    assert_eq!(within("the call", call).await.unwrap().unwrap().text(), "seen");
}

#[tokio::test]
async fn an_unrelated_error_of_the_probe_keeps_the_connection() {
    for code in [-32603, -32020, -32021, 7] {
        let (client, mut peer, _started) = by_memory(|builder| builder).await;
        let call = tokio::spawn(client.call_tool("pay", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.refuse(&request, error(-32603)).await;
        let probe = peer.expect("server/discover").await;
        peer.refuse(&probe, error(code)).await;
        within("the call", call).await.unwrap().unwrap_err();
        // The entry is still in doubt, so the next failed call sends `server/discover` again.
        let call = tokio::spawn(client.call_tool("pay", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.refuse(&request, error(-32603)).await;
        let probe = peer.expect("server/discover").await;
        peer.answer(&probe, discovered(&[turms_proto::ProtocolVersion::LATEST])).await;
        within("the call", call).await.unwrap().unwrap_err();
    }
}
