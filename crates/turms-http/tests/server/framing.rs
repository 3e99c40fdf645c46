//! Message framing of HTTP/1.1 (RFC 9112). Requests whose end two implementations could read differently are rejected.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turms_testkit::{eventually, within};

use crate::dialog::{modern_body, modern_call, modern_stream};
use crate::fixture::Fixture;
use crate::wire::{Connection, Request, Response};

fn add(a: i64) -> Request {
    modern_call(a, "add", json!({ "a": a, "b": 1 }))
}

/// A valid request whose framing headers and body are replaced.
fn framed(headers: &str, body: &str) -> Vec<u8> {
    let mut bytes = Vec::from(&b"POST /mcp HTTP/1.1\r\n"[..]);
    for (name, value) in &add(1).headers {
        bytes.extend_from_slice(format!("{name}: {}\r\n", String::from_utf8_lossy(value)).as_bytes());
    }
    bytes.extend_from_slice(format!("{headers}\r\n{body}").as_bytes());
    bytes
}

fn call() -> String {
    modern_body(1, "tools/call", json!({ "name": "add", "arguments": { "a": 1, "b": 1 } })).to_string()
}

/// Sends these bytes and returns the only response. Checks that the server closes the connection after it.
async fn refused(fixture: &Fixture, bytes: &[u8]) -> Response {
    let mut connection = fixture.connect().await;
    connection.write(bytes).await;
    let response = within("a response", connection.response()).await;
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    assert!(within("the end", connection.try_head()).await.is_none(), "more data follows {response}");
    response
}

#[tokio::test]
async fn ambiguous_framing_is_refused() {
    let fixture = Fixture::start().await;
    let body = call();
    let length = body.len();
    let cases = [
        (format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n"), 400),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {length}\r\n"), 400),
        (format!("Content-Length: {length}\r\nContent-Length: {length}\r\n"), 400),
        (format!("Content-Length: {length}\r\nContent-Length: 1\r\n"), 400),
        (format!("Content-Length: {length}, {length}\r\n"), 400),
        (format!("Content-Length: +{length}\r\n"), 400),
        (format!("Content-Length: {length} x\r\n"), 400),
        ("Content-Length: 0x10\r\n".into(), 400),
        ("Content-Length:\r\n".into(), 400),
        ("Content-Length: 99999999999999999999999\r\n".into(), 400),
        (format!("Content-Length : {length}\r\n"), 400),
        (format!("Content-Length: {length}\r\n X-Folded: yes\r\n"), 400),
        (format!("Content-Length: {length}\r\nX-Null: a\0b\r\n"), 400),
        (format!("Content-Length: {length}\r\nX-Bare: a\rb\r\n"), 400),
        (format!("Content-Length: {length}\nX-Feed: a\r\n"), 400),
        (format!("Content-Length: {length}\r\n: nameless\r\n"), 400),
        (format!("Content-Length: {length}\r\nHost: localhost\r\n"), 400),
        ("Transfer-Encoding: gzip\r\n".into(), 501),
        ("Transfer-Encoding: gzip, chunked\r\n".into(), 501),
        ("Transfer-Encoding: chunked, chunked\r\n".into(), 501),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n".into(), 501),
        ("Transfer-Encoding: xchunked\r\n".into(), 501),
    ];
    for (headers, status) in cases {
        let response = refused(&fixture, &framed(&headers, &body)).await;
        assert_eq!(response.status(), status, "{headers:?}: {response}");
        assert!(response.json()["error"]["message"].as_str().is_some_and(|why| !why.is_empty()), "{response}");
    }
}

