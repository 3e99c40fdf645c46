//! Tasks with concurrent or late operations, and callers that must not see them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use turms_core::store::{MemoryTaskStore, StoreError, TaskRecord, TaskStore};
use turms_core::{BoxFuture, Peer, PeerError, PeerTransport, Request, Service as _};
use turms_proto::session::{Dialect, RequestOptions};
use turms_proto::types::*;
use turms_proto::{ErrorCode, Notification, Object, ProtocolVersion, RawJson};
use turms_server::{Context, InputError, Router, Server, TaskOptions, Tool};
use turms_testkit::test_client::{Script, TestClient};
use turms_testkit::{eventually, within};

const E: ProtocolVersion = ProtocolVersion::V2026_07_28;
const D: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// Number of input requests of the tool.
const QUESTIONS: usize = 20;

fn server(store: Arc<dyn TaskStore>) -> Server {
    let asking = Tool::builder("asking").task().handler(|context: Context| async move {
        for number in 0..QUESTIONS {
            context.elicit_with(form("who?")).key(format!("q{number}")).await?;
        }
        Ok::<_, InputError>("asked")
    });
    let endless = Tool::builder("endless").task().handler(|| async {
        std::future::pending::<()>().await;
        ""
    });
    let tasks = TaskOptions::new().store(store).poll_interval(Duration::from_millis(20));
    Server::new("tasks", "1").tool(asking).tool(endless).tasks(tasks)
}

fn memory() -> Arc<MemoryTaskStore> {
    Arc::new(MemoryTaskStore::new(100, 1 << 20))
}

fn form(message: &str) -> ElicitParams {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    ElicitParams::form(message, serde_json::from_value::<FormSchema>(schema).unwrap())
}

fn object(value: Value) -> Object {
    let Value::Object(value) = value else { panic!("an object") };
    value.into()
}

fn accepted() -> ElicitResult {
    ElicitResult::accept(json!({"name": "Ann"})).unwrap()
}

async fn connect(server: &Router, version: ProtocolVersion) -> TestClient {
    let script = Script::new().elicit(|_| accepted());
    let script = if version == E { script.extension(TASKS_EXTENSION, Object::new()) } else { script };
    TestClient::connect_with(server, version, script).await
}

async fn begin(client: &TestClient, tool: &str) -> String {
    let mut params = CallToolParams::new(tool);
    if client.version() == D {
        params.task = Some(TaskRequest::new());
    }
    match client.request::<CallTool>(&params).await.unwrap() {
        Outcome::Task(task) => task.task_id,
        Outcome::CoreTask(created) => created.task.task_id,
        other => panic!("{other:?}"),
    }
}

/// A client of 2025-11-25 in the same process, which responds to requests or leaves them unanswered.
#[derive(Default)]
struct Asked {
    answers: bool,
    asked: Notify,
}

impl PeerTransport for Asked {
    fn notify(&self, _: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_notify(&self, _: Notification) -> bool {
        true
    }

    fn request(
        &self,
        _: turms_proto::MethodName,
        _: Option<RawJson>,
        _: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        self.asked.notify_one();
        if self.answers {
            return Box::pin(std::future::ready(Ok(RawJson::encode(&accepted()).unwrap())));
        }
        Box::pin(std::future::pending())
    }
}

/// Calls a method as a client without a session.
fn call(router: &Router, link: Arc<Asked>, method: &str, params: Value) -> turms_core::ResponseFuture {
    let cx = turms_core::CallContext::new(Dialect::Handshake(D), Peer::shared(link));
    let params = turms_core::Payload::json(RawJson::from(object(params)));
    router.call(Request::raw(method.to_owned(), params), cx)
}

#[tokio::test]
async fn each_input_request_is_sent_once_to_an_older_client() {
    let router = server(memory()).build().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let script = Script::new().elicit(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        accepted()
    });
    let client = TestClient::connect_with(&router, D, script).await;
    let id = begin(&client, "asking").await;
    let wait = async || client.request_raw("tasks/result", object(json!({"taskId": id}))).await.unwrap();
    within("the result comes", async { tokio::join!(wait(), wait()) }).await;
    assert_eq!(asked.load(Ordering::SeqCst), QUESTIONS);
}

#[tokio::test(start_paused = true)]
async fn an_input_request_moves_to_another_client_that_waits_for_the_result() {
    let router = server(memory()).build().unwrap();
    let id = begin(&connect(&router, D).await, "asking").await;
    let (silent, person) = (Arc::new(Asked::default()), Arc::new(Asked { answers: true, ..Asked::default() }));
    let first = tokio::spawn(call(&router, silent.clone(), "tasks/result", json!({"taskId": id})));
    within("the first is asked", silent.asked.notified()).await;
    let mut second = Box::pin(call(&router, person, "tasks/result", json!({"taskId": id})));
    assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err(), "one client gets the request");
    first.abort();
    let result = within("the second is asked", second).await.unwrap().into_raw().unwrap();
    assert_eq!(result.decode::<CallToolResult>().unwrap().text(), "asked");
}

