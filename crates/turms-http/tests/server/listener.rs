//! The listener: its timeouts, its connection limit and its shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turms_http::{Listener, ServeHttp as _};
use turms_testkit::{eventually, within};

use crate::dialog::{NEWEST_OLDER, Session, modern, modern_call, modern_stream};
use crate::fixture::{Fixture, server};
use crate::wire::{Connection, Request};

const SHORT: Duration = Duration::from_millis(50);

fn add() -> Request {
    modern_call(1, "add", json!({ "a": 1, "b": 2 }))
}

/// Checks that the connection ends, with or without an error response.
async fn assert_ends(connection: &mut Connection) {
    let mut said = Vec::new();
    // A reset is fine as well.
    let _ = within("the end of a connection", connection.socket.read_to_end(&mut said)).await;
    let said = String::from_utf8_lossy(&said);
    assert!(!said.starts_with("HTTP/1.1 2"), "{said}");
}

#[tokio::test]
async fn headers_must_come_in_time() {
    let fixture = Fixture::at(|listener| listener.header_timeout(SHORT)).await;
    for begun in [&b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"[..], b"GET", b"\r\n"] {
        let mut connection = fixture.connect().await;
        connection.write(begun).await;
        assert_ends(&mut connection).await;
    }
    assert_eq!(fixture.send(add()).await.text(), "3");
}

#[cfg(feature = "server-http2")]
#[tokio::test]
async fn a_connection_of_http2_that_is_idle_is_ended() {
    let fixture = Fixture::at(|listener| listener.header_timeout(SHORT)).await;
    let mut connection = fixture.connect().await;
    connection.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert_ends(&mut connection).await;
}

