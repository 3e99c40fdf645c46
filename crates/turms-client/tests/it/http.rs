//! Servers over HTTP that lose requests and sessions, or change their revision.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use turms_client::{
    Backoff, Client, ClientBuilder, ConnectError, ConnectionEvent, ConnectionStatus, Event, Events, VersionCache,
};
use turms_http::{ConnectHttp as _, HttpConnector, Listener, ServeHttp as _};
use turms_proto::ProtocolVersion;
use turms_proto::types::SubscriptionFilter;
use turms_server::Server;
use turms_testkit::fake_http_server::{FakeHttpServer, Received, Reply};
use turms_testkit::within;

fn result(request: &Received, result: &Value) -> Reply {
    Reply::json(200, &json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result }))
}

/// Responds as a server of 2026-07-28 whose tools return "done".
fn modern(request: &Received) -> Reply {
    let answer = match request.what() {
        "server/discover" => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "ttlMs": 60_000, "cacheScope": "public"
        }),
        _ => json!({ "content": [{ "type": "text", "text": "done" }] }),
    };
    let mut answer = answer;
    answer["resultType"] = json!("complete");
    result(request, &answer)
}

/// Responds as a server with sessions whose tools return "done". Each session has a new id.
fn legacy(request: &Received, sessions: &AtomicUsize) -> Reply {
    match (request.method.as_str(), request.what()) {
        ("GET", _) => Reply::status(405),
        ("DELETE", _) => Reply::status(200),
        (_, "initialize") => {
            let number = sessions.fetch_add(1, Ordering::Relaxed) + 1;
            let server = json!({ "name": "played", "version": "1" });
            let answer = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": server });
            result(request, &answer).with("Mcp-Session-Id", &format!("session-{number}"))
        }
        (_, "tools/call") if request.header("mcp-session-id").is_some() => {
            result(request, &json!({ "content": [{ "type": "text", "text": "done" }] }))
        }
        _ if request.body.get("id").is_none() => Reply::status(202),
        _ => {
            let error = json!({ "code": -32000, "message": "Bad Request: Server not initialized" });
            Reply::json(400, &json!({ "jsonrpc": "2.0", "id": null, "error": error }))
        }
    }
}

fn builder() -> ClientBuilder {
    Client::builder("test", "1").version_cache(VersionCache::new())
}

fn supervised() -> ClientBuilder {
    let quick = Backoff::new().initial_delay(Duration::from_millis(1));
    builder().reconnect(quick)
}

async fn connect(builder: ClientBuilder, server: &FakeHttpServer) -> Client {
    builder.connect(HttpConnector::new(server.url()).unwrap().no_proxy()).await.unwrap()
}

#[tokio::test]
async fn a_url_is_enough_to_connect_in_every_revision() {
    for version in ProtocolVersion::ALL {
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.address());
        tokio::spawn(listener.serve(Server::new("clock", "1").into_http_service().unwrap()));
        let client = within("a connection", builder().protocol_version(version).connect_http(&url)).await.unwrap();
        assert_eq!((client.protocol_version(), client.server_info().unwrap().name.as_str()), (Some(version), "clock"));
    }
    let error = builder().connect_http("ftp://127.0.0.1/mcp").await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

fn calls(server: &FakeHttpServer) -> usize {
    server.methods().iter().filter(|what| *what == "tools/call").count()
}

/// A server of 2026-07-28 that responds to the first tool call with `failure`.
async fn failing_once(failure: Reply) -> FakeHttpServer {
    let first = AtomicBool::new(true);
    FakeHttpServer::start(move |request| match request.what() {
        "tools/call" if first.swap(false, Ordering::Relaxed) => failure.clone(),
        _ => modern(request),
    })
    .await
}

#[tokio::test]
async fn a_failed_request_does_not_end_the_client() {
    for failure in [Reply::status(503), Reply::broken_events(": half\n\n")] {
        let server = failing_once(failure).await;
        let client = connect(builder(), &server).await;
        let error = client.call_tool("work", ()).await.unwrap_err();
        assert!(error.is_disconnected() && error.may_have_run(), "{error}");
        assert_eq!(client.status(), ConnectionStatus::Ready);
        assert_eq!(client.call_tool("work", ()).await.unwrap().text(), "done");
    }
}

#[tokio::test]
async fn a_supervised_client_repeats_idempotent_calls() {
    let server = failing_once(Reply::status(503)).await;
    let client = connect(supervised(), &server).await;
    assert_eq!(client.call_tool("work", ()).idempotent().await.unwrap().text(), "done");
    assert_eq!(calls(&server), 2);

    let server = failing_once(Reply::status(503)).await;
    let client = connect(supervised(), &server).await;
    assert!(client.call_tool("work", ()).await.unwrap_err().may_have_run());
    assert_eq!(calls(&server), 1);
}

