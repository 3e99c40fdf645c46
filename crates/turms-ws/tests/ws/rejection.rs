//! Rejected upgrade requests, and rejections that a client receives.

use http::StatusCode;
use http::header::HeaderValue;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use turms_core::ConnectError;
use turms_testkit::within;
use turms_ws::{WsConnector, WsError};

use crate::fixture::{TestServer, builder};
use turms_testkit::raw_ws::{HEADERS, WsConnection, request, send_request};

/// The headers of a valid request, with one replaced or removed.
fn headers_with(name: &str, other: Option<&'static str>) -> Vec<&'static str> {
    let mut headers: Vec<_> = HEADERS.into_iter().filter(|header| !header.starts_with(name)).collect();
    headers.extend(other);
    headers
}

/// Sends a request and returns the status, the head and the body of the response.
async fn response(server: &TestServer, first: &str, headers: &[&str]) -> (u16, String, String) {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let head = send_request(&mut stream, &request(first, headers)).await;
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut body = String::new();
    if status != 101 {
        within("the end of the response", stream.read_to_string(&mut body)).await.unwrap();
        assert!(head.contains("content-type: text/plain; charset=utf-8\r\n"), "{head}");
    }
    (status, head.to_ascii_lowercase(), body)
}

#[tokio::test]
async fn rejections_have_a_status_and_a_reason() {
    let server = TestServer::new().await;
    let get = "GET /ws HTTP/1.1";
    let whole = HEADERS.to_vec();
    let cases = [
        ("POST /ws HTTP/1.1", whole.clone(), 405, "a WebSocket is opened with GET, not POST"),
        (get, headers_with("Connection", None), 426, "Connection: Upgrade"),
        (get, headers_with("Connection", Some("Connection: keep-alive")), 426, "Connection: Upgrade"),
        (get, headers_with("Upgrade", None), 426, "Upgrade: websocket"),
        (get, headers_with("Upgrade", Some("Upgrade: h2c")), 426, "Upgrade: websocket"),
        (get, headers_with("Sec-WebSocket-Version", None), 426, "version 13"),
        (get, headers_with("Sec-WebSocket-Version", Some("Sec-WebSocket-Version: 8")), 426, "version 13"),
        (get, headers_with("Sec-WebSocket-Key", None), 400, "Sec-WebSocket-Key"),
        (get, headers_with("Sec-WebSocket-Key", Some("Sec-WebSocket-Key: short")), 400, "Sec-WebSocket-Key"),
        (get, headers_with("Sec-WebSocket-Protocol", Some("Sec-WebSocket-Protocol: chat, soap")), 400, "request `mcp`"),
        (get, headers_with("Host", Some("Host: evil.example")), 403, "host \"evil.example\""),
        (get, [whole, vec!["Origin: https://evil.example"]].concat(), 403, "origin \"https://evil.example\""),
    ];
    for (first, headers, status, reason) in cases {
        let (given, head, body) = response(&server, first, &headers).await;
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
async fn a_client_without_a_subprotocol_is_accepted() {
    let server = TestServer::new().await;
    let (status, head, _) = response(&server, "GET / HTTP/1.1", &headers_with("Sec-WebSocket-Protocol", None)).await;
    assert_eq!(status, 101);
    assert!(!head.contains("sec-websocket-protocol"), "{head}");
}

#[tokio::test]
async fn an_access_policy_allows_other_hosts_and_origins() {
    let server =
        TestServer::with(|service| service.allowed_hosts(["mcp.example"]).allowed_origins(["https://app.example"]))
            .await;
    let headers = [headers_with("Host", Some("Host: mcp.example")), vec!["Origin: https://app.example"]].concat();
    assert_eq!(response(&server, "GET / HTTP/1.1", &headers).await.0, 101);
    assert_eq!(response(&server, "GET / HTTP/1.1", &HEADERS).await.0, 403);
}

#[tokio::test]
async fn connections_over_the_limit_are_rejected_until_one_is_closed() {
    let server = TestServer::with(|service| service.max_connections(1)).await;
    let mut first = WsConnection::open(server.address).await;
    let (status, _, body) = response(&server, "GET / HTTP/1.1", &HEADERS).await;
    assert_eq!((status, body.as_str()), (503, "too many connections; try again later"));
    first.send(turms_testkit::raw_ws::CLOSE, &1000_u16.to_be_bytes()).await;
    first.close_frame().await;
    first.assert_closed().await;
    // The permit is released a moment after the socket is closed.
    within("a free connection", async {
        while response(&server, "GET / HTTP/1.1", &HEADERS).await.0 != 101 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn source(error: &ConnectError) -> &WsError {
    let (ConnectError::Rejected { source, .. }
    | ConnectError::Unauthorized { source, .. }
    | ConnectError::Unreachable { source, .. }) = error
    else {
        panic!("{error:?}")
    };
    source.downcast_ref().unwrap()
}

#[tokio::test]
async fn a_client_sees_the_response_of_a_rejection() {
    let server = TestServer::new().await;
    let evil = HeaderValue::from_static("https://evil.example");
    let connector = server.connector().header(http::header::ORIGIN, evil);
    let error = builder().connect(connector).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot connect to ws://{}/some/where: not authorized", server.address));
    let source = source(&error);
    assert_eq!(
        source.to_string(),
        "the server responded with 403 Forbidden instead of opening a WebSocket: \
         the origin \"https://evil.example\" may not use this server"
    );
    assert!(matches!(source, WsError::Refused { status: StatusCode::FORBIDDEN, .. }));
}

#[tokio::test]
async fn a_closed_port_is_an_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let connector = WsConnector::new(format!("ws://{address}/")).unwrap();
    let error = builder().connect(connector).await.unwrap_err();
    assert_eq!(source(&error).to_string(), format!("cannot connect to {address}"));
}

/// Starts a server that sends this response to the first request and nothing else, and returns a connector to it.
async fn responding(response: &'static str) -> WsConnector {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        respond(&mut stream, response).await;
    });
    WsConnector::new(url).unwrap()
}

async fn respond(stream: &mut TcpStream, response: &str) {
    // Sends nothing and reads a head, which is that of the client's request here.
    let head = send_request(stream, "").await;
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    let accept = tokio_tungstenite::tungstenite::handshake::derive_accept_key(key.as_bytes());
    let _ = tokio::io::AsyncWriteExt::write_all(stream, response.replace("ACCEPT", &accept).as_bytes()).await;
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_client_rejects_invalid_handshake_responses() {
    let upgraded = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    let cases = [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "200 OK instead of opening a WebSocket: hello"),
        ("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n", "401 Unauthorized instead of opening a WebSocket"),
        ("HTTP/1.1 500 No\r\nContent-Length: 900\r\n\r\nhalf\x1b", "WebSocket: half\\u{1b}"),
        ("SSH-2.0-OpenSSH\r\n\r\n", "no valid HTTP response to the upgrade request"),
        ("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "another protocol"),
        (&*format!("{upgraded}Sec-WebSocket-Accept: x\r\n\r\n").leak(), "does not match the request"),
        (
            &*format!("{upgraded}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: x\r\n\r\n").leak(),
            "extensions that were not offered",
        ),
        (
            &*format!("{upgraded}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: soap\r\n\r\n").leak(),
            "the subprotocol \"soap\" instead of \"mcp\"",
        ),
    ];
    for (response, reason) in cases {
        let connector = responding(response).await;
        let error = within("an error", builder().connect(connector)).await.unwrap_err();
        let text = source(&error).to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_respond_times_out() {
    let connector = responding("").await.connect_timeout(std::time::Duration::from_secs(5));
    let error = builder().connect(connector).await.unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("ws://127.0.0.1:") && message.ends_with(" was not ready within 5 s"), "{message}");
    assert!(error.is_timeout());
}

#[tokio::test]
async fn secrets_are_not_shown() {
    assert!(matches!(WsConnector::new("ws://ann:secret@localhost/"), Err(WsError::Url(_))));
    let connector = WsConnector::new("ws://localhost/?token=secret").unwrap();
    let connector = connector.header(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer secret"));
    assert!(!format!("{connector:?}").contains("secret"));
}
