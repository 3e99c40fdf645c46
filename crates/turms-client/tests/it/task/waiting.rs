//! Calls that wait for their tasks, in the extension of 2026-07-28.

use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use turms_client::{
    Backoff, CallError, CallErrorKind, CancellationToken, Client, DecodeCause, Delivery, InputCause, TaskCause,
};
use turms_core::transport::{StreamConnector, memory};
use turms_proto::types::CallToolResult;

use crate::task::peer::*;

const SECOND: Duration = Duration::from_secs(1);

fn call(client: &Client) -> JoinHandle<Result<CallToolResult, CallError>> {
    tokio::spawn(client.call_tool("work", ()).into_future())
}

#[tokio::test(start_paused = true)]
async fn a_call_polls_its_task_at_the_interval_of_the_server() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let calling = call(&client);
    let request = peer.expect("tools/call").await;
    assert!(declares(&request) && request["params"].get("task").is_none(), "{request}");
    let mut created = task("working");
    created["resultType"] = "task".into();
    created["pollIntervalMs"] = 2000.into();
    peer.answer(&request, created).await;
    for (interval, millis) in [(json!(0), 2000), (json!(1_000_000), 50), (json!(null), 60_000), (json!(1500), 1000)] {
        let answered = Instant::now();
        let asked = peer.expect("tasks/get").await;
        assert!(declares(&asked) && asked["params"]["taskId"] == "t", "{asked}");
        assert_eq!(answered.elapsed().as_millis() / 10 * 10, millis);
        let mut task = task("working");
        match interval.is_null() {
            true => drop(task.as_object_mut().unwrap().remove("pollIntervalMs")),
            false => task["pollIntervalMs"] = interval,
        }
        peer.answer(&asked, task).await;
    }
    peer.told(completed(said("done"))).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "done");
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_may_take_longer_than_the_max_duration() {
    let (client, mut peer) = Peer::extended(nobody().max_duration(SECOND)).await;
    let calling = call(&client);
    let request = peer.expect("tools/call").await;
    let mut created = task("working");
    created["resultType"] = "task".into();
    created["pollIntervalMs"] = 2000.into();
    peer.answer(&request, created).await;
    let asked = peer.expect("tasks/get").await;
    let mut working = task("working");
    working["pollIntervalMs"] = 2000.into();
    peer.answer(&asked, working).await;
    peer.told(completed(said("done"))).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_not_offered_is_an_error() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let calling = call(&client);
    assert!(!declares(&peer.make_task().await));
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::Unexpected)), "{error}");
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn each_input_request_of_a_task_is_handled_once() {
    let (client, mut peer) = Peer::extended(person()).await;
    let calling = call(&client);
    peer.make_task().await;
    peer.told(asking(&["a", "b"])).await;
    assert_eq!(peer.updated().await, json!({ "a": accepted("a"), "b": accepted("b") }));
    peer.told(asking(&["a", "b"])).await;
    peer.told(asking(&["b", "c"])).await;
    assert_eq!(peer.updated().await, json!({ "c": accepted("c") }));
    peer.told(task("working")).await;
    peer.told(completed(said("done"))).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "done");
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_requires_input_is_polled_at_once() {
    let (client, mut peer) = Peer::extended(person()).await;
    let calling = call(&client);
    let request = peer.expect("tools/call").await;
    let mut created = task("input_required");
    created["resultType"] = "task".into();
    let begun = Instant::now();
    peer.answer(&request, created).await;
    peer.told(asking(&["a"])).await;
    peer.updated().await;
    assert!(begun.elapsed() < SECOND);
    peer.told(completed(said("done"))).await;
    assert!(calling.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_task_may_end_during_an_input_request() {
    let (client, mut peer) = Peer::extended(nobody().on_form(|_, _| std::future::pending())).await;
    let calling = call(&client);
    peer.make_task().await;
    peer.told(asking(&["a"])).await;
    peer.told(asking(&["a"])).await;
    peer.told(completed(said("without you"))).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "without you");
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_refused_input_request_is_cancelled() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let calling = call(&client);
    peer.make_task().await;
    peer.told(asking(&["a"])).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Input(InputCause::Refused { .. })), "{error}");
    assert_eq!(error.target(), "tools/call \"work\"");
    assert_eq!(peer.expect("tasks/cancel").await["params"]["taskId"], "t");
}

#[tokio::test(start_paused = true)]
async fn a_task_with_too_many_input_rounds_is_cancelled() {
    let (client, mut peer) = Peer::extended(person().max_input_rounds(2)).await;
    let calling = call(&client);
    peer.make_task().await;
    for key in ["a", "b"] {
        peer.told(asking(&[key])).await;
        peer.updated().await;
    }
    peer.told(asking(&["c"])).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Input(InputCause::TooManyRounds(2))), "{error}");
    peer.expect("tasks/cancel").await;
}

