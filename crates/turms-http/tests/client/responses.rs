//! Answers to requests of the server in a session, which are posted.

use turms_testkit::within;

use super::*;

/// More than any limit here.
const PINGS: usize = 500;

/// A server that sends pings and then a notification on its stream, and answers what it is posted in answer to them so. Where
/// `on_call` is set, they come on the stream that answers a call.
async fn pinging(on_call: bool, answered: fn() -> Reply) -> FakeHttpServer {
    let pings = |request: &Received| {
        let ping = |id| event(&json!({ "jsonrpc": "2.0", "id": format!("ping-{id}"), "method": "ping" }));
        let mut events: String = (0..PINGS).map(ping).collect();
        events += &event(&json!({ "jsonrpc": "2.0", "method": "notifications/done" }));
        if request.body.get("id").is_some() {
            events += &event(&result(request, &json!({})));
        }
        Reply::open_events(&events)
    };
    FakeHttpServer::start(move |request| match (request.method.as_str(), request.what()) {
        ("GET", _) if !on_call => pings(request),
        (_, "tools/call") if on_call => pings(request),
        _ if is_answer(request) => answered(),
        _ => legacy(request),
    })
    .await
}

fn is_answer(request: &Received) -> bool {
    request.body["id"].as_str().is_some_and(|id| id.starts_with("ping-"))
}

fn answers(server: &FakeHttpServer) -> usize {
    server.received().iter().filter(|request| is_answer(request)).count()
}

#[tokio::test]
async fn no_more_answers_are_posted_at_once_than_the_limit() {
    for on_call in [false, true] {
        for limit in [1, 4] {
            let server = pinging(on_call, Reply::never).await;
            let told = Ear::default();
            let known = options().known(Dialect::Handshake(ProtocolVersion::V2025_11_25));
            let connector = connector(&server).max_answers(limit);
            let client = connector.connect(known, Arc::new(told.clone())).await.unwrap();
            let (channel, call) = (client.channel.clone(), outgoing("tools/call", &json!({ "name": "x" })));
            let call = on_call.then(|| tokio::spawn(async move { channel.call_in_time(call).await }));
            turms_testkit::eventually("the answers", async || answers(&server) >= limit).await;
            // Other requests go on meanwhile.
            for _ in 0..20 {
                ask(&client, "tools/list", &json!({})).await.unwrap();
            }
            assert_eq!(answers(&server), limit);
            assert_eq!(told.heard(), [""; 0], "the stream is not read on");
            call.inspect(|call| call.abort());
        }
    }
}

#[tokio::test]
async fn a_stream_is_read_on_when_answers_are_taken() {
    for on_call in [false, true] {
        let server = pinging(on_call, || Reply::status(202)).await;
        let told = Ear::default();
        let known = options().known(Dialect::Handshake(ProtocolVersion::V2025_11_25));
        let client = connector(&server).max_answers(1).connect(known, Arc::new(told.clone())).await.unwrap();
        if on_call {
            ask(&client, "tools/call", &json!({ "name": "x" })).await.unwrap();
        }
        assert_eq!(told.wait(1).await, ["notifications/done"]);
        within("the last answer", turms_testkit::eventually("all", async || answers(&server) == PINGS)).await;
    }
}

#[tokio::test]
async fn the_limit_has_a_default() {
    let server = pinging(false, Reply::never).await;
    let client = connect_in(&server, ProtocolVersion::V2025_11_25).await;
    turms_testkit::eventually("the answers", async || answers(&server) >= HttpConnector::DEFAULT_MAX_ANSWERS).await;
    for _ in 0..20 {
        ask(&client, "tools/list", &json!({})).await.unwrap();
    }
    assert_eq!(answers(&server), HttpConnector::DEFAULT_MAX_ANSWERS);
}
