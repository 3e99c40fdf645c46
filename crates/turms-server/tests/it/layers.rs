//! Layers around a server and around one item, and the start of a call.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::json;
use turms_core::layer::{Layer, Next, from_fn};
use turms_core::{
    BoxFuture, CallContext, NotifyFuture, Payload, Peer, PeerError, PeerTransport, Request, ResponseFuture, Service,
};
use turms_proto::session::RequestOptions;
use turms_proto::types::*;
use turms_proto::{ErrorObject, MethodName, Notification, Object, ProtocolVersion, RawJson};
use turms_server::{Args, Context, InputError, Prompt, Resource, ResourceUri, Server, Tool};
use turms_testkit::test_client::{Script, TestClient};
use turms_testkit::tools::{Add, Name};
use turms_testkit::{CallCounters, within};

/// A layer that changes every request.
struct ChangeRequest(fn(Request) -> Request);

struct ChangingService(Arc<dyn Service>, fn(Request) -> Request);

impl Layer<Arc<dyn Service>> for ChangeRequest {
    type Service = ChangingService;

    fn layer(&self, inner: Arc<dyn Service>) -> ChangingService {
        ChangingService(inner, self.0)
    }
}

impl Service for ChangingService {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.0.call((self.1)(request), cx)
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.notify(notification, cx)
    }
}

fn double(request: Request) -> Request {
    let mut params: CallToolParams = request.params.take().unwrap();
    let add: Add = params.arguments.unwrap().decode().unwrap();
    params.arguments = Some(Object::encode(&json!({ "a": 2.0 * add.a, "b": add.b })).unwrap());
    Request::new::<CallTool>(params)
}

fn double_as_json(request: Request) -> Request {
    let Request { method, params, .. } = double(request);
    Request::raw(method, Payload::json(params.into_raw().unwrap()))
}

fn name_ann(request: Request) -> Request {
    let mut params: GetPromptParams = request.params.take().unwrap();
    params.arguments = Some([("name".to_owned(), "Ann".to_owned())].into());
    Request::new::<GetPrompt>(params)
}

fn read_seven(request: Request) -> Request {
    let mut params: ReadResourceParams = request.params.take().unwrap();
    params.uri = "users://7".to_owned();
    Request::new::<ReadResource>(params)
}

#[tokio::test]
async fn a_handler_gets_the_changed_argument_of_a_layer() {
    let add = |Args(add): Args<Add>| (add.a + add.b).to_string();
    let router = Server::new("s", "1")
        .tool(Tool::builder("typed").layer(ChangeRequest(double)).handler_sync(add))
        .tool(Tool::builder("json").layer(ChangeRequest(double_as_json)).handler_sync(add))
        .tool(Tool::builder("unlayered").handler_sync(add))
        .prompt(
            Prompt::builder("greet")
                .layer(ChangeRequest(name_ann))
                .handler_sync(|Args(name): Args<Name>| format!("Hello, {}!", name.name)),
        )
        .resource(
            Resource::builder("users://{name}")
                .layer(ChangeRequest(read_seven))
                .handler_sync(|ResourceUri(uri): ResourceUri, Args(name): Args<Name>| format!("{uri} {}", name.name)),
        )
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        for (tool, sum) in [("typed", "5"), ("json", "5"), ("unlayered", "4")] {
            let result = client.call_tool(tool, json!({ "a": 1, "b": 3 })).await.unwrap();
            assert_eq!(result.text(), sum, "{tool} in {version}");
        }
        let mut params = GetPromptParams::new("greet");
        params.arguments = Some([("name".to_owned(), "Bob".to_owned())].into());
        let prompt = client.request_rounds::<GetPrompt, _>(&params).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text(), Some("Hello, Ann!"), "{version}");
        let params = ReadResourceParams::new("users://1");
        let read = client.request_rounds::<ReadResource, _>(&params).await.unwrap();
        assert_eq!(read.contents[0].text.as_deref(), Some("users://7 7"), "{version}");
    }
}

/// A layer that records the methods of all messages in both directions.
#[derive(Clone, Default)]
struct Record(Arc<Mutex<Vec<String>>>);

impl Record {
    fn add(&self, kind: &str, method: &str) {
        self.0.lock().push(format!("{kind} {method}"));
    }

    fn wrap(&self, cx: CallContext) -> CallContext {
        cx.map_peer(|peer| Peer::new(RecordedPeer { peer, record: self.clone() }))
    }
}

