//! Many concurrent clients that take random actions. Each gets exactly the responses to its own requests, and no call or session
//! is left at the end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use turms_testkit::eventually;

use crate::dialog::{
    SESSIONS, Session, call, modern_call, modern_stream, notification, progress, request, with_progress,
};
use crate::fixture::Fixture;

/// A client that takes one random action at a time.
struct Client {
    fixture: Arc<Fixture>,
    random: fastrand::Rng,
    session: Option<Session>,
    /// The id of the current request. No two requests share an id.
    id: u64,
}

impl Client {
    async fn act(&mut self) {
        self.id += 1;
        match self.random.u32(..12) {
            0 => self.begin_anew().await,
            1 => self.cancel().await,
            2 | 3 => self.count_and_break().await,
            4 => self.hang_up().await,
            5 => self.nonsense().await,
            6 => self.count_statelessly().await,
            7 => self.listen_for_a_moment().await,
            _ => self.add().await,
        }
    }

    async fn session(&mut self) -> Session {
        if self.session.is_none() {
            let version = SESSIONS[self.random.usize(..SESSIONS.len())];
            self.session = Some(Session::begin(&self.fixture, version).await);
        }
        self.session.clone().unwrap()
    }

    async fn begin_anew(&mut self) {
        if let Some(session) = self.session.take() {
            assert_eq!(self.fixture.send(session.delete()).await.status() / 100, 2);
            let gone = self.fixture.send(session.post(request(self.id, "ping", None))).await;
            assert_eq!(gone.status(), 404, "{gone}");
        }
    }

    async fn add(&mut self) {
        let sum = json!({ "a": self.id, "b": 1 });
        let answer = if self.random.bool() {
            self.fixture.send(modern_call(self.id, "add", sum)).await
        } else {
            let session = self.session().await;
            self.fixture.send(session.post(call(self.id, "add", sum))).await
        };
        assert_eq!((answer.answer()["id"].as_u64(), answer.text()), (Some(self.id), (self.id + 1).to_string()));
    }

    /// Calls `count` in a session, over a connection that breaks at most once.
    async fn count_and_break(&mut self) {
        let session = self.session().await;
        let n = self.random.u64(1..60);
        let count = session.post(with_progress(call(self.id, "count", json!({ "n": n })), self.id));
        let mut stream = self.fixture.stream(count).await;
        let (mut messages, mut last): (Vec<Value>, Option<String>) = (Vec::new(), None);
        for _ in 0..self.random.usize(1..40) {
            let Some(event) = stream.next().await else { break };
            messages.extend(event.message());
            last = event.id.or(last);
        }
        if messages.last().is_none_or(|message| message.get("id").is_none()) {
            let last = last.expect("an id before the stream breaks");
            messages.extend(self.fixture.stream(session.resume(&last)).await.rest().await);
        }
        assert_eq!(progress(&messages), (1..=n).collect::<Vec<_>>());
        assert_eq!(messages.last().unwrap()["id"], self.id);
        assert!(messages.iter().all(|one| one["id"] == self.id || one["params"]["progressToken"] == self.id));
    }

    async fn count_statelessly(&mut self) {
        let n = self.random.u64(1..60);
        let messages = self.fixture.send(modern_stream(self.id, "count", json!({ "n": n }))).await.messages();
        assert_eq!(progress(&messages), (1..=n).collect::<Vec<_>>());
    }

    async fn cancel(&mut self) {
        let session = self.session().await;
        let mut stream = session.stream(&self.fixture, self.id, "wait", json!({})).await;
        assert_eq!(stream.message().await["params"]["progressToken"], self.id);
        let mut body = notification("notifications/cancelled");
        body["params"] = json!({ "requestId": self.id });
        self.fixture.send(session.post(&body)).await.assert_accepted();
        assert!(stream.rest().await.is_empty());
    }

    async fn hang_up(&mut self) {
        let mut stream = self.fixture.stream(modern_stream(self.id, "wait", json!({}))).await;
        stream.message().await;
    }

    async fn listen_for_a_moment(&mut self) {
        let session = self.session().await;
        self.fixture.stream(session.get()).await;
    }

    async fn nonsense(&mut self) {
        let session = self.session().await;
        for body in ["{", "[]", "{}"] {
            let status = self.fixture.send(session.post(body)).await.status();
            assert_eq!(status, 400);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_with_random_actions_get_their_own_responses_and_leave_nothing_behind() {
    let fixture = Arc::new(Fixture::start().await);
    let mut clients = JoinSet::new();
    for seed in 0..16 {
        let random = fastrand::Rng::with_seed(seed);
        let mut client = Client { fixture: fixture.clone(), random, session: None, id: seed * 1_000_000 };
        clients.spawn(async move {
            for _ in 0..60 {
                client.act().await;
            }
            client.begin_anew().await;
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let traces = &fixture.traces;
    eventually("calls that have ended", async || {
        traces.begun.load(Ordering::SeqCst) == traces.ended.load(Ordering::SeqCst)
    })
    .await;
    eventually("the end of all sessions", async || fixture.handle.sessions().is_empty()).await;
}
