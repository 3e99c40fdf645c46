//! Claims of a review.
#![allow(clippy::all, dead_code, unused)]
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turms_core::BoxFuture;
use turms_core::store::*;
use turms_http::{HttpService, Listener, ServeHttp as _, SessionOptions};
use turms_proto::types::LoggingLevel;
use turms_server::{Args, Context, Server, Tool};

use crate::dialog::*;
use crate::fixture::{Fixture, server};
use crate::in_process::{ask, open};
use crate::sessions::{begin, ping, service};
use crate::wire::{Request, Response};
use crate::{eventually, soon};

const SHORT: Duration = Duration::from_secs(3);

fn cancelled(id: i64) -> serde_json::Value {
    json!({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":id}})
}

// T1
#[tokio::test]
async fn t01_refusals_of_a_batch_go_to_its_own_post() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let batch = json!([call(1, "steps", json!({"n":1})), call(2, "steps", json!({"n":1}))]);
    let mut stream = fixture.stream(session.post(batch)).await;
    let other = json!([cancelled(1), request(9, "server/discover", None)]);
    let answer = fixture.send(session.post(other)).await;
    println!("second post: {answer}");
    fixture.traces.steps.add_permits(2);
    let messages = tokio::time::timeout(SHORT, stream.rest()).await;
    println!("first stream: {messages:?}");
    assert_eq!(answer.status(), 200);
    assert_eq!(messages.unwrap().last().unwrap()["id"], 2);
}

// T2
#[tokio::test]
async fn t02_a_batch_that_is_cancelled_whole_ends() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, "2025-03-26").await;
    let stream = fixture.stream(session.post(json!([call(1, "wait", json!({}))]))).await;
    fixture.send(session.post(cancelled(1))).await.assert_accepted();
    let messages = tokio::time::timeout(SHORT, stream.rest()).await;
    assert!(messages.is_ok(), "the stream never ends");
}

// T3
#[tokio::test]
async fn t03_what_is_refused_does_not_run() {
    let fixture = Fixture::with(|s| s.sessions(SessionOptions::new().max_streams(1))).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let _listening = fixture.stream(session.get()).await;
    let refused = fixture.send(session.post(call(7, "wait", json!({})))).await;
    println!("{refused}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    let (b, e) = (fixture.traces.begun.load(Ordering::SeqCst), fixture.traces.ended.load(Ordering::SeqCst));
    let again = fixture.send(session.post(call(7, "wait", json!({})))).await;
    println!("{again}");
    assert_eq!(b, e, "begun {b} ended {e}");
}

// T4
#[tokio::test]
async fn t04_all_of_a_hundred_answers_come() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = Vec::new();
    for id in 0..100 {
        streams.push(fixture.stream(session.post(call(id, "steps", json!({"n":1})))).await);
    }
    fixture.traces.steps.add_permits(100);
    let mut lost = 0;
    for stream in streams {
        match tokio::time::timeout(SHORT, stream.rest()).await {
            Ok(messages) if messages.last().is_some_and(|m| m.get("result").is_some()) => {}
            other => lost += 1,
        }
    }
    assert_eq!(lost, 0, "answers lost");
}

#[derive(Deserialize, JsonSchema)]
struct Big {
    bytes: usize,
}

// T5
#[tokio::test]
async fn t05_two_big_answers_both_come() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let g = gate.clone();
    let fixture = Fixture::of(
        move |server| {
            server.tool(Tool::builder("big").handler(move |Args(b): Args<Big>| {
                let g = g.clone();
                async move {
                    g.acquire().await.unwrap().forget();
                    "x".repeat(b.bytes)
                }
            }))
        },
        |s| s,
    )
    .await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let a = fixture.stream(session.post(call(1, "big", json!({"bytes": 3_000_000})))).await;
    let b = fixture.stream(session.post(call(2, "big", json!({"bytes": 3_000_000})))).await;
    gate.add_permits(2);
    let mut got = Vec::new();
    for s in [a, b] {
        got.push(tokio::time::timeout(SHORT, s.rest()).await.map(|m| m.len()));
    }
    assert_eq!(format!("{got:?}"), "[Ok(1), Ok(1)]");
}