#[tokio::test(start_paused = true)]
async fn each_final_status_has_its_own_outcome() {
    let mut failed = task("failed");
    failed["error"] = json!({ "code": -32000, "message": "broke" });
    let mut cancelled = task("cancelled");
    cancelled["statusMessage"] = "enough".into();
    let mut tool_failed = said("no");
    tool_failed["isError"] = true.into();
    for (end, expected) in [
        (failed, "tools/call \"work\": error response from server: broke (-32000)"),
        (cancelled, "tools/call \"work\": the task \"t\" was cancelled: enough"),
        (
            task("completed"),
            "tools/call \"work\": invalid response: \
             the task is over and has neither a result nor an error",
        ),
        (
            completed(json!({ "content": 5 })),
            "tools/call \"work\": invalid response: \
             result.content: invalid type: integer \"5\", expected a sequence",
        ),
        (completed(tool_failed), ""),
    ] {
        let (client, mut peer) = Peer::extended(nobody()).await;
        let calling = call(&client);
        peer.make_task().await;
        peer.told(end).await;
        match calling.await.unwrap() {
            Err(error) => {
                assert_eq!(error.to_string(), expected);
                assert!(!error.may_have_run());
            }
            Ok(result) => assert!(result.is_error() && expected.is_empty()),
        }
        peer.expect_nothing(client).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_not_found_and_not_cancelled() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let calling = call(&client);
    peer.make_task().await;
    let request = peer.expect("tasks/get").await;
    peer.refuse(&request, -32602, "no such task").await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::NotFound { id }) if id == "t"), "{error}");
    assert_eq!(error.delivery(), Delivery::Unknown);
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_task_is_validated_against_the_schema_of_its_tool() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let schema = json!({ "type": "object", "required": ["sum"] });
    let tool = json!({ "name": "work", "inputSchema": { "type": "object" }, "outputSchema": schema });
    let (listed, ()) = tokio::join!(client.list_tools().into_future(), peer.list(json!([tool])));
    assert_eq!(listed.unwrap().len(), 1);
    let calling = call(&client);
    peer.make_task().await;
    let mut result = said("{}");
    result["structuredContent"] = json!({});
    peer.told(completed(result.clone())).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Output(_))), "{error}");

    let calling = client.call_tool_as_task("work", ()).into_future();
    let (handle, _) = tokio::join!(calling, peer.make_task());
    let handle = handle.unwrap();
    let (waited, _) = tokio::join!(handle.wait(), peer.told(completed(result)));
    assert!(matches!(waited.unwrap_err().kind(), CallErrorKind::Decode(DecodeCause::Output(_))));
}

#[tokio::test(start_paused = true)]
async fn the_timeout_applies_to_each_request_and_not_to_the_task() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let calling = tokio::spawn(client.call_tool("work", ()).timeout(2 * SECOND).into_future());
    peer.make_task().await;
    for _ in 0..10 {
        peer.told(task("working")).await;
    }
    peer.expect("tasks/get").await;
    let asked = Instant::now();
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.is_timeout() && error.may_have_run(), "{error}");
    assert_eq!(asked.elapsed().as_secs(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_cancels_its_task() {
    for how in 0..3 {
        let (client, mut peer) = Peer::extended(nobody()).await;
        let cancel = CancellationToken::new();
        let calling = tokio::spawn(client.call_tool("work", ()).cancellation_token(&cancel).into_future());
        peer.make_task().await;
        peer.told(task("working")).await;
        let pending = client.pending_calls();
        assert_eq!(pending[0].target, "tools/call \"work\"");
        match how {
            0 => calling.abort(),
            1 => cancel.cancel(),
            _ => assert!(client.cancel(pending[0].id)),
        }
        let request = peer.expect("tasks/cancel").await;
        assert!(declares(&request) && request["params"]["taskId"] == "t", "{request}");
        peer.answer(&request, json!({ "resultType": "complete" })).await;
        match calling.await {
            Ok(outcome) => assert!(outcome.unwrap_err().is_cancelled()),
            Err(aborted) => assert!(aborted.is_cancelled()),
        }
        peer.expect_nothing(client).await;
    }
}

/// Returns a connector to scripted servers: a new one for each connection.
fn each() -> (StreamConnector, mpsc::UnboundedReceiver<Peer>) {
    let (sender, peers) = mpsc::unbounded_channel();
    let connector = StreamConnector::from_fn("by hand", move || {
        let (near, far) = memory();
        sender.send(Peer::new(far)).unwrap();
        std::future::ready(Ok(near))
    });
    (connector, peers)
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_does_not_end_a_task() {
    let (connector, mut peers) = each();
    // Without retries of calls: only `tasks/get` is sent again.
    let backoff = Backoff::new().initial_delay(SECOND);
    let builder = nobody().enable_tasks().protocol_version(NEW).reconnect(backoff).without_retry();
    let connecting = tokio::spawn(builder.connect(connector));
    let mut peer = peers.recv().await.unwrap();
    peer.open(NEW, extended()).await;
    let client = connecting.await.unwrap().unwrap();
    let calling = call(&client);
    peer.make_task().await;
    peer.expect("tasks/get").await;
    drop(peer);
    let mut peer = peers.recv().await.unwrap();
    let asked = peer.opened_and_asked("tasks/get").await;
    peer.answer(&asked, completed(said("still here"))).await;
    assert_eq!(calling.await.unwrap().unwrap().text(), "still here");
}

#[tokio::test(start_paused = true)]
async fn a_call_with_a_task_is_not_repeated_without_reconnect() {
    let (client, mut peer) = Peer::extended(nobody()).await;
    let calling = call(&client);
    peer.make_task().await;
    drop(peer);
    let error = calling.await.unwrap().unwrap_err();
    assert!(error.is_disconnected() && error.may_have_run(), "{error}");
}
