//! Responses that are too long or invalid.

use super::*;

/// Makes a call to a server with this response, and returns its error.
async fn error_of(reply: Reply, limit: usize) -> (String, PeerError) {
    let server = FakeHttpServer::start(move |_| reply.clone()).await;
    let connector = connector(&server).max_message_bytes(limit);
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let client = connector.connect(ConnectContext::new(known, Arc::new(RecordingService::default()))).await.unwrap();
    let error = send_request(&client, "tools/call", &json!({ "name": "x" })).await.unwrap_err();
    (chain(&error), error)
}

#[tokio::test]
async fn a_response_larger_than_the_limit_is_not_read() {
    let large = json!({ "jsonrpc": "2.0", "id": 1, "result": { "text": "x".repeat(2000) } });
    for reply in [Reply::json(200, &large), Reply::events(&event(&large)), Reply::open_events(&"x".repeat(2000))] {
        let (message, error) = error_of(reply, 1000).await;
        assert!(
            message.contains("longer than the limit of 1000 bytes") && message.contains("max_message_bytes"),
            "{message}"
        );
        assert!(matches!(error, PeerError::TooLarge { limit: 1000 }), "{error:?}");
    }
}

#[tokio::test]
async fn invalid_responses_are_described() {
    let (page, _) = error_of(Reply::text(200, "text/html", "<html>"), 1000).await;
    assert!(page.contains("status 200 OK, content type \"text/html\""), "{page}");
    let (nothing, _) = error_of(Reply::status(202), 1000).await;
    assert!(nothing.contains("empty body"), "{nothing}");
    for body in ["{", "[]", "{}", r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, r#"{"jsonrpc":"2.0","method":"x"}"#] {
        let (message, _) = error_of(Reply::text(200, "application/json", body), 1000).await;
        assert!(message.contains("the response is not a valid message"), "{body}: {message}");
    }
}

#[tokio::test]
async fn server_errors_are_transient_and_client_errors_are_not() {
    for (status, is_transient) in
        [(500, true), (502, true), (503, true), (429, true), (400, false), (413, false), (404, false)]
    {
        let (message, error) = error_of(Reply::text(status, "text/plain", "because"), 1000).await;
        assert_eq!(matches!(error, PeerError::Unreachable { sent: true, .. }), is_transient, "{status}");
        assert!(message.contains(&format!("status {status}")) && message.contains("because"), "{message}");
    }
}

#[tokio::test]
async fn the_text_of_a_response_is_truncated_and_escaped() {
    let (message, _) =
        error_of(Reply::text(400, "text/plain", &format!("\u{1b}[31m{}", "x".repeat(5000))), 1_000_000).await;
    assert!(message.len() < 500 && !message.contains('\u{1b}'), "{message}");
}