// T6
#[tokio::test]
async fn t06_a_stream_that_missed_something_is_not_dead_for_ever() {
    let options = SessionOptions::new().events(MemoryEvents::new(2_000, 1 << 20));
    let fixture = Fixture::with(|s| s.sessions(options)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for n in 0..30 {
        fixture.handle.add_tool(Tool::builder(format!("t{n}")).handler_sync(|| "x"));
    }
    for _ in 0..3 {
        let mut stream = fixture.stream(session.get()).await;
        fixture.handle.add_tool(Tool::builder("new").handler_sync(|| "x"));
        fixture.handle.remove_tool("new");
        let first = tokio::time::timeout(SHORT, stream.try_message()).await;
        println!("{first:?}");
        if let Ok(Some(_)) = first {
            return;
        }
    }
    panic!("nothing can be heard any more");
}

// T7
#[tokio::test]
async fn t07_what_is_said_after_the_answer_is_heard() {
    let fixture = Fixture::of(
        |server| {
            server.tool(Tool::builder("later").handler(|context: Context| async move {
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    context.log(LoggingLevel::Error, "done").await;
                });
                "begun"
            }))
        },
        |s| s,
    )
    .await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut listening = fixture.stream(session.get()).await;
    let answer = session.call(&fixture, "later", json!({})).await;
    assert_eq!(answer.text(), "begun");
    let heard = tokio::time::timeout(SHORT, listening.try_message()).await;
    assert!(heard.is_ok(), "nobody hears it");
}

/// Touching takes until it is let go; then it says that the session was there.
struct Slow(MemorySessions, Arc<tokio::sync::Semaphore>);
impl SessionStore for Slow {
    fn insert<'a>(
        &'a self,
        id: &'a str,
        r: Arc<SessionRecord>,
        idle: Duration,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.insert(id, r, idle)
    }
    fn load<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Option<Arc<SessionRecord>>, StoreError>> {
        self.0.load(id)
    }
    fn touch<'a>(&'a self, id: &'a str, idle: Duration) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move {
            let r = self.0.touch(id, idle).await;
            self.1.acquire().await.unwrap().forget();
            r
        })
    }
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<bool, StoreError>> {
        self.0.remove(id)
    }
}

// T9
#[tokio::test]
async fn t09_a_request_to_a_session_that_ends_meanwhile_is_refused() {
    let gate = Arc::new(tokio::sync::Semaphore::new(1));
    let service = service(SessionOptions::new().store(Slow(MemorySessions::new(10), gate.clone())));
    let session = begin(&service, None).await;
    let asking = {
        let (service, post) = (service.clone(), session.post(call(2, "add", json!({"a":1,"b":2}))));
        tokio::spawn(async move { ask(&service, &post).await })
    };
    tokio::task::yield_now().await;
    assert!(service.close_session(&session.id).await);
    gate.add_permits(5);
    let answer = asking.await.unwrap();
    assert_eq!(answer.status(), 404, "{answer}");
}

/// The first event is kept late.
struct Reordering(MemoryEvents);
impl EventStore for Reordering {
    fn append<'a>(&'a self, s: &'a str, stream: u64, e: StoredEvent) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let wait = if e.number % 2 == 1 { 60 } else { 10 };
            tokio::time::sleep(Duration::from_millis(wait)).await;
            self.0.append(s, stream, e).await
        })
    }
    fn after<'a>(
        &'a self,
        s: &'a str,
        stream: u64,
        n: u64,
        b: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        Box::pin(async move {
            let mut all = self.0.after(s, stream, 0, usize::MAX).await?;
            all.sort_by_key(|e| e.number);
            all.retain(|e| e.number > n);
            Ok(all)
        })
    }
    fn remove_stream<'a>(&'a self, s: &'a str, stream: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.remove_stream(s, stream)
    }
    fn remove_session<'a>(&'a self, s: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.0.remove_session(s)
    }
}

// T10
#[tokio::test]
async fn t10_events_that_are_kept_out_of_order_are_read_at_once() {
    let service = service(SessionOptions::new().events(Reordering(MemoryEvents::new(1 << 20, 1 << 24))));
    let session = begin(&service, None).await;
    let post = session.post(with_progress(call(7, "count", json!({"n":3})), 7));
    let t = std::time::Instant::now();
    let answer = tokio::time::timeout(Duration::from_secs(40), ask(&service, &post)).await;
    println!("{:?} {:?}", t.elapsed(), answer.as_ref().map(|a| a.to_string()));
    assert!(t.elapsed() < Duration::from_secs(2), "{:?}", t.elapsed());
}

// T11
#[tokio::test]
async fn t11_no_keep_alive() {
    let service = service(SessionOptions::new()).keep_alive(Duration::MAX);
    let session = begin(&service, None).await;
    let post = session.post(with_progress(call(7, "count", json!({"n":3})), 7));
    assert_eq!(ask(&service, &post).await.text(), "counted to 3");
}
#[tokio::test]
async fn t11b_no_idle() {
    let service = service(SessionOptions::new().idle(Duration::MAX));
    let session = begin(&service, None).await;
}

