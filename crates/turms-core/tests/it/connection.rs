//! A client connection and a server connection over an in-memory stream, each with a service.

mod limits;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Notify;
use turms_core::transport::{MemoryEnd, memory};
use turms_core::{
    CallContext, Connection, ConnectionHandle, Limits, NotifyFuture, OutgoingRequest, Payload, Peer, PeerError,
    Request, ResponseFuture, Service,
};
use turms_proto::session::{ClientOptions, ConnectionStatus, Dialect, RequestOptions, VersionChoice};
use turms_proto::types::{
    ClientCapabilities, DiscoverResult, Implementation, InitializeResult, ServerCapabilities, key,
};
use turms_proto::{Ability, ErrorCode, ErrorObject, Notification, Object, ProtocolVersion, RawJson};
use turms_testkit::{eventually, within};

/// A service whose methods are named after what they do.
#[derive(Clone, Default)]
struct TestService {
    waiting: Arc<AtomicUsize>,
    max_waiting: Arc<AtomicUsize>,
    dropped: Arc<Notify>,
    release: Arc<Notify>,
}

impl Service for TestService {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let server = Implementation::new("test", "1");
        let capabilities = ServerCapabilities::new();
        match &*request.method {
            "initialize" => {
                let result = InitializeResult::new(cx.version().as_str(), capabilities, server);
                Box::pin(std::future::ready(Ok(Payload::new(result))))
            }
            "server/discover" => {
                let versions: Vec<_> = ProtocolVersion::ALL.iter().map(ToString::to_string).collect();
                Box::pin(std::future::ready(Ok(Payload::new(DiscoverResult::new(versions, capabilities)))))
            }
            "test/echo" => Box::pin(std::future::ready(Ok(request.params))),
            "test/panic" => panic!("expected panic"),
            "test/notify" => Box::pin(async move {
                for _ in 0..300 {
                    let notification = Notification::raw("test/notification", None);
                    cx.peer()
                        .notify_raw(notification)
                        .await
                        .map_err(|error| ErrorObject::internal(error.to_string()))?;
                }
                Ok(Payload::default())
            }),
            "test/request" => Box::pin(async move {
                let response = cx.peer().request_raw("test/echo", None, RequestOptions::default()).await;
                response.map(Payload::json).map_err(|error| ErrorObject::internal(error.to_string()).into())
            }),
            "test/wait" => Box::pin(self.clone().wait()),
            method => Box::pin(std::future::ready(Err(ErrorObject::method_not_found(method).into()))),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

impl TestService {
    async fn wait(self) -> turms_core::CallResult {
        let guard = WaitingCall::new(&self);
        self.release.notified().await;
        drop(guard);
        Ok(Payload::default())
    }
}

/// Counts the waiting calls, and notifies when one is dropped.
struct WaitingCall(TestService);

impl WaitingCall {
    fn new(service: &TestService) -> Self {
        let waiting = service.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        service.max_waiting.fetch_max(waiting, Ordering::SeqCst);
        Self(service.clone())
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.notify_one();
    }
}

/// The service of the client: counts notifications, and responds to every request with its parameters.
#[derive(Clone, Default)]
struct ClientService(Arc<AtomicUsize>);

impl Service for ClientService {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Ok(request.params)))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {})
    }
}

struct ConnectedPair {
    client: ConnectionHandle,
    server: ConnectionHandle,
    notifications: Arc<AtomicUsize>,
    version: ProtocolVersion,
}

async fn connect(version: ProtocolVersion, service: &TestService, options: Limits) -> ConnectedPair {
    let (near, far) = memory();
    let (connection, server) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options.clone());
    tokio::spawn(connection.run(service.clone()));
    let client_service = ClientService::default();
    let client = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let client = client.choice(VersionChoice::Only(version));
    let (connection, client) = Connection::client(near.0, near.1, client, options);
    tokio::spawn(connection.run(client_service.clone()));
    let opened = client.opened().await.expect("the service supports every revision");
    assert_eq!(opened.dialect.version(), version);
    ConnectedPair { client, server, notifications: client_service.0, version }
}

impl ConnectedPair {
    async fn request(&self, method: &'static str) -> Result<RawJson, PeerError> {
        request(self.client.peer(), self.version, method).await
    }
}