struct RecordingService(Arc<dyn Service>, Record);

impl Layer<Arc<dyn Service>> for Record {
    type Service = RecordingService;

    fn layer(&self, inner: Arc<dyn Service>) -> RecordingService {
        RecordingService(inner, self.clone())
    }
}

impl Service for RecordingService {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.1.add("request", &request.method);
        self.0.call(request, self.1.wrap(cx))
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.1.add("notification", &notification.method);
        self.0.notify(notification, self.1.wrap(cx))
    }
}

struct RecordedPeer {
    peer: Peer,
    record: Record,
}

impl PeerTransport for RecordedPeer {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.record.add("outgoing notification", &notification.method);
        Box::pin(self.peer.notify_raw(notification))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        self.record.add("outgoing notification", &notification.method);
        self.peer.try_notify_raw(notification)
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        self.record.add("outgoing request", &method);
        Box::pin(self.peer.request_raw(method, params, options))
    }
}

#[tokio::test]
async fn a_layer_of_the_server_sees_every_message_in_both_directions() {
    let record = Record::default();
    let counters = Arc::<CallCounters>::default();
    let handled = counters.clone();
    let router = Server::new("s", "1")
        .tool(Tool::builder("greet").handler(|context: Context| async move {
            context.progress().report(1).await;
            let name = context.elicit::<Name>("Who are you?").await?.accepted();
            Ok::<_, InputError>(name.map(|name| name.name).unwrap_or_default())
        }))
        .notification_fallback(move |method, _: RawJson, _| {
            handled.add(&method, 1);
            async {}
        })
        .layer(record.clone())
        .build()
        .unwrap();
    let ann = || ElicitResult::accept(json!({ "name": "Ann" })).unwrap();
    let script = Script::new().elicit(move |_| ann()).roots([]);
    let client = TestClient::connect_with(&router, ProtocolVersion::V2025_11_25, script).await;
    client.notify::<RootsListChangedNotification>(&EmptyParams::new()).await.unwrap();
    within("the notification", counters.reaches("notifications/roots/list_changed", 1)).await;
    let called = client.request_with_progress::<CallTool>(&CallToolParams::new("greet")).await.unwrap();
    let Outcome::Complete(result) = called else { panic!("{called:?}") };
    assert_eq!(result.text(), "Ann");
    client.expect_notification::<ProgressNotification>().await;
    let expected = [
        "request initialize",
        "notification notifications/initialized",
        "notification notifications/roots/list_changed",
        "request tools/call",
        "outgoing notification notifications/progress",
        "outgoing request elicitation/create",
    ];
    assert_eq!(*record.0.lock(), expected);
}

