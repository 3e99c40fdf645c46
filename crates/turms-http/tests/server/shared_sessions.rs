//! Sessions that several processes share through one store, and sessions and calls that end while other operations run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_core::layer::Layer;
use turms_core::store::{MemoryEventStore, MemorySessionStore, SessionRecord, SessionStore, StoreError};
use turms_core::{
    BoxFuture, CallContext, Limits, NotifyFuture, Request as Call, ResponseFuture, Service, ServiceError,
};
use turms_http::{HttpService, ServeHttp as _, SessionOptions};
use turms_proto::types::{ProgressNotification, ProgressParams};
use turms_proto::{ErrorObject, Notification, ProgressToken, ProtocolVersion};
use turms_server::{Context, Server, Tool};
use turms_testkit::eventually;

use crate::dialog::{
    NEWEST, NEWEST_OLDER, Session, call, initialize, mirrored, modern_body, modern_call, notification,
};
use crate::fixture::Fixture;
use crate::in_process::{ask, ask_as, open};
use crate::sessions::{MINUTE, begin, pass, ping};
use crate::wire::{Request, Response};

/// Two services that share a session store and an event store, as two processes would.
fn pair(server: impl Fn() -> Server, options: impl Fn(usize) -> SessionOptions) -> [HttpService; 2] {
    let (sessions, events) =
        (Arc::new(MemorySessionStore::new(100)), Arc::new(MemoryEventStore::new(1 << 20, 1 << 24)));
    [0, 1].map(|index| {
        let options = options(index).session_store(sessions.clone()).event_store(events.clone());
        server().into_http_service().unwrap().sessions(options)
    })
}

fn json_of(response: &Response) -> Value {
    serde_json::from_slice(&response.body).unwrap()
}

fn server() -> Server {
    Server::new("s", "1")
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_idle_in_one_process_goes_on_in_another() {
    let [one, two] = pair(server, |_| SessionOptions::new().idle_timeout(10 * MINUTE));
    let session = begin(&one, None).await;
    for minute in 0..30 {
        assert_eq!(ping(&two, &session).await, 200, "minute {minute}");
        pass(MINUTE).await;
    }
    assert_eq!((one.session_count(), two.session_count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_deleted_in_one_process_ends_in_the_others() {
    let running = Arc::new(());
    let held = running.clone();
    let server = move || {
        let held = held.clone();
        server().tool(Tool::builder("wait").handler(move || {
            let held = held.clone();
            async move {
                std::future::pending::<()>().await;
                drop(held);
                "never"
            }
        }))
    };
    let [one, two] = pair(server, |_| SessionOptions::new().idle_timeout(10 * MINUTE));
    let without = Arc::strong_count(&running);
    let session = begin(&one, None).await;
    let (_, body) = open(&one, &session.post(call(7, "wait", json!({}))), None).await;
    drop(body);
    assert!(Arc::strong_count(&running) > without);
    assert_eq!(ask(&two, &session.delete()).await.status(), 204);
    pass(20 * MINUTE).await;
    assert_eq!((one.session_count(), Arc::strong_count(&running)), (0, without));
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_initialized_that_lasts_does_not_hold_up_a_session() {
    let server = || {
        server().notification("notifications/initialized", |_: Option<Value>, _: Context| async {
            std::future::pending::<()>().await;
        })
    };
    let [one, two] = pair(server, |_| SessionOptions::new());
    let session = begin(&one, None).await;
    assert_eq!((ping(&one, &session).await, ping(&two, &session).await), (200, 200));
}

/// A layer that refuses requests without a principal.
struct OnlyKnown;

struct OnlyKnownService(Arc<dyn Service>);

impl Layer<Arc<dyn Service>> for OnlyKnown {
    type Service = OnlyKnownService;

    fn layer(&self, inner: Arc<dyn Service>) -> OnlyKnownService {
        OnlyKnownService(inner)
    }
}

impl Service for OnlyKnownService {
    fn call(&self, request: Call, cx: CallContext) -> ResponseFuture {
        if cx.principal().is_some() {
            return self.0.call(request, cx);
        }
        Box::pin(std::future::ready(Err(ServiceError::from(ErrorObject::invalid_request("who are you?")))))
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.notify(notification, cx)
    }
}

#[tokio::test]
async fn a_session_that_another_process_loads_has_its_principal() {
    let [one, two] = pair(|| server().layer(OnlyKnown), |_| SessionOptions::new());
    let session = begin(&one, Some("ann")).await;
    let ping = session.post(crate::dialog::request(1, "ping", None));
    for service in [&one, &two] {
        assert_eq!(ask_as(service, &ping, Some("ann")).await.status(), 200);
    }
}

#[tokio::test]
async fn a_process_that_is_full_does_not_deny_the_sessions_of_others() {
    let [one, two] = pair(server, |index| SessionOptions::new().max_sessions(if index == 0 { 10 } else { 1 }));
    let (_own, other) = (begin(&two, None).await, begin(&one, None).await);
    assert_eq!((ping(&two, &other).await, ping(&one, &other).await), (503, 200));
}

/// A store that yields before it inserts a session.
struct SlowSessions(MemorySessionStore);

impl SessionStore for SlowSessions {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        record: Arc<SessionRecord>,
        idle: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.insert(id, record, idle).await
        })
    }

    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        self.0.load(id)
    }

    fn touch<'a>(&'a self, id: &'a str, idle: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.0.touch(id, idle)
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.0.remove(id)
    }
}

