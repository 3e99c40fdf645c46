//! Two connections back to back, each with a service behind it.

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
use turms_proto::session::{ClientOptions, Dialect, RequestError, RequestOptions, Status, VersionChoice};
use turms_proto::types::{
    ClientCapabilities, DiscoverResult, Implementation, InitializeResult, ServerCapabilities, key,
};
use turms_proto::{Ability, ErrorObject, Notification, Object, ProtocolVersion, RawJson};
use turms_testkit::{eventually, within};

/// Answers a handful of methods, each showing one thing.
#[derive(Clone, Default)]
struct Fixture {
    waiting: Arc<AtomicUsize>,
    most_waiting: Arc<AtomicUsize>,
    dropped: Arc<Notify>,
    release: Arc<Notify>,
}

impl Service for Fixture {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let server = Implementation::new("fixture", "1");
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
            "test/panic" => panic!("as asked"),
            "test/tell" => Box::pin(async move {
                for _ in 0..300 {
                    let told = Notification::raw("test/told", None);
                    cx.peer().notify_raw(told).await.map_err(|error| ErrorObject::internal(error.to_string()))?;
                }
                Ok(Payload::default())
            }),
            "test/ask" => Box::pin(async move {
                let answer = cx.peer().request_raw("test/echo", None, RequestOptions::default()).await;
                answer.map(Payload::json).map_err(|error| ErrorObject::internal(error.to_string()).into())
            }),
            "test/wait" => Box::pin(self.clone().wait()),
            method => Box::pin(std::future::ready(Err(ErrorObject::method_not_found(method).into()))),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

impl Fixture {
    async fn wait(self) -> turms_core::CallResult {
        let guard = Waiting::enter(&self);
        self.release.notified().await;
        drop(guard);
        Ok(Payload::default())
    }
}

/// Counts who waits, and tells when one stops.
struct Waiting(Fixture);

impl Waiting {
    fn enter(fixture: &Fixture) -> Self {
        let waiting = fixture.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        fixture.most_waiting.fetch_max(waiting, Ordering::SeqCst);
        Self(fixture.clone())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
        self.0.dropped.notify_one();
    }
}

/// Counts the notifications that reach a client, and answers what the server asks.
#[derive(Clone, Default)]
struct Listener(Arc<AtomicUsize>);

impl Service for Listener {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Ok(request.params)))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async {})
    }
}

struct Pair {
    client: ConnectionHandle,
    server: ConnectionHandle,
    listener: Listener,
    version: ProtocolVersion,
}

async fn connect(version: ProtocolVersion, fixture: &Fixture, options: Limits) -> Pair {
    let (near, far) = memory();
    let (connection, server) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options.clone());
    tokio::spawn(connection.run(fixture.clone()));
    let listener = Listener::default();
    let who = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let who = who.choice(VersionChoice::Only(version));
    let (connection, client) = Connection::client(near.0, near.1, who, options);
    tokio::spawn(connection.run(listener.clone()));
    let opened = client.opened().await.expect("the fixture speaks every revision");
    assert_eq!(opened.dialect.version(), version);
    Pair { client, server, listener, version }
}

impl Pair {
    async fn ask(&self, method: &'static str) -> Result<RawJson, PeerError> {
        ask(self.client.peer(), self.version, method).await
    }
}

async fn ask(peer: Peer, version: ProtocolVersion, method: &'static str) -> Result<RawJson, PeerError> {
    let mut params = Object::new();
    if version.has(Ability::Stateless) {
        let mut meta = Object::new();
        meta.insert(key::PROTOCOL_VERSION, &version).unwrap();
        meta.insert(key::CLIENT_CAPABILITIES, &ClientCapabilities::new()).unwrap();
        params.insert("_meta", &meta).unwrap();
    }
    peer.request_raw(method, Some(params.into()), RequestOptions::default()).await
}

