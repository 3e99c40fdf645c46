//! Clients that mean no good, or no better: whatever they do, memory stays bounded and others are served.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::dialog::{NEWEST_OLDER, Session, modern_body, modern_call, modern_stream, request};
use crate::fixture::Fixture;
use crate::wire::{Connection, Request, Stream};
use crate::{eventually, soon};

const MEGABYTE: usize = 1024 * 1024;

/// How much memory this process takes, clients included.
fn memory() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// How many files and sockets this process has open.
fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Others are served.
async fn assert_serves(fixture: &Fixture) {
    let response = fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(response.text(), "3");
}

/// What somebody says who does not read is either not said or not kept.
async fn assert_bounded_while(fixture: &Fixture, before: usize) {
    let said = || fixture.traces.said.load(Ordering::SeqCst);
    eventually("a flood", async || said() > 100).await;
    for _ in 0..50 {
        assert_serves(fixture).await;
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 96 * MEGABYTE, "{} MB more after {} messages", grown / MEGABYTE, said());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_never_reads_its_stream_is_kept_waiting() {
    let fixture = Fixture::start().await;
    let before = memory();
    // Half a gigabyte in all, if nobody stopped it.
    let flood = json!({ "n": 32 * 1024, "bytes": 16 * 1024 });
    let mut connection = fixture.connect().await;
    connection.send(&modern_stream(1, "flood", flood)).await;
    assert_bounded_while(&fixture, before).await;
    assert!(fixture.traces.said.load(Ordering::SeqCst) < 32 * 1024);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_never_reads_its_stream_is_not_remembered_forever() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let before = memory();
    let flood = crate::dialog::call(1, "flood", json!({ "n": 8 * 1024, "bytes": 16 * 1024 }));
    let mut connection = fixture.connect().await;
    connection.send(&session.post(crate::dialog::with_progress(flood, 1))).await;
    assert_bounded_while(&fixture, before).await;
    drop(connection);
    fixture.send(session.delete()).await;
    assert_serves(&fixture).await;
}

/// Nobody is waited for who has gone, and to go is not to cancel.
#[tokio::test]
async fn a_call_that_waits_for_a_reader_goes_on_when_the_reader_goes() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let flood = crate::dialog::call(1, "flood", json!({ "n": 2_000, "bytes": 16 * 1024 }));
    let mut connection = fixture.connect().await;
    connection.send(&session.post(crate::dialog::with_progress(flood, 1))).await;
    eventually("a flood", async || fixture.traces.said.load(Ordering::SeqCst) > 100).await;
    drop(connection);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    assert_eq!(fixture.traces.said.load(Ordering::SeqCst), 2_000, "it was not cancelled");
}

#[tokio::test]
async fn a_call_that_waits_for_a_reader_can_be_cancelled() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    for (n, end) in ["cancelled", "deleted"].into_iter().enumerate() {
        let flood = crate::dialog::call(1, "flood", json!({ "n": 1_000_000, "bytes": 16 * 1024 }));
        let mut connection = fixture.connect().await;
        connection.send(&session.post(crate::dialog::with_progress(flood, 1))).await;
        eventually("a flood", async || fixture.traces.begun.load(Ordering::SeqCst) == n + 1).await;
        if end == "cancelled" {
            let params = json!({ "requestId": 1 });
            let body = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params });
            fixture.send(session.post(&body)).await.assert_accepted();
        } else {
            fixture.send(session.delete()).await;
        }
        eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == n + 1).await;
    }
}

/// What nobody has read for too long is lost, but not the session.
#[tokio::test]
async fn whoever_has_missed_too_much_can_begin_to_listen_anew() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let unread = fixture.stream(session.get()).await;
    let much = turms_proto::RawJson::encode(&json!({ "much": "x".repeat(16 * 1024) })).unwrap();
    let notification = turms_proto::Notification::raw("notifications/test", Some(much));
    for _ in 0..2_000 {
        fixture.handle.notify(&notification);
    }
    drop(unread);
    let mut stream = fixture.stream(session.get()).await;
    session.call(&fixture, "grow", json!({})).await;
    let mut heard = stream.message().await;
    while heard["method"] == "notifications/test" {
        heard = stream.message().await;
    }
    assert_eq!(heard["method"], "notifications/tools/list_changed");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_of_the_first_revision_that_never_reads_costs_little() {
    let fixture = Fixture::start().await;
    let before = memory();
    let mut unread = fixture.stream(Request::get().path("/sse")).await;
    let endpoint = unread.event().await.data.unwrap();
    let path = format!("/{}", endpoint.trim_start_matches('/'));
    let post = |body: serde_json::Value| Request::post(body).path(&path);
    fixture.send(post(crate::dialog::initialize("2024-11-05"))).await;
    unread.message().await;
    fixture.send(post(crate::dialog::notification("notifications/initialized"))).await;
    let flood = crate::dialog::call(1, "flood", json!({ "n": 32 * 1024, "bytes": 16 * 1024 }));
    fixture.send(post(crate::dialog::with_progress(flood, 1))).await;
    assert_bounded_while(&fixture, before).await;
    drop(unread);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_client_that_never_reads_its_standalone_stream_costs_little() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let before = memory();
    let _unread = fixture.stream(session.get()).await;
    let much = turms_proto::RawJson::encode(&json!({ "much": "x".repeat(16 * 1024) })).unwrap();
    let notification = turms_proto::Notification::raw("notifications/test", Some(much));
    for n in 0..16 * 1024 {
        fixture.handle.notify(&notification);
        if n % 64 == 0 {
            assert_serves(&fixture).await;
        }
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 96 * MEGABYTE, "{} MB more", grown / MEGABYTE);
}

