//! Sessions: headers of requests, expiry, server requests, cancellation and batches.

use turms_proto::session::RequestOptions;

use super::*;

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;

#[tokio::test]
async fn every_request_has_the_session_id_and_the_protocol_version() {
    let server = FakeHttpServer::start(legacy).await;
    let client = connect(&server).await;
    send_request(&client, "ping", &json!({})).await.unwrap();
    client.control.close().await;
    server.wait_for("DELETE", 1).await;
    let received = server.received();
    let after = received.iter().skip_while(|request| request.what() != "initialize").skip(1);
    let headers: Vec<_> =
        after.map(|it| (it.what(), it.header("mcp-session-id"), it.header("mcp-protocol-version"))).collect();
    let with = |what| (what, Some(SESSION), Some("2025-11-25"));
    assert_eq!(headers, ["notifications/initialized", "GET", "ping", "DELETE"].map(with));
}

#[tokio::test]
async fn older_revisions_have_no_version_header() {
    let server = FakeHttpServer::start(legacy).await;
    let client = connect_in(&server, ProtocolVersion::V2025_03_26).await;
    send_request(&client, "ping", &json!({})).await.unwrap();
    assert!(server.received().iter().all(|request| request.header("mcp-protocol-version").is_none()));
}

#[tokio::test]
async fn an_expired_session_closes_the_channel_and_can_be_renewed() {
    let expired = [
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
    for reply in expired {
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
        let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Closed), "{reply:?}: {error:?}");
        let ended = client.control.closed().await;
        assert!(ended.renewable && ended.to_string().contains("ended the session"), "{ended}");
        // The other call may have run.
        let lost = within("a response", other).await.unwrap().unwrap_err();
        assert!(matches!(lost, PeerError::ClosedBeforeResponse), "{lost:?}");
        assert!(matches!(send_request(&client, "ping", &json!({})).await, Err(PeerError::Closed)));
        client.control.close().await;
        assert!(!server.methods().contains(&"DELETE".to_owned()));
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
    let error = send_request(&client, "nowhere", &json!({})).await.unwrap_err();
    assert!(matches!(error, PeerError::ErrorResponse(_)), "{error:?}");
    send_request(&client, "ping", &json!({})).await.unwrap();
}

#[tokio::test]
async fn without_a_session_404_does_not_close_the_channel() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "initialize" => Reply::json(200, &result(request, &initialized(request))),
        "tools/call" => Reply::status(404),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
    assert!(chain(&error).contains("status 404"), "{error:?}");
    send_request(&client, "ping", &json!({})).await.unwrap();
    client.control.close().await;
    assert!(!server.methods().contains(&"DELETE".to_owned()));
}

#[tokio::test]
async fn the_standalone_stream_has_requests_and_notifications() {
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
    let roots_request = json!({ "jsonrpc": "2.0", "id": "s-1", "method": "roots/list" });
    let stream = format!("{}{}", event(&notification), event(&roots_request));
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => Reply::open_events(&stream),
        _ => legacy(request),
    })
    .await;
    let service = RecordingService::default();
    let client = connector(&server).connect(ConnectContext::new(options(), Arc::new(service.clone()))).await.unwrap();
    assert_eq!(service.wait(1).await, ["notifications/tools/list_changed"]);
    // A POST without a method is a response.
    let response = server.wait_for("POST", 1).await;
    assert_eq!(response.body, json!({ "jsonrpc": "2.0", "id": "s-1", "result": { "roots": [] } }));
    assert_eq!(response.header("mcp-session-id"), Some(SESSION));
    client.control.close().await;
    server.wait_until_left().await;
}