#[tokio::test]
async fn a_call_of_an_expired_session_is_repeated_in_a_new_one() {
    for builder in [builder(), supervised()] {
        let sessions = AtomicUsize::new(0);
        let server = FakeHttpServer::start(move |request| match (request.what(), request.header("mcp-session-id")) {
            ("tools/call", Some("session-1")) => Reply::status(404),
            _ => legacy(request, &sessions),
        })
        .await;
        let client = connect(builder, &server).await;
        assert_eq!(client.call_tool("work", ()).await.unwrap().text(), "done");
        let called: Vec<_> = server.received().into_iter().filter(|request| request.what() == "tools/call").collect();
        let sessions: Vec<_> = called.iter().map(|call| call.header("mcp-session-id").unwrap()).collect();
        assert_eq!(sessions, ["session-1", "session-2"]);
        // The new session starts without the id of the old one.
        assert_eq!(server.wait_for("initialize", 2).await.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn the_number_of_new_sessions_for_a_call_is_limited() {
    let sessions = AtomicUsize::new(0);
    let server = FakeHttpServer::start(move |request| match request.what() {
        "tools/call" => Reply::status(404),
        _ => legacy(request, &sessions),
    })
    .await;
    let client = connect(builder(), &server).await;
    let error = client.call_tool("work", ()).await.unwrap_err();
    assert!(error.is_disconnected() && !error.may_have_run(), "{error}");
    assert_eq!(calls(&server), 2);
}

#[tokio::test]
async fn a_wrong_version_cache_entry_is_corrected() {
    let memory = VersionCache::new();
    let (older, sessions) = (std::sync::Arc::new(AtomicBool::new(false)), AtomicUsize::new(0));
    let became_older = older.clone();
    let server = FakeHttpServer::start(move |request| match older.load(Ordering::Relaxed) {
        true => legacy(request, &sessions),
        false => modern(request),
    })
    .await;
    let client = connect(builder().version_cache(memory.clone()), &server).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2026_07_28));
    client.close().await;
    became_older.store(true, Ordering::Relaxed);
    let client = connect(builder().version_cache(memory), &server).await;
    assert_eq!(server.received().len(), 1);
    // The error code does not prove that the tool has not run.
    let error = client.call_tool("work", ()).await.unwrap_err();
    assert_eq!(error.error_response().unwrap().code, turms_proto::ErrorCode(-32000));
    assert_eq!(client.call_tool("work", ()).await.unwrap().text(), "done");
    assert_eq!((client.protocol_version(), calls(&server)), (Some(ProtocolVersion::V2025_11_25), 2));
}

#[tokio::test]
async fn a_private_discover_result_is_not_shared_between_principals() {
    let server = FakeHttpServer::start(|request| {
        let instructions = request.header("authorization").unwrap_or_default();
        let told = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "instructions": instructions, "ttlMs": 60_000, "cacheScope": "private"
        });
        result(request, &told)
    })
    .await;
    let memory = VersionCache::new();
    for token in ["ann", "bob"] {
        let connector = HttpConnector::new(server.url()).unwrap().no_proxy();
        let connector = connector.header("authorization", &format!("Bearer {token}"));
        let client = builder().version_cache(memory.clone()).connect(connector).await.unwrap();
        assert_eq!(client.instructions(), Some(format!("Bearer {token}")));
    }
}

#[tokio::test]
async fn tools_that_cannot_be_called_over_http_are_left_out() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/list" => {
            let tool = |name: &str, header: &str| {
                let region = json!({ "type": "string", "x-mcp-header": header });
                json!({ "name": name, "inputSchema": { "type": "object", "properties": { "region": region } } })
            };
            let tools = json!([tool("good", "Region"), tool("bad", "no token")]);
            result(request, &json!({ "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private" }))
        }
        _ => modern(request),
    })
    .await;
    let client = connect(builder(), &server).await;
    let names: Vec<_> = client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["good"]);
    client.call_tool("good", json!({ "region": "eu" })).await.unwrap();
    assert_eq!(server.wait_for("tools/call", 1).await.header("mcp-param-region"), Some("eu"));
}

/// Responds as a server of 2026-07-28 that sends one tool list change to each listener at once.
fn telling(request: &Received) -> Reply {
    match request.what() {
        "server/discover" => {
            let capabilities = json!({ "tools": { "listChanged": true } });
            let versions = json!(["2026-07-28"]);
            let answer =
                json!({ "resultType": "complete", "supportedVersions": versions, "capabilities": capabilities });
            result(request, &answer)
        }
        "subscriptions/listen" => {
            let told = |method: &str, mut params: Value| {
                params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": request.body["id"] });
                format!("data: {}\n\n", json!({ "jsonrpc": "2.0", "method": method, "params": params }))
            };
            let honoured = json!({ "notifications": { "toolsListChanged": true } });
            let acknowledged = told("notifications/subscriptions/acknowledged", honoured);
            Reply::open_events(&(acknowledged + &told("notifications/tools/list_changed", json!({}))))
        }
        _ => modern(request),
    }
}

/// Responds as a server with sessions that keeps its notification stream open.
fn speaking(request: &Received, sessions: &AtomicUsize) -> Reply {
    match request.method.as_str() {
        "GET" => Reply::open_events(": here\n\n"),
        _ => legacy(request, sessions),
    }
}

