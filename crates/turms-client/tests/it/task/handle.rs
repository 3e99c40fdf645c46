//! Task handles, in the extension of 2026-07-28.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::Instant;
use turms_client::{
    CallErrorKind, Change, Client, ClientGroup, Event, NoServerCause, Pool, PoolStrategy, TaskCause, TaskHandle,
    UnsupportedCause,
};
use turms_core::{CallContext, NotifyFuture, Payload, Request, ResponseFuture, Service};
use turms_proto::types::{SubscriptionFilter, TaskStatus};
use turms_proto::{ErrorObject, Notification, RawJson};

use crate::task::peer::*;

async fn begun(client: &Client, peer: &mut Peer) -> TaskHandle {
    let (handle, call) = tokio::join!(client.call_tool_as_task("work", json!({ "n": 1 })), peer.make_task());
    assert!(declares(&call) && call["params"]["arguments"]["n"] == 1, "{call}");
    handle.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handle_needs_no_client_with_tasks() {
    let (client, mut peer) = Peer::with(NEW, extended(), person()).await;
    let handle = begun(&client, &mut peer).await;
    assert_eq!((handle.id(), handle.status()), (Some("t"), TaskStatus::Working));
    let (seen, request) = tokio::join!(handle.refresh(), peer.told(asking(&["a"])));
    assert!(declares(&request));
    assert_eq!(seen.unwrap().unwrap().status, TaskStatus::InputRequired);
    assert_eq!(handle.task().unwrap().input_requests.unwrap().len(), 1);
    let waiting = async {
        assert_eq!(peer.updated().await, json!({ "a": accepted("a") }));
        peer.told(completed(said("done"))).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), waiting);
    assert_eq!(waited.unwrap().text(), "done");
    // A task that has ended needs no further requests.
    assert_eq!(handle.clone().wait().await.unwrap().text(), "done");
    handle.cancel().await.unwrap();
    let (pinged, request) = tokio::join!(client.ping(), peer.expect("server/discover"));
    assert!(!declares(&request) && pinged.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_may_respond_without_a_task() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let answering = async {
        let call = peer.expect("tools/call").await;
        peer.answer(&call, said("at once")).await;
    };
    let (handle, ()) = tokio::join!(client.call_tool_as_task("work", ()), answering);
    let handle = handle.unwrap();
    assert_eq!((handle.id(), handle.status()), (None, TaskStatus::Completed));
    assert_eq!(handle.wait().await.unwrap().text(), "at once");
    assert!(handle.refresh().await.unwrap().is_none() && handle.task().is_none());
    handle.cancel().await.unwrap();
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_does_not_cancel_the_task() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let waiting = tokio::spawn({
        let handle = handle.clone();
        async move { handle.wait().await }
    });
    peer.told(task("working")).await;
    assert_eq!(client.pending_calls().len(), 1);
    waiting.abort();
    assert!(waiting.await.is_err());
    let (waited, _) = tokio::join!(handle.wait(), peer.told(completed(said("done"))));
    assert_eq!(waited.unwrap().text(), "done");
    drop(handle);
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_waits_share_their_requests() {
    let (client, mut peer) = Peer::with(NEW, extended(), person()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(asking(&["a"])).await;
        peer.updated().await;
        peer.told(completed(said("done"))).await;
    };
    let (one, other, ()) = tokio::join!(handle.wait(), handle.wait(), playing);
    assert_eq!((one.unwrap().text(), other.unwrap().text()), ("done".into(), "done".into()));
    drop(handle);
    peer.expect_nothing(client).await;
}

#[tokio::test(start_paused = true)]
async fn a_handle_cancels_its_task() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        let cancel = peer.expect("tasks/cancel").await;
        assert!(declares(&cancel) && cancel["params"]["taskId"] == "t", "{cancel}");
        peer.answer(&cancel, json!({ "resultType": "complete" })).await;
    };
    let (cancelled, ()) = tokio::join!(handle.cancel(), playing);
    cancelled.unwrap();
    // An acknowledged cancellation does not change the known status.
    assert_eq!(handle.status(), TaskStatus::Working);
    let (waited, _) = tokio::join!(handle.wait(), peer.told(task("cancelled")));
    assert!(matches!(waited.unwrap_err().kind(), CallErrorKind::Task(TaskCause::Cancelled { .. })));
    assert_eq!(handle.status(), TaskStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn refused_input_responses_are_sent_again_by_the_next_wait() {
    let (client, mut peer) = Peer::with(NEW, extended(), person()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        peer.told(asking(&["a"])).await;
        let update = peer.expect("tasks/update").await;
        peer.refuse(&update, -32603, "not now").await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap_err().error_response().unwrap().message, "not now");
    let playing = async {
        assert_eq!(peer.updated().await, json!({ "a": accepted("a") }));
        peer.told(completed(said("done"))).await;
    };
    let (waited, ()) = tokio::join!(handle.wait(), playing);
    assert_eq!(waited.unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn cancelling_an_unknown_task_is_an_error() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let handle = begun(&client, &mut peer).await;
    let playing = async {
        let cancel = peer.expect("tasks/cancel").await;
        peer.refuse(&cancel, -32602, "no such task").await;
    };
    let (cancelled, ()) = tokio::join!(handle.cancel(), playing);
    let error = cancelled.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Task(TaskCause::NotFound { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_resumed_by_its_id() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let (handle, request) = tokio::join!(client.task("t"), peer.told(task("working")));
    assert!(declares(&request));
    let handle = handle.unwrap();
    let (waited, _) = tokio::join!(handle.wait(), peer.told(completed(said("done"))));
    assert_eq!(waited.unwrap().text(), "done");

    let playing = async {
        let request = peer.expect("tasks/get").await;
        peer.refuse(&request, -32602, "no such task").await;
    };
    let (gone, ()) = tokio::join!(client.task("u"), playing);
    assert_eq!(gone.unwrap_err().to_string(), "tasks/get \"u\": task \"u\" not found; the call may have run");
    let error = client.list_tasks().await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Unsupported(UnsupportedCause::Revision { .. })), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_notification_of_a_task_is_followed_by_a_poll() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let listening = client.subscribe(SubscriptionFilter::new().task_ids(["t".to_owned()]));
    let playing = async {
        let listen = peer.expect("subscriptions/listen").await;
        assert!(declares(&listen));
        assert_eq!(listen["params"]["notifications"], json!({ "taskIds": ["t"] }));
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": listen["id"] });
        let acknowledged = json!({ "notifications": { "taskIds": ["t"] }, "_meta": meta });
        peer.notify("notifications/subscriptions/acknowledged", acknowledged).await;
        meta
    };
    let (changes, meta) = tokio::join!(listening.into_future(), playing);
    let mut changes = changes.unwrap();
    let handle = begun(&client, &mut peer).await;
    let mut slow = task("working");
    slow["pollIntervalMs"] = 60_000.into();
    let (seen, _) = tokio::join!(handle.refresh(), peer.told(slow));
    seen.unwrap();
    let waiting = tokio::spawn(async move { handle.wait().await });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    let mut told = completed(said("done"));
    told["_meta"] = meta;
    peer.notify("notifications/tasks", told).await;
    peer.told(completed(said("done"))).await;
    assert!(begun.elapsed().as_millis() < 100, "{:?}", begun.elapsed());
    assert_eq!(waiting.await.unwrap().unwrap().text(), "done");
    assert_eq!(changes.next().await, Some(Change::Task { id: "t".into(), status: TaskStatus::Completed }));
}

/// A service that creates a task for every call. The task is completed at the second poll.
#[derive(Clone)]
struct Site {
    name: &'static str,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn new(name: &'static str) -> Self {
        Self { name, heard: Arc::default() }
    }

    async fn client(&self) -> Client {
        nobody().enable_tasks().connect_service(self.clone()).await.unwrap()
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, ErrorObject> {
        let id = format!("of {}", self.name);
        let mut task = task("working");
        task["taskId"] = id.as_str().into();
        Ok(match method {
            "server/discover" => discovered(&extended()),
            "tools/list" => json!({
                "resultType": "complete", "tools": [{ "name": "work", "inputSchema": { "type": "object" } }], "ttlMs": 0,
                "cacheScope": "private"
            }),
            "tools/call" => {
                task["resultType"] = "task".into();
                task
            }
            "tasks/get" if params["taskId"] == *id => {
                let looked = self.heard().iter().filter(|method| *method == "tasks/get").count();
                if looked > 1 {
                    task["status"] = "completed".into();
                    task["result"] = said(self.name);
                }
                task
            }
            "tasks/cancel" => json!({ "resultType": "complete" }),
            _ => return Err(ErrorObject::invalid_params("no such task")),
        })
    }
}

impl Service for Site {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        let params: Value = request.params.take().unwrap_or_default();
        self.heard.lock().unwrap().push(request.method.to_string());
        let answer = self.answer(&request.method, &params);
        Box::pin(std::future::ready(answer.map(|answer| Payload::json(RawJson::from(answer))).map_err(Into::into)))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_group_a_task_stays_with_its_server() {
    let (one, other) = (Site::new("one"), Site::new("other"));
    let (a, b) = (one.client().await, other.client().await);
    let group = ClientGroup::builder(nobody().enable_tasks()).client("a", a).client("b", b).connect().await;
    let client = group.as_client();
    assert_eq!(client.call_tool("b_work", ()).await.unwrap().text(), "other");
    let handle = client.call_tool_as_task("a_work", ()).await.unwrap();
    assert_eq!(handle.id(), Some("of one"));
    assert_eq!(handle.wait().await.unwrap().text(), "one");
    assert_eq!(other.heard().iter().filter(|method| *method == "tasks/get").count(), 2);
    let error = client.task("of one").await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoServer(NoServerCause::Several)), "{error}");
    let filter = SubscriptionFilter::new().task_ids(["of one".to_owned()]);
    let error = client.subscribe(filter).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoServer(NoServerCause::Several)), "{error}");
    assert_eq!(group.client("a").unwrap().task("of one").await.unwrap().status(), TaskStatus::Completed);
    assert!(client.server_capabilities().unwrap().extensions.is_none_or(|extensions| extensions.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn in_a_pool_a_task_stays_with_its_member() {
    let (one, other) = (Site::new("one"), Site::new("other"));
    let clients = [one.client().await, other.client().await];
    let pool = Pool::builder().strategy(PoolStrategy::RoundRobin).clients(clients).build().await.unwrap();
    let client = pool.as_client();
    for _ in 0..2 {
        let handle = client.call_tool_as_task("work", ()).await.unwrap();
        let id = handle.id().unwrap().to_owned();
        assert_eq!(format!("of {}", handle.wait().await.unwrap().text()), id);
    }
    assert_eq!(one.heard().iter().filter(|method| *method == "tasks/get").count(), 2);
    assert_eq!(other.heard().iter().filter(|method| *method == "tasks/get").count(), 2);
    let calling = tokio::spawn(client.call_tool("work", ()).into_future());
    assert_eq!(calling.await.unwrap().unwrap().text(), "one");
}

#[tokio::test(start_paused = true)]
async fn a_client_as_a_service_creates_tasks_for_callers_with_tasks() {
    for takes in [true, false] {
        let (inner, mut peer) = Peer::extended(nobody()).await;
        let outer = nobody().protocol_version(NEW);
        let outer = if takes { outer.enable_tasks() } else { outer };
        let connecting = outer.connect_service(inner);
        let calling = tokio::spawn(async move { connecting.await.unwrap().call_tool("work", ()).await });
        let call = peer.opened_and_asked("tools/call").await;
        assert_eq!(declares(&call), takes, "{call}");
        if takes {
            let mut created = task("working");
            created["resultType"] = "task".into();
            peer.answer(&call, created).await;
            peer.told(completed(said("done"))).await;
        } else {
            peer.answer(&call, said("done")).await;
        }
        assert_eq!(calling.await.unwrap().unwrap().text(), "done");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_a_task_is_an_event() {
    let (client, mut peer) = Peer::with(NEW, extended(), nobody()).await;
    let mut events = client.events();
    peer.notify("notifications/tasks", task("completed")).await;
    let heard = events.find(|event| match event {
        Event::TaskUpdated(task) => Some(task.status),
        _ => None,
    });
    assert_eq!(heard.await, Some(TaskStatus::Completed));
}
