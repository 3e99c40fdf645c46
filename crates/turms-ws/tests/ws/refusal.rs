//! Requests that are not granted, and what is said about it.

use http::StatusCode;
use http::header::HeaderValue;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use turms_core::ConnectError;
use turms_http::AccessPolicy;
use turms_testkit::within;
use turms_ws::{WsConnectError, WsConnector, WsUrlError};

use crate::fixture::{Served, builder};
use turms_testkit::raw_ws::{HEADERS, WsConnection, ask, request};

/// The headers of a request that is granted, but for one: another in its place, or none.
fn but(name: &str, other: Option<&'static str>) -> Vec<&'static str> {
    let mut headers: Vec<_> = HEADERS.into_iter().filter(|header| !header.starts_with(name)).collect();
    headers.extend(other);
    headers
}

/// The status of the answer, its headers, and its body.
async fn answer(served: &Served, first: &str, headers: &[&str]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = ask(&mut stream, &request(first, headers)).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = String::new();
    if status != 101 {
        within("the end of the answer", stream.read_to_string(&mut body)).await.unwrap();
        assert!(head.contains("content-type: text/plain; charset=utf-8\r\n"), "{head}");
    }
    (status, head.to_ascii_lowercase(), body)
}

#[tokio::test]
async fn every_refusal_has_its_status_and_says_why() {
    let served = Served::new().await;
    let get = "GET /ws HTTP/1.1";
    let whole = HEADERS.to_vec();
    let cases = [
        ("POST /ws HTTP/1.1", whole.clone(), 405, "a WebSocket is opened with GET, not POST"),
        (get, but("Connection", None), 426, "Connection: Upgrade"),
        (get, but("Connection", Some("Connection: keep-alive")), 426, "Connection: Upgrade"),
        (get, but("Upgrade", None), 426, "Upgrade: websocket"),
        (get, but("Upgrade", Some("Upgrade: h2c")), 426, "Upgrade: websocket"),
        (get, but("Sec-WebSocket-Version", None), 426, "version 13"),
        (get, but("Sec-WebSocket-Version", Some("Sec-WebSocket-Version: 8")), 426, "version 13"),
        (get, but("Sec-WebSocket-Key", None), 400, "Sec-WebSocket-Key"),
        (get, but("Sec-WebSocket-Key", Some("Sec-WebSocket-Key: short")), 400, "Sec-WebSocket-Key"),
        (get, but("Sec-WebSocket-Protocol", Some("Sec-WebSocket-Protocol: chat, soap")), 400, "ask for `mcp`"),
        (get, but("Host", Some("Host: evil.example")), 403, "host \"evil.example\""),
        (get, [whole, vec!["Origin: https://evil.example"]].concat(), 403, "origin \"https://evil.example\""),
    ];
    for (first, headers, status, reason) in cases {
        let (given, head, body) = answer(&served, first, &headers).await;
        assert_eq!(given, status, "{headers:?}: {body}");
        assert!(body.contains(reason), "{body}");
        match status {
            405 => assert!(head.contains("allow: get\r\n"), "{head}"),
            426 => assert!(head.contains("upgrade: websocket\r\n"), "{head}"),
            _ => {}
        }
        assert_eq!(head.contains("sec-websocket-version: 13\r\n"), body.contains("version 13"), "{head}");
    }
}

#[tokio::test]
async fn a_client_that_names_no_subprotocol_is_served_without_one() {
    let served = Served::new().await;
    let (status, head, _) = answer(&served, "GET / HTTP/1.1", &but("Sec-WebSocket-Protocol", None)).await;
    assert_eq!(status, 101);
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
}

#[tokio::test]
async fn a_policy_lets_others_in() {
    let policy = AccessPolicy::new().hosts(["mcp.example"]).origins(["https://app.example"]);
    let served = Served::with(|service| service.access(policy)).await;
    let headers = [but("Host", Some("Host: mcp.example")), vec!["Origin: https://app.example"]].concat();
    assert_eq!(answer(&served, "GET / HTTP/1.1", &headers).await.0, 101);
    assert_eq!(answer(&served, "GET / HTTP/1.1", &HEADERS).await.0, 403);
}

#[tokio::test]
async fn more_connections_than_there_may_be_are_refused_until_one_ends() {
    let served = Served::with(|service| service.max_connections(1)).await;
    let mut first = WsConnection::open(served.address).await;
    let (status, _, body) = answer(&served, "GET / HTTP/1.1", &HEADERS).await;
    assert_eq!((status, body.as_str()), (503, "there are too many connections already: try again later"));
    first.send(turms_testkit::raw_ws::CLOSE, &1000_u16.to_be_bytes()).await;
    first.goodbye().await;
    first.end().await;
    // The place is free a moment after the socket is closed.
    within("a place for another", async {
        while answer(&served, "GET / HTTP/1.1", &HEADERS).await.0 != 101 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn source(error: &ConnectError) -> &WsConnectError {
    let (ConnectError::Rejected { source, .. } | ConnectError::Unreachable { source, .. }) = error else {
        panic!("{error:?}")
    };
    source.downcast_ref().unwrap()
}

#[tokio::test]
async fn a_client_is_told_what_the_server_answered() {
    let served = Served::new().await;
    let evil = HeaderValue::from_static("https://evil.example");
    let connector = served.connector().header(http::header::ORIGIN, evil);
    let error = builder().connect_to(connector).await.unwrap_err();
    let told = format!("the server at ws://{}/some/where turned the connection down", served.address);
    assert_eq!(error.to_string(), told);
    let source = source(&error);
    assert_eq!(
        source.to_string(),
        "the server answered 403 Forbidden instead of opening a WebSocket: \
         the origin \"https://evil.example\" may not use this server"
    );
    assert!(matches!(source, WsConnectError::Refused { status: StatusCode::FORBIDDEN, .. }));
}

#[tokio::test]
async fn a_client_is_told_that_nobody_listens() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connector = WsConnector::new(format!("ws://{address}/")).unwrap();
    let error = builder().connect_to(connector).await.unwrap_err();
    assert_eq!(source(&error).to_string(), format!("cannot connect to {address}"));
}

/// Answers the first request with these words, and stays silent then.
async fn answering(words: &'static str) -> WsConnector {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        ask_of(&mut stream, words).await;
    });
    WsConnector::new(url).unwrap()
}

async fn ask_of(stream: &mut TcpStream, words: &str) {
    // To read the request and to answer is the same as to ask, the other way round.
    let head = ask(stream, "").await;
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    let _ = tokio::io::AsyncWriteExt::write_all(stream, words.replace("ACCEPT", &accept).as_bytes()).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_client_takes_no_answer_for_a_websocket_that_is_none() {
    let upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 OK instead of opening a WebSocket: hello"),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "401 Unauthorized instead of opening a WebSocket"),
        ("HTTP/1.1 500 No\r\nContent-Length: 900\r\n\r\nhalf\x1b", "WebSocket: half\\u{1b}"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "did not answer the request for a WebSocket"),
        ("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "something else"),
        (&*format!("{upgraded}Sec-WebSocket-Accept: x\r\n\r\n").leak(), "does not belong to our request"),
        (
            &*format!("{upgraded}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: x\r\n\r\n").leak(),
            "extensions that were not offered",
        ),
        (
            &*format!("{upgraded}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: soap\r\n\r\n").leak(),
            "the subprotocol \"soap\" over WebSocket, not \"mcp\"",
        ),
    ];
    for (words, reason) in cases {
        let connector = answering(words).await;
        let error = within("an error", builder().connect_to(connector)).await.unwrap_err();
        let text = source(&error).to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_waited_for_for_ever() {
    let connector = answering("").await.connect_timeout(std::time::Duration::from_secs(5));
    let error = builder().connect_to(connector).await.unwrap_err();
    let told = error.to_string();
    assert!(told.starts_with("the server at ws://127.0.0.1:") && told.ends_with(" was not ready within 5 s"), "{told}");
    assert!(error.is_timeout());
}

#[tokio::test]
async fn secrets_are_not_shown() {
    assert!(matches!(WsConnector::new("ws://ann:secret@localhost/"), Err(WsUrlError::Credentials)));
    let connector = WsConnector::new("ws://localhost/?token=secret").unwrap();
    let connector = connector.header(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    assert!(!format!("{connector:?}").contains("secret"));
}
