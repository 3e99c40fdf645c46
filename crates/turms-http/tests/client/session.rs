//! Sessions: what every request says, how they end, and what is posted besides requests.

use turms_proto::session::{RequestError, RequestOptions};

use super::*;

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

#[tokio::test]
async fn every_request_names_the_session_and_the_revision() {
    let server = FakeHttpServer::start(legacy).await;
    let client = connect(&server).await;
    ask(&client, "ping", &json!({})).await.unwrap();
    client.control.close().await;
    server.wait_for("DELETE", 1).await;
    let received = server.received();
    let after = received.iter().skip_while(|request| request.what() != "initialize").skip(1);
    let said: Vec<_> =
        after.map(|it| (it.what(), it.header("mcp-session-id"), it.header("mcp-protocol-version"))).collect();
    let with = |what| (what, Some(SESSION), Some("2025-11-25"));
    assert_eq!(said, ["notifications/initialized", "GET", "ping", "DELETE"].map(with));
}

#[tokio::test]
async fn revisions_before_the_header_do_not_have_it() {
    let server = FakeHttpServer::start(legacy).await;
    let client = connect_in(&server, ProtocolVersion::V2025_03_26).await;
    ask(&client, "ping", &json!({})).await.unwrap();
    assert!(server.received().iter().all(|request| request.header("mcp-protocol-version").is_none()));
}

#[tokio::test]
async fn a_session_that_is_not_known_any_more_ends_and_can_be_renewed() {
    let gone = [
        Reply::status(404),
        Reply::json(
            404,
            &json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32001, "message": "Session not found" } }),
        ),
        Reply::json(
            400,
            &json!({ "jsonrpc": "2.0", "id": 1, "error": {
            "code": -32000, "message": "Bad Request: No valid session ID provided" } }),
        ),
    ];
    for reply in gone {
        let refusal = reply.clone();
        let server = FakeHttpServer::start(move |request| match request.what() {
            "tools/call" => refusal.clone(),
            "slow" => Reply::never(),
            _ => legacy(request),
        })
        .await;
        let client = connect(&server).await;
        let channel = client.channel.clone();
        let other = tokio::spawn(async move { channel.call_in_time(outgoing("slow", &json!({}))).await });
        server.wait_for("slow", 1).await;
        let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Closed), "{reply:?}: {error:?}");
        let ended = client.control.closed().await;
        assert!(ended.renewable && ended.to_string().contains("ended the session"), "{ended}");
        // Nobody knows what became of the other.
        let lost = within("an answer", other).await.unwrap().unwrap_err();
        assert!(matches!(lost, PeerError::Request(RequestError::Closed)), "{lost:?}");
        assert!(matches!(ask(&client, "ping", &json!({})).await, Err(PeerError::Closed)));
        client.control.close().await;
        assert!(!server.asked().contains(&"DELETE".to_owned()));
    }
}

#[tokio::test]
async fn a_missing_method_does_not_end_the_session() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "nowhere" => Reply::json(404, &failure(request, -32601, None)),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let error = ask(&client, "nowhere", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::Request(RequestError::Peer(_))), "{error:?}");
    ask(&client, "ping", &json!({})).await.unwrap();
}

#[tokio::test]
async fn without_a_session_there_is_none_to_end() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "initialize" => Reply::json(200, &result(request, &initialized(request))),
        "tools/call" => Reply::status(404),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
    assert!(chain(&error).contains("status 404"), "{error:?}");
    ask(&client, "ping", &json!({})).await.unwrap();
    client.control.close().await;
    assert!(!server.asked().contains(&"DELETE".to_owned()));
}

#[tokio::test]
async fn the_server_asks_and_tells_on_the_stream_that_is_always_open() {
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let asked = json!({ "jsonrpc": "2.0", "id": "s-1", "method": "roots/list" });
    let stream = format!("{}{}", event(&told), event(&asked));
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => Reply::open_events(&stream),
        _ => legacy(request),
    })
    .await;
    let ear = Ear::default();
    let client = connector(&server).connect(ConnectContext::new(options(), Arc::new(ear.clone()))).await.unwrap();
    assert_eq!(ear.wait(1).await, ["notifications/tools/list_changed"]);
    // What is neither a request nor a notification is an answer.
    let answer = server.wait_for("POST", 1).await;
    assert_eq!(answer.body, json!({ "jsonrpc": "2.0", "id": "s-1", "result": { "roots": [] } }));
    assert_eq!(answer.header("mcp-session-id"), Some(SESSION));
    client.control.close().await;
    server.wait_until_left().await;
}

