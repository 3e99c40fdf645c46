//! Cancelled calls and timeouts.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use turms_client::{CallError, CallErrorKind, CancellationToken, Client, Delivery, TimeoutCause};
use turms_proto::ProtocolVersion;
use turms_proto::types::CallToolResult;

use crate::behaviour::peer::{Peer, said};
use crate::behaviour::reach::{Reached, Way, along, everywhere, nobody, person};

type Call = tokio::task::JoinHandle<Result<CallToolResult, CallError>>;

/// Starts a call that never completes, and waits until its handler runs.
async fn running(client: &Reached, count: i64) -> Call {
    let call = tokio::spawn(client.call_tool("slow", ()).into_future());
    client.reaches("started", count).await;
    call
}

/// Returns the targets of the pending calls.
fn subjects(client: &Client) -> Vec<String> {
    client.pending_calls().into_iter().map(|call| call.target).collect()
}

#[tokio::test]
async fn dropping_the_future_stops_the_handler() {
    everywhere(async |client| {
        let call = running(&client, 1).await;
        call.abort();
        client.reaches("stopped", 1).await;
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}

#[tokio::test]
async fn one_token_cancels_all_calls_that_use_it() {
    everywhere(async |client| {
        let cancel = CancellationToken::new();
        let calls: Vec<Call> = (0..3)
            .map(|_| tokio::spawn(client.call_tool("slow", ()).cancellation_token(&cancel).into_future()))
            .collect();
        let other = running(&client, 4).await;
        cancel.cancel();
        for call in calls {
            let error = call.await.unwrap().unwrap_err();
            assert!(error.is_cancelled());
            assert_eq!(error.to_string(), "tools/call \"slow\": cancelled; the call may have run");
        }
        client.reaches("stopped", 3).await;
        assert_eq!(subjects(&client), ["tools/call \"slow\""]);
        other.abort();
        client.reaches("stopped", 4).await;
    })
    .await;
}

#[tokio::test]
async fn a_call_with_a_cancelled_token_is_not_sent() {
    everywhere(async |client| {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let error = client.call_tool("slow", ()).cancellation_token(&cancel).await.unwrap_err();
        assert!(error.is_cancelled());
        assert_eq!((error.delivery(), client.count("started").await), (Delivery::NotSent, 0));
    })
    .await;
}

#[tokio::test]
async fn a_call_is_pending_while_it_runs_and_can_be_cancelled_by_its_id() {
    everywhere(async |client| {
        assert!(client.pending_calls().is_empty());
        let (first, second) = (running(&client, 1).await, running(&client, 2).await);
        let pending = client.pending_calls();
        assert_eq!(subjects(&client), ["tools/call \"slow\"", "tools/call \"slow\""]);
        assert!(pending[0].id < pending[1].id && pending[0].elapsed >= pending[1].elapsed);
        assert!(client.cancel(pending[0].id));
        assert!(first.await.unwrap().unwrap_err().is_cancelled());
        assert!(!client.cancel(pending[0].id));
        client.reaches("stopped", 1).await;
        assert_eq!(client.pending_calls()[0].id, pending[1].id);
        assert_eq!(client.cancel_all(), 1);
        assert!(second.await.unwrap().unwrap_err().is_cancelled());
        client.reaches("stopped", 2).await;
        assert!(client.pending_calls().is_empty());
        assert_eq!(client.cancel_all(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_call_that_exceeds_its_timeout_is_cancelled() {
    everywhere(async |client| {
        let timeout = Duration::from_millis(20);
        let error = client.call_tool("slow", ()).timeout(timeout).await.unwrap_err();
        assert!(error.is_timeout() && error.may_have_run(), "{error}");
        client.reaches("stopped", 1).await;
        assert!(client.pending_calls().is_empty());
        assert_eq!(client.stats().connection.timed_out, 1);
        assert_eq!(client.text("list", ()).await, "[1,2,3]");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_replaces_the_default_of_the_client() {
    let builder = || person().timeout(Duration::from_secs(1));
    along(&Way::IN_PROCESS, &ProtocolVersion::ALL, builder, async |client| {
        let walk = || client.call_tool("walk", json!({ "steps": 1, "pause_ms": 3000 }));
        let started = Instant::now();
        let error = walk().await.unwrap_err();
        let CallErrorKind::Timeout(TimeoutCause::Response(after)) = error.kind() else { panic!("{error}") };
        assert_eq!((*after, started.elapsed()), (Duration::from_secs(1), Duration::from_secs(1)));
        assert!(walk().timeout(Duration::from_secs(2)).await.unwrap_err().is_timeout());
        assert_eq!(walk().timeout(Duration::from_secs(4)).await.unwrap().text(), "there");
        assert_eq!(walk().without_timeout().await.unwrap().text(), "there");
    })
    .await;
}

#[tokio::test]
async fn a_late_response_to_a_cancelled_call_is_ignored() {
    for version in ProtocolVersion::ALL {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let call = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        assert_eq!(client.cancel_all(), 1);
        assert!(call.await.unwrap().unwrap_err().is_cancelled());
        let cancelled = peer.expect("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], request["id"]);
        peer.answer(&request, said("too late")).await;
        let call = tokio::spawn(client.call_tool("t", ()).into_future());
        let request = peer.expect("tools/call").await;
        peer.answer(&request, said("in time")).await;
        assert_eq!(call.await.unwrap().unwrap().text(), "in time");
    }
}

#[tokio::test]
async fn a_list_and_a_read_can_be_cancelled() {
    everywhere(async |client| {
        let cancel = CancellationToken::new();
        cancel.cancel();
        assert!(client.list_tools().cancellation_token(&cancel).await.unwrap_err().is_cancelled());
        assert!(client.read_resource("config://app").cancellation_token(&cancel).await.unwrap_err().is_cancelled());
        assert!(client.get_prompt("plain", ()).cancellation_token(&cancel).await.unwrap_err().is_cancelled());
        assert!(client.ping().cancellation_token(&cancel).await.unwrap_err().is_cancelled());
        assert!(client.subscribe("config://app").cancellation_token(&cancel).await.unwrap_err().is_cancelled());
    })
    .await;
}
