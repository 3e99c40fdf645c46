//! Tools that run as tasks, with clients of 2026-07-28 and of 2025-11-25.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::sync::{Notify, Semaphore};
use turms_core::store::MemoryTaskStore;
use turms_core::{Request, Service as _};
use turms_proto::types::*;
use turms_proto::{ErrorCode, ErrorObject, Object, ProtocolVersion, RawJson};
use turms_server::{CancellationToken, Context, Principal, Router, Server, State, TaskOptions, Tool};
use turms_testkit::test_client::{Script, TestClient};
use turms_testkit::tools::Name;
use turms_testkit::within;

const E: ProtocolVersion = ProtocolVersion::V2026_07_28;
const D: ProtocolVersion = ProtocolVersion::V2025_11_25;

/// The signals that handlers wait for, and the values that they record.
struct Stage {
    go: Semaphore,
    dropped: Arc<Notify>,
    begun: AtomicUsize,
}

struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn server() -> Server {
    server_on(&stage())
}

fn stage() -> Arc<Stage> {
    Arc::new(Stage { go: Semaphore::new(0), dropped: Arc::default(), begun: AtomicUsize::new(0) })
}

fn server_on(stage: &Arc<Stage>) -> Server {
    let slow = Tool::builder("slow").task().handler(|State(stage): State<Stage>| async move {
        stage.begun.fetch_add(1, Ordering::SeqCst);
        let _dropped = Dropped(stage.dropped.clone());
        stage.go.acquire().await.unwrap().forget();
        "done"
    });
    let required = Tool::builder("required").task_required().handler(|| async {
        tokio::task::yield_now().await;
        Err::<String, _>(std::io::Error::other("broken"))
    });
    let failing = Tool::builder("failing").task().handler(|| async {
        tokio::task::yield_now().await;
        Err::<String, ErrorObject>(ErrorObject::new(-31_000, "no luck"))
    });
    let panicking = Tool::builder("panicking").task().handler(|| async {
        tokio::task::yield_now().await;
        panic!("oh");
        #[expect(unreachable_code, reason = "says what the handler would give")]
        ""
    });
    let asking = Tool::builder("asking").task().handler(|context: Context| async move {
        let one = context.elicit_with(form("one")).key("one");
        let two = context.elicit_with(form("two")).key("two");
        let (one, two) = tokio::join!(one, two);
        let name = |answer: ElicitResult| answer.content.unwrap().get("name").unwrap();
        Ok::<_, turms_server::InputError>(format!("{} {}", name(one?), name(two?)))
    });
    let stubborn = Tool::builder("stubborn").task().handler(|context: Context| async move {
        let name = context.elicit::<Name>("who?").await?.accepted().unwrap();
        Ok::<_, turms_server::InputError>(name.name)
    });
    let later = Tool::builder("later").task_deferred().handler(|context: Context| async move {
        let name = context.elicit::<Name>("who?").await?.accepted().unwrap().name;
        assert_eq!(context.task_id(), None);
        context.continue_as_task().await;
        context.set_status_message("thinking").await;
        Ok::<_, turms_server::InputError>(format!("{name} {}", context.task_id().is_some()))
    });
    let quick = Tool::builder("quick").task().handler_sync(|| "at once");
    let plain = Tool::builder("plain").handler_sync(|| "plain");
    let loud = Tool::builder("loud").task().handler(|context: Context, _: CancellationToken| async move {
        tokio::task::yield_now().await;
        context.progress().report(1).await;
        context.log(LoggingLevel::Error, "loud").await;
        "said"
    });
    [slow, required, failing, panicking, asking, stubborn, later, quick, plain, loud]
        .into_iter()
        .fold(Server::new("tasks", "1").shared_state(stage.clone()), Server::tool)
        .tasks(TaskOptions::new().poll_interval(Duration::from_millis(20)).ttl(Duration::from_secs(60)))
}

fn form(message: &str) -> ElicitParams {
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    ElicitParams::form(message, serde_json::from_value::<FormSchema>(schema).unwrap())
}

fn script() -> Script {
    let name = |params: ElicitParams| {
        let ElicitParams::Form(form) = params else { panic!("a form") };
        ElicitResult::accept(json!({"name": form.message})).unwrap()
    };
    Script::new().elicit(name)
}