#[tokio::test]
async fn a_slow_reader_gets_everything_in_the_end() {
    let fixture = Fixture::start().await;
    hear_slowly(&fixture, fixture.stream(modern_stream(1, "flood", json!({ "n": 1_000, "bytes": 16_000 }))).await)
        .await;
}

/// More than is kept for those who come back; but this one was never away.
#[tokio::test]
async fn a_slow_reader_of_a_session_gets_everything_in_the_end() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    hear_slowly(&fixture, session.stream(&fixture, 1, "flood", json!({ "n": 1_000, "bytes": 16_000 })).await).await;
}

async fn hear_slowly(fixture: &Fixture, mut stream: Stream) {
    for step in 1..=1_000_u64 {
        if step % 100 == 0 {
            assert_serves(fixture).await;
        }
        let message = stream.try_message().await.unwrap_or_else(|| panic!("the stream ends before message {step}"));
        assert_eq!(crate::dialog::progress(&[message]), [step]);
    }
    assert_eq!(stream.message().await["id"], 1);
}

#[tokio::test]
async fn headers_that_never_end_keep_nobody_waiting() {
    let fixture = Fixture::start().await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut connection = fixture.connect().await;
        connection.write(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n").await;
        slow.push(connection);
    }
    for round in 0..5 {
        for connection in &mut slow {
            let line = format!("X-Slow-{round}: x\r\n");
            soon("room to write", connection.socket.write_all(line.as_bytes())).await.unwrap();
        }
        assert_serves(&fixture).await;
    }
}

#[tokio::test]
async fn bodies_that_never_end_keep_nobody_waiting() {
    let fixture = Fixture::start().await;
    let mut slow = Vec::new();
    for _ in 0..300 {
        let mut connection = fixture.connect().await;
        let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
        connection.write(&whole[..whole.len() - 10]).await;
        slow.push(connection);
    }
    assert_serves(&fixture).await;
    // They were only slow.
    let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    for connection in &mut slow {
        connection.write(&whole[whole.len() - 10..]).await;
        assert_eq!(soon("an answer", connection.response()).await.text(), "3");
    }
}

const LIMIT: usize = 64 * 1024;

/// A call whose body has so many bytes.
fn call_of(bytes: usize) -> Request {
    let body = |text: &str| modern_body("q", "tools/call", json!({ "name": "echo", "arguments": { "text": text } }));
    let text = "x".repeat(bytes - body("").to_string().len());
    crate::dialog::mirrored(&body(&text))
}

