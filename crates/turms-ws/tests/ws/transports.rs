//! Behaviour that is the same over every transport: a byte stream, HTTP sessions, HTTP+SSE and WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use turms_core::layer::{
    ConcurrencyLimitLayer, Layer, RateLimitLayer, ResponseSizeLimitLayer, TimeoutLayer, TraceLayer, from_tower,
};
use turms_core::transport::memory;
use turms_core::{
    CallContext, Connection, Endpoint, Error, IntoEndpoint as _, Limits, NotifyFuture, Request, ResponseFuture, Service,
};
use turms_http::{Listener, ServeHttp as _};
use turms_proto::{Notification, ProtocolVersion, RawJson};
use turms_server::{Server, Session, Tool};
use turms_testkit::messages::{call, initialize, notification, request};
use turms_testkit::raw_http::{self, Stream};
use turms_testkit::raw_ws::{CLOSE, TEXT, WsConnection};
use turms_testkit::{CallCounters, TIMEOUT, within};
use turms_ws::ServeWs as _;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    ByteStream,
    HttpSession,
    HttpSse,
    WebSocket,
}

const TRANSPORTS: [Transport; 4] =
    [Transport::ByteStream, Transport::HttpSession, Transport::HttpSse, Transport::WebSocket];

const MAX_MESSAGE_BYTES: usize = 2000;
const MAX_BATCH: usize = 2;

/// The limits of the servers. The drain timeout is that of the tests, so that running calls can finish.
fn limits() -> Limits {
    Limits::new().max_message_bytes(MAX_MESSAGE_BYTES).max_batch(MAX_BATCH).drain_timeout(TIMEOUT)
}

/// The only revision of the servers, which has sessions and batches.
const VERSION: &str = "2025-03-26";

/// A server that counts in `counters`: `opened` and `closed` sessions, `started` calls of `wait`, and notifications by method. The
/// tool `wait` returns when the counter `released` is 1.
fn server(counters: &Arc<CallCounters>) -> Server {
    struct Calls(usize);
    let (waiting, opened, closed, notified) = (counters.clone(), counters.clone(), counters.clone(), counters.clone());
    Server::new("transports", "1.0.0")
        .protocol_versions([ProtocolVersion::V2025_03_26])
        .limits(limits())
        .tool(Tool::builder("wait").handler(move || {
            let counters = waiting.clone();
            async move {
                counters.add("started", 1);
                counters.reaches("released", 1).await;
                "released"
            }
        }))
        .tool(Tool::builder("count").handler_sync(|session: Session| {
            let calls = session.get::<Calls>().map_or(0, |calls| calls.0) + 1;
            session.insert(Calls(calls));
            calls.to_string()
        }))
        .on_session_start(move |_, _| {
            opened.add("opened", 1);
            async { Ok(()) }
        })
        .on_session_end(move |_, _| {
            closed.add("closed", 1);
        })
        .notification_fallback(move |method, _: RawJson, _| {
            notified.add(&method, 1);
            async {}
        })
}

/// An endpoint that is served over a transport.
struct ServedEndpoint {
    transport: Transport,
    endpoint: Endpoint,
    /// The address and the task of a transport that listens.
    listening: Option<(SocketAddr, JoinHandle<Result<(), Error>>)>,
}

impl ServedEndpoint {
    async fn start(transport: Transport, endpoint: Endpoint) -> Self {
        if transport == Transport::ByteStream {
            return Self { transport, endpoint, listening: None };
        }
        let listener = Listener::bind("127.0.0.1:0").await.unwrap().drain_timeout(TIMEOUT);
        let address = listener.local_addr().unwrap();
        let serving = match transport {
            Transport::WebSocket => tokio::spawn(listener.serve(endpoint.clone().into_ws_service().unwrap())),
            _ => tokio::spawn(listener.serve(endpoint.clone().into_http_service().unwrap())),
        };
        Self { transport, endpoint, listening: Some((address, serving)) }
    }

    fn address(&self) -> SocketAddr {
        self.listening.as_ref().expect("the transport listens").0
    }

