//! Number of allocations of one small call, from the socket to the handler and back.
//!
//! The limits are measured values. A commit that raises a limit must say why; a commit that needs less must lower it.
//! The client runs on its own thread, whose allocations do not count.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use tokio::sync::oneshot;
use turms::ProtocolVersion;
use turms::http::{Listener, ServeHttp as _};
use turms::server::IntoEndpoint as _;
use turms::transport::{Connection, Limits};
use turms_bench_server::server;
use turms_oauth::{Algorithm, Issuer, JwkSet, SigningKey, TokenGuard};

const CALLS: usize = 200;

#[test]
fn a_call_over_http_of_the_newest_revision() {
    assert_max(over_http(|_| newest_call()), 10);
}

/// Here hyper reads the requests and writes the responses, as in an application.
#[test]
fn a_call_over_http_that_hyper_serves() {
    assert_max(
        over_http_by(|listener| listener.serve_tower(server(2).into_http_service().unwrap()), |_| newest_call()),
        24,
    );
    assert_max(
        over_http_by(|listener| listener.use_hyper().serve(server(2).into_http_service().unwrap()), |_| newest_call()),
        20,
    );
}

/// The token is in the cache of the guard after the first call.
#[test]
fn a_guarded_call_over_http_of_the_newest_revision() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let claims = serde_json::json!({
        "iss": "https://auth.example.com", "aud": "https://bench.example.com/mcp", "sub": "ann", "scope": "a", "exp": 4_102_444_800_u64,
    });
    let token = key.sign(&[], &claims);
    let issuer = Issuer::keys("https://auth.example.com", JwkSet::new([key.public_jwk()]));
    let guard = TokenGuard::builder("https://bench.example.com/mcp").issuer(issuer).scopes(["a"]).build().unwrap();
    let credentials = format!("authorization: Bearer {token}\r\n");
    let each = over_http_by(
        move |listener| listener.serve(server(2).into_http_service().unwrap().guard(guard)),
        move |_| newest_call_with(&credentials),
    );
    assert_max(each, 10);
}

fn newest_call() -> String {
    newest_call_with("")
}

fn newest_call_with(head: &str) -> String {
    post(
        &format!("{head}mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n"),
        r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    )
}

#[test]
fn a_call_over_http_in_a_session() {
    let each = over_http(|stream| {
        let id = initialize(stream);
        let head = format!("mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {id}\r\n");
        post(&head, CALL)
    });
    assert_max(each, 13);
}

#[test]
fn a_call_over_a_byte_stream() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let each = measure(
        async move {
            let (reader, writer) = tokio::net::UnixStream::from_std(theirs).unwrap().into_split();
            let endpoint = server(2).into_endpoint().unwrap();
            let (connection, _) = Connection::server(reader, writer, &ProtocolVersion::ALL, Limits::default());
            connection.serve(&endpoint).await.unwrap();
        },
        move || {
            ours.write_all(format!("{INITIALIZE}\n").as_bytes()).unwrap();
            read_until(&mut ours, b"}\n");
            ours.write_all(format!("{INITIALIZED}\n").as_bytes()).unwrap();
            move || {
                ours.write_all(CALL.as_bytes()).unwrap();
                ours.write_all(b"\n").unwrap();
                let answer = read_until(&mut ours, b"}\n");
                assert!(answer.contains(r#""text":"hello""#), "{answer}");
            }
        },
    );
    assert_max(each, 7);
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}"#;

fn post(head: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{head}content-length: {length}\r\n\r\n{body}"
    )
}

fn initialize(stream: &mut TcpStream) -> String {
    stream.write_all(post("", INITIALIZE).as_bytes()).unwrap();
    let answer = read_until(stream, b"}");
    let id = answer.split_once("mcp-session-id: ").unwrap().1.split("\r\n").next().unwrap().to_owned();
    let head = format!("mcp-session-id: {id}\r\n");
    stream.write_all(post(&head, INITIALIZED).as_bytes()).unwrap();
    read_until(stream, b"\r\n\r\n");
    id
}

/// Returns the number of allocations per call. `prepare` returns the request that is sent repeatedly.
fn over_http(prepare: impl FnOnce(&mut TcpStream) -> String + Send + 'static) -> f64 {
    over_http_by(|listener| listener.serve(server(2).into_http_service().unwrap()), prepare)
}

/// Like [`over_http`], with a custom `serve` function.
fn over_http_by<F>(
    serve: impl FnOnce(Listener) -> F + Send + 'static,
    prepare: impl FnOnce(&mut TcpStream) -> String + Send + 'static,
) -> f64
where
    F: Future<Output = Result<(), turms::Error>> + Send,
{
    let (sender, address) = mpsc::channel();
    measure(
        async move {
            let listener = Listener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            serve(listener).await.unwrap();
        },
        move || {
            let mut stream = TcpStream::connect(address.recv().unwrap()).unwrap();
            let request = prepare(&mut stream);
            move || {
                stream.write_all(request.as_bytes()).unwrap();
                let answer = read_until(&mut stream, b"}}");
                assert!(answer.contains(r#""text":"hello""#), "{answer}");
            }
        },
    )
}

/// Serves on this thread, calls on another, and returns the allocations of this thread per call.
fn measure<C: FnMut()>(
    serving: impl Future<Output = ()> + Send + 'static,
    connect: impl FnOnce() -> C + Send + 'static,
) -> f64 {
    let (ready, is_ready) = oneshot::channel();
    let (go, goes) = mpsc::channel();
    let (done, is_done) = oneshot::channel();
    let client = std::thread::spawn(move || {
        let mut call = connect();
        (0..CALLS).for_each(|_| call());
        ready.send(()).unwrap();
        goes.recv().unwrap();
        (0..CALLS).for_each(|_| call());
        done.send(()).unwrap();
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serving = runtime.spawn(serving);
    runtime.block_on(is_ready).unwrap();
    let info = allocation_counter::measure(|| {
        go.send(()).unwrap();
        runtime.block_on(is_done).unwrap();
    });
    client.join().unwrap();
    serving.abort();
    info.count_total as f64 / CALLS as f64
}

/// Tolerates half an allocation per call, for occasional ones such as growing a buffer.
#[track_caller]
fn assert_max(per_call: f64, max: usize) {
    assert!(per_call < max as f64 + 0.5, "{per_call} allocations per call, more than {max}");
}

fn read_until(stream: &mut impl std::io::Read, end: &[u8]) -> String {
    let mut all = Vec::new();
    let mut piece = [0; 4096];
    while !all.ends_with(end) {
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "the stream ended after {:?}", String::from_utf8_lossy(&all));
        all.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(all).unwrap()
}
