//! Responses to requests of the server in a session, which are posted.

use turms_testkit::within;

use super::*;

/// Number of requests of the server, more than any limit.
const PINGS: usize = 500;

/// Starts a server that sends pings and then a notification on its stream, and handles the posted responses with `accept`. With
/// `on_call`, they are sent on the response stream of a call.
async fn pinging_server(on_call: bool, accept: fn() -> Reply) -> FakeHttpServer {
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
        _ if is_response(request) => accept(),
        _ => legacy(request),
    })
    .await
}

fn is_response(request: &Received) -> bool {
    request.body["id"].as_str().is_some_and(|id| id.starts_with("ping-"))
}

fn responses(server: &FakeHttpServer) -> usize {
    server.received().iter().filter(|request| is_response(request)).count()
}

#[tokio::test]
async fn the_number_of_responses_posted_at_once_is_limited() {
    for on_call in [false, true] {
        for limit in [1, 4] {
            let server = pinging_server(on_call, Reply::never).await;
            let service = RecordingService::default();
            let known = options().known(Dialect::Handshake(ProtocolVersion::V2025_11_25));
            let connector = connector(&server).max_concurrent_responses(limit);
            let client = connector.connect(ConnectContext::new(known, Arc::new(service.clone()))).await.unwrap();
            let (channel, call) = (client.channel.clone(), outgoing("tools/call", &json!({ "name": "x" })));
            let call = on_call.then(|| tokio::spawn(async move { channel.call_in_time(call).await }));
            turms_testkit::eventually("the responses", async || responses(&server) >= limit).await;
            // Other requests work meanwhile.
            for _ in 0..20 {
                send_request(&client, "tools/list", &json!({})).await.unwrap();
            }
            assert_eq!(responses(&server), limit);
            assert_eq!(service.received(), [""; 0], "the client does not read further events");
            call.inspect(|call| call.abort());
        }
    }
}

#[tokio::test]
async fn a_stream_is_read_on_when_responses_are_accepted() {
    for on_call in [false, true] {
        let server = pinging_server(on_call, || Reply::status(202)).await;
        let service = RecordingService::default();
        let known = options().known(Dialect::Handshake(ProtocolVersion::V2025_11_25));
        let client = connector(&server)
            .max_concurrent_responses(1)
            .connect(ConnectContext::new(known, Arc::new(service.clone())))
            .await
            .unwrap();
        if on_call {
            send_request(&client, "tools/call", &json!({ "name": "x" })).await.unwrap();
        }
        assert_eq!(service.wait(1).await, ["notifications/done"]);
        within("the last response", turms_testkit::eventually("all", async || responses(&server) == PINGS)).await;
    }
}

#[tokio::test]
async fn the_limit_has_a_default() {
    let server = pinging_server(false, Reply::never).await;
    let client = connect_in(&server, ProtocolVersion::V2025_11_25).await;
    turms_testkit::eventually("the responses", async || {
        responses(&server) >= HttpConnector::DEFAULT_MAX_CONCURRENT_RESPONSES
    })
    .await;
    for _ in 0..20 {
        send_request(&client, "tools/list", &json!({})).await.unwrap();
    }
    assert_eq!(responses(&server), HttpConnector::DEFAULT_MAX_CONCURRENT_RESPONSES);
}
