//! Calls in a session: concurrent calls and large results, cancellation, and streams that a handler closes for polling.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use turms_http::StreamControl;
use turms_proto::types::LoggingLevel;
use turms_server::{Args, Context, Extension, Progress, State, Tool};
use turms_testkit::eventually;

use crate::dialog::{NEWEST, NEWEST_OLDER, SESSIONS, Session, call, cancelled, modern_stream, progress};
use crate::fixture::{Fixture, Traces};
use crate::wire::{Event, Stream};

#[tokio::test]
async fn a_hundred_calls_at_once_are_all_answered() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = Vec::new();
    for id in 0..100 {
        streams.push(fixture.stream(session.post(call(id, "steps", json!({ "n": 1 })))).await);
    }
    fixture.traces.steps.add_permits(100);
    for (id, stream) in streams.into_iter().enumerate() {
        let rest = stream.rest().await;
        let answer = rest.last().expect("a response");
        assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (&json!(id), &json!("counted to 1")));
    }
}

#[derive(Deserialize, JsonSchema)]
struct Long {
    bytes: usize,
}

/// The results together exceed the event buffer of a session.
#[tokio::test]
async fn long_answers_at_once_all_come_whole() {
    const LONG: usize = 3_000_000;
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let long = Tool::builder("long").handler(move |Args(long): Args<Long>| {
        let held = held.clone();
        async move {
            held.acquire().await.unwrap().forget();
            "x".repeat(long.bytes)
        }
    });
    let fixture = Fixture::of(|server| server.tool(long), |service| service).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut streams = Vec::new();
    for id in 0..3 {
        streams.push(fixture.stream(session.post(call(id, "long", json!({ "bytes": LONG })))).await);
    }
    gate.add_permits(3);
    for stream in streams {
        let rest = stream.rest().await;
        let [answer] = &*rest else { panic!("{} messages", rest.len()) };
        assert_eq!(answer["result"]["content"][0]["text"].as_str().map(str::len), Some(LONG));
    }
}

#[tokio::test]
async fn a_notification_after_the_response_is_sent_on_the_standalone_stream() {
    let gate = Arc::new(Semaphore::new(0));
    let held = gate.clone();
    let later = Tool::builder("later").handler(move |context: Context| {
        let held = held.clone();
        async move {
            tokio::spawn(async move {
                held.acquire().await.unwrap().forget();
                context.log(LoggingLevel::Error, "done").await;
            });
            "begun"
        }
    });
    let fixture = Fixture::of(|server| server.tool(later), |service| service).await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut listening = fixture.stream(session.get()).await;
        assert_eq!(session.call(&fixture, "later", json!({})).await.text(), "begun");
        gate.add_permits(1);
        assert_eq!(listening.message().await["params"]["data"], "done", "{version}");
    }
}

/// Controls a tool that blocks its thread, so that its call can only be cancelled after the blocking part.
struct Busy {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
    go_on: mpsc::Sender<()>,
}