#[tokio::test]
async fn a_server_without_that_stream_may_say_so_in_any_way() {
    for status in [400, 404, 405, 406, 501] {
        let server = FakeHttpServer::start(move |request| match request.method.as_str() {
            "GET" => Reply::status(status),
            _ => legacy(request),
        })
        .await;
        let client = connect(&server).await;
        ask(&client, "ping", &json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn the_server_asks_before_it_answers() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => {
            let asked = json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": request.body["params"]["_meta"]["progressToken"], "progress": 1 } });
            let answer = event(&result(request, &json!({ "content": [] })));
            Reply::events(&format!("{}{}{answer}", event(&asked), event(&progress)))
        }
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let (sender, updates) = std::sync::mpsc::channel();
    let request = outgoing("tools/call", &json!({})).options(RequestOptions::default().with_progress());
    let request = request.observer(Some(Arc::new(Recorder(sender)) as Arc<dyn CallObserver>));
    client.channel.call_in_time(request).await.unwrap();
    assert_eq!(updates.try_iter().collect::<Vec<_>>(), ["progress 1"]);
    assert_eq!(server.wait_for("POST", 1).await.body["result"]["roots"], json!([]));
}

#[tokio::test]
async fn what_is_given_up_is_told() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::open_events(": working\n\n"),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let channel = client.channel.clone();
    let call = tokio::spawn(async move { channel.call_in_time(outgoing("tools/call", &json!({}))).await.map(drop) });
    let asked = server.wait_for("tools/call", 1).await;
    call.abort();
    let told = server.wait_for("notifications/cancelled", 1).await;
    assert_eq!(told.body["params"]["requestId"], asked.body["id"]);

    let request =
        outgoing("tools/call", &json!({})).options(RequestOptions::default().timeout(Duration::from_millis(50)));
    let error = client.channel.call_in_time(request).await.unwrap_err();
    assert!(matches!(error, PeerError::Request(RequestError::TimedOut(_))), "{error:?}");
    let told = server.wait_for("notifications/cancelled", 2).await;
    assert_eq!(told.body["params"]["reason"], "timed out");
    let stats = client.control.stats();
    assert_eq!((stats.cancelled, stats.timed_out), (1, 1));
}

#[tokio::test]
async fn a_batch_is_one_post_where_the_revision_has_batches() {
    for (version, posts) in [(ProtocolVersion::V2025_03_26, 1), (VERSION, 2)] {
        let server = FakeHttpServer::start(|request| match request.body.as_array() {
            Some(batch) => {
                let answers =
                    batch.iter().map(|it| json!({ "jsonrpc": "2.0", "id": it["id"], "result": { "n": it["id"] } }));
                Reply::json(200, &answers.rev().collect())
            }
            None => match request.what() {
                "ping" => Reply::json(200, &result(request, &json!({ "n": request.body["id"] }))),
                _ => legacy(request),
            },
        })
        .await;
        let client = connect_in(&server, version).await;
        let before = server.received().len();
        let answers = client.channel.call_batch(vec![outgoing("ping", &json!({})), outgoing("ping", &json!({}))]).await;
        let answers: Vec<Value> = answers.into_iter().map(|answer| answer.unwrap().take().unwrap()).collect();
        assert_eq!(answers, [json!({ "n": 2 }), json!({ "n": 3 })]);
        assert_eq!(server.received().len() - before, posts, "{version}");
    }
}

#[tokio::test]
async fn a_channel_that_is_dropped_ends_its_session() {
    let server = FakeHttpServer::start(legacy).await;
    drop(connect(&server).await);
    server.wait_for("DELETE", 1).await;
}

#[tokio::test]
async fn a_server_that_does_not_let_go_is_not_waited_for() {
    let server = FakeHttpServer::start(|request| match request.method.as_str() {
        "DELETE" => Reply::never(),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    within("the end of the channel", client.control.close()).await;
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::events(&format!("id: 1\ndata:\n\n{}", event(&result(request, &json!({}))))),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    for _ in 0..5 {
        ask(&client, "tools/call", &json!({})).await.unwrap();
        ask(&client, "ping", &json!({})).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_at_once_get_each_its_own_answer() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => {
            let answer = result(request, &json!({ "n": request.body["params"]["n"] }));
            if request.body["params"]["n"].as_u64().unwrap().is_multiple_of(2) {
                return Reply::json(200, &answer);
            }
            Reply::events(&event(&answer))
        }
        _ => legacy(request),
    })
    .await;
    let client = Arc::new(connect(&server).await);
    let calls: Vec<_> = (0..200)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { (n, ask(&client, "tools/call", &json!({ "n": n })).await.unwrap()) })
        })
        .collect();
    for call in calls {
        let (n, answer) = call.await.unwrap();
        assert_eq!(answer, json!({ "n": n }));
    }
    let stats = client.control.stats();
    // With the handshake, and the probe that was refused.
    assert_eq!((stats.completed, stats.failed, stats.cancelled), (201, 1, 0));
}
