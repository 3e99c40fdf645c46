//! How connections stay, and how they end.

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
use turms_proto::ProtocolVersion;
use turms_server::Server;
use turms_testkit::within;
use turms_ws::{ServeWs as _, WsConnector};

use crate::fixture::{Served, builder, connect};
use turms_testkit::raw_ws::{CLOSE, PING, PONG, WsConnection};

const MOMENT: Duration = Duration::from_millis(20);

/// How a client says that it lost its connection, from now on.
fn lost(client: &Client) -> impl Future<Output = String> + use<> {
    let mut events = client.events();
    async move {
        let lost = events.find(|event| match event {
            Event::Connection(ConnectionEvent::Lost(why)) => Some(why.to_string()),
            _ => None,
        });
        within("the end of the connection", lost).await.unwrap()
    }
}

#[tokio::test]
async fn a_server_that_shuts_down_says_so_and_ends() {
    let served = Served::new().await;
    let mut hand = WsConnection::open(served.address).await;
    served.router.handle().shutdown();
    assert_eq!(hand.goodbye().await, (1001, "the server is shutting down".to_owned()));
    hand.send(CLOSE, &1001_u16.to_be_bytes()).await;
    hand.end().await;
    within("the end of the server", served.ended).await.unwrap().unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn a_server_can_be_served_in_one_line() {
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
async fn a_client_that_does_not_answer_a_goodbye_does_not_keep_the_server() {
    let served = Served::new().await;
    let mut hand = WsConnection::open(served.address).await;
    let _silent = TcpStream::connect(served.address).await.unwrap();
    served.router.handle().shutdown();
    hand.goodbye().await;
    within("the end of the server", served.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_hears_why_the_server_ended() {
    let served = Served::new().await;
    let client = served.client().await;
    let lost = lost(&client);
    served.router.handle().shutdown();
    let why = lost.await;
    assert!(why.contains("closed the connection (1001 going away: the server is shutting down)"), "{why}");
}

#[tokio::test]
async fn a_goodbye_is_answered_and_the_server_closes_first() {
    let served = Served::new().await;
    let mut hand = WsConnection::open(served.address).await;
    hand.text(SLOW).await;
    served.reaches("started", 1).await;
    hand.send(CLOSE, &[&1000_u16.to_be_bytes()[..], b"done"].concat()).await;
    assert_eq!(hand.goodbye().await, (1000, "done".to_owned()));
    hand.end().await;
    served.reaches("stopped", 1).await;
}

/// A call of the newest revision that never ends.
const SLOW: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

#[tokio::test]
async fn what_a_client_that_is_gone_had_asked_for_is_stopped() {
    let served = Served::new().await;
    for calls in 1..=3 {
        let mut hand = WsConnection::open(served.address).await;
        hand.text(SLOW).await;
        served.reaches("started", calls).await;
        drop(hand);
        served.reaches("stopped", calls).await;
    }
    served.router.handle().shutdown();
    within("the end of the server", served.ended).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_is_dropped_closes_the_connection() {
    let served = Served::with(|service| service.max_connections(1)).await;
    for version in ProtocolVersion::ALL {
        let client = within("a place", async {
            loop {
                match builder().only_version(version).connect_to(served.connector()).await {
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
async fn a_connector_connects_as_often_as_it_is_asked_to() {
    let served = Served::new().await;
    let connector = Arc::new(served.connector());
    for _ in 0..2 {
        let client = builder().connect_to(connector.clone()).await.unwrap();
        client.call_tool("list", ()).await.unwrap();
        within("the goodbye", client.close()).await;
    }
}

#[tokio::test]
async fn a_quiet_client_is_pinged_and_stays_if_it_answers() {
    let served = Served::with(|service| service.ping_interval(MOMENT)).await;
    let mut hand = WsConnection::open(served.address).await;
    for _ in 0..3 {
        let ping = hand.frame().await;
        assert_eq!((ping.kind, ping.last), (PING, true));
        hand.send(PONG, &ping.payload).await;
    }
    hand.send(PING, b"").await;
    while hand.frame().await.kind != PONG {}
}

#[tokio::test]
async fn a_client_that_answers_no_ping_is_given_up() {
    let served = Served::with(|service| service.ping_interval(MOMENT).ping_timeout(MOMENT)).await;
    let mut hand = WsConnection::open(served.address).await;
    hand.text(SLOW).await;
    served.reaches("started", 1).await;
    assert_eq!(hand.frame().await.kind, PING);
    hand.end().await;
    served.reaches("stopped", 1).await;
}

/// A server by hand, on the library that both sides use below: what it does once the client is there.
async fn server<F: Future<Output = ()> + Send>(
    then: impl Fn(WebSocketStream<TcpStream>) -> F + Send + Sync + 'static,
) -> WsConnector {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        // A client whose first question is the end of the connection asks another one over a new one.
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            #[expect(clippy::result_large_err, reason = "the library wants it so")]
            let grant = |request: &Request, mut response: Response| {
                let asked = request.headers()["sec-websocket-protocol"].clone();
                response.headers_mut().insert("sec-websocket-protocol", asked);
                Ok(response)
            };
            then(tokio_tungstenite::accept_hdr_async(stream, grant).await.unwrap()).await;
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

fn goodbye(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::from(code), reason: reason.into() }))
}

/// Answers the first question, so that the client is connected.
async fn welcome(web: &mut WebSocketStream<TcpStream>) {
    let question = next(web).await.unwrap().into_text().unwrap();
    let question: serde_json::Value = serde_json::from_str(&question).unwrap();
    let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": {
        "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "ttlMs": 0, "cacheScope": "private",
    } });
    send(web, Message::text(answer.to_string())).await;
}

#[tokio::test]
async fn a_server_that_refuses_at_once_is_quoted() {
    let connector = server(async |mut web| send(&mut web, goodbye(4001, "not today")).await).await;
    let error = within("an error", builder().connect_to(connector)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Ended(_)), "{error:?}");
    let expected = "the server closed the connection (4001: not today) before the connection was open";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn a_client_says_how_its_server_went() {
    const SILENT: &str = "sent nothing for";
    type Web = WebSocketStream<TcpStream>;
    type End = fn(Web) -> turms_core::BoxFuture<'static, ()>;
    let ends: [(End, &str); 4] = [
        (
            |mut web| Box::pin(async move { send(&mut web, goodbye(1011, "no more memory")).await }),
            "(1011 internal error: no more memory)",
        ),
        (|web| Box::pin(async move { drop(web) }), "dropped the connection"),
        (
            |mut web| {
                Box::pin(async move {
                    send(&mut web, Message::binary(vec![1])).await;
                    let Some(Message::Close(Some(close))) = next(&mut web).await else { panic!("no goodbye") };
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
        let connector = server(move |mut web| async move {
            welcome(&mut web).await;
            // Only once the client listens for it is its end heard of.
            next(&mut web).await;
            end(web).await;
        })
        .await;
        let silent = how == SILENT;
        // Long enough for the first answers of a machine that has much to do.
        let connector =
            if silent { connector.ping_interval(Duration::from_secs(2)).ping_timeout(MOMENT) } else { connector };
        let client = connect(connector, builder()).await;
        let lost = lost(&client);
        let _call = tokio::spawn(client.call_tool("any", ()).into_future());
        let why = lost.await;
        assert!(why.contains(how), "{why}");
    }
}

#[tokio::test]
async fn a_client_that_closes_says_goodbye() {
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    let connector = server(move |mut web| {
        let heard = heard.clone();
        async move {
            welcome(&mut web).await;
            loop {
                if let Message::Close(close) = next(&mut web).await.unwrap() {
                    // To read on is to answer.
                    while next(&mut web).await.is_some() {}
                    return heard.send(close.map(|close| u16::from(close.code))).unwrap();
                }
            }
        }
    })
    .await;
    let client = connect(connector, builder()).await;
    within("the goodbye", client.close()).await;
    assert_eq!(within("the goodbye", hearing.recv()).await.unwrap(), Some(1000));
}

#[tokio::test]
async fn a_message_that_is_too_long_for_a_client_ends_its_connection() {
    let connector = server(async move |mut web| {
        welcome(&mut web).await;
        next(&mut web).await;
        send(&mut web, Message::text(" ".repeat(1001))).await;
        let Some(Message::Close(Some(close))) = next(&mut web).await else { panic!("no goodbye") };
        assert_eq!(u16::from(close.code), 1009);
    })
    .await;
    let client = connect(connector.limit(1000), builder()).await;
    let lost = lost(&client);
    let _call = tokio::spawn(client.call_tool("any", ()).into_future());
    assert!(lost.await.contains("longer than the limit of 1000 bytes"));
}

#[tokio::test]
async fn a_second_initialize_begins_another_session() {
    let initialize = |id: u32| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}}}}}"#
        )
    };
    let served = Served::new().await;
    let mut hand = WsConnection::open(served.address).await;
    hand.text(&initialize(0)).await;
    assert!(hand.message().await.0.contains(r#""id":0,"result""#));
    hand.text(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    for id in [1, 2] {
        let call = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"slow"}}}}"#);
        hand.text(&call).await;
    }
    served.reaches("started", 2).await;
    hand.text(&initialize(1)).await;
    let (ended, _) = hand.message().await;
    assert!(ended.contains(r#""id":2,"error""#) && ended.contains("the session has ended"), "{ended}");
    let (answer, _) = hand.message().await;
    assert!(answer.contains(r#""id":1,"result":{"protocolVersion":"2025-11-25""#), "{answer}");
    served.reaches("stopped", 2).await;
}

#[tokio::test]
async fn calls_that_wait_are_counted_by_what_they_keep() {
    let mut options = Limits::default();
    (options.max_in_flight, options.max_queued_bytes) = (1, 4 * 1024);
    let served = Served::limited(options).await;
    let mut hand = WsConnection::open(served.address).await;
    hand.text(SLOW).await;
    served.reaches("started", 1).await;
    let list = |id: &str, junk: &str| SLOW.replace("slow", "list").replace(r#""id":1"#, &format!(r#""id":{id}{junk}"#));
    let junk = format!(r#","junk":"{}""#, "x".repeat(64 * 1024));
    for id in 2..10 {
        hand.text(&list(&id.to_string(), &junk)).await;
    }
    let long_id = format!(r#""{}""#, "x".repeat(4 * 1024));
    hand.text(&list(&long_id, "")).await;
    let (refused, _) = hand.message().await;
    assert!(refused.contains(&long_id) && refused.contains("too many requests in flight"), "{refused}");
    hand.text(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    for id in 2..10 {
        let (answer, _) = hand.message().await;
        assert!(answer.contains(&format!(r#""id":{id},"result""#)), "{answer}");
    }
}

#[tokio::test]
async fn responses_are_read_however_many_notifications_wait_for_them() {
    let server = Server::new("asking", "1").on_notification(|_, _, context| {
        Box::pin(async move {
            let _ = context.roots().await;
        })
    });
    let at_once = Limits::default().max_notifications;
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(listener.serve(server.ws()));
    let mut hand = WsConnection::open(address).await;
    hand.text(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#).await;
    assert!(hand.message().await.0.contains(r#""id":0,"result""#));
    // The server asks when it hears this one, too.
    hand.text(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    for _ in 0..at_once {
        hand.text(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#).await;
    }
    hand.text(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#).await;
    let mut asked = Vec::new();
    let mut pongs = 0;
    while asked.len() < at_once || pongs == 0 {
        let message: serde_json::Value = serde_json::from_str(&hand.message().await.0).unwrap();
        match message["method"].as_str() {
            Some("roots/list") => asked.push(message["id"].clone()),
            _ => pongs += usize::from(message["id"] == "ping"),
        }
    }
    for id in asked {
        hand.text(&json!({ "jsonrpc": "2.0", "id": id, "result": { "roots": [] } }).to_string()).await;
    }
    assert!(hand.message().await.0.contains("roots/list"), "the last one is heard once another has been");
}
