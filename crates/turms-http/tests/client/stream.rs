//! Event streams that break, and how they are gone on with.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A server that answers calls with this, and GETs with what comes next of these.
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

/// The ids of a client begin with 1: the probe, the handshake, the call.
fn answer() -> String {
    event(&json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": [] } }))
}

#[tokio::test]
async fn a_stream_that_the_server_closes_is_asked_for_again_after_the_time_it_says() {
    let server = streaming(
        |_| Reply::events("id: s-1\nretry: 300\ndata:\n\n"),
        |_, _| Reply::events(&format!("id: s-2\n{}", answer())),
    );
    let server = server.await;
    let client = connect(&server).await;
    ask(&client, "tools/call", &json!({})).await.unwrap();
    let call = server.wait_for("tools/call", 1).await;
    let resumed = server.wait_for("GET", 2).await;
    assert_eq!(resumed.header("last-event-id"), Some("s-1"));
    assert_eq!(resumed.header("mcp-session-id"), Some(SESSION));
    let waited = resumed.at - call.at;
    assert!(waited >= Duration::from_millis(300) && waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(server.asked().iter().filter(|what| *what == "tools/call").count(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_again_goes_on_where_it_was_last() {
    let told = event(&json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} }));
    let server = streaming(
        move |_| Reply::broken_events(&format!("retry: 1\nid: a\n{told}id: b\ndata:\n\n")),
        |times, request| match times {
            0 => {
                assert_eq!(request.header("last-event-id"), Some("b"));
                Reply::broken_events("id: c\ndata:\n\n")
            }
            // A server that is not there for a while is asked again.
            1 => Reply::status(503),
            2 => Reply::broken_events(": nothing new\n\n"),
            _ => {
                assert_eq!(request.header("last-event-id"), Some("c"));
                Reply::events(&answer())
            }
        },
    )
    .await;
    let client = connect(&server).await;
    ask(&client, "tools/call", &json!({})).await.unwrap();
}

#[tokio::test]
async fn a_stream_without_ids_is_lost_with_its_answer() {
    for reply in [Reply::events(": bye\n\n"), Reply::broken_events("retry: 1\n\n")] {
        let server = streaming(move |_| reply.clone(), |_, _| Reply::status(500)).await;
        let client = connect(&server).await;
        let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Unreachable { sent: true, .. }), "{error:?}");
        // The session is not.
        ask(&client, "ping", &json!({})).await.unwrap();
        assert_eq!(server.asked().iter().filter(|what| *what == "tools/call").count(), 1);
    }
}

#[tokio::test]
async fn a_session_may_be_over_before_its_stream_is_asked_for_again() {
    let server = streaming(|_| Reply::events("id: a\nretry: 1\ndata:\n\n"), |_, _| Reply::status(404)).await;
    let client = connect(&server).await;
    let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
    // It was taken, so it may have run, and nobody may repeat it as if it had not.
    assert!(matches!(error, PeerError::Request(RequestError::Closed)), "{error:?}");
    assert!(client.control.closed().await.renewable);
}

#[tokio::test]
async fn a_call_that_was_taken_may_have_run_whatever_becomes_of_its_stream() {
    for status in [400, 401, 403, 405] {
        let server =
            streaming(|_| Reply::events("id: a\nretry: 1\ndata:\n\n"), move |_, _| Reply::status(status)).await;
        let client = connect(&server).await;
        let error = ask(&client, "tools/call", &json!({})).await.unwrap_err();
        assert!(matches!(error, PeerError::Unreachable { sent: true, .. }), "{status}: {error:?}");
    }
}

#[tokio::test]
async fn the_stream_that_is_always_open_is_opened_again() {
    let told = event(&json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" }));
    let opened = AtomicUsize::new(0);
    let server = FakeHttpServer::start(move |request| match request.method.as_str() {
        "GET" => match opened.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::events(&format!("id: g-1\nretry: 1\n{told}")),
            1 => {
                assert_eq!(request.header("last-event-id"), Some("g-1"));
                Reply::broken_events(&told)
            }
            _ => Reply::open_events(&told),
        },
        _ => legacy(request),
    })
    .await;
    let ear = Ear::default();
    let _client = connector(&server).connect(ConnectContext::new(options(), Arc::new(ear.clone()))).await.unwrap();
    assert_eq!(ear.wait(3).await.len(), 3);
}