fn error_of(answer: Result<RawJson, PeerError>) -> ErrorObject {
    match answer {
        Err(PeerError::Request(RequestError::Peer(error))) => *error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn every_revision_is_spoken() {
    for version in ProtocolVersion::ALL {
        let pair = connect(version, &Fixture::default(), Limits::default()).await;
        assert!(pair.ask("test/echo").await.unwrap().is_object());
        assert_eq!(pair.client.status(), Status::Ready);
        assert_eq!(error_of(pair.ask("test/nothing").await).code.0, -32601);
    }
}

#[tokio::test]
async fn a_panic_is_an_answer_and_the_next_call_works() {
    let pair = connect(ProtocolVersion::LATEST, &Fixture::default(), Limits::default()).await;
    assert_eq!(error_of(pair.ask("test/panic").await).code.0, -32603);
    assert!(pair.ask("test/echo").await.is_ok());
}

#[tokio::test]
async fn what_is_told_before_the_answer_arrives_before_it() {
    let pair = connect(ProtocolVersion::V2025_06_18, &Fixture::default(), Limits::default()).await;
    pair.ask("test/tell").await.unwrap();
    assert_eq!(pair.listener.0.load(Ordering::SeqCst), 300);
}

#[tokio::test]
async fn a_handler_may_ask_the_client_even_when_the_house_is_full() {
    let mut options = Limits::default();
    options.max_in_flight = 2;
    let pair = connect(ProtocolVersion::V2025_06_18, &Fixture::default(), options).await;
    let asks: Vec<_> = (0..50).map(|_| tokio::spawn(ask(pair.client.peer(), pair.version, "test/ask"))).collect();
    for answer in asks {
        assert!(answer.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn ten_thousand_calls_are_bounded_and_all_answered() {
    let mut options = Limits::default();
    options.max_in_flight = 100;
    let fixture = Fixture::default();
    let pair = connect(ProtocolVersion::LATEST, &fixture, options).await;
    let calls: Vec<_> = (0..10_000).map(|_| tokio::spawn(ask(pair.client.peer(), pair.version, "test/wait"))).collect();
    let release = fixture.release.clone();
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
    assert!(fixture.most_waiting.load(Ordering::SeqCst) <= 100);
    assert_eq!(pair.client.stats().timed_out, 0);
}

#[tokio::test]
async fn a_dropped_call_is_cancelled_at_the_other_end() {
    for version in ProtocolVersion::ALL {
        let fixture = Fixture::default();
        let pair = connect(version, &fixture, Limits::default()).await;
        let call = tokio::spawn(ask(pair.client.peer(), version, "test/wait"));
        while fixture.waiting.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        call.abort();
        fixture.dropped.notified().await;
        assert_eq!(fixture.waiting.load(Ordering::SeqCst), 0);
        assert!(pair.ask("test/echo").await.is_ok());
    }
}

#[tokio::test]
async fn a_shutdown_finishes_what_runs() {
    let fixture = Fixture::default();
    let pair = connect(ProtocolVersion::LATEST, &fixture, Limits::default()).await;
    let call = tokio::spawn(ask(pair.client.peer(), pair.version, "test/wait"));
    while fixture.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    pair.server.shutdown();
    fixture.release.notify_one();
    assert!(call.await.unwrap().is_ok());
    pair.server.closed().await;
    pair.client.closed().await;
    assert!(matches!(pair.ask("test/echo").await, Err(PeerError::Closed)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_ever() {
    let fixture = Fixture::default();
    let pair = connect(ProtocolVersion::LATEST, &fixture, Limits::default()).await;
    let call = tokio::spawn(ask(pair.client.peer(), pair.version, "test/wait"));
    while fixture.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    pair.server.shutdown();
    pair.server.closed().await;
    assert_eq!(error_of(call.await.unwrap()).message, "the connection is closing");
    fixture.dropped.notified().await;
}

#[tokio::test]
async fn a_full_house_still_hears_cancellations_and_the_end() {
    let mut options = Limits::default();
    options.max_in_flight = 4;
    options.max_queued = 4;
    let fixture = Fixture::default();
    let pair = connect(ProtocolVersion::LATEST, &fixture, options).await;
    let mut calls: Vec<_> = (0..8).map(|_| tokio::spawn(ask(pair.client.peer(), pair.version, "test/wait"))).collect();
    while fixture.waiting.load(Ordering::SeqCst) < 4 || pair.client.stats().requests_sent < 9 {
        tokio::task::yield_now().await;
    }
    let refused = error_of(pair.ask("test/wait").await);
    assert_eq!(refused.message, "too many requests in flight: wait for answers before asking more");
    // Cancelling lets those in who wait.
    calls.drain(..6).for_each(|call| call.abort());
    while fixture.waiting.load(Ordering::SeqCst) != 2 {
        tokio::task::yield_now().await;
    }
    assert!(pair.ask("test/echo").await.is_ok());
    pair.client.shutdown();
    pair.server.closed().await;
}

#[tokio::test]
async fn a_notification_that_panics_harms_nobody() {
    struct Touchy;
    impl Service for Touchy {
        fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
            Box::pin(std::future::ready(Ok(request.params)))
        }

        fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
            match &*notification.method {
                "test/now" => panic!("as asked"),
                _ => Box::pin(async { panic!("as asked") }),
            }
        }
    }
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(Touchy));
    let lines = "{\"jsonrpc\":\"2.0\",\"method\":\"test/now\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"test/later\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    near.1.write_all(lines.as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    assert_eq!(output, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_is_given_up() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(Fixture::default()));
    let big = "x".repeat(200_000);
    let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{{\"x\":\"{big}\"}}}}\n");
    // Fixture echoes nothing for ping, so ask for the echo in the newest revision.
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let line = line.replace("\"ping\"", "\"test/echo\"").replace("{\"x\"", &format!("{{{meta},\"x\""));
    near.1.write_all(line.as_bytes()).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(90), running).await.expect("it gives up").unwrap();
    assert!(ended.is_err());
}

#[tokio::test]
async fn dropping_a_connection_stops_what_runs() {
    let fixture = Fixture::default();
    let (near, far) = memory();
    let (connection, _server) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let serving = tokio::spawn(connection.run(fixture.clone()));
    let who = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let (connection, client) = Connection::client(near.0, near.1, who, Limits::default());
    tokio::spawn(connection.run(Listener::default()));
    client.opened().await.unwrap();
    let _call = tokio::spawn(ask(client.peer(), ProtocolVersion::LATEST, "test/wait"));
    while fixture.waiting.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    serving.abort();
    fixture.dropped.notified().await;
}

#[tokio::test]
async fn a_bad_line_is_answered_and_the_next_is_served() {
    let (mut near, far) = memory();
    let mut options = Limits::default();
    options.max_message_bytes = 200;
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, options);
    let running = tokio::spawn(connection.run(Fixture::default()));
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
async fn every_request_of_a_batch_is_answered_in_one_piece() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    tokio::spawn(connection.run(Fixture::default()));
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"","version":""}}}"#;
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"test/echo"},{"jsonrpc":"2.0","id":2,"method":"test/tell"},{"jsonrpc":"2.0","id":3,"method":"test/echo"}]"#;
    let input = format!("{initialize}\n{batch}\n");
    near.1.write_all(input.as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    let answers = output.lines().last().unwrap();
    for id in 1..=3 {
        assert!(answers.starts_with('[') && answers.contains(&format!(r#""id":{id},"result""#)), "{answers}");
    }
    assert_eq!(output.lines().filter(|line| line.contains("test/told")).count(), 300);
}

#[tokio::test(start_paused = true)]
async fn silence_is_not_waited_for_for_ever() {
    let (near, _far) = memory();
    let who = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new());
    let (connection, client) = Connection::client(near.0, near.1, who, Limits::default());
    tokio::spawn(connection.run(Listener::default()));
    let failure = tokio::time::timeout(Duration::from_secs(60), client.opened()).await.unwrap().unwrap_err();
    assert_eq!(failure.to_string(), "the server did not answer within the handshake timeout");
}

/// Pipes rather than memory: only they break as those of a process do.
#[tokio::test]
async fn what_a_peer_wrote_before_it_stopped_reading_is_still_heard() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    for _ in 0..20 {
        let (to_server, server_reads) = tokio::net::unix::pipe::pipe().unwrap();
        let (mut to_client, client_reads) = tokio::net::unix::pipe::pipe().unwrap();
        let options = ClientOptions::new(Implementation::new("c", "1"), ClientCapabilities::new())
            .known(Dialect::Stateless(ProtocolVersion::LATEST));
        let (connection, handle) = Connection::client(client_reads, to_server, options, Limits::default());
        let driver = tokio::spawn(connection.run(Fixture::default()));
        handle.opened().await.unwrap();
        let asking = tokio::spawn({
            let handle = handle.clone();
            async move { handle.ask(OutgoingRequest::new("one", Payload::default())).await }
        });
        let mut lines = BufReader::new(server_reads).lines();
        assert!(lines.next_line().await.unwrap().unwrap().contains("\"one\""));
        drop(lines);
        // The question meets a closed pipe; the answer to the first is already under way.
        let second = handle.ask(OutgoingRequest::new("two", Payload::default()));
        to_client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"said\":1}}\n").await.unwrap();
        drop(to_client);
        let (first, second) = tokio::join!(asking, second);
        assert_eq!(first.unwrap().unwrap().as_str(), r#"{"said":1}"#);
        assert!(second.is_err());
        driver.await.unwrap().unwrap();
    }
}

/// A client that has nothing to find out, over one end of a pair.
fn client_at(near: MemoryEnd) -> ConnectionHandle {
    let client = ClientOptions::new(Implementation::new("client", "1"), ClientCapabilities::new())
        .known(Dialect::Stateless(ProtocolVersion::LATEST));
    let (connection, handle) = Connection::client(near.0, near.1, client, Limits::default());
    tokio::spawn(connection.run(Fixture::default()));
    handle
}

#[tokio::test(flavor = "multi_thread", worker_threads = 16)]
async fn whoever_asks_as_the_connection_ends_does_not_wait_for_ever() {
    for _ in 0..1000 {
        let (near, far) = memory();
        let handle = client_at(near);
        let asking = (0..16).map(|pause| {
            let handle = handle.clone();
            tokio::spawn(async move {
                for _ in 0..pause {
                    tokio::task::yield_now().await;
                }
                let for_ever = RequestOptions::default().for_ever();
                handle.ask(OutgoingRequest::new("test/echo", Payload::default()).options(for_ever)).await
            })
        });
        let asking: Vec<_> = asking.collect();
        drop(far);
        for asked in asking {
            let answer = within("an answer", asked).await.unwrap();
            assert!(answer.is_err(), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_peer_that_never_stops_talking_does_not_stop_time() {
    let (near, mut far) = memory();
    let handle = client_at(near);
    let talking = tokio::spawn(async move {
        let lines = b"{\"jsonrpc\":\"2.0\",\"method\":\"test/told\"}\n".repeat(100);
        while far.1.write_all(&lines).await.is_ok() {}
    });
    let options = RequestOptions::default().timeout(Duration::from_millis(50));
    let answer = within("an answer", handle.peer().request_raw("test/echo", None, options)).await;
    assert!(matches!(answer, Err(PeerError::Request(RequestError::TimedOut(_)))), "{answer:?}");
    talking.abort();
}

/// Counts its calls, and gives much for little.
#[derive(Clone, Default)]
struct Generous(Arc<AtomicUsize>);

impl Service for Generous {
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

/// Notes how many calls were made when something is first written, and then takes nothing.
struct Reluctant {
    calls: Arc<AtomicUsize>,
    at_first: Arc<AtomicUsize>,
}

impl tokio::io::AsyncWrite for Reluctant {
    fn poll_write(self: Pin<&mut Self>, _: &mut TaskContext<'_>, _: &[u8]) -> Poll<std::io::Result<usize>> {
        let calls = self.calls.load(Ordering::SeqCst);
        let _ = self.at_first.compare_exchange(0, calls, Ordering::SeqCst, Ordering::SeqCst);
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
async fn large_answers_leave_at_once_and_a_peer_that_does_not_read_them_is_still_heard() {
    let generous = Generous::default();
    let at_first = Arc::new(AtomicUsize::new(0));
    let writer = Reluctant { calls: generous.0.clone(), at_first: at_first.clone() };
    let lines = many_requests(50);
    let (driver, _handle) = Connection::server(lines.as_bytes(), writer, &ProtocolVersion::ALL, Limits::default());
    driver.run(generous.clone()).await.unwrap();
    assert_eq!(generous.0.load(Ordering::SeqCst), 50);
    assert!((1..10).contains(&at_first.load(Ordering::SeqCst)), "{at_first:?}");
}

#[tokio::test]
async fn whatever_was_asked_before_the_end_is_answered_however_long_the_answers() {
    let (mut near, far) = memory();
    let (connection, _handle) = Connection::server(far.0, far.1, &ProtocolVersion::ALL, Limits::default());
    let running = tokio::spawn(connection.run(Generous::default()));
    near.1.write_all(many_requests(300).as_bytes()).await.unwrap();
    near.1.shutdown().await.unwrap();
    let mut output = String::new();
    near.0.read_to_string(&mut output).await.unwrap();
    running.await.unwrap().unwrap();
    assert_eq!(output.lines().filter(|line| line.contains("\"result\":\"xxx")).count(), 300);
}

/// Waits in `test/first` until `test/second` lets it go, and says what it knows of its cancellation in `test/third`.
#[derive(Clone, Default)]
struct Overtaken {
    release: Arc<Notify>,
    is_waiting: Arc<AtomicBool>,
}

impl Service for Overtaken {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        let this = self.clone();
        match &*request.method {
            "test/first" => Box::pin(async move {
                let released = this.release.notified();
                this.is_waiting.store(true, Ordering::SeqCst);
                released.await;
                Ok(Payload::default())
            }),
            // It keeps the connection from its other work until the first call has finished in its own task.
            "test/second" => Box::pin(async move {
                let tasks = tokio::runtime::Handle::current().metrics();
                let before = tasks.num_alive_tasks();
                // From a thread of its own, so that the first call is not put behind this one.
                let release = this.release.clone();
                std::thread::spawn(move || release.notify_one()).join().unwrap();
                while tasks.num_alive_tasks() == before {
                    std::thread::yield_now();
                }
                Ok(Payload::default())
            }),
            _ => Box::pin(async move {
                let found = RawJson::encode(&cx.cancelled().is_some()).unwrap();
                Ok(Payload::json(RawJson::from(Object::from_iter([("cancelled", found)]))))
            }),
        }
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_that_comes_too_late_leaves_nothing_behind() {
    within("a late cancellation", async {
        let (mut here, there) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(there);
        let (connection, _) = Connection::server(reader, writer, &ProtocolVersion::ALL, Limits::default());
        let service = Overtaken::default();
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
