//! HTTP/2 on the same port: many requests share a connection, and a stream reset counts as a disconnect.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::Response;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, modern_call, modern_stream, progress, request};
use crate::fixture::Fixture;
use crate::wire::Request;

/// An HTTP/2 connection.
#[derive(Clone)]
struct Client {
    sender: SendRequest<Bytes>,
}

impl Client {
    async fn connect(fixture: &Fixture) -> Self {
        let socket = TcpStream::connect(fixture.address).await.unwrap();
        let (sender, connection) = h2::client::handshake(socket).await.unwrap();
        tokio::spawn(connection);
        Self { sender }
    }

    async fn send(&self, request: &Request) -> Result<Response<RecvStream>, h2::Error> {
        self.send_to("localhost", request).await
    }

    async fn send_to(&self, host: &str, request: &Request) -> Result<Response<RecvStream>, h2::Error> {
        let mut sender = within("room for a request", self.sender.clone().ready()).await?;
        let (answer, mut sending) = sender.send_request(head_of(host, request), request.body.is_none())?;
        if let Some(body) = &request.body {
            sending.send_data(Bytes::copy_from_slice(body), true)?;
        }
        within("a response", answer).await
    }

    async fn text(&self, request: &Request) -> String {
        let answer = self.send(request).await.unwrap();
        assert_eq!(answer.status(), 200);
        text_of(answer).await
    }
}

/// Builds the head of a request. Its `Host` header becomes the authority of the URI.
fn head_of(host: &str, request: &Request) -> http::Request<()> {
    let mut head = http::Request::builder().method(request.method).uri(format!("http://{host}{}", request.path));
    for (name, value) in request.headers.iter().filter(|(name, _)| name != "Host") {
        head = head.header(name, value.as_slice());
    }
    head.body(()).unwrap()
}

async fn text_of(answer: Response<RecvStream>) -> String {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = within("more of the response", body.data()).await {
        let piece = piece.unwrap();
        body.flow_control().release_capacity(piece.len()).unwrap();
        bytes.extend_from_slice(&piece);
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns the messages of an event stream.
fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn add() -> Request {
    modern_call(1, "add", json!({ "a": 1, "b": 2 }))
}

#[tokio::test]
async fn one_connection_serves_many_requests_at_once() {
    let fixture = Fixture::start().await;
    let client = Client::connect(&fixture).await;
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..100_u64 {
        let client = client.clone();
        calls.spawn(async move {
            if n % 2 == 0 {
                assert!(client.text(&add()).await.contains(r#""text":"3""#));
            } else {
                let counted = client.text(&modern_stream(n, "count", json!({ "n": 10 }))).await;
                let messages = messages(&counted);
                assert_eq!(progress(&messages), (1..=10).collect::<Vec<_>>());
                assert_eq!(messages[10]["id"], n);
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
}

#[tokio::test]
async fn sessions_are_known_over_any_connection() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let client = Client::connect(&fixture).await;
    let pong: Value = serde_json::from_str(&client.text(&session.post(request(1, "ping", None))).await).unwrap();
    assert_eq!(pong["result"], json!({}));
    let mut standalone = client.send(&session.get()).await.unwrap().into_body();
    session.call(&fixture, "grow", json!({})).await;
    let mut heard = String::new();
    while !heard.contains("notifications/tools/list_changed") {
        let piece = within("a notification", standalone.data()).await.expect("a stream that goes on").unwrap();
        heard.push_str(std::str::from_utf8(&piece).unwrap());
    }
}

#[tokio::test]
async fn resetting_a_stream_cancels_its_call_in_the_newest_revision() {
    let fixture = Fixture::start().await;
    let client = Client::connect(&fixture).await;
    let answer = client.send(&modern_stream(1, "wait", json!({}))).await.unwrap();
    assert_eq!(fixture.traces.begun.load(Ordering::SeqCst), 1);
    drop(answer);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    assert!(client.text(&add()).await.contains(r#""text":"3""#), "the connection goes on");
}

#[tokio::test]
async fn unknown_hosts_and_origins_are_refused() {
    let fixture = Fixture::start().await;
    let client = Client::connect(&fixture).await;
    let refused = client.send_to("evil.example", &add()).await.unwrap();
    assert!(refused.status().is_client_error(), "{refused:?}");
    let refused = client.send(&add().header("Origin", "http://evil.example")).await.unwrap();
    assert_eq!(refused.status(), 403);
    // The authority and the `host` header differ.
    let two = add().without("Host").also("host", "localhost");
    let refused = client.send_to("evil.example", &two).await;
    assert!(refused.is_err() || refused.unwrap().status().is_client_error());
}

#[tokio::test]
async fn streams_that_are_opened_and_reset_again_and_again_leave_nothing_behind() {
    let fixture = Fixture::start().await;
    for _ in 0..10 {
        let client = Client::connect(&fixture).await;
        for n in 0..300 {
            let Ok(mut sender) = within("room for a request", client.sender.clone().ready()).await else { break };
            let call = modern_stream(n, "wait", json!({}));
            let head = head_of("localhost", &call);
            let Ok((answer, mut sending)) = sender.send_request(head, false) else { break };
            let _ = sending.send_data(call.body.unwrap().into(), true);
            sending.send_reset(h2::Reason::CANCEL);
            drop(answer);
        }
    }
    assert!(Client::connect(&fixture).await.text(&add()).await.contains(r#""text":"3""#));
    eventually("calls that have ended", async || {
        fixture.traces.begun.load(Ordering::SeqCst) == fixture.traces.ended.load(Ordering::SeqCst)
    })
    .await;
}
