//! Event streams that break and are resumed.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Starts a server that handles calls with `call`, and resumed streams with `resumed`.
async fn streaming(
    call: impl Fn(&Received) -> Reply + Send + Sync + 'static,
    resumed: impl Fn(usize, &Received) -> Reply + Send + Sync + 'static,
) -> FakeHttpServer {
    let resumptions = AtomicUsize::new(0);
    FakeHttpServer::start(move |request| match (request.method.as_str(), request.what()) {
        ("GET", _) if request.header("last-event-id").is_some() => {
            resumed(resumptions.fetch_add(1, Ordering::Relaxed), request)
        }
        (_, "tools/call") => call(request),
        _ => legacy(request),
    })
    .await
}

/// Returns the response to the call. Its id is 3, after the probe and the handshake.
fn response() -> String {
    event(&json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } }))
}

#[tokio::test]
async fn a_closed_stream_is_resumed_after_the_retry_time() {
    let server = streaming(
        |_| Reply::events("id: s-1\nretry: 300\ndata:\n\n"),
        |_, _| Reply::events(&format!("id: s-2\n{}", response())),
    );
    let server = server.await;
    let client = connect(&server).await;
    send_request(&client, "tools/call", &json!({})).await.unwrap();
    let call = server.wait_for("tools/call", 1).await;
    let resumed = server.wait_for("GET", 2).await;
    assert_eq!(resumed.header("last-event-id"), Some("s-1"));
    assert_eq!(resumed.header("mcp-session-id"), Some(SESSION));
    let waited = resumed.at - call.at;
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(server.methods().iter().filter(|what| *what == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_again_is_resumed_at_the_last_event() {
    let notification = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
    let server = streaming(
        move |_| Reply::broken_events(&format!("retry: 1\nid: a\n{notification}id: b\ndata:\n\n")),
        |times, request| match times {
            0 => {
                assert_eq!(request.header("last-event-id"), Some("b"));
                Reply::broken_events("id: c\ndata:\n\n")
            }
            // An unavailable server is retried.
            1 => Reply::status(503),
            2 => Reply::broken_events(": nothing new\n\n"),
            _ => {
                assert_eq!(request.header("last-event-id"), Some("c"));
                Reply::events(&response())
            }
        },
    )
    .await;
    let client = connect(&server).await;
    send_request(&client, "tools/call", &json!({})).await.unwrap();
}

#[tokio::test]
async fn a_stream_without_ids_is_not_resumed() {
    for reply in [Reply::events(": bye\n\n"), Reply::broken_events("retry: 1\n\n")] {
        let server = streaming(move |_| reply.clone(), |_, _| Reply::status(500)).await;
        let client = connect(&server).await;
        let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Unreachable { sent: true, .. }), "{error:?}");
        // The session still works.
        send_request(&client, "ping", &json!({})).await.unwrap();
        assert_eq!(server.methods().iter().filter(|what| *what == "tools/call").count(), 1);
    }
}

#[tokio::test]
async fn a_session_may_expire_before_its_stream_is_resumed() {
    let server = streaming(|_| Reply::events("id: a\nretry: 1\ndata:\n\n"), |_, _| Reply::status(404)).await;
    let client = connect(&server).await;
    let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
    // The call was accepted, so it may have run and must not be repeated.
    assert!(matches!(error, PeerError::ClosedBeforeResponse), "{error:?}");
    assert!(client.control.closed().await.renewable);
}

#[tokio::test]
async fn an_accepted_call_may_have_run() {
    for status in [400, 401, 403, 405] {
        let server =
            streaming(|_| Reply::events("id: a\nretry: 1\ndata:\n\n"), move |_, _| Reply::status(status)).await;
        let client = connect(&server).await;
        let error = send_request(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Unreachable { sent: true, .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn the_standalone_stream_is_reopened() {
    let notification = event(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    let opened = AtomicUsize::new(0);
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => match opened.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::events(&format!("id: g-1\nretry: 1\n{notification}")),
            1 => {
                assert_eq!(request.header("last-event-id"), Some("g-1"));
                Reply::broken_events(&notification)
            }
            _ => Reply::open_events(&notification),
        },
        _ => legacy(request),
    })
    .await;
    let service = RecordingService::default();
    let _client = connector(&server).connect(ConnectContext::new(options(), Arc::new(service.clone()))).await.unwrap();
    assert_eq!(service.wait(3).await.len(), 3);
}