    /// Connects a client and completes the handshake.
    async fn connect(&self) -> RawClient {
        let wire = match self.transport {
            Transport::ByteStream => {
                let (near, far) = memory();
                let endpoint = self.endpoint.clone();
                let info = endpoint.info();
                let (connection, _) = Connection::server(far.0, far.1, &info.versions, info.limits.clone());
                tokio::spawn(async move { connection.serve(&endpoint).await });
                Wire::ByteStream(BufReader::new(near.0).lines(), near.1)
            }
            Transport::HttpSession => {
                Wire::HttpSession { address: self.address(), session: None, posts: Vec::new(), events: None }
            }
            Transport::HttpSse => {
                let mut connection = raw_http::Connection::open(self.address()).await;
                connection.send(&raw_http::Request::get().path("/sse")).await;
                let mut stream = within("a stream", connection.into_stream()).await;
                let path = format!("/{}", stream.event().await.data.unwrap());
                Wire::HttpSse { address: self.address(), path, stream }
            }
            Transport::WebSocket => Wire::WebSocket(WsConnection::open(self.address()).await),
        };
        let mut client = RawClient { wire };
        client.initialize().await;
        client
    }
}

/// A client that sends and receives raw messages.
struct RawClient {
    wire: Wire,
}

enum Wire {
    ByteStream(Lines<BufReader<ReadHalf<DuplexStream>>>, WriteHalf<DuplexStream>),
    HttpSession {
        address: SocketAddr,
        session: Option<String>,
        /// The requests without a response, with their bodies.
        posts: Vec<(Value, raw_http::Connection)>,
        /// The stream of the session that belongs to no call.
        events: Option<Stream>,
    },
    HttpSse {
        address: SocketAddr,
        path: String,
        stream: Stream,
    },
    WebSocket(WsConnection),
}

impl RawClient {
    /// Sends `initialize` with a newer revision than the server has.
    async fn initialize(&mut self) {
        let message = initialize("2025-11-25");
        let response = if let Wire::HttpSession { address, session, .. } = &mut self.wire {
            let response = post(*address, raw_http::Request::post(message)).await;
            *session = response.header("mcp-session-id").map(str::to_owned);
            response.answer()
        } else {
            self.request(message).await
        };
        assert_eq!(response["result"]["protocolVersion"], VERSION, "{response}");
        self.send(notification("notifications/initialized")).await;
        if let Wire::HttpSession { address, session, events, .. } = &mut self.wire {
            let mut connection = raw_http::Connection::open(*address).await;
            connection.send(&raw_http::Request::get().session(session.as_ref().unwrap())).await;
            *events = Some(within("a stream", connection.into_stream()).await);
        }
    }

    /// Sends a message. Returns the response of HTTP if that has an error status.
    async fn send(&mut self, message: Value) -> Option<raw_http::Response> {
        match &mut self.wire {
            Wire::ByteStream(_, writer) => {
                within("a write", writer.write_all(format!("{message}\n").as_bytes())).await.unwrap();
            }
            Wire::HttpSession { address, session, posts, .. } => {
                let mut connection = raw_http::Connection::open(*address).await;
                connection.send(&raw_http::Request::post(&message).session(session.as_ref().unwrap())).await;
                posts.push((message, connection));
            }
            Wire::HttpSse { address, path, .. } => {
                let response = post(*address, raw_http::Request::post(message).path(path.as_str())).await;
                return (response.status() >= 300).then_some(response);
            }
            Wire::WebSocket(connection) => connection.text(&message.to_string()).await,
        }
        None
    }

    /// Reads the next message of a transport that has one stream of them; `None` at its end.
    async fn next(&mut self) -> Option<Value> {
        match &mut self.wire {
            Wire::ByteStream(reader, _) => {
                let line = within("a line", reader.next_line()).await.unwrap()?;
                Some(serde_json::from_str(&line).unwrap())
            }
            Wire::HttpSse { stream, .. } => stream.try_message().await,
            Wire::WebSocket(connection) => Some(serde_json::from_str(&connection.message().await.0).unwrap()),
            Wire::HttpSession { .. } => panic!("the messages of an HTTP session have many streams"),
        }
    }

    /// Reads the response to a message that was sent.
    async fn response_to(&mut self, message: &Value) -> Value {
        if let Wire::HttpSession { posts, .. } = &mut self.wire {
            let index = posts.iter().position(|(sent, _)| sent == message).expect("a message that was sent");
            let (_, mut connection) = posts.remove(index);
            let response = within("a response", connection.response()).await;
            return response.messages().pop().unwrap_or_else(|| panic!("{response}"));
        }
        let id_of = |message: &Value| message.get(0).unwrap_or(message)["id"].clone();
        loop {
            let response = self.next().await.expect("a response before the end of the stream");
            if id_of(&response) == id_of(message) {
                return response;
            }
        }
    }

