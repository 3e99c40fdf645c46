//! The heartbeat, the closing and the limits of connections.

use std::sync::Arc;
use std::time::Duration;

use futures_core::Stream as _;
use futures_sink::Sink as _;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use turms_client::{Client, ConnectionEvent, Event};
use turms_core::{ConnectError, Limits};
use turms_http::Listener;
use turms_proto::{ProtocolVersion, RawJson};
use turms_server::Server;
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsConnector};

use crate::fixture::{TestServer, builder, connect};
use turms_testkit::raw_ws::{CLOSE, PING, PONG, WsConnection};

const SHORT_TIMEOUT: Duration = Duration::from_millis(20);

/// Waits for the event that the connection of a client is closed, and returns the reason.
fn closed(client: &Client) -> impl Future<Output = String> + use<> {
    let mut events = client.events();
    async move {
        let closed = events.find(|event| match event {
            Event::Connection(ConnectionEvent::Lost(reason)) => Some(reason.to_string()),
            _ => None,
        });
        within("the end of the connection", closed).await.unwrap()
    }
}

#[tokio::test]
async fn a_shutdown_closes_connections_with_1001() {
    let server = TestServer::new().await;
    let mut raw = WsConnection::open(server.address).await;
    server.router.handle().shutdown();
    assert_eq!(raw.close_frame().await, (1001, "the server is shutting down".to_owned()));
    raw.send(CLOSE, &1001_u16.to_be_bytes()).await;
    raw.assert_closed().await;
    within("the end of the server", server.serving).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err());
}