#[tokio::test]
async fn invalid_request_heads_are_refused() {
    let fixture = Fixture::start().await;
    for bytes in [
        &b"POST /mcp HTTP/1.1\r\nContent-Length: 0\r\n\r\n"[..],
        b"POST /mcp HTTP/1.1\nHost: localhost\n\n",
        b"POST  /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mcp HTTP/3.7\r\nHost: localhost\r\n\r\n",
        b"POST localhost HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST ftp://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST ftp://localhost/mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"P@ST /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS\r\n\r\n",
        b"POST /mcp HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        assert_eq!(refused(&fixture, bytes).await.status(), 400, "{}", String::from_utf8_lossy(bytes));
    }
    let many: String = (0..101).map(|n| format!("X-{n}: x\r\n")).collect();
    assert_eq!(refused(&fixture, &framed(&many, "")).await.status(), 431);
    let long = framed(&format!("X-Long: {}\r\n", "x".repeat(70_000)), "");
    assert_eq!(refused(&fixture, &long).await.status(), 431);
}

#[tokio::test]
async fn chunks_are_put_together() {
    let fixture = Fixture::start().await;
    let body = call();
    let (first, rest) = body.split_at(7);
    let chunked = format!(
        "7;why=not;what=\"this\"\r\n{first}\r\n{:X}\r\n{rest}\r\n000\r\nX-Trailer: yes\r\nContent-Length: 3\r\n\r\n",
        rest.len()
    );
    let mut connection = fixture.connect().await;
    for _ in 0..3 {
        connection.write(&framed("Transfer-Encoding: Chunked\r\n", &chunked)).await;
        assert_eq!(within("a response", connection.response()).await.text(), "2");
    }
}

#[tokio::test]
async fn invalid_chunks_are_refused() {
    let fixture = Fixture::start().await;
    let size = call().len();
    let body = call();
    let many_words = format!("1;{}\r\n{{\r\n", "x".repeat(200)).repeat(100);
    for chunks in [
        format!("x\r\n{body}\r\n0\r\n\r\n"),
        format!("\r\n{body}\r\n0\r\n\r\n"),
        format!("-1\r\n{body}\r\n0\r\n\r\n"),
        format!("0x{size:x}\r\n{body}\r\n0\r\n\r\n"),
        format!("{size:x}\n{body}\r\n0\r\n\r\n"),
        format!("{size:x} \r\n{body}\r\n0\r\n\r\n"),
        format!("{size:x}\r\n{body}0\r\n\r\n"),
        format!("{size:x}\r\n{body}\r\n0\r\nX: {}\r\n\r\n", "x".repeat(20_000)),
        format!("{:x}\r\n{body}\r\n0\r\n\r\n", size - 1),
        format!("{size:x};{}\r\n{body}\r\n0\r\n\r\n", "x".repeat(300)),
        format!("10000000000000000{size:x}\r\n{body}"),
        many_words,
    ] {
        let response = refused(&fixture, &framed("Transfer-Encoding: chunked\r\n", &chunks)).await;
        assert_eq!(response.status(), 400, "{:?}: {response}", &chunks[..chunks.len().min(40)]);
    }
    let absurd = "ffffffffffffffff\r\n{";
    assert_eq!(refused(&fixture, &framed("Transfer-Encoding: chunked\r\n", absurd)).await.status(), 413);
}

#[tokio::test]
async fn a_body_that_is_announced_too_long_is_refused_before_it_is_sent() {
    let fixture = Fixture::start().await;
    for length in ["4194305", "18446744073709551615"] {
        let head = framed(&format!("Content-Length: {length}\r\nExpect: 100-continue\r\n"), "");
        assert_eq!(refused(&fixture, &head).await.status(), 413);
    }
}

#[tokio::test]
async fn requests_that_come_at_once_are_answered_in_their_order() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    let all: Vec<u8> = (1..=50).flat_map(|n| add(n).bytes()).collect();
    connection.write(&all).await;
    for n in 1..=50 {
        assert_eq!(within("a response", connection.response()).await.text(), (n + 1).to_string());
    }
}

/// Requests that arrive while a call runs get their responses after the response of that call.
#[tokio::test]
async fn requests_that_come_too_early_wait() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    connection.send(&modern_stream(1, "steps", json!({ "n": 1 }))).await;
    eventually("a call", async || fixture.traces.stepping.load(Ordering::SeqCst) == 1).await;
    connection.write(&[add(1).bytes(), add(2).bytes()].concat()).await;
    fixture.traces.steps.add_permits(1);
    assert_eq!(within("a response", connection.response()).await.text(), "counted to 1");
    assert_eq!(within("a response", connection.response()).await.text(), "2");
    assert_eq!(within("a response", connection.response()).await.text(), "3");
}