#[tokio::test]
async fn an_input_response_is_removed_after_the_handler_has_read_it() {
    let store = memory();
    let router = server(store.clone()).build().unwrap();
    let client = connect(&router, E).await;
    let id = begin(&client, "asking").await;
    for number in 0..QUESTIONS {
        let key = format!("q{number}");
        let mut revision = 0;
        loop {
            let record = store.load(&id).await.unwrap().unwrap();
            if record.task.input_requests.as_ref().is_some_and(|asked| asked.contains_key(&key)) {
                assert!(record.answers.is_empty(), "{:?} are kept at question {number}", record.answers.keys());
                break;
            }
            revision = record.revision.max(revision);
            within("the next question is asked", store.changed(&id, revision)).await.unwrap();
        }
        let answers = object(json!({ key.as_str(): accepted() }));
        client.request::<UpdateTask>(&UpdateTaskParams::new(&*id, answers)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_request_of_a_spawned_future_fails_when_the_task_ends() {
    for cancels in [true, false] {
        let (told, mut hears) = mpsc::unbounded_channel();
        let spawning = Tool::builder("spawning").task().handler(move |context: Context| {
            let told = told.clone();
            async move {
                tokio::spawn(async move { told.send(context.elicit_with(form("who?")).key("who").await) });
                std::future::pending::<()>().await;
                ""
            }
        });
        let router = server(memory()).tool(spawning).build().unwrap();
        let client = connect(&router, E).await;
        let id = begin(&client, "spawning").await;
        if cancels {
            client.request::<CancelTask>(&TaskParams::new(&*id)).await.unwrap();
        }
        // Unless it is cancelled, it expires.
        let heard = tokio::time::timeout(Duration::from_secs(2 * 60 * 60), hears.recv()).await;
        let error = heard.expect("the input request ends").unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the task has ended; input requests are no longer possible");
    }
}

#[tokio::test]
async fn a_completed_call_does_not_count_as_a_running_task() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let quick = Tool::builder("quick").task().handler_sync(move |context: Context| {
        kept.lock().unwrap().push(context);
        "at once"
    });
    let router = server(memory()).tool(quick).tasks(TaskOptions::new().max_running(1)).build().unwrap();
    let client = connect(&router, E).await;
    for _ in 0..2 {
        assert_eq!(client.call_tool("quick", json!({})).await.unwrap().text(), "at once");
    }
}

/// A store in which a concurrent change precedes a cancellation.
struct Racing(MemoryTaskStore);

impl TaskStore for Racing {
    fn insert(&self, record: TaskRecord, keep: Option<Duration>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.insert(record, keep)
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        self.0.load(id)
    }

    fn replace(&self, record: TaskRecord) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            if record.task.status == TaskStatus::Cancelled {
                let mut quicker = record.clone();
                quicker.task.status = TaskStatus::Completed;
                self.0.replace(quicker).await?;
            }
            self.0.replace(record).await
        })
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.remove(id)
    }

    fn changed<'a>(&'a self, id: &'a str, revision: u64) -> BoxFuture<'a, Result<Option<Arc<TaskRecord>>, StoreError>> {
        self.0.changed(id, revision)
    }

    fn list<'a>(
        &'a self,
        creator: &'a str,
        after: Option<&'a str>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Arc<TaskRecord>>, StoreError>> {
        self.0.list(creator, after, most)
    }
}

#[tokio::test]
async fn cancelling_a_completed_task_is_an_error_for_older_clients() {
    let router = server(Arc::new(Racing(MemoryTaskStore::new(10, 1 << 20)))).build().unwrap();
    let client = connect(&router, D).await;
    let id = begin(&client, "endless").await;
    let error = client.request::<CancelCoreTask>(&TaskParams::new(&*id)).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS);
    assert_eq!(error.server_error().message, "the task cannot be cancelled any more: it is completed");
}