#[tokio::test]
async fn a_body_may_be_as_long_as_the_limit_and_no_longer() {
    let fixture = Fixture::with(|service| service.body_limit(LIMIT)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_eq!(fixture.send(call_of(LIMIT)).await.status(), 200);
    for request in [call_of(LIMIT + 1), call_of(10 * LIMIT), session.post("x".repeat(LIMIT + 1))] {
        let response = fixture.send(request).await;
        assert_eq!(response.status(), 413, "{response}");
        assert!(response.json()["error"]["code"].is_i64(), "{response}");
    }
    assert_serves(&fixture).await;
}

fn head_of(request: &Request, framing: &str) -> Vec<u8> {
    let head = String::from_utf8(request.bytes()).unwrap();
    let (head, _) = head.split_once("\r\n\r\n").unwrap();
    let lines = head.split("\r\n").filter(|line| !line.starts_with("Content-Length"));
    let lines: Vec<_> = lines.collect();
    format!("{}\r\n{framing}\r\n\r\n", lines.join("\r\n")).into_bytes()
}

#[tokio::test]
async fn a_body_that_says_it_is_too_long_is_not_waited_for() {
    let fixture = Fixture::with(|service| service.body_limit(LIMIT)).await;
    let mut connection = fixture.connect().await;
    connection.write(&head_of(&call_of(1_000), "Content-Length: 1099511627776")).await;
    assert_eq!(soon("an answer", connection.response()).await.status(), 413);
    assert_serves(&fixture).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_body_without_an_end_is_cut_off() {
    let fixture = Fixture::with(|service| service.body_limit(LIMIT)).await;
    let before = memory();
    let mut connection = fixture.connect().await;
    connection.write(&head_of(&call_of(1_000), "Transfer-Encoding: chunked")).await;
    let chunk = format!("{LIMIT:x}\r\n{}\r\n", "x".repeat(LIMIT));
    // Until the server says something, or is gone.
    let endless = async {
        loop {
            tokio::select! {
                biased;
                said = connection.socket.readable() => return said,
                room = connection.socket.writable() => room?,
            }
            // Whether it takes a part, all or nothing, there is more to come.
            let _ = connection.socket.try_write(chunk.as_bytes());
        }
    };
    let _ = soon("an answer to a body without an end", endless).await;
    if let Some(response) = soon("an answer, or the end", connection.try_response()).await {
        assert!(matches!(response.status(), 400 | 413), "{response}");
    }
    assert!(memory().saturating_sub(before) < 32 * MEGABYTE);
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn headers_that_are_too_many_or_too_long_are_refused() {
    let fixture = Fixture::start().await;
    let long = modern_call(1, "add", json!({ "a": 1, "b": 2 })).header("X-Long", "x".repeat(2 * MEGABYTE));
    let many = (0..20_000)
        .fold(modern_call(1, "add", json!({ "a": 1, "b": 2 })), |request, n| request.also(&format!("X-{n}"), "x"));
    for request in [long, many] {
        let mut connection = fixture.connect().await;
        let bytes = request.bytes();
        // The server need not read it all.
        let _ = soon("an end of it", connection.socket.write_all(&bytes)).await;
        if let Some(response) = soon("an answer, or the end", connection.try_response()).await {
            assert!((400..500).contains(&response.status()), "{response}");
        }
        assert_serves(&fixture).await;
    }
}

#[tokio::test]
async fn json_that_is_nested_too_deep_is_refused() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    let arrays = deep("[", "]");
    let objects = deep("{\"a\":", "}");
    for nested in [&arrays, &objects] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":{nested}}}}}}}"#
        );
        for body in [nested.clone(), call] {
            let response = fixture.send(session.post(&body)).await;
            assert!(matches!(response.status(), 200 | 400), "{}", response.status());
            let error = response.json();
            assert!(error.get("error").is_some() || error["result"]["isError"] == true, "{error}");
        }
    }
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn nonsense_on_a_socket_harms_nobody() {
    let fixture = Fixture::start().await;
    let mut random = fastrand::Rng::with_seed(7);
    let good = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    for n in 0..300 {
        let mut connection = fixture.connect().await;
        let mut bytes = good.clone();
        if n % 3 == 0 {
            bytes.resize(random.usize(1..2_000), 0);
            random.fill(&mut bytes);
        } else {
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        let _ = soon("an end of it", connection.socket.write_all(&bytes)).await;
        let _ = connection.socket.shutdown().await;
        if let Some(response) = soon("an answer, or the end", connection.try_response()).await {
            assert!(response.status() < 500, "{response}");
        }
    }
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn two_lengths_of_one_body_are_refused() {
    let fixture = Fixture::start().await;
    for framing in ["Content-Length: 5\r\nContent-Length: 6", "Content-Length: x", "Content-Length: -1"] {
        let mut connection = fixture.connect().await;
        connection.write(&head_of(&call_of(1_000), framing)).await;
        if let Some(response) = soon("an answer, or the end", connection.try_response()).await {
            assert_eq!(response.status(), 400, "{response}");
        }
    }
    assert_serves(&fixture).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn ten_thousand_connections_that_come_and_go_leave_nothing_behind() {
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_serves(&fixture).await;
    let (memory_before, files_before) = (memory(), files());
    let whole = modern_call(1, "add", json!({ "a": 1, "b": 2 })).bytes();
    let stream = session.get().bytes();
    let waiting = modern_stream(1, "wait", json!({})).bytes();
    for wave in 0..50 {
        let mut connections = Vec::new();
        for n in 0..200 {
            let mut connection = Connection::open(fixture.address).await;
            match n % 16 {
                0 => connection.write(&whole).await,
                1 => connection.write(&stream).await,
                2 => connection.write(&waiting).await,
                3..8 => connection.write(&whole[..whole.len() / 2]).await,
                _ => {}
            }
            connections.push(connection);
        }
        drop(connections);
        if wave % 10 == 0 {
            assert_serves(&fixture).await;
        }
    }
    eventually("sockets that are closed", async || files() <= files_before + 50).await;
    eventually("calls that have ended", async || {
        let traces = &fixture.traces;
        traces.begun.load(Ordering::SeqCst) == traces.ended.load(Ordering::SeqCst)
    })
    .await;
    let grown = memory().saturating_sub(memory_before);
    assert!(grown < 64 * MEGABYTE, "{} MB more", grown / MEGABYTE);
    assert_serves(&fixture).await;
    assert_eq!(fixture.send(session.post(request(2, "ping", None))).await.result(), json!({}));
}
