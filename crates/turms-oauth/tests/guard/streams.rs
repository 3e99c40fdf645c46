//! Streams end with the token of their request, and calls that have begun may finish.
//!
//! The clock of tokio is moved, which the ends of streams wait by. Tokens are checked by the time of the system.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use turms_server::Tool;
use turms_testkit::messages::{SUBSCRIPTION, call, modern, modern_call, modern_stream, request, with_progress};
use turms_testkit::raw_http::Stream;
use turms_testkit::{eventually, raw_ws, within};

use crate::fixture::{GuardedServer, Mount, bearer, guard_for};
use crate::issuer::TestIssuer;
use crate::tokens::now;

/// Lets time pass at once.
async fn pass(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

struct Setting {
    issuer: TestIssuer,
    server: GuardedServer,
    mount: Mount,
}

impl Setting {
    async fn start(mount: Mount) -> Self {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        Self { issuer, server, mount }
    }

    /// Signs a token of `ann` for a time in seconds.
    fn token(&self, seconds: u64) -> String {
        self.issuer.token(self.mount.resource(), json!({ "exp": now() + seconds, "jti": seconds.to_string() }))
    }

    /// Changes the list of tools, which open streams are told.
    fn change(&self) {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let name = format!("new-{}", NEXT.fetch_add(1, Ordering::SeqCst));
        self.server.handle.add_tool(Tool::builder(name).handler_sync(|| "")).unwrap();
    }

    /// Asserts that a stream is open: it is told of a change.
    async fn assert_open(&self, stream: &mut Stream) {
        self.change();
        let message = within("a notification", stream.message()).await;
        assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
    }

    /// Lets the server notice that a time has passed: while a request is answered, the timers of the runtime run.
    async fn await_expiry(&self) {
        for _ in 0..3 {
            let response = self.server.send(bearer(modern_call(1, "whoami", json!({})), &self.token(1200))).await;
            assert_eq!(response.status(), 200);
        }
    }

    async fn listen(&self, token: &str) -> Stream {
        let filter = json!({ "notifications": { "toolsListChanged": true } });
        let mut stream = self.server.stream(bearer(modern(9, "subscriptions/listen", filter), token)).await;
        assert_eq!(stream.message().await["method"], "notifications/subscriptions/acknowledged");
        stream
    }
}

/// Asserts that a stream has ended. It is waited for as a whole, because keep-alive comments may arrive for ever.
async fn assert_ended(mut stream: Stream) {
    assert_eq!(within("the end of a stream", stream.try_message()).await, None);
}

#[tokio::test]
async fn the_stream_of_a_session_ends_with_its_token() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let token = setting.token(600);
        let session = setting.server.session(&token).await;
        let mut stream = setting.server.stream(bearer(session.get(), &token)).await;
        pass(590).await;
        setting.assert_open(&mut stream).await;
        pass(11).await;
        assert_ended(stream).await;
        // The session goes on with a fresh token.
        let fresh = setting.token(1200);
        let mut stream = setting.server.stream(bearer(session.get(), &fresh)).await;
        setting.assert_open(&mut stream).await;
    }
}

#[tokio::test]
async fn a_subscription_ends_with_its_result_when_its_token_expires() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let mut stream = setting.listen(&setting.token(600)).await;
        pass(590).await;
        setting.assert_open(&mut stream).await;
        pass(11).await;
        let last = within("the result", stream.message()).await;
        assert_eq!((&last["id"], &last["result"]["_meta"][SUBSCRIPTION]), (&json!(9), &json!(9)), "{last}");
        assert_ended(stream).await;
    }
}

#[tokio::test]
async fn a_pair_ends_with_its_token_after_its_calls() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let (server, token) = (&setting.server, setting.token(600));
        let mut pair = server.initialized_pair(&token).await;
        let steps = with_progress(call(5, "steps", json!({ "n": 2 })), 5);
        server.send(bearer(pair.post(steps), &token)).await.assert_accepted();
        server.traces.steps.add_permits(1);
        assert_eq!(pair.stream.message().await["params"]["progress"].as_f64(), Some(1.0));
        pass(590).await;
        setting.assert_open(&mut pair.stream).await;
        pass(11).await;
        // No further messages are accepted, not even with a fresh token.
        let late = pair.post(request(6, "ping", None));
        eventually("the end of the pair", async || {
            server.send(bearer(late.clone(), &setting.token(1200))).await.status() == 404
        })
        .await;
        server.traces.steps.add_permits(1);
        let rest = within("the end of the pair", pair.stream.rest()).await;
        assert!(rest.iter().any(|message| message["id"] == 5 && message["result"].is_object()), "{rest:?}");
    }
}