#[tokio::test]
async fn a_request_may_come_byte_by_byte() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    connection.socket.set_nodelay(true).unwrap();
    for byte in add(1).bytes() {
        connection.write(&[byte]).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(within("a response", connection.response()).await.text(), "2");
}

/// Some clients send a line break after a body that is not included in `Content-Length`.
#[tokio::test]
async fn empty_lines_before_a_request_are_ignored() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    for _ in 0..2 {
        connection.write(b"\r\n\r\n").await;
        connection.send(&add(1)).await;
        assert_eq!(within("a response", connection.response()).await.text(), "2");
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_gets_it() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    let body = call();
    for _ in 0..2 {
        let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len());
        connection.write(&framed(&head, "")).await;
        assert_eq!(within("a 100 response", connection.head()).await.status, 100);
        connection.write(body.as_bytes()).await;
        assert_eq!(within("a response", connection.response()).await.text(), "2");
    }
    // A client that sends its body without waiting gets no 100 response.
    let head = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", body.len());
    connection.write(&framed(&head, &body)).await;
    assert_eq!(within("a response", connection.response()).await.text(), "2");
}

#[tokio::test]
async fn a_refused_request_gets_no_100_continue() {
    let fixture = Fixture::start().await;
    let request = add(1).header("Content-Type", "text/plain").header("Expect", "100-continue");
    let mut bytes = request.bytes();
    bytes.truncate(bytes.len() - request.body.as_ref().unwrap().len());
    assert_eq!(refused(&fixture, &bytes).await.status(), 415);
}

/// The response must not be lost through a reset of the connection.
#[tokio::test]
async fn a_client_can_read_the_error_before_its_body_is_sent() {
    let fixture = Fixture::with(|service| service.max_body_bytes(1_000)).await;
    for _ in 0..20 {
        let mut connection = fixture.connect().await;
        connection.write(&framed("Content-Length: 500000\r\n", &"x".repeat(500_000))).await;
        assert_eq!(within("a response", connection.response()).await.status(), 413);
    }
}

#[tokio::test]
async fn an_unused_body_is_skipped() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    connection.send(&Request::new("PATCH").body("an unused body")).await;
    assert_eq!(within("a response", connection.response()).await.status(), 405);
    connection.send(&add(1)).await;
    assert_eq!(within("a response", connection.response()).await.text(), "2");
}

#[tokio::test]
async fn http_1_0_is_supported() {
    let fixture = Fixture::start().await;
    let old = |request: &Request| {
        let text = String::from_utf8(request.bytes()).unwrap();
        text.replacen("HTTP/1.1", "HTTP/1.0", 1)
    };
    let mut connection = fixture.connect().await;
    connection.write(old(&add(1).header("Connection", "keep-alive")).as_bytes()).await;
    let answer = within("a response", connection.response()).await;
    assert_eq!((answer.text().as_str(), answer.header("connection")), ("2", Some("keep-alive")));
    // HTTP/1.0 needs no `Host` header, and a stream without `Content-Length` ends with the connection.
    let count = modern_stream(1, "count", json!({ "n": 2 })).without("Host").header("Connection", "keep-alive");
    connection.write(old(&count).as_bytes()).await;
    let answer = within("a response", connection.response()).await;
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.messages().len() > 1, "{answer}");
    let mut connection = fixture.connect().await;
    connection.write(old(&add(1)).as_bytes()).await;
    let mut all = String::new();
    within("the end", connection.socket.read_to_string(&mut all)).await.unwrap();
    assert!(all.ends_with('}'), "{all}");
}

#[tokio::test]
async fn a_connection_is_closed_when_the_client_requests_it() {
    let fixture = Fixture::start().await;
    for close in ["close", "Close", "keep-alive, close", "x,close"] {
        let mut connection = fixture.connect().await;
        connection.send(&add(1).header("Connection", close)).await;
        let answer = within("a response", connection.response()).await;
        assert_eq!((answer.text().as_str(), answer.header("connection")), ("2", Some("close")));
        assert!(within("the end", connection.try_head()).await.is_none());
    }
}