#[tokio::test]
async fn the_number_of_sessions_is_bounded_however_slow_the_store_is() {
    let options = SessionOptions::new().max_sessions(3).session_store(SlowSessions(MemorySessionStore::new(1000)));
    let service = server().into_http_service().unwrap().sessions(options);
    let begun = futures_util::future::join_all((0..20).map(|_| {
        let service = service.clone();
        async move { ask(&service, &Request::post(initialize(NEWEST_OLDER))).await.status() }
    }));
    let begun = begun.await.into_iter().filter(|status| *status == 200).count();
    assert_eq!((begun, service.session_count()), (3, 3));
}

#[tokio::test]
async fn heads_of_requests_count_among_the_notifications_that_wait() {
    let handled = Arc::<AtomicUsize>::default();
    let (counted, gate) = (handled.clone(), Arc::new(tokio::sync::Semaphore::new(0)));
    let held = gate.clone();
    let wait = move |_: Option<Value>, _: Context| {
        let (counted, held) = (counted.clone(), held.clone());
        async move {
            held.acquire().await.unwrap().forget();
            counted.fetch_add(1, Ordering::SeqCst);
        }
    };
    let limits = Limits::new().max_notifications(1).max_queued_bytes(10_000);
    let fixture = Fixture::of(|server| server.limits(limits).notification("notifications/x", wait), |service| service);
    let fixture = fixture.await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for _ in 0..10 {
        let post = session.post(notification("notifications/x")).header("x-big", "y".repeat(4000));
        fixture.send(post).await.assert_accepted();
    }
    // One handler runs and two notifications are queued; the others are dropped.
    gate.add_permits(10);
    eventually("the handlers", async || handled.load(Ordering::SeqCst) == 3).await;
    let last = session.post(notification("notifications/x"));
    fixture.send(last).await.assert_accepted();
    eventually("the handler of the next notification", async || handled.load(Ordering::SeqCst) == 4).await;
}

#[tokio::test]
async fn a_task_of_a_dropped_call_learns_that_the_call_is_over() {
    let (ended, started) = (Arc::new(Mutex::new(None)), Arc::new(tokio::sync::Notify::new()));
    let (log, start) = (ended.clone(), started.clone());
    let background = move |cx: Context| {
        let (log, start) = (log.clone(), start.clone());
        async move {
            let waiting = start.clone();
            tokio::spawn(async move {
                waiting.notified().await;
                let params = ProgressParams::new(ProgressToken::from(1), 1.0).message("x".repeat(1000));
                while cx.peer().notify::<ProgressNotification>(&params).await.is_ok() {}
                *log.lock() = Some(());
            });
            std::future::pending::<()>().await;
            "never"
        }
    };
    let service = server().tool(Tool::builder("background").handler(background)).into_http_service().unwrap();
    let post = modern_call(1, "background", json!({}));
    let mut call = Box::pin(ask(&service, &post));
    assert!(futures_util::poll!(&mut call).is_pending());
    drop(call);
    started.notify_one();
    eventually("the end of the task", async || ended.lock().is_some()).await;
}