// T13
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn t13_cancel_while_first_polled() {
    let ended = Arc::new(AtomicUsize::new(0));
    let e2 = ended.clone();
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let fixture = Fixture::of(
        move |server| {
            server.tool(Tool::builder("slow").handler(move || {
                let e = e2.clone();
                async move {
                    let _g = Guard(e);
                    std::thread::sleep(Duration::from_millis(300));
                    std::future::pending::<()>().await;
                    "never"
                }
            }))
        },
        |s| s,
    )
    .await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    connection.send(&session.post(call(7, "slow", json!({})))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    fixture.send(session.post(cancelled(7))).await.assert_accepted();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ended.load(Ordering::SeqCst), 1, "the call was cancelled but goes on");
}
#[tokio::test(flavor = "multi_thread", worker_threads = 6)]
async fn t13b_delete_while_first_polled() {
    let ended = Arc::new(AtomicUsize::new(0));
    let e2 = ended.clone();
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let fixture = Fixture::of(
        move |server| {
            server.tool(Tool::builder("slow").handler(move || {
                let e = e2.clone();
                async move {
                    let _g = Guard(e);
                    std::thread::sleep(Duration::from_millis(300));
                    std::future::pending::<()>().await;
                    "never"
                }
            }))
        },
        |s| s,
    )
    .await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    connection.send(&session.post(call(7, "slow", json!({})))).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(fixture.send(session.delete()).await.status(), 204);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(ended.load(Ordering::SeqCst), 1, "the session has ended but the call goes on");
}

// T14
#[tokio::test]
async fn t14_listen_is_answered_when_the_listener_ends() {
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let fixture = Fixture::at(|l| {
        l.until(async move {
            let _ = told.await;
        })
    })
    .await;
    let mut stream =
        fixture.stream(modern(5, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}))).await;
    println!("{}", stream.message().await);
    tell.send(()).unwrap();
    let messages = tokio::time::timeout(SHORT, stream.rest()).await;
    println!("{messages:?}");
    assert!(messages.unwrap().last().is_some_and(|m| m.get("result").is_some()), "no result");
}

#[derive(Deserialize, JsonSchema)]
struct Region {
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

// T15
#[tokio::test]
async fn t15_numbers_do_not_hide_arguments_from_the_header_check() {
    let fixture =
        Fixture::of(|server| server.tool(Tool::builder("where").handler_sync(|Args(r): Args<Region>| r.region)), |s| s)
            .await;
    let plain = fixture.send(modern_call(1, "where", json!({"region":"eu"}))).await;
    println!("{plain}");
    let body = modern_body(1, "tools/call", json!({"name":"where","arguments":{"region":"eu","x":0}}))
        .to_string()
        .replace("\"x\":0", "\"x\":1e400");
    let request = mirrored(&modern_body(1, "tools/call", json!({"name":"where","arguments":{}})));
    let mut request = request;
    request.body = Some(body.into_bytes());
    let tricked = fixture.send(request).await;
    println!("{tricked}");
    assert_eq!(plain.status(), 400);
    assert_eq!(tricked.status(), 400);
}

// T16
#[tokio::test(start_paused = true)]
async fn t16_idle_is_idle() {
    let minute = Duration::from_secs(60);
    let service = service(SessionOptions::new().idle(80 * minute));
    let session = begin(&service, None).await;
    tokio::time::sleep(9 * minute).await; // not due: 10 min
    assert_eq!(ping(&service, &session).await, 200);
    tokio::time::sleep(72 * minute).await; // idle for 72 of 80 minutes
    assert_eq!(ping(&service, &session).await, 200);
}

struct Unable;
fn unable<T: Send + 'static>() -> BoxFuture<'static, Result<T, StoreError>> {
    Box::pin(std::future::ready(Err(StoreError::Failed("cut".into()))))
}
impl EventStore for Unable {
    fn append<'a>(&'a self, _: &'a str, _: u64, _: StoredEvent) -> BoxFuture<'a, Result<(), StoreError>> {
        unable()
    }
    fn after<'a>(
        &'a self,
        _: &'a str,
        _: u64,
        _: u64,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, StoreError>> {
        unable()
    }
    fn remove_stream<'a>(&'a self, _: &'a str, _: u64) -> BoxFuture<'a, Result<(), StoreError>> {
        unable()
    }
    fn remove_session<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        unable()
    }
}

// T8
#[test]
fn t08_logs_of_a_store_do_not_lock_up() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let subscriber = tracing_subscriber::registry().with(turms_server::ForwardLogs::new());
        let _guard = tracing::subscriber::set_default(subscriber);
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let service =
                server(&Arc::default()).forward_tracing().http().sessions(SessionOptions::new().events(Unable));
            let session = begin(&service, None).await;
            let post = session.post(with_progress(call(7, "count", json!({"n":3})), 7));
            println!("{}", ask(&service, &post).await);
        });
        done.send(()).unwrap();
    });
    let r = is_done.recv_timeout(SHORT);
    println!("{r:?}");
    assert!(r.is_ok(), "locked up: {r:?}");
}