struct Ending(Arc<AtomicUsize>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Busy {
    fn new() -> (Tool, Self) {
        let (begun, ended) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (go_on, told) = mpsc::channel();
        let busy = Self { begun: begun.clone(), ended: ended.clone(), go_on };
        let told = Arc::new(Mutex::new(told));
        let tool = Tool::builder("busy").handler(move || {
            let (begun, told, ending) = (begun.clone(), told.clone(), Ending(ended.clone()));
            async move {
                let _ending = ending;
                begun.fetch_add(1, Ordering::SeqCst);
                // `block_in_place` moves the other tasks of this thread to another one.
                tokio::task::block_in_place(|| told.lock().unwrap().recv()).unwrap();
                std::future::pending::<&'static str>().await
            }
        });
        (tool, busy)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_that_is_cancelled_while_it_blocks_ends_at_its_next_await() {
    for is_deleted in [false, true] {
        let (tool, busy) = Busy::new();
        let fixture = Fixture::of(|server| server.tool(tool), |service| service).await;
        let session = Session::begin(&fixture, NEWEST_OLDER).await;
        let mut connection = fixture.connect().await;
        connection.send(&session.post(call(7, "busy", json!({})))).await;
        eventually("a call", async || busy.begun.load(Ordering::SeqCst) == 1).await;
        if is_deleted {
            assert_eq!(fixture.send(session.delete()).await.status(), 204);
        } else {
            fixture.send(session.post(cancelled(7))).await.assert_accepted();
        }
        busy.go_on.send(()).unwrap();
        eventually("the end of the call", async || busy.ended.load(Ordering::SeqCst) == 1).await;
    }
}

#[tokio::test]
async fn a_request_that_arrives_while_its_session_is_deleted_is_refused() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let post = session.post(call(7, "wait", json!({}))).bytes();
        let (begin, end) = post.split_at(post.len() - 10);
        let mut arriving = fixture.connect().await;
        arriving.write(begin).await;
        assert_eq!(fixture.send(session.delete()).await.status(), 204);
        arriving.write(end).await;
        let refused = arriving.response().await;
        refused.assert_refused(404, -32600, &json!(7));
        assert_eq!(fixture.traces.begun.load(Ordering::SeqCst), 0, "{version}");
    }
}

const RETRY: u64 = 250;

/// Closes its stream, waits for a permit and reports progress, `n` times. Returns the number of closed streams.
async fn poll(
    Args(Times { n }): Args<Times>,
    progress: Progress,
    stream: Option<Extension<StreamControl>>,
    State(traces): State<Traces>,
) -> String {
    let mut times = 0;
    for step in 1..=n {
        let has_hung_up = stream.as_ref().is_some_and(|stream| stream.0.close(Duration::from_millis(RETRY)));
        times += usize::from(has_hung_up);
        traces.steps.acquire().await.unwrap().forget();
        progress.report(step).await;
    }
    format!("hung up {times} times")
}

#[derive(Deserialize, JsonSchema)]
struct Times {
    n: u32,
}

async fn polling() -> Fixture {
    Fixture::of(|server| server.tool(Tool::builder("poll").handler(poll)), |service| service).await
}

/// Returns all events up to the end of the stream.
async fn events(mut stream: Stream) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    events
}

fn messages(events: &[Event]) -> Vec<Value> {
    events.iter().filter_map(Event::message).collect()
}

#[tokio::test]
async fn a_stream_that_its_call_closes_can_be_resumed() {
    let fixture = polling().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut stream = session.stream(&fixture, 7, "poll", json!({ "n": 3 })).await;
    for step in 0..3 {
        let heard = events(stream).await;
        assert_eq!(progress(&messages(&heard)), if step == 0 { vec![] } else { vec![step] });
        assert_eq!(heard.last().expect("an event").retry, Some(RETRY), "{heard:?}");
        let last = heard.iter().rev().find_map(|event| event.id.clone()).expect("an event id to resume after");
        stream = fixture.stream(session.resume(&last)).await;
        fixture.traces.steps.add_permits(1);
    }
    let rest = stream.rest().await;
    assert_eq!(progress(&rest), [3]);
    assert_eq!(rest[1]["result"]["content"][0]["text"], "hung up 3 times");
}

#[tokio::test]
async fn a_call_closes_only_its_own_stream() {
    let fixture = polling().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut standalone = fixture.stream(session.get()).await;
    fixture.traces.steps.add_permits(1);
    let mut other = session.stream(&fixture, 8, "steps", json!({ "n": 2 })).await;
    assert_eq!(progress(&[other.message().await]), [1]);
    let heard = events(session.stream(&fixture, 7, "poll", json!({ "n": 1 })).await).await;
    assert_eq!(heard.last().expect("an event").retry, Some(RETRY), "{heard:?}");
    fixture.traces.steps.add_permits(2);
    let rest = other.rest().await;
    assert_eq!((progress(&rest), &rest[1]["id"]), (vec![2], &json!(8)));
    session.call(&fixture, "grow", json!({})).await;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed");
    // The call continued while its stream was closed.
    let last = heard.iter().rev().find_map(|event| event.id.clone()).expect("an event id to resume after");
    let rest = fixture.stream(session.resume(&last)).await.rest().await;
    assert_eq!((progress(&rest), &rest[1]["id"]), (vec![1], &json!(7)));
}

#[tokio::test]
async fn streams_of_clients_that_would_not_resume_are_not_closed() {
    let fixture = polling().await;
    for version in ["2025-03-26", "2025-06-18", NEWEST] {
        fixture.traces.steps.add_permits(2);
        let stream = if version == NEWEST {
            fixture.stream(modern_stream(7, "poll", json!({ "n": 2 }))).await
        } else {
            Session::begin(&fixture, version).await.stream(&fixture, 7, "poll", json!({ "n": 2 })).await
        };
        let heard = events(stream).await;
        assert!(heard.iter().all(|event| event.retry.is_none()), "{heard:?}");
        let messages = messages(&heard);
        assert_eq!(progress(&messages), [1, 2]);
        assert_eq!(messages[2]["result"]["content"][0]["text"], "hung up 0 times", "{version}");
    }
}