    /// Sends a message and reads its response.
    async fn request(&mut self, message: Value) -> Value {
        let refused = self.send(message.clone()).await;
        assert!(refused.is_none(), "{refused:?}");
        self.response_to(&message).await
    }

    /// Calls a tool and returns the text of its result.
    async fn call(&mut self, id: u32, tool: &str) -> String {
        let response = self.request(call(id, tool, json!({}))).await;
        response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// Sends a message that is refused. Returns the status of HTTP or WebSocket, if there is one, and the reason.
    async fn refusal(&mut self, message: Value) -> String {
        let mut refused = self.send(message.clone()).await;
        if let Wire::HttpSession { posts, .. } = &mut self.wire {
            refused = Some(within("a response", posts.pop().unwrap().1.response()).await);
        }
        let reason = |error: &Value| error["error"]["message"].as_str().unwrap_or_else(|| panic!("{error}")).to_owned();
        if let Some(response) = refused {
            return format!("{} {}", response.status(), reason(&response.messages().pop().unwrap()));
        }
        if let Wire::WebSocket(connection) = &mut self.wire {
            let frame = connection.frame().await;
            if frame.kind == CLOSE {
                let code = u16::from_be_bytes([frame.payload[0], frame.payload[1]]);
                return format!("{code} {}", String::from_utf8_lossy(&frame.payload[2..]));
            }
            assert_eq!((frame.kind, frame.last), (TEXT, true));
            return reason(&serde_json::from_slice(&frame.payload).unwrap());
        }
        reason(&self.next().await.expect("a refusal before the end of the stream"))
    }

    /// Waits until the server has closed the connection, or ended the streams of the session.
    async fn end(self) {
        match self.wire {
            Wire::ByteStream(mut reader, _) => {
                let line = within("the end of the stream", reader.next_line()).await.unwrap();
                assert_eq!(line, None);
            }
            Wire::HttpSession { posts, events, .. } => {
                assert!(events.unwrap().rest().await.is_empty());
                drop(posts);
            }
            Wire::HttpSse { stream, .. } => assert!(stream.rest().await.is_empty()),
            Wire::WebSocket(mut connection) => {
                assert_eq!(connection.close_frame().await, (1001, "the server is shutting down".to_owned()));
                connection.send(CLOSE, &1001_u16.to_be_bytes()).await;
                connection.assert_closed().await;
            }
        }
    }
}

async fn post(address: SocketAddr, request: raw_http::Request) -> raw_http::Response {
    let mut connection = raw_http::Connection::open(address).await;
    connection.send(&request).await;
    within("a response", connection.response()).await
}

fn pings(count: usize) -> Value {
    (0..count).map(|id| request(100 + id, "ping", None)).collect()
}

/// Checks the limits on the length of a message and of a batch. The last message is too long, which closes a WebSocket.
async fn check_message_limits(transport: Transport, mut client: RawClient, note: &str) {
    let batch = client.request(pings(MAX_BATCH)).await;
    assert_eq!(batch.as_array().map(Vec::len), Some(MAX_BATCH), "{transport:?}, {note}: {batch}");
    let status = |status: &str| match transport {
        Transport::HttpSession | Transport::HttpSse => format!("{status} "),
        Transport::ByteStream | Transport::WebSocket => String::new(),
    };
    let refused = client.refusal(pings(MAX_BATCH + 1)).await;
    let reason = format!("{}a batch may hold at most 2 messages", status("400"));
    assert_eq!(refused, reason, "{transport:?}, {note}");
    let refused = client.refusal(call(7, "count", json!({ "text": "x".repeat(MAX_MESSAGE_BYTES) }))).await;
    let reason = match transport {
        Transport::ByteStream => "longer than the limit of 2000 bytes",
        Transport::HttpSession | Transport::HttpSse => "413 the body is longer than 2000 bytes",
        Transport::WebSocket => "1009 a message is longer than the limit of 2000 bytes",
    };
    assert!(refused.contains(reason), "{transport:?}, {note}: {refused}");
}

/// Checks that a shutdown lets the running call finish, refuses new requests, and ends the connection and the server. At the end,
/// all sessions are closed: `closed` equals `opened`.
async fn check_shutdown(
    served: ServedEndpoint,
    mut client: RawClient,
    counters: &CallCounters,
    shut_down: impl FnOnce(),
) {
    let transport = served.transport;
    let (opened, closed) = (counters.count("opened"), counters.count("closed"));
    let running = call(200, "wait", json!({}));
    client.send(running.clone()).await;
    within("a call", counters.reaches("started", 1)).await;
    match transport {
        Transport::ByteStream | Transport::WebSocket => {
            shut_down();
            // The connection may read a few more requests before it sees the shutdown.
            let refused = within("a refusal", async {
                for id in 201.. {
                    let response = client.request(call(id, "count", json!({}))).await;
                    if let Some(reason) = response["error"]["message"].as_str() {
                        return reason.to_owned();
                    }
                }
                String::new()
            });
            let refused = refused.await;
            assert_eq!(refused, "the connection is closing; no more requests are accepted", "{transport:?}");
        }
        Transport::HttpSession | Transport::HttpSse => {
            let mut idle = raw_http::Connection::open(served.address()).await;
            idle.send(&raw_http::Request::post("{")).await;
            assert_eq!(within("a response", idle.response()).await.status(), 400);
            shut_down();
            assert!(within("the end of an idle connection", idle.try_head()).await.is_none());
            assert!(TcpStream::connect(served.address()).await.is_err(), "{transport:?}");
        }
    }
    assert_eq!(counters.count("closed"), closed, "{transport:?}");
    counters.add("released", 1);
    let response = client.response_to(&running).await;
    assert_eq!(response["result"]["content"][0]["text"], "released", "{transport:?}: {response}");
    client.end().await;
    if let Some((address, serving)) = served.listening {
        within("the end of the server", serving).await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err(), "{transport:?}");
    }
    within("the end of all sessions", counters.reaches("closed", opened)).await;
}