#[tokio::test]
async fn the_answer_to_head_has_no_body() {
    let fixture = Fixture::start().await;
    let mut connection = fixture.connect().await;
    connection.send(&Request::new("HEAD")).await;
    let head = within("a response", connection.head()).await;
    assert_eq!(head.status, 405);
    assert!(head.header("content-length").is_some_and(|length| length != "0"), "{head:?}");
    connection.send(&add(1)).await;
    assert_eq!(within("a response", connection.response()).await.text(), "2");
}

#[tokio::test]
async fn responses_have_a_date() {
    let fixture = Fixture::start().await;
    let answer = fixture.send(add(1)).await;
    let date = answer.header("date").expect("a date");
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
}

/// A client such as `nc` shuts down its writing side after the request and still waits for the response.
#[tokio::test]
async fn a_client_that_has_shut_down_its_writing_side_is_answered() {
    let fixture = Fixture::start().await;
    for _ in 0..20 {
        let mut connection = fixture.connect().await;
        connection.send(&add(1)).await;
        connection.socket.shutdown().await.unwrap();
        assert_eq!(within("a response", connection.response()).await.text(), "2");
    }
}

#[tokio::test]
async fn the_target_may_be_in_absolute_form() {
    let fixture = Fixture::start().await;
    assert_eq!(fixture.send(add(1).path("http://localhost/mcp")).await.text(), "2");
    assert_eq!(fixture.send(add(1).path("http://evil.example/mcp")).await.status(), 403);
    assert_eq!(fixture.send(add(1).path("/a/%7Bb%7D/c?d=e&f")).await.text(), "2");
    assert_eq!(fixture.send(add(1).path("/{b}|c")).await.text(), "2");
}

#[tokio::test]
async fn a_running_call_is_answered_before_its_connection_is_closed_on_shutdown() {
    let fixture = Fixture::start().await;
    let mut connection: Connection = fixture.connect().await;
    connection.send(&modern_stream(1, "steps", json!({ "n": 1 })).header("X-Last", "yes")).await;
    eventually("a call", async || fixture.traces.stepping.load(Ordering::SeqCst) == 1).await;
    let traces = fixture.traces.clone();
    fixture.handle.shutdown();
    traces.steps.add_permits(1);
    let answer = within("a response", connection.response()).await;
    assert_eq!(answer.messages().last().unwrap()["id"], 1, "{answer}");
    assert!(within("the end", connection.try_head()).await.is_none());
    fixture.gone().await;
}

/// The header timeout counts from the start of the head. Single bytes do not extend it.
#[tokio::test]
async fn a_head_that_arrives_byte_by_byte_times_out() {
    let fixture = Fixture::at(|listener| listener.header_timeout(Duration::from_millis(100))).await;
    let mut connection = fixture.connect().await;
    connection.write(b"POST /mcp HTTP/1.1\r\nX-Slow: ").await;
    let mut drops = tokio::time::interval(Duration::from_millis(5));
    let ended = async {
        while connection.socket.write_all(b"x").await.is_ok() {
            drops.tick().await;
        }
    };
    within("the end of a slow connection", ended).await;
    assert_eq!(fixture.send(add(1)).await.text(), "2");
}

/// The call is also cancelled if another request is already buffered on the connection.
#[tokio::test]
async fn a_call_is_cancelled_when_its_client_disconnects() {
    let fixture = Fixture::start().await;
    for (begun, then) in [(1, Vec::new()), (2, add(1).bytes())] {
        let mut connection = fixture.connect().await;
        connection.send(&modern_call(1, "wait", json!({}))).await;
        connection.write(&then).await;
        eventually("a call", async || fixture.traces.begun.load(Ordering::SeqCst) == begun).await;
        drop(connection);
        eventually("its end", async || fixture.traces.ended.load(Ordering::SeqCst) == begun).await;
    }
}