async fn request(peer: Peer, version: ProtocolVersion, method: &'static str) -> Result<RawJson, PeerError> {
    let mut params = Object::new();
    if version.has(Ability::Stateless) {
        let mut meta = Object::new();
        meta.insert(key::PROTOCOL_VERSION, &version).unwrap();
        meta.insert(key::CLIENT_CAPABILITIES, &ClientCapabilities::new()).unwrap();
        params.insert("_meta", &meta).unwrap();
    }
    peer.request_raw(method, Some(params.into()), RequestOptions::default()).await
}

fn error_of(response: Result<RawJson, PeerError>) -> ErrorObject {
    match response {
        Err(PeerError::ErrorResponse(error)) => *error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_revision_is_supported() {
    for version in ProtocolVersion::ALL {
        let pair = connect(version, &TestService::default(), Limits::default()).await;
        assert!(pair.request("test/echo").await.unwrap().is_object());
        assert_eq!(pair.client.status(), ConnectionStatus::Ready);
        assert_eq!(error_of(pair.request("test/nothing").await).code.0, -32601);
    }
}

#[tokio::test]
async fn a_panic_is_an_error_response_and_the_next_call_works() {
    let pair = connect(ProtocolVersion::LATEST, &TestService::default(), Limits::default()).await;
    assert_eq!(error_of(pair.request("test/panic").await).code.0, -32603);
    assert!(pair.request("test/echo").await.is_ok());
}

#[tokio::test]
async fn notifications_arrive_before_the_response() {
    let pair = connect(ProtocolVersion::V2025_06_18, &TestService::default(), Limits::default()).await;
    pair.request("test/notify").await.unwrap();
    assert_eq!(pair.notifications.load(Ordering::SeqCst), 300);
}

#[tokio::test]
async fn a_handler_can_send_requests_when_the_limit_of_calls_is_reached() {
    let mut options = Limits::default();
    options.max_in_flight = 2;
    let pair = connect(ProtocolVersion::V2025_06_18, &TestService::default(), options).await;
    let calls: Vec<_> =
        (0..50).map(|_| tokio::spawn(request(pair.client.peer(), pair.version, "test/request"))).collect();
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn ten_thousand_calls_are_limited_and_all_have_a_response() {
    let mut options = Limits::default();
    options.max_in_flight = 100;
    let service = TestService::default();
    let pair = connect(ProtocolVersion::LATEST, &service, options).await;
    let calls: Vec<_> =
        (0..10_000).map(|_| tokio::spawn(request(pair.client.peer(), pair.version, "test/wait"))).collect();
    let release = service.release.clone();
    let releasing = tokio::spawn(async move {
        loop {
            release.notify_waiters();
            tokio::task::yield_now().await;
        }
    });
    for call in calls {
        call.await.unwrap().unwrap();
    }
    releasing.abort();
    assert!(service.max_waiting.load(Ordering::SeqCst) <= 100);
    assert_eq!(pair.client.stats().timed_out, 0);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_peer() {
    for version in ProtocolVersion::ALL {
        let service = TestService::default();
        let pair = connect(version, &service, Limits::default()).await;
        let call = tokio::spawn(request(pair.client.peer(), version, "test/wait"));
        while service.waiting.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        service.dropped.notified().await;
        assert_eq!(service.waiting.load(Ordering::SeqCst), 0);
        assert!(pair.request("test/echo").await.is_ok());
    }
}

#[tokio::test]
async fn a_shutdown_lets_running_calls_finish() {
    let service = TestService::default();
    let pair = connect(ProtocolVersion::LATEST, &service, Limits::default()).await;
    let call = tokio::spawn(request(pair.client.peer(), pair.version, "test/wait"));
    while service.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    pair.server.shutdown();
    service.release.notify_one();
    assert!(call.await.unwrap().is_ok());
    pair.server.closed().await;
    pair.client.closed().await;
    assert!(matches!(pair.request("test/echo").await, Err(PeerError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_after_the_drain_timeout() {
    let service = TestService::default();
    let pair = connect(ProtocolVersion::LATEST, &service, Limits::default()).await;
    let call = tokio::spawn(request(pair.client.peer(), pair.version, "test/wait"));
    while service.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    pair.server.shutdown();
    pair.server.closed().await;
    assert_eq!(error_of(call.await.unwrap()).message, "the connection is closing");
    service.dropped.notified().await;
}

#[tokio::test]
async fn cancellations_and_the_end_of_input_are_handled_when_the_queue_is_full() {
    let mut options = Limits::default();
    options.max_in_flight = 4;
    options.max_queued = 4;
    let service = TestService::default();
    let pair = connect(ProtocolVersion::LATEST, &service, options).await;
    let mut calls: Vec<_> =
        (0..8).map(|_| tokio::spawn(request(pair.client.peer(), pair.version, "test/wait"))).collect();
    while service.waiting.load(Ordering::SeqCst) < 4 || pair.client.stats().requests_sent < 9 {
        tokio::task::yield_now().await;
    }
    let refused = error_of(pair.request("test/wait").await);
    assert_eq!(refused.message, "too many requests in flight; wait for responses before sending more");
    assert_eq!(refused.code, ErrorCode::OVERLOADED);
    assert_eq!(refused.data.unwrap().as_str(), r#"{"retryAfterMs":1000}"#);
    // Cancelling lets waiting calls start.
    calls.drain(..6).for_each(|call| call.abort());
    while service.waiting.load(Ordering::SeqCst) != 2 {
        tokio::task::yield_now().await;
    }
    assert!(pair.request("test/echo").await.is_ok());
    pair.client.shutdown();
    pair.server.closed().await;
}

#[tokio::test]
async fn a_panic_of_a_notification_handler_is_caught() {
    struct PanickingService;
    impl Service for PanickingService {
        fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
            Box::pin(std::future::ready(Ok(request.params)))
        }

        fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
            match &*notification.method {
                "test/now" => panic!("expected panic"),
                _ => Box::pin(async { panic!("expected panic") }),
            }
        }
    }
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(PanickingService));
    let lines = "{\"jsonrpc\":\"2.0\",\"method\":\"test/now\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"test/later\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    near.1.write_all(lines.as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_disconnected() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(TestService::default()));
    let big = "x".repeat(200_000);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"x\":\"{big}\"}}}}\n");
    // The service does not echo `ping`, so send `test/echo` in the newest revision.
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let line = line.replace("\"ping\"", "\"test/echo\"").replace("{\"x\"", &format!("{{{meta},\"x\""));
    near.1.write_all(line.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(90), running).await.expect("the write times out").unwrap();
    assert!(ended.is_err());
}

#[tokio::test]
async fn dropping_a_connection_stops_running_calls() {
    let service = TestService::default();
    let (near, far) = memory();
    let (connection, _server) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let serving = tokio::spawn(connection.run(service.clone()));
    let client_options = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let (connection, client) = Connection::client(near.0, near.1, client_options, Limits::default());
    tokio::spawn(connection.run(ClientService::default()));
    client.opened().await.unwrap();
    let _call = tokio::spawn(request(client.peer(), ProtocolVersion::LATEST, "test/wait"));
    while service.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    serving.abort();
    service.dropped.notified().await;
}

#[tokio::test]
async fn an_invalid_line_has_an_error_response_and_the_next_is_handled() {
    let (mut near, far) = memory();
    let mut options = Limits::default();
    options.max_message_bytes = 200;
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options);
    let running = tokio::spawn(connection.run(TestService::default()));
    let long = "x".repeat(5000);
    let input = format!("nonsense\n{long}\n\r\n{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}");
    near.1.write_all(input.as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    let lines: Vec<_> = output.lines().collect();
    assert_eq!(lines.len(), 3, "{output}");
    assert!(lines[0].contains("-32700"), "{output}");
    assert!(lines[1].contains("longer than the limit of 200 bytes"), "{output}");
    assert!(lines[2].contains(r#""id":1,"error":{"code":-32601"#), "{output}");
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_responses_to_a_batch_are_one_batch() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    tokio::spawn(connection.run(TestService::default()));
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"","version":""}}}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"test/echo"},{"jsonrpc":"2.0","id":2,"method":"test/notify"},{"jsonrpc":"2.0","id":3,"method":"test/echo"}]"#;
    let input = format!("{initialize}\n{batch}\n");
    near.1.write_all(input.as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    let responses = output.lines().last().unwrap();
    for id in 1..=3 {
        assert!(responses.starts_with('[') && responses.contains(&format!(r#""id":{id},"result""#)), "{responses}");
    }
    assert_eq!(output.lines().filter(|line| line.contains("test/notification")).count(), 300);
}

#[tokio::test(start_paused = true)]
async fn the_handshake_times_out() {
    let (near, _far) = memory();
    let client_options = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let (connection, client) = Connection::client(near.0, near.1, client_options, Limits::default());
    tokio::spawn(connection.run(ClientService::default()));
    let failure = tokio::time::timeout(Duration::from_secs(60), client.opened()).await.unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "no response to the handshake within its timeout");
}

/// With pipes rather than memory, because they break as those of a process do.
#[tokio::test]
async fn responses_are_read_after_the_peer_has_stopped_reading() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    for _ in 0..20 {
        let (to_server, server_reads) = tokio::net::unix::pipe::pipe().unwrap();
        let (mut to_client, client_reads) = tokio::net::unix::pipe::pipe().unwrap();
        let options = ClientOptions::new(Implementation::new("c", "1"), ClientCapabilities::new())
            .known(Dialect::Stateless(ProtocolVersion::LATEST));
        let (connection, handle) = Connection::client(client_reads, to_server, options, Limits::default());
        let driver = tokio::spawn(connection.run(TestService::default()));
        handle.opened().await.unwrap();
        let first = tokio::spawn({
            let handle = handle.clone();
            async move { handle.call(OutgoingRequest::new("one", Payload::default())).await }
        });
        let mut lines = BufReader::new(server_reads).lines();
        assert!(lines.next_line().await.unwrap().unwrap().contains("\"one\""));
        drop(lines);
        // The second request is written to a closed pipe; the response to the first is already sent.
        let second = handle.call(OutgoingRequest::new("two", Payload::default()));
        to_client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"said\":1}}\n").await.unwrap();
        drop(to_client);
        let (first, second) = tokio::join!(first, second);
        assert_eq!(first.unwrap().unwrap().as_str(), r#"{"said":1}"#);
        assert!(second.is_err());
        driver.await.unwrap().unwrap();
    }
}

/// Creates a client that needs no handshake, over one end of a pair.
fn client_at(near: MemoryEnd) -> ConnectionHandle {
    let client = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new())
        .known(Dialect::Stateless(ProtocolVersion::LATEST));
    let (connection, handle) = Connection::client(near.0, near.1, client, Limits::default());
    tokio::spawn(connection.run(TestService::default()));
    handle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn requests_fail_when_the_connection_closes() {
    for _ in 0..1000 {
        let (near, far) = memory();
        let handle = client_at(near);
        let requests = (0..16).map(|delay| {
            let handle = handle.clone();
            tokio::spawn(async move {
                for _ in 0..delay {
                    tokio::task::yield_now().await;
                }
                let for_ever = RequestOptions::default().without_timeout();
                handle.call(OutgoingRequest::new("test/echo", Payload::default()).options(for_ever)).await
            })
        });
        let requests: Vec<_> = requests.collect();
        drop(far);
        for request in requests {
            let response = within("an error", request).await.unwrap();
            assert!(response.is_err(), "{response:?}");
        }
    }
}

#[tokio::test]
async fn a_peer_that_never_stops_sending_does_not_block_timeouts() {
    let (near, mut far) = memory();
    let handle = client_at(near);
    let sending = tokio::spawn(async move {
        let lines = b"{\"jsonrpc\":\"2.0\",\"method\":\"test/notification\"}\n".repeat(100);
        while far.1.write_all(&lines).await.is_ok() {}
    });
    let options = RequestOptions::default().timeout(Duration::from_millis(50));
    let response = within("a timeout", handle.peer().request_raw("test/echo", None, options)).await;
    assert!(matches!(response, Err(PeerError::TimedOut(_))), "{response:?}");
    sending.abort();
}

/// Counts its calls, and responds with 10 KiB.
#[derive(Clone, Default)]
struct LargeResponses(Arc<AtomicUsize>);

impl Service for LargeResponses {
    fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Payload::json(RawJson::string(&"x".repeat(10 * 1024))))))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

fn many_requests(count: usize) -> String {
    let meta =
        r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let line = |id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"test/much","params":{{"_meta":{meta}}}}}"#) + "\n";
    (1..=count).map(line).collect()
}