#[tokio::test]
async fn a_call_that_closes_its_own_session_gets_404() {
    for waits in [false, true] {
        let own: Arc<Mutex<Option<(HttpService, String)>>> = Arc::default();
        let known = own.clone();
        let close = move || {
            let (service, id) = known.lock().clone().unwrap();
            async move {
                service.close_session(&id).await;
                if waits {
                    tokio::task::yield_now().await;
                }
                "closed"
            }
        };
        let service = server().tool(Tool::builder("close").handler(close)).into_http_service().unwrap();
        let session = begin(&service, None).await;
        *own.lock() = Some((service.clone(), session.id.clone()));
        let response = ask(&service, &session.post(call(7, "close", json!({})))).await;
        assert_eq!((response.status(), &json_of(&response)["id"]), (404, &json!(7)), "{waits}");
    }
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_it_ran_leaves_no_reason_for_the_next() {
    struct Reason(Context, Arc<Mutex<Vec<bool>>>);

    impl Drop for Reason {
        fn drop(&mut self) {
            self.1.lock().push(self.0.is_cancelled());
        }
    }

    let seen = Arc::<Mutex<Vec<bool>>>::default();
    let log = seen.clone();
    let wait = move |cx: Context| {
        let log = log.clone();
        async move {
            let _reason = Reason(cx, log);
            tokio::task::yield_now().await;
            "done"
        }
    };
    let service = server().tool(Tool::builder("wait").handler(wait)).into_http_service().unwrap();
    let session = begin(&service, None).await;
    let (_, body) = open(&service, &session.post(call(7, "wait", json!({}))), None).await;
    let params = json!({ "requestId": 7, "reason": "enough" });
    let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
    ask(&service, &session.post(cancelled)).await.assert_accepted();
    drop(body);
    eventually("the end of the first call", async || seen.lock().len() == 1).await;
    assert_eq!(ask(&service, &session.post(call(7, "wait", json!({})))).await.status(), 200);
    assert_eq!(*seen.lock(), [true, false]);
}

#[tokio::test]
async fn a_revision_is_assumed_only_if_the_server_has_it() {
    let server = server().protocol_versions([ProtocolVersion::V2025_11_25]);
    let service =
        server.tool(Tool::builder("add").handler_sync(|| "x")).into_http_service().unwrap().without_sessions();
    let assumed = Request::post(call(1, "add", json!({}))).without("mcp-protocol-version");
    let response = ask(&service, &assumed).await;
    assert_eq!((response.status(), &json_of(&response)["error"]["code"]), (400, &json!(-32022)));
    let named = ask(&service, &assumed.version("2025-11-25")).await;
    assert_eq!(named.status(), 200);
}

#[tokio::test]
async fn a_call_that_has_begun_is_answered_though_no_stream_is_left() {
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    let pay = move |cx: Context| {
        let counted = counted.clone();
        async move {
            counted.fetch_add(1, Ordering::SeqCst);
            cx.progress().report(1).await;
            "paid"
        }
    };
    let service = server().tool(Tool::builder("pay").handler(pay)).into_http_service().unwrap().max_streams(0);
    let mut body = modern_body(1, "tools/call", json!({ "name": "pay", "arguments": {} }));
    body["params"]["_meta"]["progressToken"] = json!(1);
    let response = ask(&service, &mirrored(&body)).await;
    assert_eq!((response.status(), calls.load(Ordering::SeqCst)), (200, 1));
    assert_eq!(response.answer()["result"]["content"][0]["text"], "paid");
}

#[tokio::test]
async fn version_headers_on_get_and_delete_are_checked_as_on_post() {
    let service = server().into_http_service().unwrap();
    let session = begin(&service, None).await;
    let unknown = ask(&service, &session.delete().version("2027-01-01")).await;
    assert_eq!(unknown.status(), 400);
    assert_eq!(ask(&service, &session.delete().version(NEWEST)).await.status(), 204);
}
