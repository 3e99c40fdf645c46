//! Streams that break and are resumed (basic/transports, "Resumability and Redelivery"): each message arrives exactly once and in
//! order, wherever the stream broke.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use turms_proto::{Notification, RawJson};
use turms_testkit::eventually;

use crate::dialog::{NEWEST_OLDER, SESSIONS, Session, call, progress, with_progress};
use crate::fixture::Fixture;
use crate::wire::{Request, Stream};

/// A client whose stream breaks repeatedly and is resumed.
struct Unlucky<'a> {
    fixture: &'a Fixture,
    session: &'a Session,
    random: fastrand::Rng,
    stream: Stream,
    last: Option<String>,
    /// Number of events until the stream breaks.
    left: usize,
    breaks: usize,
}

impl<'a> Unlucky<'a> {
    async fn open(fixture: &'a Fixture, session: &'a Session, request: Request, seed: u64) -> Self {
        let stream = fixture.stream(request).await;
        let random = fastrand::Rng::with_seed(seed);
        Self { fixture, session, random, stream, last: None, left: 1, breaks: 0 }
    }

    /// Returns the next message. Resumes the stream as often as needed.
    async fn message(&mut self) -> Value {
        loop {
            if self.left == 0 && self.last.is_some() {
                self.mend().await;
            }
            let Some(event) = self.stream.next().await else {
                self.mend().await;
                continue;
            };
            self.left = self.left.saturating_sub(1);
            if let Some(id) = &event.id {
                assert!(!id.is_empty(), "{event:?}");
                self.last = Some(id.clone());
            }
            if let Some(message) = event.message() {
                return message;
            }
        }
    }

    async fn mend(&mut self) {
        let last = self.last.as_deref().expect("an id before the stream ends");
        self.stream = self.fixture.stream(self.session.resume(last)).await;
        self.left = self.random.usize(1..120);
        self.breaks += 1;
    }

    /// Returns all messages up to and including the response.
    async fn until_answered(&mut self) -> Vec<Value> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().await;
            let is_answer = message.get("result").or_else(|| message.get("error")).is_some();
            messages.push(message);
            if is_answer {
                return messages;
            }
        }
    }
}

fn count(session: &Session, id: impl Into<Value>, n: u64) -> Request {
    let id = id.into();
    session.post(with_progress(call(id.clone(), "count", json!({ "n": n })), id))
}

#[track_caller]
fn assert_counted(messages: &[Value], id: &Value, n: u64) {
    assert_eq!(progress(messages), (1..=n).collect::<Vec<_>>());
    assert_eq!(messages.len() as u64, n + 1);
    assert!(messages[..messages.len() - 1].iter().all(|message| message["params"]["progressToken"] == *id));
    let answer = messages.last().unwrap();
    assert_eq!((&answer["id"], &answer["result"]["content"][0]["text"]), (id, &json!(format!("counted to {n}"))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_events_come_once_and_in_order_wherever_their_stream_breaks() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        for seed in 1..=4 {
            let mut client = Unlucky::open(&fixture, &session, count(&session, seed, 1_000), seed).await;
            let messages = client.until_answered().await;
            assert_counted(&messages, &json!(seed), 1_000);
            assert!(client.breaks > 3, "{}", client.breaks);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn streams_that_break_at_the_same_time_do_not_mix() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    let clients = (0..8_u64).map(async |n| {
        let session = if n % 2 == 0 { &session } else { &other };
        let id = json!(format!("stream-{n}"));
        let mut client = Unlucky::open(&fixture, session, count(session, id.clone(), 300), n).await;
        assert_counted(&client.until_answered().await, &id, 300);
    });
    let mut clients: Vec<_> = clients.map(Box::pin).collect();
    std::future::poll_fn(|task| {
        clients.retain_mut(|client| client.as_mut().poll(task).is_pending());
        if clients.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[tokio::test]
async fn a_response_is_kept_while_its_client_is_disconnected() {
    let fixture = Fixture::start().await;
    for (n, version) in SESSIONS.into_iter().enumerate() {
        let session = Session::begin(&fixture, version).await;
        fixture.traces.steps.add_permits(1);
        let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 10 })).await;
        let last = loop {
            let event = stream.event().await;
            if event.message().is_some() {
                break event.id.unwrap();
            }
        };
        drop(stream);
        fixture.traces.steps.add_permits(9);
        eventually("the end of the call", async || fixture.traces.returned.load(Ordering::SeqCst) == n + 1).await;
        let rest = fixture.stream(session.resume(&last)).await.rest().await;
        assert_eq!(progress(&rest), (2..=10).collect::<Vec<_>>(), "{version}");
        assert_eq!(rest.last().unwrap()["id"], 7);
        assert_eq!(rest.len(), 10);
    }
}

/// Written data may not have reached the client, so it is kept for a resumption.
#[tokio::test]
async fn events_that_were_sent_but_not_received_are_sent_again() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut stream = fixture.stream(count(&session, 7, 20)).await;
    let first = stream.event().await.id.unwrap();
    let received = stream.rest().await;
    assert_counted(&received, &json!(7), 20);
    // The client resumes as if it had received only the first event.
    for _ in 0..2 {
        let again = fixture.stream(session.resume(&first)).await.rest().await;
        assert_eq!(again, received);
    }
}

#[tokio::test]
async fn the_stream_of_a_running_call_can_be_resumed() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut stream = session.stream(&fixture, 7, "steps", json!({ "n": 4 })).await;
    // The first event of the stream only has an id.
    let last = stream.event().await.id.unwrap();
    assert_eq!(progress(&[stream.message().await]), [1]);
    drop(stream);
    let mut stream = fixture.stream(session.resume(&last)).await;
    assert_eq!(progress(&[stream.message().await]), [1]);
    fixture.traces.steps.add_permits(1);
    assert_eq!(progress(&[stream.message().await]), [2]);
    drop(stream);
    let mut stream = fixture.stream(session.resume(&last)).await;
    assert_eq!(progress(&[stream.message().await, stream.message().await]), [1, 2]);
    fixture.traces.steps.add_permits(2);
    let rest = stream.rest().await;
    assert_eq!(progress(&rest), [3, 4]);
    assert_eq!(rest[2]["id"], 7);
}

/// The server may take long to notice that the first connection is broken.
#[tokio::test]
async fn the_last_connection_that_resumes_gets_the_stream() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    fixture.traces.steps.add_permits(1);
    let mut first = session.stream(&fixture, 7, "steps", json!({ "n": 10 })).await;
    let begin = first.event().await.id.unwrap();
    let mut last = fixture.stream(session.resume(&begin)).await;
    assert_eq!(progress(&[last.message().await]), [1]);
    fixture.traces.steps.add_permits(9);
    let rest = last.rest().await;
    assert_eq!(progress(&rest), (2..=10).collect::<Vec<_>>());
    assert_eq!(rest.last().unwrap()["id"], 7);
    // The first stream ends as well, whatever it has received.
    first.rest().await;
}