/// A writer that accepts nothing, and records the number of calls at the first write.
struct BlockedWriter {
    calls: Arc<AtomicUsize>,
    at_first_write: Arc<AtomicUsize>,
}

impl tokio::io::AsyncWrite for BlockedWriter {
    fn poll_write(self: Pin<&mut Self>, _: &mut TaskContext<'_>, _: &[u8]) -> Poll<std::io::Result<usize>> {
        let calls = self.calls.load(Ordering::SeqCst);
        let _ = self.at_first_write.compare_exchange(0, calls, Ordering::SeqCst, Ordering::SeqCst);
        Poll::Pending
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut TaskContext<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn large_responses_are_written_early_and_requests_are_still_read() {
    let service = LargeResponses::default();
    let at_first_write = Arc::new(AtomicUsize::new(0));
    let writer = BlockedWriter { calls: service.0.clone(), at_first_write: at_first_write.clone() };
    let lines = many_requests(50);
    let (driver, _handle) = Connection::server(lines.as_bytes(), writer, &ProtocolVersion::ALL, Limits::default());
    driver.run(service.clone()).await.unwrap();
    assert_eq!(service.0.load(Ordering::SeqCst), 50);
    assert!((1..10).contains(&at_first_write.load(Ordering::SeqCst)), "{at_first_write:?}");
}

#[tokio::test]
async fn all_requests_before_the_end_of_input_have_a_response() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(LargeResponses::default()));
    near.1.write_all(many_requests(300).as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(output.lines().filter(|line| line.contains("\"result\":\"xxx")).count(), 300);
}

/// `test/first` waits until `test/second` releases it; `test/third` returns whether its own call is marked as cancelled.
#[derive(Clone, Default)]
struct LateCancellation {
    release: Arc<Notify>,
    is_waiting: Arc<AtomicBool>,
}

impl Service for LateCancellation {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let this = self.clone();
        match &*request.method {
            "test/first" => Box::pin(async move {
                let released = this.release.notified();
                this.is_waiting.store(true, Ordering::SeqCst);
                released.await;
                Ok(Payload::default())
            }),
            // It blocks the connection until the first call has finished in its own task.
            "test/second" => Box::pin(async move {
                let tasks = tokio::runtime::Handle::current().metrics();
                let before = tasks.num_alive_tasks();
                // From another thread, so that the first call is not queued behind this one.
                let release = this.release.clone();
                std::thread::spawn(move || release.notify_one()).join().unwrap();
                while tasks.num_alive_tasks() == before {
                    std::thread::yield_now();
                }
                Ok(Payload::default())
            }),
            _ => Box::pin(async move {
                let found =
                    RawJson::encode(&cx.cancellation().is_some_and(turms_core::CancellationToken::is_cancelled))
                        .unwrap();
                Ok(Payload::json(RawJson::from(Object::from_iter([("cancelled", found)]))))
            }),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_cancellation_leaves_no_state() {
    within("a late cancellation", async {
        let (mut here, there) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(there);
        let (connection, _) = Connection::server(reader, writer, &ProtocolVersion::ALL, Limits::default());
        let service = LateCancellation::default();
        let served = tokio::spawn(connection.run(service.clone()));
        let meta =
            format!(r#""_meta":{{"{}":"2026-07-28","{}":{{}}}}"#, key::PROTOCOL_VERSION, key::CLIENT_CAPABILITIES);
        let call = |id: u8, method: &str| {
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{{{meta}}}}}\n")
        };
        here.write_all(call(1, "test/first").as_bytes()).await.unwrap();
        eventually("the first call waits", async || service.is_waiting.load(Ordering::SeqCst)).await;
        let cancel = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1}}\n";
        here.write_all(format!("{}{cancel}", call(2, "test/second")).as_bytes()).await.unwrap();
        let mut lines = tokio::io::AsyncBufReadExt::lines(tokio::io::BufReader::new(&mut here));
        let second = lines.next_line().await.unwrap().unwrap();
        assert!(second.contains("\"id\":2"), "{second}");
        lines.get_mut().write_all(call(1, "test/third").as_bytes()).await.unwrap();
        let third = lines.next_line().await.unwrap().unwrap();
        assert!(third.contains("\"cancelled\":false"), "{third}");
        drop(here);
        served.await.unwrap().unwrap();
    })
    .await;
}
