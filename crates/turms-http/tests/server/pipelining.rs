//! Clients that send further requests before they have the response.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use turms_http::HttpService;
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, modern_call, modern_stream};
use crate::fixture::Fixture;

/// Requests of 256 KiB in all, four times the read-ahead limit of a connection.
fn many_requests() -> Vec<u8> {
    let request = modern_call(2, "wait", json!({})).bytes();
    request.repeat(256 * 1024 / request.len() + 1)
}

fn count(counter: &std::sync::atomic::AtomicUsize) -> usize {
    counter.load(Ordering::SeqCst)
}

/// The server has to notice the end of the connection behind the unread requests.
#[tokio::test]
async fn a_call_is_cancelled_when_its_client_disconnects_after_further_requests() {
    let fixture = Fixture::start().await;
    for (begun, request) in
        [modern_call(1, "wait", json!({})), modern_stream(1, "wait", json!({}))].into_iter().enumerate()
    {
        for close in ["at once", "by halves"] {
            let before = 2 * begun + usize::from(close == "by halves");
            let mut connection = fixture.connect().await;
            connection.send(&request).await;
            eventually("a call", async || count(&fixture.traces.begun) == before + 1).await;
            connection.write(&many_requests()).await;
            if close == "by halves" {
                within("the end of writing", connection.socket.shutdown()).await.unwrap();
                eventually("the end of the call", async || count(&fixture.traces.ended) == before + 1).await;
            }
            drop(connection);
            eventually("the end of the call", async || count(&fixture.traces.ended) == before + 1).await;
        }
    }
    assert_eq!(count(&fixture.traces.begun), 4, "the pipelined calls are not run");
}

/// A session outlives its connections, but a stream does not.
#[tokio::test]
async fn a_stream_ends_when_its_client_disconnects_after_further_requests() {
    // A keep-alive comment would also detect the closed connection.
    let quiet = |service: HttpService| service.keep_alive_interval(Duration::from_secs(3_600));
    let fixture = Fixture::listening(|server| server, quiet, |listener| listener.max_connections(1)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut connection = fixture.connect().await;
    connection.send(&session.get()).await;
    assert_eq!(within("a stream", connection.head()).await.status, 200);
    connection.write(&many_requests()).await;
    drop(connection);
    // The slot of the only allowed connection is free again.
    session.call(&fixture, "add", json!({ "a": 1, "b": 2 })).await;
}