// T18: what a client may make the server remember
#[tokio::test]
async fn t18_initialize_is_remembered_whole() {
    let store = Arc::new(MemorySessions::new(10));
    struct S(Arc<MemorySessions>);
    impl SessionStore for S {
        fn insert<'a>(
            &'a self,
            id: &'a str,
            r: Arc<SessionRecord>,
            idle: Duration,
        ) -> BoxFuture<'a, Result<(), StoreError>> {
            self.0.insert(id, r, idle)
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
    let service = service(SessionOptions::new().store(S(store.clone())));
    let mut hello = initialize(NEWEST_OLDER);
    hello["params"]["junk"] = "x".repeat(4_000_000).into();
    let answer = ask(&service, &Request::post(hello)).await;
    assert_eq!(answer.status(), 400);
    if answer.status() == 400 {
        return;
    }
    let id = answer.header("mcp-session-id").unwrap();
    let kept = store.load(id).await.unwrap().unwrap().client.as_str().len();
    assert!(kept < 100_000, "{kept} bytes");
}

// T19
#[tokio::test]
async fn t19_a_session_whose_streams_were_pushed_out_can_expire() {
    let fixture = Fixture::with(|s| s.sessions(SessionOptions::new().max_streams(100))).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = Vec::new();
    for id in 0..100 {
        streams.push(fixture.stream(session.post(call(id, "steps", json!({"n":1})))).await);
    }
    fixture.traces.steps.add_permits(100);
    for stream in streams {
        let _ = tokio::time::timeout(SHORT, stream.rest()).await;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let mut open = Vec::new();
    for n in 0..100 {
        let mut c = fixture.connect().await;
        c.send(&session.get()).await;
        let head = c.head().await;
        assert_eq!(head.status, 200, "nobody reads, but only {n} streams can be opened");
        open.push(c);
    }
}

// T20
#[tokio::test]
async fn t20_errors_without_id_are_as_the_revision_wants() {
    let fixture = Fixture::start().await;
    for version in ["2025-03-26", "2025-06-18"] {
        let session = Session::begin(&fixture, version).await;
        let answer = if version == "2025-03-26" {
            let stream = fixture.stream(session.post(json!([call(1, "steps", json!({"n":1})), 5]))).await;
            fixture.traces.steps.add_permits(1);
            format!("{:?}", stream.rest().await)
        } else {
            fixture.send(session.post(json!([request(1, "ping", None)]))).await.to_string()
        };
        println!("{version}: {answer}");
    }
}

// control of T7: the call is not answered at once
#[tokio::test]
async fn t07_control() {
    let fixture = Fixture::of(
        |server| {
            server.tool(Tool::builder("later").handler(|context: Context| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    context.log(LoggingLevel::Error, "done").await;
                });
                "begun"
            }))
        },
        |s| s,
    )
    .await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut listening = fixture.stream(session.get()).await;
    let answer = session.call(&fixture, "later", json!({})).await;
    assert_eq!(answer.text(), "begun");
    let heard = tokio::time::timeout(SHORT, listening.try_message()).await;
    assert!(heard.is_ok(), "nobody hears it");
}
#[test]
fn t08_control() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let service =
                server(&Arc::default()).forward_tracing().http().sessions(SessionOptions::new().events(Unable));
            let session = begin(&service, None).await;
            let post = session.post(with_progress(call(7, "count", json!({"n":3})), 7));
            println!("{}", ask(&service, &post).await);
        });
        done.send(()).unwrap();
    });
    assert!(is_done.recv_timeout(SHORT).is_ok());
}
// T15b: a handler that takes arguments as they are
#[tokio::test]
async fn t15b_raw_arguments() {
    let fixture = Fixture::of(
        |server| {
            server.tool(
                Tool::builder("where")
                    .input_schema(
                        turms_proto::Object::parse(
                            r#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#,
                        )
                        .unwrap(),
                    )
                    .handler_sync(|Args(o): Args<Raw>| o.0.as_str().to_owned()),
            )
        },
        |s| s,
    )
    .await;
    let body = modern_body(1, "tools/call", json!({"name":"where","arguments":{"region":"eu","x":0}}))
        .to_string()
        .replace("\"x\":0", "\"x\":1e400");
    let mut request = mirrored(&modern_body(1, "tools/call", json!({"name":"where","arguments":{}})));
    request.body = Some(body.into_bytes());
    let tricked = fixture.send(request).await;
    assert_eq!(tricked.status(), 400, "{tricked}");
}
// T21: a panic while the result is written
struct Boom;
impl serde::Serialize for Boom {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("boom")
    }
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Raw(turms_proto::RawJson);
impl JsonSchema for Raw {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Raw".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type":"object"})
    }
}