#[tokio::test]
async fn a_call_that_is_dropped_unpolled_has_not_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let count = |runs: &Arc<AtomicUsize>| {
        let runs = runs.clone();
        move || {
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (tool, prompt, resource, method) = (count(&runs), count(&runs), count(&runs), count(&runs));
    let (notification, any_notification) = (count(&runs), count(&runs));
    let server = Server::new("s", "1")
        .tool(Tool::builder("run").handler_sync(move || {
            tool();
            ""
        }))
        .prompt(Prompt::builder("run").handler_sync(move || {
            prompt();
            ""
        }))
        .resource(Resource::builder("run://now").handler_sync(move || {
            resource();
            ""
        }))
        .method("run/method", move |_: Object, _| {
            method();
            async { Ok(Object::new()) }
        })
        .notification("run/notification", move |_: Object, _| {
            notification();
            async {}
        })
        .notification_fallback(move |_, _: RawJson, _| {
            any_notification();
            async {}
        });
    let router = server.build().unwrap();
    let layered = Record::default().layer(Arc::new(router.clone()));
    let services: [&dyn Service; 2] = [&router, &layered];
    let requests: [fn() -> Request; 4] = [
        || Request::new::<CallTool>(CallToolParams::new("run")),
        || Request::new::<GetPrompt>(GetPromptParams::new("run")),
        || Request::new::<ReadResource>(ReadResourceParams::new("run://now")),
        || Request::raw("run/method", Payload::default()),
    ];
    for service in services {
        runs.store(0, Ordering::SeqCst);
        for (index, request) in requests.iter().enumerate() {
            drop(service.call(request(), CallContext::in_process()));
            assert_eq!(runs.load(Ordering::SeqCst), index, "it ran: {:?}", request());
            service.call(request(), CallContext::in_process()).await.unwrap();
            assert_eq!(runs.load(Ordering::SeqCst), index + 1, "it did not run: {:?}", request());
        }
        for (index, method) in ["run/notification", "any/notification"].into_iter().enumerate() {
            let notification = || Notification::raw(method, Some(RawJson::parse("{}").unwrap()));
            drop(service.notify(notification(), CallContext::in_process()));
            assert_eq!(runs.load(Ordering::SeqCst), requests.len() + index, "it ran: {method}");
            service.notify(notification(), CallContext::in_process()).await;
            assert_eq!(runs.load(Ordering::SeqCst), requests.len() + index + 1, "it did not run: {method}");
        }
    }
}

/// A layer that retries the inner service once after an error.
struct RetryOnce;

struct RetryingService(Arc<dyn Service>);

impl Layer<Arc<dyn Service>> for RetryOnce {
    type Service = RetryingService;

    fn layer(&self, inner: Arc<dyn Service>) -> RetryingService {
        RetryingService(inner)
    }
}

impl Service for RetryingService {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let inner = self.0.clone();
        let again = Request::raw(request.method.clone(), Payload::json(request.params.into_raw().unwrap()));
        Box::pin(async move {
            let params = again.params.as_raw().unwrap().clone();
            let first = Request::raw(again.method.clone(), Payload::json(params));
            match inner.call(first, cx.clone()).await {
                Err(_) => inner.call(again, cx).await,
                ok => ok,
            }
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.notify(notification, cx)
    }
}

#[tokio::test]
async fn a_side_effect_happens_once_if_a_layer_repeats_the_call() {
    static PAID: AtomicUsize = AtomicUsize::new(0);
    static CALLED: AtomicUsize = AtomicUsize::new(0);

    async fn pay(context: Context) -> Result<String, ErrorObject> {
        let internal = |error: InputError| ErrorObject::internal(error.to_string());
        context.elicit::<Name>("Who pays?").await.map_err(internal)?;
        context.once("pay", async { PAID.fetch_add(1, Ordering::SeqCst) }).await.map_err(internal)?;
        match CALLED.fetch_add(1, Ordering::SeqCst) {
            0 => Err(ErrorObject::internal("try again")),
            _ => Ok("paid".to_owned()),
        }
    }

    let pay = Tool::builder("pay").layer(RetryOnce).handler(pay);
    let server = Server::new("s", "1").tool(pay).build().unwrap();
    let name = Object::encode(&json!({ "name": "Ann" })).unwrap();
    let person = Script::new().elicit(move |_| ElicitResult::accept(&name).unwrap());
    let client = TestClient::connect_with(&server, ProtocolVersion::V2026_07_28, person).await;
    assert_eq!(client.call_tool("pay", json!({})).await.unwrap().text(), "paid");
    assert_eq!((CALLED.load(Ordering::SeqCst), PAID.load(Ordering::SeqCst)), (2, 1));
}

#[tokio::test]
async fn a_function_is_a_layer() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let methods = seen.clone();
    let layer = from_fn(move |request: Request, context: CallContext, next: Next| {
        let methods = methods.clone();
        async move {
            methods.lock().push(request.method.to_string());
            match &*request.method {
                "tools/call" => {
                    let mut result: CallToolResult = next.run(request, context).await?.take()?;
                    result.content.push(Content::text("changed"));
                    Ok(Payload::new(result))
                }
                "own/method" => Err(ErrorObject::invalid_request("answered by the layer").into()),
                _ => next.run(request, context).await,
            }
        }
    });
    let router = Server::new("s", "1").tool(Tool::builder("a").handler_sync(|| "result")).layer(layer).build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        assert_eq!(client.call_tool("a", json!({})).await.unwrap().text(), "result\nchanged", "{version}");
        let answered = client.request_raw("own/method", Object::new()).await.unwrap_err();
        assert_eq!(answered.server_error().message, "answered by the layer", "{version}");
        assert!(client.request::<ListTools>(&PaginatedParams::new()).await.is_ok(), "{version}");
        let seen = std::mem::take(&mut *seen.lock());
        assert!(seen.ends_with(&["tools/call", "own/method", "tools/list"].map(str::to_owned)), "{version}: {seen:?}");
    }
}