#[tokio::test]
async fn a_message_with_a_fresh_token_of_the_same_principal_renews_a_pair() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let server = &setting.server;
        let mut pair = server.initialized_pair(&setting.token(600)).await;
        let ping = |id: u64| pair.post(request(id, "ping", None));
        // Another principal does not renew it, and an older token does not shorten it.
        let bob = setting.issuer.token(mount.resource(), json!({ "sub": "bob", "exp": now() + 7200 }));
        assert_eq!(server.send(bearer(ping(2), &bob)).await.status(), 404);
        let fresh = bearer(ping(3), &setting.token(1200));
        let older = bearer(ping(4), &setting.token(500));
        for request in [fresh, older] {
            server.send(request).await.assert_accepted();
            pair.stream.message().await;
        }
        pass(601).await;
        setting.assert_open(&mut pair.stream).await;
        // It then waits for the fresh token, by the time of the system.
        pass(1190).await;
        setting.assert_open(&mut pair.stream).await;
        pass(11).await;
        assert_ended(pair.stream).await;
    }
}

#[tokio::test]
async fn a_socket_is_closed_with_1008_after_its_calls_when_its_token_expires() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let server = &setting.server;
        let mut socket = server.socket(&setting.token(600)).await;
        socket.text(&with_progress(call(5, "steps", json!({ "n": 2 })), 5).to_string()).await;
        server.traces.steps.add_permits(1);
        let first: Value = serde_json::from_str(&socket.message().await.0).unwrap();
        assert_eq!(first["params"]["progress"].as_f64(), Some(1.0));
        pass(590).await;
        setting.change();
        next_message(&mut socket).await;
        pass(11).await;
        setting.await_expiry().await;
        server.traces.steps.add_permits(1);
        let mut texts = Vec::new();
        let (code, reason) = loop {
            let frame = socket.frame().await;
            match frame.kind {
                raw_ws::TEXT => texts.push(String::from_utf8(frame.payload).unwrap()),
                raw_ws::CLOSE => {
                    let code = u16::from_be_bytes([frame.payload[0], frame.payload[1]]);
                    break (code, String::from_utf8(frame.payload[2..].to_vec()).unwrap());
                }
                _ => {}
            }
        };
        assert_eq!(code, 1008, "{reason}");
        assert!(reason.contains("token"), "{reason}");
        assert!(texts.iter().any(|text| text.contains("counted to 2")), "the call has finished: {texts:?}");
    }
}

/// Reads the next message, skipping pings.
async fn next_message(socket: &mut raw_ws::WsConnection) -> Value {
    loop {
        let frame = socket.frame().await;
        if frame.kind == raw_ws::TEXT {
            return serde_json::from_slice(&frame.payload).unwrap();
        }
    }
}

#[tokio::test]
async fn the_stream_of_a_call_outlives_its_token() {
    for mount in Mount::ALL {
        let setting = Setting::start(mount).await;
        let (server, token) = (&setting.server, setting.token(600));
        let session = server.session(&token).await;
        for request in [
            modern_stream(5, "steps", json!({ "n": 2 })),
            session.post(with_progress(call(5, "steps", json!({ "n": 2 })), 5)),
        ] {
            server.traces.steps.add_permits(1);
            let mut stream = server.stream(bearer(request, &token)).await;
            assert_eq!(stream.message().await["params"]["progress"].as_f64(), Some(1.0));
            pass(601).await;
            setting.await_expiry().await;
            server.traces.steps.add_permits(1);
            let rest = within("the end of the call", stream.rest()).await;
            assert_eq!(rest.last().unwrap()["result"]["content"][0]["text"], "counted to 2", "{rest:?}");
        }
    }
}

#[tokio::test]
async fn streams_can_be_kept_after_the_expiry() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let guard = guard_for(&issuer, mount).keep_streams_after_expiry().build().unwrap();
        let server = GuardedServer::start(mount, guard).await;
        let setting = Setting { issuer, server, mount };
        let token = setting.token(60);
        let session = setting.server.session(&token).await;
        let mut streams = vec![
            setting.server.stream(bearer(session.get(), &token)).await,
            setting.listen(&token).await,
            setting.server.initialized_pair(&token).await.stream,
        ];
        let mut socket = setting.server.socket(&token).await;
        pass(120).await;
        setting.change();
        for stream in &mut streams {
            let message = stream.message().await;
            assert_eq!(message["method"], "notifications/tools/list_changed", "{message}");
        }
        assert_eq!(next_message(&mut socket).await["method"], "notifications/tools/list_changed");
    }
}

#[tokio::test]
async fn a_resumed_stream_ends_with_the_token_of_its_own_request() {
    let setting = Setting::start(Mount::Listener).await;
    let (server, token) = (&setting.server, setting.token(600));
    let session = server.session(&token).await;
    let mut stream = server.stream(bearer(session.get(), &token)).await;
    setting.change();
    let event = stream.event().await;
    drop(stream);
    let fresh = bearer(session.get(), &setting.token(1200)).header("Last-Event-ID", event.id.unwrap_or_default());
    let mut resumed = server.stream(fresh).await;
    pass(601).await;
    let mut next = within("an event", resumed.message()).await;
    while next["method"] != "notifications/tools/list_changed" {
        next = within("an event", resumed.message()).await;
    }
    pass(600).await;
    let rest = within("the end of the stream", resumed.rest()).await;
    assert!(rest.iter().all(|message| message["method"] == "notifications/tools/list_changed"));
}
