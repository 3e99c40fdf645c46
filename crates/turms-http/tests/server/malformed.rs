//! Trailers, targets and hosts that are malformed: refused with 400, after which the connection ends.

use serde_json::json;
use turms_testkit::within;

use crate::dialog::{modern_body, modern_call};
use crate::fixture::Fixture;
use crate::wire::{Request, Response};

fn add() -> Request {
    modern_call(1, "add", json!({ "a": 1, "b": 1 }))
}

/// The same call with a body in one chunk, followed by `end`.
fn chunked(end: &str) -> Vec<u8> {
    let body = modern_body(1, "tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 1 } })).to_string();
    let mut request = add().header("Transfer-Encoding", "chunked");
    request.body = None;
    let mut bytes = request.bytes();
    bytes.extend_from_slice(format!("{:x}\r\n{body}\r\n{end}", body.len()).as_bytes());
    bytes
}

/// Sends these bytes and returns the only response. Checks that the server closes the connection after it.
async fn refusal(fixture: &Fixture, bytes: &[u8]) -> Response {
    let mut connection = fixture.connect().await;
    connection.write(bytes).await;
    let response = within("a response", connection.response()).await;
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    assert!(within("the end", connection.try_head()).await.is_none(), "more data follows {response}");
    response
}

#[tokio::test]
async fn trailers_are_fields_and_end_with_an_empty_line() {
    let fixture = Fixture::start().await;
    let next = String::from_utf8(add().bytes()).unwrap();
    for end in [
        // The next request does not belong to the trailers of this one.
        format!("0\r\n{next}"),
        format!("0\r\nX-A: b\r\n{next}"),
        "0\r\nnonsense\r\n\r\n".to_owned(),
        "0\r\n: nameless\r\n\r\n".to_owned(),
        "0\r\nX-A : b\r\n\r\n".to_owned(),
        "0\r\nX A: b\r\n\r\n".to_owned(),
        "0\r\nX-A: b\r\n folded\r\n\r\n".to_owned(),
        "0\r\nX-A: b\0c\r\n\r\n".to_owned(),
        "0\r\nX-A: b\rc\r\n\r\n".to_owned(),
        "0\r\nX-A: b\n\r\n".to_owned(),
        "0\r\n\n".to_owned(),
        format!("0\r\nX-A: {}\r\n\r\n", "x".repeat(16 * 1024)),
        format!("0\r\n{}\r\n", "A:\r\n".repeat(101)),
    ] {
        let response = refusal(&fixture, &chunked(&end)).await;
        assert_eq!(response.status(), 400, "{:?}: {response}", &end[..end.len().min(40)]);
    }
    let mut connection = fixture.connect().await;
    for end in
        ["0\r\n\r\n".to_owned(), "0\r\nX-A: b\tc\r\nx:\r\n\r\n".into(), format!("0\r\n{}\r\n", "A:\r\n".repeat(100))]
    {
        connection.write(&chunked(&end)).await;
        assert_eq!(within("a response", connection.response()).await.text(), "2", "{end}");
    }
}

#[tokio::test]
async fn the_reason_names_what_is_wrong_with_a_chunked_body() {
    let fixture = Fixture::start().await;
    for (end, reason) in [
        ("0\r\nX-A: b\n\r\n", "must end in CR LF"),
        ("0\n\r\n", "must end in CR LF"),
        ("0;a\rb\r\n\r\n", "must end in CR LF"),
        ("0;a\0b\r\n\r\n", "control character"),
        ("x\r\n\r\n", "hexadecimal size"),
        ("0\r\nnonsense\r\n\r\n", "is not a trailer"),
    ] {
        let response = refusal(&fixture, &chunked(end)).await;
        assert_eq!(response.status(), 400, "{end:?}: {response}");
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(reason), "{end:?}: {message}");
    }
}

#[tokio::test]
async fn only_options_may_be_about_the_server_as_a_whole() {
    let fixture = Fixture::start().await;
    for method in ["POST", "GET", "DELETE", "HEAD", "PATCH"] {
        let request = format!("{method} * HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut connection = fixture.connect().await;
        connection.write(request.as_bytes()).await;
        assert_eq!(within("a response", connection.head()).await.status, 400, "{method}");
    }
    assert_eq!(refusal(&fixture, &add().path("*").bytes()).await.status(), 400);
    let options = fixture.send(Request::new("OPTIONS").path("*")).await;
    assert_eq!(options.status(), 405, "{options}");
}

#[tokio::test]
async fn a_host_is_one_name_or_address_with_at_most_a_port() {
    let fixture = Fixture::with(|service| service.allow_any_host()).await;
    for good in ["localhost", "LOCALHOST:80", "127.0.0.1:", "[::1]", "[::1]:8080", "a_b.example", "%41.example", "x--y"]
    {
        assert_eq!(fixture.send(add().header("Host", good)).await.text(), "2", "{good}");
    }
    for bad in [
        "",
        "a, b",
        "a,b",
        "a b",
        "user@localhost",
        "localhost:80:80",
        "localhost:http",
        ":80",
        "::1",
        "[]",
        "[::1",
        "[::1]x",
        "http://localhost",
        "localhost/mcp",
        "localhost?",
        "localhost#",
        "local\\host",
        "h\u{f6}st",
        "<host>",
    ] {
        let response = refusal(&fixture, &add().header("Host", bad).bytes()).await;
        assert_eq!(response.status(), 400, "{bad}: {response}");
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("Host"), "{message}");
    }
    for two in [add().also("Host", "localhost"), add().also("host", ""), add().header("Host", "").also("Host", "")] {
        assert_eq!(refusal(&fixture, &two.bytes()).await.status(), 400, "{two:?}");
    }
    assert_eq!(refusal(&fixture, &add().without("Host").bytes()).await.status(), 400);
}