async fn next_connection(events: &mut Events) -> ConnectionEvent {
    let connection = events.find(|event| match event {
        Event::Connection(event) => Some(event),
        _ => None,
    });
    within("an answer", connection).await.unwrap()
}

#[tokio::test]
async fn a_successful_call_ends_the_delay_before_the_next_listen_attempt() {
    let down = std::sync::Arc::new(AtomicBool::new(false));
    let (is_down, listens) = (down.clone(), AtomicUsize::new(0));
    let server = FakeHttpServer::start(move |request| match request.what() {
        "subscriptions/listen" if listens.fetch_add(1, Ordering::Relaxed) == 0 => {
            is_down.store(true, Ordering::Relaxed);
            telling(request).breaking()
        }
        "subscriptions/listen" if is_down.load(Ordering::Relaxed) => Reply::status(503),
        _ => telling(request),
    })
    .await;
    let client = connect(builder().reconnect(Backoff::new()), &server).await;
    let mut changes = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    // The delay before the next attempt is at least 0.8 s.
    server.wait_for("subscriptions/listen", 6).await;
    down.store(false, Ordering::Relaxed);
    client.call_tool("work", ()).await.unwrap();
    let call = server.wait_for("tools/call", 1).await;
    let listened = server.wait_for("subscriptions/listen", 7).await;
    assert!(listened.at - call.at < Duration::from_millis(400), "{:?}", listened.at - call.at);
    for _ in 0..2 {
        assert!(within("a change", changes.next()).await.is_some());
    }
}

#[tokio::test]
async fn a_lost_listen_stream_is_reported_as_lost_and_as_connected() {
    let server = FakeHttpServer::start(telling).await;
    let client = connect(supervised(), &server).await;
    let mut changes = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    assert!(changes.next().await.is_some());
    let mut events = client.events();
    server.wait_for("subscriptions/listen", 2).await;
    let _server = server
        .restart(
            async {
                let ConnectionEvent::Lost(ended) = next_connection(&mut events).await else { panic!("not lost") };
                let told = ended.to_string();
                assert!(
                    told.starts_with("the server did not keep its notification stream open: cannot connect to http://"),
                    "{told}"
                );
                assert_eq!(client.status(), ConnectionStatus::Disconnected);
            },
            telling,
        )
        .await;
    let event = next_connection(&mut events).await;
    assert!(matches!(event, ConnectionEvent::Connected { generation: 1, .. }), "{event:?}");
    assert_eq!(client.status(), ConnectionStatus::Ready);
    assert!(within("a change", changes.next()).await.is_some());
}

#[tokio::test]
async fn a_lost_session_stream_is_reported_as_lost_and_as_connected() {
    for builder in [builder(), supervised()] {
        let sessions = AtomicUsize::new(0);
        let server = FakeHttpServer::start(move |request| speaking(request, &sessions)).await;
        let client = connect(builder, &server).await;
        let mut events = client.events();
        server.wait_for("GET", 1).await;
        let sessions = AtomicUsize::new(1);
        let _server = server
            .restart(
                async {
                    let event = next_connection(&mut events).await;
                    assert!(matches!(event, ConnectionEvent::Lost(_)), "{event:?}");
                    assert_eq!(client.status(), ConnectionStatus::Disconnected);
                },
                move |request| speaking(request, &sessions),
            )
            .await;
        // The server still knows the session.
        let event = next_connection(&mut events).await;
        assert!(matches!(event, ConnectionEvent::Connected { generation: 1, .. }), "{event:?}");
        assert_eq!(client.status(), ConnectionStatus::Ready);
    }
}

#[tokio::test]
async fn a_call_that_was_not_sent_waits_for_a_restarted_server() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect(supervised(), &server).await;
    let mut events = client.events();
    let calling = client.clone();
    let (begin, begun) = tokio::sync::oneshot::channel();
    let call = tokio::spawn(async move {
        begun.await.unwrap();
        // A pooled connection may break under the first attempt.
        calling.call_tool("work", ()).idempotent().await
    });
    let server = server
        .restart(
            async {
                begin.send(()).unwrap();
                // More attempts than the retries of a lost call.
                let often = events.find(|event| matches!(event, Event::Retrying { attempt: 5, .. }).then_some(()));
                within("an answer", often).await.unwrap();
            },
            modern,
        )
        .await;
    assert_eq!(within("an answer", call).await.unwrap().unwrap().text(), "done");
    assert_eq!(calls(&server), 1);
}

#[tokio::test]
async fn the_error_of_a_call_without_a_server_is_not_sent() {
    let server = FakeHttpServer::start(modern).await;
    let client = connect(supervised(), &server).await;
    drop(server);
    let call = || async { client.call_tool("work", ()).timeout(Duration::from_millis(200)).await.unwrap_err() };
    // A pooled connection may break under the first call.
    let mut error = call().await;
    if error.may_have_run() {
        error = call().await;
    }
    assert!(error.is_disconnected() && !error.may_have_run(), "{error}");
    assert_eq!(error.to_string(), "tools/call \"work\": the request could not be sent");
}