#[tokio::test]
async fn serve_ws_listens_until_the_shutdown() {
    use turms_ws::ServeWs as _;

    let router = crate::fixture::server(&Arc::default());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = router.clone().serve_ws(&address).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}"));
    let handle = router.handle().clone();
    let serving = tokio::spawn(router.serve_ws("127.0.0.1:0"));
    handle.shutdown();
    within("the end of the server", serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_respond_to_a_close_frame_does_not_block_the_shutdown() {
    let server = TestServer::new().await;
    let mut raw = WsConnection::open(server.address).await;
    let _silent = TcpStream::connect(server.address).await.unwrap();
    server.router.handle().shutdown();
    raw.close_frame().await;
    within("the end of the server", server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_sees_the_reason_of_a_shutdown() {
    let server = TestServer::new().await;
    let client = server.client().await;
    let closed = closed(&client);
    server.router.handle().shutdown();
    let reason = closed.await;
    assert!(reason.contains("closed the connection (1001 going away: the server is shutting down)"), "{reason}");
}

#[tokio::test]
async fn a_close_frame_has_a_response_and_the_server_closes_first() {
    let server = TestServer::new().await;
    let mut raw = WsConnection::open(server.address).await;
    raw.text(SLOW).await;
    server.reaches("started", 1).await;
    raw.send(CLOSE, &[&1000_u16.to_be_bytes()[..], b"done"].concat()).await;
    assert_eq!(raw.close_frame().await, (1000, "done".to_owned()));
    raw.assert_closed().await;
    server.reaches("stopped", 1).await;
}

/// A call of the newest revision that never ends.
const SLOW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[tokio::test]
async fn calls_of_a_disconnected_client_are_cancelled() {
    let server = TestServer::new().await;
    for calls in 1..=3 {
        let mut raw = WsConnection::open(server.address).await;
        raw.text(SLOW).await;
        server.reaches("started", calls).await;
        drop(raw);
        server.reaches("stopped", calls).await;
    }
    server.router.handle().shutdown();
    within("the end of the server", server.serving).await.unwrap().unwrap();
}

#[tokio::test]
async fn dropping_a_client_closes_the_connection() {
    let server = TestServer::with(|service| service.max_connections(1)).await;
    for version in ProtocolVersion::ALL {
        let client = within("a free connection", async {
            loop {
                match builder().protocol_version(version).connect(server.connector()).await {
                    Ok(client) => break client,
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        })
        .await;
        assert_eq!(client.call_tool("add", json!({ "a": 1, "b": 1 })).await.unwrap().text(), "2");
    }
}

#[tokio::test]
async fn a_connector_can_connect_repeatedly() {
    let server = TestServer::new().await;
    let connector = Arc::new(server.connector());
    for _ in 0..2 {
        let client = builder().connect(connector.clone()).await.unwrap();
        client.call_tool("list", ()).await.unwrap();
        within("the close", client.close()).await;
    }
}

#[tokio::test]
async fn a_client_that_responds_to_pings_stays_connected() {
    let server = TestServer::with(|service| service.ping_interval(SHORT_TIMEOUT)).await;
    let mut raw = WsConnection::open(server.address).await;
    for _ in 0..3 {
        let ping = raw.frame().await;
        assert_eq!((ping.kind, ping.last), (PING, true));
        raw.send(PONG, &ping.payload).await;
    }
    raw.send(PING, b"").await;
    while raw.frame().await.kind != PONG {}
}

#[tokio::test]
async fn a_client_that_does_not_respond_to_a_ping_is_disconnected() {
    let server = TestServer::with(|service| service.ping_interval(SHORT_TIMEOUT).ping_timeout(SHORT_TIMEOUT)).await;
    let mut raw = WsConnection::open(server.address).await;
    raw.text(SLOW).await;
    server.reaches("started", 1).await;
    assert_eq!(raw.frame().await.kind, PING);
    raw.assert_closed().await;
    server.reaches("stopped", 1).await;
}

/// Starts a raw server that runs `serve` for each connection, and returns a connector to it.
async fn raw_server<F: Future<Output = ()> + Send>(
    serve: impl Fn(WebSocketStream<TcpStream>) -> F + Send + Sync + 'static,
) -> WsConnector {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        // A client whose first request closes the connection opens another one.
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            #[expect(clippy::result_large_err, reason = "the signature of tungstenite's callback")]
            let accept = |request: &Request, mut response: Response| {
                let subprotocol = request.headers()["sec-websocket-protocol"].clone();
                response.headers_mut().insert("sec-websocket-protocol", subprotocol);
                Ok(response)
            };
            serve(tokio_tungstenite::accept_hdr_async(stream, accept).await.unwrap()).await;
        }
    });
    WsConnector::new(url).unwrap()
}

async fn next(web: &mut WebSocketStream<TcpStream>) -> Option<Message> {
    std::future::poll_fn(|task| std::pin::Pin::new(&mut *web).poll_next(task)).await.and_then(Result::ok)
}

async fn send(web: &mut WebSocketStream<TcpStream>, message: Message) {
    let mut web = std::pin::Pin::new(web);
    std::future::poll_fn(|task| web.as_mut().poll_ready(task)).await.unwrap();
    web.as_mut().start_send(message).unwrap();
    std::future::poll_fn(|task| web.as_mut().poll_flush(task)).await.unwrap();
}

fn close_message(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
}

/// Responds to `server/discover`, so that the client is connected.
async fn respond_to_discover(web: &mut WebSocketStream<TcpStream>) {
    let request = next(web).await.unwrap().into_text().unwrap();
    let request: serde_json::Value = serde_json::from_str(&request).unwrap();
    let response = json!({ "jsonrpc": "2.0", "id": request["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
    } });
    send(web, Message::text(response.to_string())).await;
}

#[tokio::test]
async fn a_close_frame_before_the_handshake_is_an_error_with_its_reason() {
    let connector = raw_server(async |mut web| send(&mut web, close_message(4001, "not today")).await).await;
    let error = within("an error", builder().connect(connector)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Closed(_)), "{error:?}");
    let expected = "the server closed the connection (4001: not today) before the connection was open";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_client_sees_why_the_connection_was_closed() {
    const SILENT: &str = "sent nothing for";
    type Web = WebSocketStream<TcpStream>;
    type End = fn(Web) -> turms_core::BoxFuture<'static, ()>;
    let ends: [(End, &str); 4] = [
        (
            |mut web| Box::pin(async move { send(&mut web, close_message(1011, "no more memory")).await }),
            "(1011 internal error: no more memory)",
        ),
        (|web| Box::pin(async move { drop(web) }), "disconnected"),
        (
            |mut web| {
                Box::pin(async move {
                    send(&mut web, Message::binary(vec![1])).await;
                    let Some(Message::Close(Some(close))) = next(&mut web).await else { panic!("no close frame") };
                    assert_eq!(u16::from(close.code), 1003);
                })
            },
            "a message must be text, not binary",
        ),
        (
            |web| {
                Box::pin(async move {
                    std::future::pending::<()>().await;
                    drop(web)
                })
            },
            SILENT,
        ),
    ];
    for (end, how) in ends {
        let connector = raw_server(move |mut web| async move {
            respond_to_discover(&mut web).await;
            // Waits for the call, which is sent after the client has begun to listen for events.
            next(&mut web).await;
            end(web).await;
        })
        .await;
        let silent = how == SILENT;
        // Long enough for the first responses on a busy machine.
        let connector = if silent {
            connector.ping_interval(Duration::from_secs(2)).ping_timeout(SHORT_TIMEOUT)
        } else {
            connector
        };
        let client = connect(connector, builder()).await;
        let closed = closed(&client);
        let _call = tokio::spawn(client.call_tool("any", ()).into_future());
        let reason = closed.await;
        assert!(reason.contains(how), "{reason}");
    }
}

#[tokio::test]
async fn a_client_that_closes_sends_a_close_frame() {
    let (sender, mut codes) = tokio::sync::mpsc::unbounded_channel();
    let connector = raw_server(move |mut web| {
        let sender = sender.clone();
        async move {
            respond_to_discover(&mut web).await;
            loop {
                if let Message::Close(close) = next(&mut web).await.unwrap() {
                    // Reading sends the response to the close frame.
                    while next(&mut web).await.is_some() {}
                    return sender.send(close.map(|close| u16::from(close.code))).unwrap();
                }
            }
        }
    })
    .await;
    let client = connect(connector, builder()).await;
    within("the close", client.close()).await;
    assert_eq!(within("the close frame", codes.recv()).await.unwrap(), Some(1000));
}

#[tokio::test]
async fn a_message_over_the_limit_of_a_client_closes_the_connection() {
    let connector = raw_server(async move |mut web| {
        respond_to_discover(&mut web).await;
        next(&mut web).await;
        send(&mut web, Message::text(" ".repeat(1001))).await;
        let Some(Message::Close(Some(close))) = next(&mut web).await else { panic!("no close frame") };
        assert_eq!(u16::from(close.code), 1009);
    })
    .await;
    let client = connect(connector.max_message_bytes(1000), builder()).await;
    let closed = closed(&client);
    let _call = tokio::spawn(client.call_tool("any", ()).into_future());
    assert!(closed.await.contains("longer than the limit of 1000 bytes"));
}

#[tokio::test]
async fn a_second_initialize_begins_another_session() {
    let initialize = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        )
    };
    let server = TestServer::new().await;
    let mut raw = WsConnection::open(server.address).await;
    raw.text(&initialize(0)).await;
    assert!(raw.message().await.0.contains(r#""id":0,"result""#));
    raw.text(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    for id in [1, 2] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow"}}}}"#);
        raw.text(&call).await;
    }
    server.reaches("started", 2).await;
    raw.text(&initialize(1)).await;
    let (ended, _) = raw.message().await;
    assert!(ended.contains(r#""id":2,"error""#) && ended.contains("the session has ended"), "{ended}");
    let (response, _) = raw.message().await;
    assert!(response.contains(r#""id":1,"result":{"protocolVersion":"2025-11-25""#), "{response}");
    server.reaches("stopped", 2).await;
}

#[tokio::test]
async fn waiting_calls_count_by_the_bytes_that_they_keep() {
    let mut options = Limits::default();
    (options.max_in_flight, options.max_queued_bytes) = (1, 4 * 1024);
    let server = TestServer::limited(options).await;
    let mut raw = WsConnection::open(server.address).await;
    raw.text(SLOW).await;
    server.reaches("started", 1).await;
    let list = |id: &str, junk: &str| SLOW.replace("slow", "list").replace(r#""id":1"#, &format!(r#""id":{id}{junk}"#));
    let junk = format!(r#","junk":"{}""#, "x".repeat(64 * 1024));
    for id in 2..10 {
        raw.text(&list(&id.to_string(), &junk)).await;
    }
    let long_id = format!(r#""{}""#, "x".repeat(4 * 1024));
    raw.text(&list(&long_id, "")).await;
    let (refused, _) = raw.message().await;
    assert!(refused.contains(&long_id) && refused.contains("too many requests in flight"), "{refused}");
    raw.text(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    for id in 2..10 {
        let (response, _) = raw.message().await;
        assert!(response.contains(&format!(r#""id":{id},"result""#)), "{response}");
    }
}

#[tokio::test]
async fn responses_are_read_even_if_many_notification_handlers_wait_for_them() {
    let server = Server::new("requesting", "1").notification_fallback(|_, _: RawJson, context| async move {
        let _ = context.list_roots().await;
    });
    let at_once = Limits::default().max_notifications;
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listener.serve(server.into_ws_service().unwrap()));
    let mut raw = WsConnection::open(address).await;
    raw.text(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#).await;
    assert!(raw.message().await.0.contains(r#""id":0,"result""#));
    // The server sends a request for this notification, too.
    raw.text(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    for _ in 0..at_once {
        raw.text(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await;
    }
    raw.text(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#).await;
    let mut requests = Vec::new();
    let mut pongs = 0;
    while requests.len() < at_once || pongs == 0 {
        let message: serde_json::Value = serde_json::from_str(&raw.message().await.0).unwrap();
        match message["method"].as_str() {
            Some("roots/list") => requests.push(message["id"].clone()),
            _ => pongs += usize::from(message["id"] == "ping"),
        }
    }
    for id in requests {
        raw.text(&json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } }).to_string()).await;
    }
    assert!(raw.message().await.0.contains("roots/list"), "the last notification is handled after another one");
}
