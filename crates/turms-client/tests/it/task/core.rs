//! The experimental tasks of 2025-11-25.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use turms_client::{CallErrorKind, Change, Client, ClientBuilder, Event, Pool, TaskCause, TaskHandle};
use turms_proto::types::{SubscriptionFilter, TaskStatus};

use crate::task::peer::*;

fn tasks() -> Value {
    json!({ "tools": {}, "tasks": { "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } } })
}

/// Returns a task as in `tasks/get` of 2025-11-25.
fn core(status: &str) -> Value {
    json!({
        "taskId": "t", "status": status, "createdAt": "2025-11-25T00:00:00Z", "lastUpdatedAt": "2025-11-25T00:00:00Z",
        "ttl": null, "pollInterval": 2000
    })
}

fn text(text: &str) -> Value {
    let meta = json!({ "io.modelcontextprotocol/related-task": { "taskId": "t" } });
    json!({ "content": [{ "type": "text", "text": text }], "_meta": meta })
}

fn tool(support: &str) -> Value {
    json!([{ "name": "work", "inputSchema": { "type": "object" }, "execution": { "taskSupport": support } }])
}

async fn connected(builder: ClientBuilder) -> (Client, Peer) {
    Peer::with(CORE, tasks(), builder).await
}

/// Creates a task of a tool with optional task support.
async fn begun(client: &Client, peer: &mut Peer) -> TaskHandle {
    let calling = client.call_tool_as_task("work", ()).ttl(Duration::from_secs(60));
    let playing = async {
        peer.list(tool("optional")).await;
        let call = peer.expect("tools/call").await;
        assert_eq!(call["params"]["task"], json!({ "ttl": 60_000 }));
        peer.answer(&call, json!({ "task": core("working") })).await;
    };
    tokio::join!(calling.into_future(), playing).0.unwrap()
}

/// Waits for a `tasks/result` request.
async fn asked_for_result(peer: &mut Peer) -> Value {
    let request = peer.expect("tasks/result").await;
    assert_eq!(request["params"], json!({ "taskId": "t" }));
    request
}

#[tokio::test(start_paused = true)]
async fn the_result_is_requested_after_the_task_has_ended() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    assert_eq!((handle.id(), handle.status()), (Some("t"), TaskStatus::Working));
    let playing = async {
        let begun = Instant::now();
        peer.told(core("working")).await;
        peer.told(core("completed")).await;
        assert_eq!(begun.elapsed().as_secs(), 4);
        let request = asked_for_result(&mut peer).await;
        peer.answer(&request, text("done")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
    assert_eq!(handle.status(), TaskStatus::Completed);
    assert_eq!(handle.wait().await.unwrap().text(), "done");
    drop(handle);
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_a_task_arrive_during_tasks_result() {
    let (client, mut peer) = connected(person()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(core("input_required")).await;
        let request = asked_for_result(&mut peer).await;
        peer.send(&json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form("who") })).await;
        let answer = peer.next().await.unwrap();
        assert_eq!((&answer["id"], &answer["result"]), (&json!("q"), &accepted("who")));
        // Longer than the timeout of a response.
        for _ in 0..30 {
            peer.told(core("working")).await;
        }
        peer.answer(&request, text("done")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
    assert_eq!(handle.status(), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_missing_result_is_requested_again_after_the_task_has_ended() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(core("input_required")).await;
        asked_for_result(&mut peer).await;
        peer.told(core("completed")).await;
        peer.expect("notifications/cancelled").await;
        let request = asked_for_result(&mut peer).await;
        peer.answer(&request, text("done")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn each_final_status_has_its_own_outcome() {
    let mut tool_failed = text("no");
    tool_failed["isError"] = true.into();
    for (status, result, expected) in [
        ("failed", Some(Ok(tool_failed)), Ok("no")),
        ("failed", Some(Err("broke")), Err("tools/call \"work\": error response from server: broke (-32000)")),
        ("cancelled", None, Err("tools/call \"work\": the task \"t\" was cancelled")),
    ] {
        let (client, mut peer) = connected(nobody()).await;
        let handle = begun(&client, &mut peer).await;
        let playing = async {
            peer.told(core(status)).await;
            let Some(result) = result else { return };
            let request = asked_for_result(&mut peer).await;
            match result {
                Ok(result) => peer.answer(&request, result).await,
                Err(error) => peer.refuse(&request, -32000, error).await,
            }
        };
        let (waited, ()) = tokio::join!(handle.wait(), playing);
        let waited = waited.map(|result| result.text()).map_err(|error| error.to_string());
        assert_eq!(waited.as_deref().map_err(String::as_str), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_cancelled_during_tasks_result_is_cancelled() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(core("input_required")).await;
        let request = asked_for_result(&mut peer).await;
        peer.refuse(&request, -32603, "there is none").await;
        peer.told(core("cancelled")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert!(matches!(waited.unwrap_err().kind(), CallErrorKind::Task(TaskCause::Cancelled { .. })));
}

#[tokio::test(start_paused = true)]
async fn an_error_of_tasks_result_does_not_end_the_task() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(core("input_required")).await;
        let request = asked_for_result(&mut peer).await;
        peer.refuse(&request, -32603, "not now").await;
        peer.told(core("input_required")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(
        waited.unwrap_err().to_string(),
        "tools/call \"work\": error response from server: not now (-32603 internal error)"
    );
    assert_eq!(handle.status(), TaskStatus::InputRequired);
    let playing = async {
        let request = asked_for_result(&mut peer).await;
        peer.answer(&request, text("done")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_requires_a_task_runs_as_one_for_a_client_with_tasks() {
    for (takes, support, asks) in [(true, "required", true), (true, "optional", false), (false, "required", false)] {
        let (client, mut peer) = connected(if takes { nobody().enable_tasks() } else { nobody() }).await;
        tokio::join!(client.list_tools().into_future(), peer.list(tool(support))).0.unwrap();
        let calling = tokio::spawn(client.call_tool("work", ()).into_future());
        let call = peer.expect("tools/call").await;
        assert_eq!(call["params"].get("task").is_some(), asks, "{call}");
        if asks {
            peer.answer(&call, json!({ "task": core("working") })).await;
            peer.told(core("completed")).await;
            let request = asked_for_result(&mut peer).await;
            peer.answer(&request, text("done")).await;
        } else {
            peer.answer(&call, text("done")).await;
        }
        assert_eq!(calling.await.unwrap().unwrap().text(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn members_of_a_pool_share_its_tool_definitions() {
    let (member, mut peer) = connected(nobody().enable_tasks()).await;
    let pool = Pool::builder().client(member).without_health_check().build().await.unwrap();
    let client = pool.as_client();
    tokio::join!(client.list_tools().into_future(), peer.list(tool("required"))).0.unwrap();
    let calling = tokio::spawn(client.call_tool("work", ()).into_future());
    let call = peer.expect("tools/call").await;
    assert!(call["params"].get("task").is_some(), "{call}");
    peer.answer(&call, json!({ "task": core("working") })).await;
    peer.told(core("cancelled")).await;
    let error = calling.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::Cancelled { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn no_task_is_requested_without_the_capability() {
    let without = json!({ "tools": {} });
    for (capabilities, lists, version) in [
        (without.clone(), false, CORE),
        (tasks(), true, CORE),
        (without, false, turms_proto::ProtocolVersion::V2025_06_18),
    ] {
        let (client, mut peer) = Peer::with(version, capabilities, nobody()).await;
        let playing = async {
            if lists {
                peer.list(tool("forbidden")).await;
            }
            let call = peer.expect("tools/call").await;
            assert!(call["params"].get("task").is_none(), "{call}");
            peer.answer(&call, text("done")).await;
        };
        let (handle, ()) = tokio::join!(client.call_tool_as_task("work", ()), playing);
        let handle = handle.unwrap();
        assert_eq!((handle.id(), handle.wait().await.unwrap().text().as_str()), (None, "done"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_extension_is_not_declared_to_a_server_that_has_a_handshake() {
    let (near, far) = turms_core::transport::memory();
    let mut peer = Peer::new(far);
    let connecting = person().enable_tasks().protocol_version(CORE).connect_stream(near.0, near.1);
    let (client, hello) = tokio::join!(connecting, peer.open(CORE, tasks()));
    assert_eq!(hello["params"]["capabilities"], json!({ "elicitation": { "form": {} } }));
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_with_the_capability() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        let cancel = peer.expect("tasks/cancel").await;
        peer.answer(&cancel, core("cancelled")).await;
    };
    tokio::join!(handle.cancel(), playing).0.unwrap();
    assert_eq!(handle.status(), TaskStatus::Cancelled);

    let mut without = tasks();
    without["tasks"].as_object_mut().unwrap().remove("cancel");
    let (client, mut peer) = Peer::with(CORE, without, nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let error = handle.cancel().await.unwrap_err();
    assert_eq!(error.to_string(), "tasks/cancel \"t\": the server does not offer tasks/cancel");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ended_before_its_cancellation_keeps_its_status() {
    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        let cancel = peer.expect("tasks/cancel").await;
        peer.refuse(&cancel, -32602, "it is completed").await;
        peer.told(core("completed")).await;
    };
    tokio::join!(handle.cancel(), playing).0.unwrap();
    assert_eq!(handle.status(), TaskStatus::Completed);

    let (client, mut peer) = connected(nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        for method in ["tasks/cancel", "tasks/get"] {
            let request = peer.expect(method).await;
            peer.refuse(&request, -32602, "no such task").await;
        }
    };
    let error = tokio::join!(handle.cancel(), playing).0.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::NotFound { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_with_the_capability() {
    let (client, mut peer) = connected(nobody()).await;
    let playing = async {
        let first = peer.expect("tasks/list").await;
        peer.answer(&first, json!({ "tasks": [core("working")], "nextCursor": "2" })).await;
        let second = peer.expect("tasks/list").await;
        assert_eq!(second["params"]["cursor"], "2");
        peer.answer(&second, json!({ "tasks": [core("failed")] })).await;
    };
    let (listed, ()) = tokio::join!(client.list_tasks(), playing);
    let statuses: Vec<_> = listed.unwrap().iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Working, TaskStatus::Failed]);

    let (client, _peer) = Peer::with(CORE, json!({ "tasks": {} }), nobody()).await;
    let error = client.list_tasks().await.unwrap_err();
    assert_eq!(error.to_string(), "tasks/list: the server does not offer lists of tasks");
}

#[tokio::test(start_paused = true)]
async fn a_notification_of_a_task_is_followed_by_a_poll() {
    let (client, mut peer) = connected(nobody()).await;
    let filter = SubscriptionFilter::new().task_ids(["t".to_owned()]);
    let mut changes = client.subscribe(filter.clone()).await.unwrap();
    assert_eq!(changes.acknowledged(), &filter);
    let mut events = client.events();
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        let begun = Instant::now();
        peer.notify("notifications/tasks/status", core("completed")).await;
        peer.told(core("completed")).await;
        assert!(begun.elapsed().as_millis() < 100, "{:?}", begun.elapsed());
        let request = asked_for_result(&mut peer).await;
        peer.answer(&request, text("done")).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
    assert_eq!(changes.next().await, Some(Change::Task { id: "t".into(), status: TaskStatus::Completed }));
    let heard = events.find(|event| match event {
        Event::TaskUpdated(task) => Some(task.task_id.clone()),
        _ => None,
    });
    assert_eq!(heard.await.as_deref(), Some("t"));
}