#[tokio::test]
async fn the_limits_of_a_server_hold_over_every_transport() {
    for transport in TRANSPORTS {
        let counters = Arc::<CallCounters>::default();
        let server = server(&counters).limits(limits().max_in_flight(1).max_queued(0));
        let served = ServedEndpoint::start(transport, server.into_endpoint().unwrap()).await;
        let mut client = served.connect().await;
        let running = call(1, "wait", json!({}));
        client.send(running.clone()).await;
        within("a call", counters.reaches("started", 1)).await;
        let refused = client.refusal(call(2, "count", json!({}))).await;
        let refused = refused.strip_prefix("200 ").unwrap_or(&refused);
        assert_eq!(refused, "too many requests in flight; wait for responses before sending more", "{transport:?}");
        counters.add("released", 1);
        assert_eq!(client.response_to(&running).await["result"]["content"][0]["text"], "released", "{transport:?}");
        assert_eq!(client.call(3, "count").await, "1", "{transport:?}");

        let served = ServedEndpoint::start(transport, self::server(&counters).into_endpoint().unwrap()).await;
        check_message_limits(transport, served.connect().await, "no layer").await;
    }
}

#[tokio::test]
async fn a_shutdown_is_graceful_over_every_transport() {
    for transport in TRANSPORTS {
        let counters = Arc::<CallCounters>::default();
        let server = server(&counters);
        let handle = server.handle();
        let served = ServedEndpoint::start(transport, server.into_endpoint().unwrap()).await;
        let client = served.connect().await;
        within("on_session_start", counters.reaches("opened", 1)).await;
        check_shutdown(served, client, &counters, || handle.shutdown()).await;
    }
}

/// A layer of `tower` that changes nothing.
struct Identity;

impl<S> Layer<S> for Identity {
    type Service = S;

    fn layer(&self, inner: S) -> S {
        inner
    }
}