/// Otherwise a few silent connections could use up the connection limit.
#[tokio::test]
async fn silent_connections_are_closed() {
    let fixture = Fixture::at(|listener| listener.header_timeout(SHORT).max_connections(3)).await;
    let mut silent = vec![fixture.connect().await, fixture.connect().await, fixture.connect().await];
    // Prefixes that both HTTP/1.1 and HTTP/2 can begin with.
    silent[1].write(b"P").await;
    silent[2].write(b"PR").await;
    assert_eq!(fixture.send(add()).await.text(), "3");
    for connection in &mut silent {
        assert_ends(connection).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_idle_is_ended() {
    let fixture = Fixture::at(|listener| listener.header_timeout(SHORT)).await;
    let mut connection = fixture.connect().await;
    connection.send(&add()).await;
    assert_eq!(connection.response().await.text(), "3");
    assert_ends(&mut connection).await;
}

/// The header timeout does not limit the time until the response.
#[tokio::test]
async fn a_response_may_take_longer_than_the_header_timeout() {
    let fixture = Fixture::at(|listener| listener.header_timeout(SHORT)).await;
    let mut slow = fixture.connect().await;
    slow.send(&modern_stream(1, "steps", json!({ "n": 1 }))).await;
    eventually("a call", async || fixture.traces.stepping.load(Ordering::SeqCst) == 1).await;
    // Another connection with an unfinished head times out meanwhile.
    let mut late = fixture.connect().await;
    late.write(b"POST /mcp HTTP/1.1\r\n").await;
    assert_ends(&mut late).await;
    fixture.traces.steps.add_permits(1);
    assert_eq!(within("a response", slow.response()).await.text(), "counted to 1");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_disconnected() {
    let fixture = Fixture::at(|listener| listener.write_timeout(SHORT)).await;
    let session = Session::begin(&fixture, NEWEST_OLDER).await;
    let mut unread = fixture.connect().await;
    unread.send(&modern_stream(1, "flood", json!({ "n": 1_000_000, "bytes": 16_000 }))).await;
    eventually("the end of the call", async || fixture.traces.ended.load(Ordering::SeqCst) == 1).await;
    assert!(fixture.traces.said.load(Ordering::SeqCst) < 1_000_000);
    // The timeout does not apply to a stream without anything to write.
    let mut standalone = fixture.stream(session.get()).await;
    session.call(&fixture, "grow", json!({})).await;
    assert_eq!(standalone.message().await["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let fixture = Fixture::at(|listener| listener.max_connections(2)).await;
    let mut first = fixture.connect().await;
    let mut second = fixture.connect().await;
    for connection in [&mut first, &mut second] {
        connection.send(&add()).await;
        assert_eq!(connection.response().await.text(), "3");
    }
    let mut third = fixture.connect().await;
    third.send(&add()).await;
    // The accepted connections continue to work.
    for _ in 0..20 {
        first.send(&add()).await;
        assert_eq!(first.response().await.text(), "3");
    }
    assert!(third.socket.try_read(&mut [0; 1]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    drop(second);
    assert_eq!(within("a response", third.response()).await.text(), "3");
}

#[tokio::test]
async fn running_calls_are_answered_on_shutdown() {
    let (end, told) = tokio::sync::oneshot::channel::<()>();
    let fixture = Fixture::at(|listener| {
        listener.with_graceful_shutdown(async {
            let _ = told.await;
        })
    })
    .await;
    let mut idle = fixture.connect().await;
    fixture.traces.steps.add_permits(1);
    let mut stream = fixture.stream(modern_stream(1, "steps", json!({ "n": 2 }))).await;
    stream.message().await;
    end.send(()).unwrap();
    assert!(within("the end of an idle connection", idle.try_head()).await.is_none());
    fixture.traces.steps.add_permits(1);
    let rest = stream.rest().await;
    assert_eq!(rest.last().expect("a response")["id"], 1);
    let address = fixture.address;
    fixture.gone().await;
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the listener is closed");
}

#[tokio::test]
async fn subscriptions_are_answered_on_shutdown() {
    let (end, told) = tokio::sync::oneshot::channel::<()>();
    let fixture = Fixture::at(|listener| {
        listener.with_graceful_shutdown(async {
            let _ = told.await;
        })
    })
    .await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let mut stream = fixture.stream(modern(5, "subscriptions/listen", filter)).await;
    stream.message().await;
    end.send(()).unwrap();
    let rest = stream.rest().await;
    let [answer] = &*rest else { panic!("{rest:?}") };
    assert_eq!((&answer["id"], &answer["result"]["resultType"]), (&json!(5), &json!("complete")));
    fixture.gone().await;
}

#[tokio::test]
async fn calls_are_cancelled_after_the_drain_timeout() {
    let fixture = Fixture::at(|listener| listener.drain_timeout(SHORT)).await;
    let mut stream = fixture.stream(modern_stream(1, "wait", json!({}))).await;
    stream.message().await;
    let traces = fixture.traces.clone();
    fixture.shut_down().await;
    eventually("the end of the call", async || traces.ended.load(Ordering::SeqCst) == 1).await;
    stream.rest().await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_may_listen_at_a_path() {
    let path = std::env::temp_dir().join(format!("turms-http-{}.sock", std::process::id()));
    let server = server(&Default::default());
    let handle = server.handle();
    let listener = Listener::bind_unix(&path).unwrap();
    let serving = tokio::spawn(listener.serve(server.into_http_service().unwrap()));
    let mut socket = within("a connection", tokio::net::UnixStream::connect(&path)).await.unwrap();
    socket.write_all(&add().header("Connection", "close").bytes()).await.unwrap();
    let mut answer = String::new();
    within("a response", socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains(r#""text":"3""#), "{answer}");
    handle.shutdown();
    within("the end of the server", serving).await.unwrap().unwrap();
    let _ = std::fs::remove_file(path);
}

#[tokio::test]
async fn callbacks_run_when_the_shutdown_begins_in_whatever_order_they_are_set() {
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let called = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = || {
        let called = called.clone();
        move || {
            called.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (first, second) = (count(), count());
    let fixture = Fixture::at(|listener| {
        let listener = listener.on_shutdown(first).with_graceful_shutdown(async { drop(ended.await) });
        listener.on_shutdown(second)
    })
    .await;
    assert_eq!(fixture.send(add()).await.text(), "3");
    assert_eq!(called.load(Ordering::SeqCst), 0);
    end.send(()).unwrap();
    fixture.gone().await;
    assert_eq!(called.load(Ordering::SeqCst), 2);
}