#[tokio::test]
async fn a_server_without_the_standalone_stream_may_send_any_status() {
    for status in [400, 404, 405, 406, 501] {
        let server = FakeHttpServer::start(move |request| match request.method.as_str() {
            "GET" => Reply::status(status),
            _ => legacy(request),
        })
        .await;
        let client = connect(&server).await;
        send_request(&client, "ping", &json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn the_server_sends_a_request_before_its_response() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => {
            let roots_request = json!({ "jsonrpc": "2.0", "id": 7, "method": "roots/list" });
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                "params": { "progressToken": request.body["params"]["_meta"]["progressToken"], "progress": 1 } });
            let response = event(&result(request, &json!({ "content": [] })));
            Reply::events(&format!("{}{}{response}", event(&roots_request), event(&progress)))
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
async fn cancellation_is_sent_to_the_server() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::open_events(": working\n\n"),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    let channel = client.channel.clone();
    let call = tokio::spawn(async move { channel.call_in_time(outgoing("tools/call", &json!({}))).await.map(drop) });
    let request = server.wait_for("tools/call", 1).await;
    call.abort();
    let notification = server.wait_for("notifications/cancelled", 1).await;
    assert_eq!(notification.body["params"]["requestId"], request.body["id"]);

    let request =
        outgoing("tools/call", &json!({})).options(RequestOptions::default().timeout(Duration::from_millis(50)));
    let error = client.channel.call_in_time(request).await.unwrap_err();
    assert!(matches!(error, PeerError::TimedOut(_)), "{error:?}");
    let notification = server.wait_for("notifications/cancelled", 2).await;
    assert_eq!(notification.body["params"]["reason"], "timed out");
    let stats = client.control.stats();
    assert_eq!((stats.cancelled, stats.timed_out), (1, 1));
}

#[tokio::test]
async fn a_batch_is_one_post_where_the_revision_has_batches() {
    for (version, posts) in [(ProtocolVersion::V2025_03_26, 1), (VERSION, 2)] {
        let server = FakeHttpServer::start(|request| match request.body.as_array() {
            Some(batch) => {
                let responses =
                    batch.iter().map(|it| json!({ "jsonrpc": "2.0", "id": it["id"], "result": { "n": it["id"] } }));
                Reply::json(200, &responses.rev().collect())
            }
            None => match request.what() {
                "ping" => Reply::json(200, &result(request, &json!({ "n": request.body["id"] }))),
                _ => legacy(request),
            },
        })
        .await;
        let client = connect_in(&server, version).await;
        let before = server.received().len();
        let responses =
            client.channel.call_batch(vec![outgoing("ping", &json!({})), outgoing("ping", &json!({}))]).await;
        let results: Vec<Value> = responses.into_iter().map(|result| result.unwrap().take().unwrap()).collect();
        assert_eq!(results, [json!({ "n": 2 }), json!({ "n": 3 })]);
        assert_eq!(server.received().len() - before, posts, "{version}");
    }
}

#[tokio::test]
async fn dropping_the_channel_deletes_the_session() {
    let server = FakeHttpServer::start(legacy).await;
    drop(connect(&server).await);
    server.wait_for("DELETE", 1).await;
}

#[tokio::test]
async fn closing_does_not_wait_for_a_slow_delete() {
    let server = FakeHttpServer::start(|request| match request.method.as_str() {
        "DELETE" => Reply::never(),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    within("the end of the channel", client.control.close()).await;
}

#[tokio::test]
async fn connections_are_reused() {
    let server = FakeHttpServer::start(|request| match request.what() {
        "tools/call" => Reply::events(&format!("id: 1\ndata:\n\n{}", event(&result(request, &json!({}))))),
        _ => legacy(request),
    })
    .await;
    let client = connect(&server).await;
    for _ in 0..5 {
        send_request(&client, "tools/call", &json!({})).await.unwrap();
        send_request(&client, "ping", &json!({})).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_calls_get_their_own_responses() {
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
            tokio::spawn(async move { (n, send_request(&client, "tools/call", &json!({ "n": n })).await.unwrap()) })
        })
        .collect();
    for call in calls {
        let (n, answer) = call.await.unwrap();
        assert_eq!(answer, json!({ "n": n }));
    }
    let stats = client.control.stats();
    // Includes the handshake, and the failed probe.
    assert_eq!((stats.completed, stats.failed, stats.cancelled), (201, 1, 0));
}