/// A layer by name, on a server and on an endpoint.
type NamedLayer = (&'static str, fn(Server) -> Server, fn(Endpoint) -> Endpoint);

macro_rules! layers {
    ($($name:literal: $layer:expr,)+) => {
        [$(($name, |server| server.layer($layer), |endpoint| endpoint.layer($layer))),+]
    };
}

const LAYERS: [NamedLayer; 6] = layers! {
    "Timeout": TimeoutLayer::new(TIMEOUT),
    "RateLimit": RateLimitLayer::new(1000, TIMEOUT),
    "ConcurrencyLimit": ConcurrencyLimitLayer::new(8),
    "ResponseSizeLimit": ResponseSizeLimitLayer::new(100_000),
    "Trace": TraceLayer::new(),
    "tower": from_tower(Identity),
};

#[tokio::test]
async fn a_layer_keeps_versions_sessions_limits_notifications_and_shutdown() {
    for transport in TRANSPORTS {
        for (name, on_server, on_endpoint) in LAYERS {
            for is_on_server in [true, false] {
                let counters = Arc::<CallCounters>::default();
                let server = server(&counters);
                let handle = server.handle();
                let endpoint = if is_on_server {
                    on_server(server).into_endpoint().unwrap()
                } else {
                    on_endpoint(server.into_endpoint().unwrap())
                };
                assert_eq!(endpoint.info().versions, [ProtocolVersion::V2025_03_26], "{name}");
                let served = ServedEndpoint::start(transport, endpoint).await;
                // The handshake checks the revision.
                let mut client = served.connect().await;
                within("on_session_start", counters.reaches("opened", 1)).await;
                assert_eq!(client.call(2, "count").await, "1", "{transport:?}, {name}");
                assert_eq!(client.call(3, "count").await, "2", "{transport:?}, {name}");
                client.send(notification("notifications/custom")).await;
                within("a notification", counters.reaches("notifications/custom", 1)).await;
                check_message_limits(transport, served.connect().await, name).await;
                within("on_session_start", counters.reaches("opened", 2)).await;
                if transport != Transport::HttpSession {
                    // That client has disconnected.
                    within("on_session_end", counters.reaches("closed", 1)).await;
                }
                check_shutdown(served, client, &counters, || handle.shutdown()).await;
            }
        }
    }
}

/// A layer that counts calls by the reason of their cancellation when they are dropped.
struct CountReasons(Arc<CallCounters>);

struct ReasonCounter(Arc<dyn Service>, Arc<CallCounters>);

/// A guard in the future of a call. When the future is dropped, it counts the reason of the cancellation.
struct ReasonGuard(CallContext, Arc<CallCounters>);

impl Layer<Arc<dyn Service>> for CountReasons {
    type Service = ReasonCounter;

    fn layer(&self, inner: Arc<dyn Service>) -> ReasonCounter {
        ReasonCounter(inner, self.0.clone())
    }
}

impl Service for ReasonCounter {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let guard = (&*request.method == "tools/call").then(|| ReasonGuard(cx.clone(), self.1.clone()));
        let call = self.0.call(request, cx);
        Box::pin(async move {
            let _guard = guard;
            call.await
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.notify(notification, cx)
    }
}

impl Drop for ReasonGuard {
    fn drop(&mut self) {
        let token = self.0.cancellation().filter(|token| token.is_cancelled());
        let counter = token.map_or("not cancelled", |token| token.reason().unwrap_or("cancelled without a reason"));
        self.1.add(counter, 1);
    }
}

#[tokio::test]
async fn a_call_sees_the_reason_of_its_cancellation_over_every_transport() {
    for transport in TRANSPORTS {
        let counters = Arc::<CallCounters>::default();
        let server = server(&counters).layer(CountReasons(counters.clone()));
        let served = ServedEndpoint::start(transport, server.into_endpoint().unwrap()).await;
        let mut client = served.connect().await;
        let reasons = [Some("too slow"), Some("changed my mind"), None];
        for id in 0..reasons.len() {
            client.send(call(id, "wait", json!({}))).await;
            within("a call", counters.reaches("started", id as i64 + 1)).await;
        }
        for (id, reason) in reasons.into_iter().enumerate() {
            let mut cancelled = notification("notifications/cancelled");
            cancelled["params"] = json!({ "requestId": id });
            if let Some(reason) = reason {
                cancelled["params"]["reason"] = reason.into();
            }
            client.send(cancelled).await;
            let counter = reason.unwrap_or("cancelled without a reason");
            within(&format!("{counter:?} over {transport:?}"), counters.reaches(counter, 1)).await;
        }
        // The reason belongs to one call, not to its id.
        assert_eq!(client.call(0, "count").await, "1", "{transport:?}");
        assert_eq!(counters.count("not cancelled"), 1, "{transport:?}: {:?}", counters.all());
    }
}