/// A request of the server is part of the stream of its call, so it is resent on resumption.
#[tokio::test]
async fn a_request_of_the_server_that_was_lost_is_sent_again() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut stream = fixture.stream(session.post(call(7, "greet", json!({})))).await;
    let first = stream.event().await;
    assert!(first.message().is_none(), "{first:?}");
    let asked = stream.message().await;
    drop(stream);
    let mut stream = fixture.stream(session.resume(&first.id.unwrap())).await;
    assert_eq!(stream.message().await, asked);
    let result = json!({ "action": "accept", "content": { "name": "Ann" } });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result });
    fixture.send(session.post(&answer)).await.assert_accepted();
    assert_eq!(stream.message().await["result"]["content"][0]["text"], "Hello, Ann!");
}

fn numbered(n: u64) -> Notification {
    Notification::raw("notifications/test", Some(RawJson::encode(&json!({ "n": n })).unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_standalone_stream_can_be_resumed() {
    let fixture = Fixture::start().await;
    for version in SESSIONS {
        let session = Session::begin(&fixture, version).await;
        let mut client = Unlucky::open(&fixture, &session, session.get(), 7).await;
        let telling = async {
            for n in 1..=1_000 {
                fixture.handle.broadcast(&numbered(n));
                if n % 7 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        };
        let hearing = async {
            let mut heard = Vec::new();
            while heard.len() < 1_000 {
                let message = client.message().await;
                assert_eq!(message["method"], "notifications/test");
                heard.push(message["params"]["n"].as_u64().unwrap());
            }
            heard
        };
        let ((), heard) = tokio::join!(telling, hearing);
        assert_eq!(heard, (1..=1_000).collect::<Vec<_>>(), "{version}");
        assert!(client.breaks > 3, "{}", client.breaks);
        drop(client);
        fixture.send(session.delete()).await;
    }
}

#[tokio::test]
async fn the_standalone_stream_has_no_messages_of_calls() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut standalone = Unlucky::open(&fixture, &session, session.get(), 3).await;
    fixture.handle.broadcast(&numbered(1));
    let mut counting = Unlucky::open(&fixture, &session, count(&session, 7, 200), 4).await;
    fixture.handle.broadcast(&numbered(2));
    assert_counted(&counting.until_answered().await, &json!(7), 200);
    fixture.handle.broadcast(&numbered(3));
    for n in 1..=3 {
        assert_eq!(standalone.message().await["params"]["n"], n);
    }
}

#[tokio::test]
async fn unknown_event_ids_are_refused() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let other = Session::begin(&fixture, NEWEST_OLDER).await;
    for id in ["nonsense", "", "-", "0", "99999999999999999999999", "1-2-3", "ä"] {
        let response = fixture.send(session.get().header("Last-Event-ID", id)).await;
        // A 404 would mean that the session has ended.
        assert!(matches!(response.status(), 400 | 409 | 410 | 412 | 422), "{id}: {response}");
    }
    assert_eq!(session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await.text(), "3");

    // An event id of another session gives no access to the events of that session, even if this session has the same id.
    let mut stream = fixture.stream(count(&other, "theirs", 5)).await;
    let theirs = stream.event().await.id.unwrap();
    stream.rest().await;
    let response = fixture.send(session.resume(&theirs)).await;
    assert!(!String::from_utf8_lossy(&response.body).contains("theirs"), "{response}");
    assert!((400..500).contains(&response.status()), "{response}");
}
