//! Limits on the memory and file descriptors that hostile clients can use. Both are measured for the whole process, so each test
//! runs alone.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::sync::atomic::Ordering;

use serde_json::json;
use turms_testkit::fixture::Fixture;
use turms_testkit::messages::{
    NEWEST_OLDER, Session, call, initialize, modern_call, modern_stream, notification, request, with_progress,
};
use turms_testkit::process::{alone, memory, open_files};
use turms_testkit::raw_http::{Connection, Request};
use turms_testkit::{eventually, within};

const MEGABYTE: usize = 1024 * 1024;
const LIMIT: usize = 64 * 1024;

/// Checks that the server still responds to other clients.
async fn assert_serves(fixture: &Fixture) {
    let response = fixture.send(modern_call(1, "add", json!({ "a": 1, "b": 2 }))).await;
    assert_eq!(response.text(), "3");
}

/// Checks that memory stays bounded while a handler sends messages to a client that does not read.
async fn assert_bounded_while(fixture: &Fixture, before: usize) {
    let said = || fixture.traces.said.load(Ordering::SeqCst);
    eventually("a flood", async || said() > 100).await;
    for _ in 0..50 {
        assert_serves(fixture).await;
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 96 * MEGABYTE, "{} MB more after {} messages", grown / MEGABYTE, said());
}

#[tokio::test]
async fn a_client_that_never_reads_its_stream_is_kept_waiting() {
    let _alone = alone().await;
    let fixture = Fixture::start().await;
    let before = memory();
    // 512 MB in all, unless the server applies backpressure.
    let flood = json!({ "n": 32 * 1024, "bytes": 16 * 1024 });
    let mut connection = fixture.connect().await;
    connection.send(&modern_stream(1, "flood", flood)).await;
    assert_bounded_while(&fixture, before).await;
    assert!(fixture.traces.said.load(Ordering::SeqCst) < 32 * 1024);
}

#[tokio::test]
async fn a_client_that_never_reads_its_stream_is_not_remembered_forever() {
    let _alone = alone().await;
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let before = memory();
    let flood = call(1, "flood", json!({ "n": 8 * 1024, "bytes": 16 * 1024 }));
    let mut connection = fixture.connect().await;
    connection.send(&session.post(with_progress(flood, 1))).await;
    assert_bounded_while(&fixture, before).await;
    drop(connection);
    fixture.send(session.delete()).await;
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn a_client_of_the_first_revision_that_never_reads_costs_little() {
    let _alone = alone().await;
    let fixture = Fixture::start().await;
    let before = memory();
    let mut unread = fixture.stream(Request::get().path("/sse")).await;
    let endpoint = unread.event().await.data.unwrap();
    let path = format!("/{}", endpoint.trim_start_matches('/'));
    let post = |body: serde_json::Value| Request::post(body).path(&path);
    fixture.send(post(initialize("2024-11-05"))).await;
    unread.message().await;
    fixture.send(post(notification("notifications/initialized"))).await;
    let flood = call(1, "flood", json!({ "n": 32 * 1024, "bytes": 16 * 1024 }));
    fixture.send(post(with_progress(flood, 1))).await;
    assert_bounded_while(&fixture, before).await;
    drop(unread);
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_standalone_stream_costs_little() {
    let _alone = alone().await;
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let before = memory();
    let _unread = fixture.stream(session.get()).await;
    let much = turms_proto::RawJson::encode(&json!({ "much": "x".repeat(16 * 1024) })).unwrap();
    let notification = turms_proto::Notification::raw("notifications/test", Some(much));
    for n in 0..16 * 1024 {
        fixture.handle.broadcast(&notification);
        if n % 64 == 0 {
            assert_serves(&fixture).await;
        }
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 96 * MEGABYTE, "{} MB more", grown / MEGABYTE);
}

#[tokio::test]
async fn a_body_without_an_end_is_cut_off() {
    let _alone = alone().await;
    let fixture = Fixture::with(|service| service.max_body_bytes(LIMIT)).await;
    let before = memory();
    let mut connection = fixture.connect().await;
    let mut request = modern_call(1, "echo", json!({}));
    request.body = None;
    connection.write(&request.header("Transfer-Encoding", "chunked").bytes()).await;
    let chunk = format!("{LIMIT:x}\r\n{}\r\n", "x".repeat(LIMIT));
    // Writes until the server responds or closes the connection.
    let endless = async {
        loop {
            tokio::select! {
                biased;
                said = connection.socket.readable() => return said,
                room = connection.socket.writable() => room?,
            }
            // A partial write is fine: the data only has to keep coming.
            let _ = connection.socket.try_write(chunk.as_bytes());
        }
    };
    let _ = within("a response to an endless body", endless).await;
    if let Some(response) = within("a response or the end of the connection", connection.try_response()).await {
        assert!(matches!(response.status(), 400 | 413), "{response}");
    }
    assert!(memory().saturating_sub(before) < 32 * MEGABYTE);
    assert_serves(&fixture).await;
}

#[tokio::test]
async fn ten_thousand_connections_that_come_and_go_leave_nothing_behind() {
    let _alone = alone().await;
    let fixture = Fixture::start().await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    assert_serves(&fixture).await;
    let (memory_before, files_before) = (memory(), open_files());
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
    eventually("sockets that are closed", async || open_files() <= files_before + 50).await;
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