async fn connect(server: &Router, version: ProtocolVersion) -> TestClient {
    let script = if version == E { script().extension(TASKS_EXTENSION, Object::new()) } else { script() };
    TestClient::connect_with(server, version, script).await
}

fn object(value: serde_json::Value) -> Object {
    let serde_json::Value::Object(value) = value else { panic!("an object") };
    value.into()
}

async fn begin(client: &TestClient, tool: &str) -> Task {
    let mut params = CallToolParams::new(tool);
    if client.version() == D {
        params.task = Some(TaskRequest::new());
    }
    match client.request::<CallTool>(&params).await.unwrap() {
        Outcome::Task(task) => *task,
        Outcome::CoreTask(created) => turms_proto::revision::task_of_core(created.task, None),
        other => panic!("{other:?}"),
    }
}

async fn get(client: &TestClient, id: &str) -> Task {
    client.request::<GetTask>(&TaskParams::new(id)).await.unwrap()
}

/// Polls until the task has a status.
async fn until(client: &TestClient, id: &str, wanted: impl Fn(&Task) -> bool) -> Task {
    let waiting = async {
        loop {
            let task = get(client, id).await;
            if wanted(&task) {
                return task;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("the task reaches the status")
}

fn is(status: TaskStatus) -> impl Fn(&Task) -> bool {
    move |task| task.status == status
}

fn text(task: &Task) -> String {
    task.result.as_ref().unwrap().decode::<CallToolResult>().unwrap().text()
}

#[tokio::test]
async fn a_slow_tool_is_a_task_for_a_client_with_tasks() {
    let stage = stage();
    let router = server_on(&stage).build().unwrap();
    let client = connect(&router, E).await;
    let begun = begin(&client, "slow").await;
    assert_eq!(begun.status, TaskStatus::Working);
    assert_eq!((begun.ttl_ms, begun.poll_interval_ms), (Some(60_000), Some(20)));
    assert!(begun.task_id.len() >= 20, "ids must not be guessable");
    assert!(begun.result_type == Some(ResultType::Task) && begun.meta.unwrap().server_info().unwrap().is_some());
    let task = get(&client, &begun.task_id).await;
    assert!(task.status == TaskStatus::Working && task.result.is_none() && task.input_requests.is_none());
    assert_eq!(task.result_type, Some(ResultType::Complete));
    stage.go.add_permits(1);
    let task = until(&client, &begun.task_id, is(TaskStatus::Completed)).await;
    assert_eq!(text(&task), "done");
    let raw = task.result.unwrap();
    assert_eq!(raw.member("resultType").unwrap().as_str(), "\"complete\"");
    assert!(task.created_at <= task.last_updated_at && task.created_at.ends_with('Z'));
}

#[tokio::test]
async fn without_the_extension_tools_run_as_calls_and_tasks_are_refused() {
    let router = server().build().unwrap();
    let client = TestClient::connect_with(&router, E, script()).await;
    assert_eq!(client.call_tool("quick", json!({})).await.unwrap().text(), "at once");
    assert_eq!(client.call_tool("later", json!({})).await.unwrap().text(), "who? false");
    let missing = |error: turms_testkit::test_client::TestError| {
        let error = error.server_error().clone();
        assert_eq!(error.code, ErrorCode::MISSING_CLIENT_CAPABILITY);
        let wanted = r#"{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;
        assert_eq!(error.data.unwrap().as_str(), wanted);
    };
    missing(client.call_tool("required", json!({})).await.unwrap_err());
    missing(client.request::<GetTask>(&TaskParams::new("x")).await.unwrap_err());
    missing(client.request::<CancelTask>(&TaskParams::new("x")).await.unwrap_err());
    missing(client.request::<UpdateTask>(&UpdateTaskParams::new("x", Object::new())).await.unwrap_err());
    let filter = SubscriptionFilter::new().task_ids(vec!["x".to_owned()]);
    missing(client.request::<Listen>(&ListenParams::new(filter)).await.unwrap_err());
}

#[tokio::test]
async fn fast_calls_and_tools_without_tasks_create_no_task() {
    let router = server().build().unwrap();
    let client = connect(&router, E).await;
    for (tool, said) in [("quick", "at once"), ("plain", "plain")] {
        assert_eq!(client.call_tool(tool, json!({})).await.unwrap().text(), said);
    }
    // The task request of 2025-11-25 is ignored in this revision.
    let params = CallToolParams::new("plain").task(TaskRequest::new());
    assert!(matches!(client.request::<CallTool>(&params).await.unwrap(), Outcome::Complete(_)));
    for method in ["tasks/list", "tasks/result"] {
        let error = client.request_raw(method, Object::new()).await.unwrap_err();
        assert_eq!(error.server_error().code, ErrorCode::METHOD_NOT_FOUND);
    }
}

#[tokio::test]
async fn a_tool_error_completes_its_task_and_an_error_response_fails_it() {
    let router = server().build().unwrap();
    let client = connect(&router, E).await;
    let task = begin(&client, "required").await;
    let task = until(&client, &task.task_id, is(TaskStatus::Completed)).await;
    assert!(task.result.unwrap().decode::<CallToolResult>().unwrap().is_error() && task.error.is_none());
    for (tool, code) in [("failing", ErrorCode::from(-31_000)), ("panicking", ErrorCode::INTERNAL_ERROR)] {
        let task = begin(&client, tool).await;
        let task = until(&client, &task.task_id, is(TaskStatus::Failed)).await;
        let error = task.error.unwrap();
        assert_eq!((error.code, task.status_message.as_deref()), (code, Some(&*error.message)));
        assert!(task.result.is_none());
    }
}

#[tokio::test]
async fn cancelling_ends_the_task_and_drops_its_handler() {
    let stage = stage();
    let router = server_on(&stage).build().unwrap();
    let client = connect(&router, E).await;
    let task = begin(&client, "slow").await;
    while stage.begun.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let done = client.request_raw("tasks/cancel", object(json!({"taskId": task.task_id}))).await.unwrap();
    assert_eq!(done.member("resultType").unwrap().as_str(), "\"complete\"");
    assert_eq!(get(&client, &task.task_id).await.status, TaskStatus::Cancelled);
    within("the handler to be dropped", stage.dropped.notified()).await;
    // A second cancellation has no effect.
    client.request::<CancelTask>(&TaskParams::new(&*task.task_id)).await.unwrap();
    assert_eq!(get(&client, &task.task_id).await.status, TaskStatus::Cancelled);
}

#[tokio::test]
async fn input_requests_of_a_task_are_answered_one_by_one_and_once() {
    let router = server().build().unwrap();
    let client = connect(&router, E).await;
    let id = begin(&client, "asking").await.task_id;
    let both = |task: &Task| task.input_requests.as_ref().is_some_and(|questions| questions.len() == 2);
    let task = until(&client, &id, both).await;
    assert_eq!(task.status, TaskStatus::InputRequired);
    let answer = |name: &str| json!({"action": "accept", "content": {"name": name}});
    let update = async |answers: serde_json::Value| {
        client.request::<UpdateTask>(&UpdateTaskParams::new(&*id, object(answers))).await.unwrap();
        get(&client, &id).await
    };
    let task = update(json!({"nobody asked": 5, "two": answer("B")})).await;
    assert_eq!(task.status, TaskStatus::InputRequired);
    assert_eq!(task.input_requests.unwrap().keys().collect::<Vec<_>>(), ["one"]);
    // A response is not replaced by a later one.
    update(json!({"two": answer("C")})).await;
    update(json!({"one": answer("A")})).await;
    let task = until(&client, &id, is(TaskStatus::Completed)).await;
    assert_eq!(text(&task), "\"A\" \"B\"");
    assert!(task.input_requests.is_none());
    update(json!({"one": answer("too late")})).await;
}

#[tokio::test]
async fn an_invalid_input_response_is_requested_again_under_another_key() {
    let router = server().build().unwrap();
    let client = connect(&router, E).await;
    let id = begin(&client, "stubborn").await.task_id;
    let mut keys = Vec::new();
    for answer in [json!(5), json!({"action": "accept", "content": {"name": "Ann"}})] {
        let task = until(&client, &id, |task| {
            task.input_requests.as_ref().is_some_and(|asked| asked.keys().all(|key| !keys.contains(key)))
        })
        .await;
        let key = task.input_requests.unwrap().keys().next().unwrap().clone();
        let answers = object(json!({ key.as_str(): answer }));
        client.request::<UpdateTask>(&UpdateTaskParams::new(&*id, answers)).await.unwrap();
        keys.push(key);
    }
    assert_eq!(text(&until(&client, &id, is(TaskStatus::Completed)).await), "Ann");
}

#[tokio::test]
async fn a_call_can_request_input_before_it_becomes_a_task() {
    let router = server().build().unwrap();
    let client = connect(&router, E).await;
    let params = CallToolParams::new("later");
    let Outcome::InputRequired(round) = client.request::<CallTool>(&params).await.unwrap() else { panic!() };
    let answers = object(json!({"elicit-1": {"action": "accept", "content": {"name": "Ann"}}}));
    let params = params.input_responses(answers).request_state(round.request_state.unwrap());
    let Outcome::Task(task) = client.request::<CallTool>(&params).await.unwrap() else { panic!() };
    assert!(!RawJson::encode(&task).unwrap().as_str().contains("requestState"));
    let task = until(&client, &task.task_id, is(TaskStatus::Completed)).await;
    assert_eq!((text(&task).as_str(), task.status_message.as_deref()), ("Ann true", Some("thinking")));
}

#[tokio::test]
async fn a_task_reports_no_progress_and_logs_nothing() {
    let router = server().build().unwrap();
    let script = script().extension(TASKS_EXTENSION, Object::new()).log_level(LoggingLevel::Debug);
    let client = TestClient::connect_with(&router, E, script).await;
    let params = CallToolParams::new("loud");
    let Outcome::Task(task) = client.request_with_progress::<CallTool>(&params).await.unwrap() else { panic!() };
    until(&client, &task.task_id, is(TaskStatus::Completed)).await;
    assert_eq!(client.notifications(), Vec::<String>::new());
}

#[tokio::test]
async fn an_older_client_receives_the_progress_of_a_task() {
    let router = server().build().unwrap();
    let client = connect(&router, D).await;
    let params = CallToolParams::new("loud").task(TaskRequest::new());
    let Outcome::CoreTask(created) = client.request_with_progress::<CallTool>(&params).await.unwrap() else { panic!() };
    let related = |meta: Option<Meta>| meta.unwrap().get(key::RELATED_TASK).unwrap().decode::<RelatedTask>().unwrap();
    let progress = client.expect_notification::<ProgressNotification>().await;
    assert_eq!(related(progress.meta).task_id, created.task.task_id);
    let message = client.expect_notification::<LoggingMessageNotification>().await;
    assert_eq!(related(message.meta).task_id, created.task.task_id);
}

#[tokio::test]
async fn a_server_without_tasks_ignores_the_task_parameter() {
    let plain = Server::new("none", "1").tool(Tool::builder("plain").handler_sync(|| "")).build().unwrap();
    let client = connect(&plain, D).await;
    let params = CallToolParams::new("plain").task(TaskRequest::new());
    assert!(matches!(client.request::<CallTool>(&params).await.unwrap(), Outcome::Complete(_)));
}

#[tokio::test]
async fn a_listen_stream_reports_the_status_of_a_task() {
    let stage = stage();
    let router = server_on(&stage).build().unwrap();
    let client = Arc::new(connect(&router, E).await);
    let task = begin(&client, "slow").await;
    let ids = vec![task.task_id.clone(), "unknown".to_owned()];
    let filter = SubscriptionFilter::new().task_ids(ids);
    let listening = tokio::spawn({
        let client = client.clone();
        async move { client.request::<Listen>(&ListenParams::new(filter)).await }
    });
    let acknowledged = client.expect_notification::<SubscriptionsAcknowledgedNotification>().await.notifications;
    assert_eq!(acknowledged.task_ids, Some(vec![task.task_id.clone()]));
    stage.go.add_permits(1);
    let told = client.expect_notification::<TaskNotification>().await;
    assert_eq!((told.status, text(&told).as_str()), (TaskStatus::Completed, "done"));
    assert!(told.meta.unwrap().subscription_id().unwrap().is_some());
    listening.abort();
}

#[tokio::test]
async fn only_the_owner_sees_a_task() {
    let router = server().build().unwrap();
    let call = async |principal: Option<Principal>, method: &str, params: serde_json::Value| {
        let capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
        let meta = object(json!({key::CLIENT_CAPABILITIES: capabilities})).into();
        let mut cx = turms_core::CallContext::in_process().with_meta(Some(meta));
        if let Some(principal) = principal {
            cx.insert_extension(principal);
        }
        let params = RawJson::from(object(params));
        router.call(Request::raw(method.to_owned(), turms_core::Payload::json(params)), cx).await
    };
    let ann = || Principal::new("ann").with_issuer("https://a");
    let begun = call(Some(ann()), "tools/call", json!({"name": "slow"})).await.unwrap();
    let id = begun.into_raw().unwrap().member("taskId").unwrap().decode::<String>().unwrap();
    let elsewhere = ann().with_issuer("https://b");
    let bob = Principal::new("bob").with_issuer("https://a");
    for stranger in [None, Some(bob), Some(elsewhere), Some(Principal::new("ann"))] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let params = json!({"taskId": id, "inputResponses": {}});
            let error = call(stranger.clone(), method, params).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
            assert_eq!(error.message, format!("unknown task: {id:?}"));
        }
    }
    // After a step-up the token has more scopes, and the principal is the same.
    call(Some(ann().with_scopes(["more"])), "tasks/get", json!({"taskId": id})).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_expired_task_is_unknown_and_stopped() {
    let stage = stage();
    let brief = TaskOptions::new().ttl(Duration::from_secs(5));
    let router = server_on(&stage).tasks(brief).build().unwrap();
    let client = connect(&router, E).await;
    let task = begin(&client, "slow").await;
    assert_eq!(task.ttl_ms, Some(5_000));
    within("the handler to be dropped", stage.dropped.notified()).await;
    let error = client.request::<GetTask>(&TaskParams::new(&*task.task_id)).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS);
}

#[tokio::test]
async fn running_and_stored_tasks_are_limited() {
    let stage = stage();
    let one = TaskOptions::new().max_running(1).poll_interval(Duration::from_millis(20));
    let router = server_on(&stage).tasks(one).build().unwrap();
    let client = connect(&router, E).await;
    let task = begin(&client, "slow").await;
    let error = client.call_tool("slow", json!({})).await.unwrap_err();
    assert_eq!(error.server_error().message, "no more than 1 tasks can run at once: try again later");
    stage.go.add_permits(1);
    until(&client, &task.task_id, is(TaskStatus::Completed)).await;
    begin(&client, "slow").await;

    let small = TaskOptions::new().store(MemoryTaskStore::new(1, 1 << 20));
    let router = server().tasks(small).build().unwrap();
    let client = connect(&router, E).await;
    begin(&client, "slow").await;
    let error = client.call_tool("slow", json!({})).await.unwrap_err();
    assert!(error.server_error().message.contains("the store is full: its limit is 1"), "{error}");
}

#[tokio::test]
async fn servers_with_tasks_declare_them_in_the_format_of_the_revision() {
    let router = server().build().unwrap();
    let capabilities = |client: &TestClient| client.opened().server.as_ref().unwrap().capabilities.clone();
    let newest = capabilities(&connect(&router, E).await);
    assert!(newest.supports(ServerCapability::Extension(TASKS_EXTENSION)) && newest.tasks.is_none());
    let older = capabilities(&connect(&router, D).await);
    assert!(older.extensions.is_none());
    let tasks = serde_json::to_string(&older.tasks.unwrap()).unwrap();
    assert_eq!(tasks, r#"{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#);
    let none = Server::new("none", "1").tool(Tool::builder("plain").handler_sync(|| "")).build().unwrap();
    assert!(capabilities(&connect(&none, E).await).extensions.is_none());
    let client = connect(&none, E).await;
    let error = client.request::<GetTask>(&TaskParams::new("x")).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::METHOD_NOT_FOUND);
}

#[tokio::test]
async fn older_clients_request_their_tasks() {
    let stage = stage();
    let router = server_on(&stage).build().unwrap();
    let client = connect(&router, D).await;
    let tools = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap().tools;
    let support = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        tool.execution.as_ref().and_then(|execution| execution.task_support.clone())
    };
    assert_eq!(support("slow"), Some(TaskSupport::Optional));
    assert_eq!(support("required"), Some(TaskSupport::Required));
    assert_eq!(support("plain"), None);
    let error = client.call_tool("required", json!({})).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::METHOD_NOT_FOUND);
    let params = CallToolParams::new("plain").task(TaskRequest::new());
    let error = client.request::<CallTool>(&params).await.unwrap_err();
    assert_eq!(error.server_error().message, "tool \"plain\" cannot be run as a task");

    stage.go.add_permits(2);
    assert_eq!(client.call_tool("slow", json!({})).await.unwrap().text(), "done");
    let task = begin(&client, "slow").await;
    let result = client.request_raw("tasks/result", object(json!({"taskId": task.task_id}))).await.unwrap();
    let related = result.member("_meta").unwrap().member(key::RELATED_TASK).unwrap();
    assert_eq!(related.as_str(), format!(r#"{{"taskId":"{}"}}"#, task.task_id));
    assert_eq!(result.decode::<CallToolResult>().unwrap().text(), "done");
    let core = client.request::<GetCoreTask>(&TaskParams::new(&*task.task_id)).await.unwrap();
    assert_eq!((core.status, core.ttl, core.poll_interval), (TaskStatus::Completed, Some(60_000), Some(20)));
    assert_eq!(client.expect_notification::<CoreTaskStatusNotification>().await.status, TaskStatus::Completed);
    // A task is created even for a result that is available at once, if the client requests one.
    begin(&client, "quick").await;
    let error = client.request::<CancelCoreTask>(&TaskParams::new(&*task.task_id)).await.unwrap_err();
    assert_eq!(error.server_error().code, ErrorCode::INVALID_PARAMS);
    let listed = client.request::<ListCoreTasks>(&PaginatedParams::new()).await.unwrap().tasks;
    assert_eq!(listed.len(), 2);
    let other = connect(&router, D).await;
    assert!(other.request::<ListCoreTasks>(&PaginatedParams::new()).await.unwrap().tasks.is_empty());
}

#[tokio::test]
async fn a_failed_tool_fails_its_task_for_older_clients() {
    let router = server().build().unwrap();
    let client = connect(&router, D).await;
    let task = begin(&client, "required").await;
    let result = client.request_raw("tasks/result", object(json!({"taskId": task.task_id}))).await.unwrap();
    assert!(result.decode::<CallToolResult>().unwrap().is_error());
    let core = client.request::<GetCoreTask>(&TaskParams::new(&*task.task_id)).await.unwrap();
    assert_eq!(core.status, TaskStatus::Failed);
    let task = begin(&client, "failing").await;
    let error = client.request_raw("tasks/result", object(json!({"taskId": task.task_id}))).await.unwrap_err();
    assert_eq!(error.server_error().message, "no luck");
}

#[tokio::test]
async fn input_requests_reach_older_clients_during_tasks_result() {
    let router = server().build().unwrap();
    let client = Arc::new(connect(&router, D).await);
    let task = begin(&client, "asking").await;
    let wait = async || {
        let params = object(json!({"taskId": task.task_id}));
        client.request_raw("tasks/result", params).await.unwrap().decode::<CallToolResult>().unwrap().text()
    };
    // Another waiting request does not send the input request again, and gets the same result.
    let (one, two) = tokio::join!(wait(), wait());
    assert_eq!((one.as_str(), two.as_str()), ("\"one\" \"two\"", "\"one\" \"two\""));
}

#[tokio::test]
async fn an_older_client_cancels_a_task_that_it_waits_for() {
    let router = server().build().unwrap();
    let client = Arc::new(connect(&router, D).await);
    let task = begin(&client, "slow").await;
    let waiting = tokio::spawn({
        let (client, params) = (client.clone(), object(json!({"taskId": task.task_id})));
        async move { client.request_raw("tasks/result", params).await }
    });
    let core = client.request::<CancelCoreTask>(&TaskParams::new(&*task.task_id)).await.unwrap();
    assert_eq!(core.status, TaskStatus::Cancelled);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.server_error().message, "the task has no result: it is cancelled");
}

#[tokio::test]
async fn an_older_client_can_shorten_the_ttl_but_not_extend_it() {
    let router = server().build().unwrap();
    let client = connect(&router, D).await;
    for (wanted, granted) in [(5_000, 5_000), (100_000_000, 60_000), (0, 1_000), (-1, 60_000)] {
        let params = CallToolParams::new("quick").task(TaskRequest::new().ttl(wanted));
        let Outcome::CoreTask(created) = client.request::<CallTool>(&params).await.unwrap() else { panic!() };
        assert_eq!(created.task.ttl, Some(granted), "{wanted}");
    }
}
