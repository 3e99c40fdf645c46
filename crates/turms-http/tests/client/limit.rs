//! Answers that are too long, or none.

use super::*;

async fn told(reply: Reply, limit: usize) -> (String, PeerError) {
    let server = FakeHttpServer::start(move |_| reply.clone()).await;
    let connector = connector(&server).message_limit(limit);
    let known = options().known(Dialect::Stateless(ProtocolVersion::LATEST));
    let client = connector.connect(ConnectContext::new(known, Arc::new(Ear::default()))).await.unwrap();
    let error = ask(&client, "tools/call", &json!({ "name": "x" })).await.unwrap_err();
    (chain(&error), error)
}

#[tokio::test]
async fn what_is_too_long_is_not_read() {
    let much = json!({ "jsonrpc": "2.0", "id": 1, "result": { "text": "x".repeat(2000) } });
    for reply in [Reply::json(200, &much), Reply::events(&event(&much)), Reply::open_events(&"x".repeat(2000))] {
        let (told, error) = told(reply, 1000).await;
        assert!(told.contains("longer than the limit of 1000 bytes") && told.contains("message_limit"), "{told}");
        assert!(matches!(error, PeerError::Request(RequestError::TooLong { limit: 1000 })), "{error:?}");
    }
}

#[tokio::test]
async fn what_is_neither_json_nor_events_is_told_with_what_it_is() {
    let (page, _) = told(Reply::text(200, "text/html", "<html>"), 1000).await;
    assert!(page.contains("status 200 OK, content type \"text/html\""), "{page}");
    let (nothing, _) = told(Reply::status(202), 1000).await;
    assert!(nothing.contains("it is empty"), "{nothing}");
    for body in ["{", "[]", "{}", r#"{"jsonrpc":"2.0","id":99,"result":{}}"#, r#"{"jsonrpc":"2.0","method":"x"}"#] {
        let (told, _) = told(Reply::text(200, "application/json", body), 1000).await;
        assert!(told.contains("the answer is not a message"), "{body}: {told}");
    }
}

#[tokio::test]
async fn faults_of_the_server_may_pass_and_refusals_do_not() {
    for (status, passes) in
        [(500, true), (502, true), (503, true), (429, true), (400, false), (413, false), (404, false)]
    {
        let (told, error) = told(Reply::text(status, "text/plain", "because"), 1000).await;
        assert_eq!(matches!(error, PeerError::Unreachable { sent: true, .. }), passes, "{status}");
        assert!(told.contains(&format!("status {status}")) && told.contains("because"), "{told}");
    }
}

#[tokio::test]
async fn what_the_server_says_is_shown_in_part_and_harmlessly() {
    let (told, _) = told(Reply::text(400, "text/plain", &format!("\u{1b}[31m{}", "x".repeat(5000))), 1_000_000).await;
    assert!(told.len() < 500 && !told.contains('\u{1b}'), "{told}");
}