#[tokio::test]
async fn callers_without_an_identity_get_no_list_of_tasks() {
    let router = server(memory()).build().unwrap();
    let capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
    let meta = object(json!({key::CLIENT_CAPABILITIES: capabilities})).into();
    let cx = turms_core::CallContext::in_process().with_meta(Some(meta));
    let params = turms_core::Payload::json(RawJson::from(object(json!({"name": "endless"}))));
    router.call(Request::raw("tools/call", params), cx).await.unwrap();

    let nobody = Arc::new(Asked::default());
    call(&router, nobody.clone(), "tools/call", json!({"name": "endless", "task": {}})).await.unwrap();
    let error = call(&router, nobody.clone(), "tasks/list", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
    let hello = json!({"protocolVersion": D, "capabilities": {}, "clientInfo": {"name": "nobody", "version": "1"}});
    let opened = call(&router, nobody, "initialize", hello).await.unwrap().into_raw().unwrap();
    let tasks = opened.member("capabilities").unwrap().member("tasks").unwrap();
    assert_eq!(tasks.as_str(), r#"{"cancel":{},"requests":{"tools":{"call":{}}}}"#);
}

#[tokio::test]
async fn a_list_does_not_reveal_tasks_of_others() {
    let router = server(memory()).build().unwrap();
    let (one, other) = (connect(&router, D).await, connect(&router, D).await);
    let id = begin(&one, "endless").await;
    for cursor in [id, "unknown".to_owned()] {
        let error = other.request_raw("tasks/list", object(json!({"cursor": cursor}))).await.unwrap_err();
        assert_eq!(error.server_error().message, "the cursor was not issued by this server");
    }
}

#[tokio::test]
async fn a_duplicate_task_id_in_a_filter_is_acknowledged_once() {
    let router = server(memory()).build().unwrap();
    let client = Arc::new(connect(&router, E).await);
    let id = begin(&client, "endless").await;
    let filter = SubscriptionFilter::new().task_ids(vec![id.clone(), id.clone()]);
    let listening = tokio::spawn({
        let client = client.clone();
        async move { client.request::<Listen>(&ListenParams::new(filter)).await }
    });
    let acknowledged = client.expect_notification::<SubscriptionsAcknowledgedNotification>().await.notifications;
    assert_eq!(acknowledged.task_ids, Some(vec![id]));
    listening.abort();
}

#[tokio::test(start_paused = true)]
async fn every_call_that_requests_to_become_a_task_does() {
    let both = Tool::builder("both").task_deferred().handler(|context: Context| async move {
        let (other, (begins, begun)) = (context.clone(), tokio::sync::oneshot::channel());
        let beside = tokio::spawn(async move {
            begins.send(()).unwrap();
            other.continue_as_task().await;
        });
        begun.await.unwrap();
        context.continue_as_task().await;
        beside.await.unwrap();
        "both"
    });
    let store = memory();
    let router = server(store.clone()).tool(both).build().unwrap();
    let id = begin(&connect(&router, E).await, "both").await;
    let ended = async {
        let mut record = store.load(&id).await.unwrap().unwrap();
        while !record.task.status.is_terminal() {
            record = store.changed(&id, record.revision).await.unwrap().unwrap();
        }
    };
    within("the task ends", ended).await;
}

#[tokio::test]
async fn a_task_that_the_store_refuses_has_not_run() {
    for version in [E, D] {
        for capacity in [0, 1] {
            let runs = Arc::new(AtomicUsize::new(0));
            let count = runs.clone();
            let counted = Tool::builder("counted").task().handler(move || {
                count.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<String>()
            });
            let store = Arc::new(MemoryTaskStore::new(capacity, 1 << 20));
            let router = server(store).tool(counted).build().unwrap();
            let client = connect(&router, version).await;
            for _ in 0..capacity {
                begin(&client, "endless").await;
            }
            let mut params = CallToolParams::new("counted");
            params.task = (version == D).then(TaskRequest::new);
            let refused = client.request::<CallTool>(&params).await.unwrap_err();
            assert!(refused.server_error().message.contains("the store is full"), "{refused}");
            assert_eq!(runs.load(Ordering::SeqCst), 0, "it ran in {version}");
        }
    }
}

#[tokio::test]
async fn a_task_that_its_client_does_not_know_is_not_stored() {
    let store = memory();
    let tools = server(store.clone()).tool(Tool::builder("quick").task().handler(|| async { "at once" })).tool(
        Tool::builder("panics").task().handler(|| async {
            if true {
                panic!("as asked")
            }
        }),
    );
    let router = tools.build().unwrap();
    let client = connect(&router, E).await;
    assert_eq!(client.call_tool("quick", json!({})).await.unwrap().text(), "at once");
    client.call_tool("panics", json!({})).await.unwrap_err();
    eventually("no task is kept", async || format!("{store:?}").contains("len: 0")).await;
}

#[tokio::test(start_paused = true)]
async fn an_input_request_of_a_task_has_a_timeout_if_it_is_given_one() {
    let (send, mut received) = mpsc::unbounded_channel();
    let late = Tool::builder("late").task().handler(move |context: Context| {
        let send = send.clone();
        async move {
            let answered = context.elicit_with(form("who?")).timeout(Duration::from_secs(5)).await;
            send.send(answered.map_err(|error| error.to_string())).unwrap();
            // The default is to wait for as long as the task exists.
            let _ = context.elicit_with(form("who?")).await;
        }
    });
    let router = server(memory()).tool(late).build().unwrap();
    for version in [D, E] {
        let client = connect(&router, version).await;
        let id = begin(&client, "late").await;
        let error = received.recv().await.unwrap().unwrap_err();
        assert!(error.contains("no response within 5"), "{version}: {error}");
        tokio::time::sleep(Duration::from_secs(11 * 60)).await;
        let status = client.request_raw("tasks/get", object(json!({ "taskId": id }))).await.unwrap();
        assert_eq!(status.member("status").unwrap().text().as_deref(), Some("input_required"), "{version}");
    }
}
