//! The same servers over HTTP: Streamable HTTP with and without sessions, and HTTP+SSE.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use turms_client::{Backoff, Client, ClientBuilder, ClientGroup, Event, McpConfig};
use turms_http::{HttpConnector, HttpTransport};
use turms_proto::ProtocolVersion::{self, *};
use turms_proto::types::CreateMessageResult;
use turms_testkit::within;

use crate::conversation::Conversation;
use crate::peer::{self, NODE_HANDSHAKE, NODE_STATELESS, PYTHON_HANDSHAKE, PYTHON_STATELESS, Peer};

/// A listening server process, which is killed on drop.
struct Listening {
    process: Child,
    origin: String,
}

impl Listening {
    /// Starts a server of this project on an official SDK.
    fn start(peer: &Peer, args: &[&str]) -> Self {
        let mut command = Command::new(peer.program());
        command.arg(peer.script()).args(args);
        Self::run(command)
    }

    /// Starts the published server on a port; 0 selects a free one.
    fn everything(transport: &str, port: u16) -> Self {
        let mut command = peer::everything_over(transport);
        command.env("PORT", port.to_string());
        Self::run(command)
    }

    fn run(mut command: Command) -> Self {
        let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let origin = lines.find(|line| line.starts_with("http://"));
        // Further output is read, because a full pipe would block the server.
        std::thread::spawn(move || lines.for_each(drop));
        Self { process, origin: origin.unwrap_or_else(|| panic!("{command:?} does not listen")) }
    }

    fn connector(&self, path: &str) -> HttpConnector {
        HttpConnector::new(format!("{}{path}", self.origin)).unwrap().no_proxy()
    }

    async fn connect(&self, builder: ClientBuilder, path: &str) -> Client {
        let connected = within("a connection", builder.connect(self.connector(path))).await;
        connected.unwrap_or_else(|error| panic!("{}{path}: {error:?}", self.origin))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Connects in one revision, or the newest of the server, and uses every feature.
async fn converse(peer: &'static Peer, args: &[&str], path: &str, version: Option<ProtocolVersion>) {
    let server = Listening::start(peer, args);
    let mut builder = peer::answering();
    if let Some(version) = version {
        builder = builder.protocol_version(version);
    }
    let client = server.connect(builder, path).await;
    assert_eq!(client.protocol_version(), Some(version.unwrap_or(peer.newest)));
    Conversation::new(peer, client).hold().await;
}

macro_rules! conversations {
    ($($test:ident: $Peer:ident $args:tt at $path:literal in $version:expr;)+) => {
        $(#[tokio::test]
        #[ignore = "needs the peers: run `cargo xtask test`"]
        async fn $test() {
            converse(&$Peer, &$args, $path, $version).await;
        })+
    };
}
conversations! {
    node_with_sessions: NODE_HANDSHAKE ["--http"] at "/mcp" in None;
    node_with_sessions_in_2025_03_26: NODE_HANDSHAKE ["--http"] at "/mcp" in Some(V2025_03_26);
    node_with_sessions_in_2025_06_18: NODE_HANDSHAKE ["--http"] at "/mcp" in Some(V2025_06_18);
    node_over_sse: NODE_HANDSHAKE ["--http"] at "/sse" in None;
    node_over_sse_in_2024_11_05: NODE_HANDSHAKE ["--http"] at "/sse" in Some(V2024_11_05);
    node_without_sessions: NODE_STATELESS ["--http"] at "/mcp" in None;
    python_with_sessions: PYTHON_HANDSHAKE ["--http"] at "/mcp" in None;
    python_with_sessions_in_2025_03_26: PYTHON_HANDSHAKE ["--http"] at "/mcp" in Some(V2025_03_26);
    python_over_sse: PYTHON_HANDSHAKE ["--sse"] at "/sse" in None;
    python_without_sessions: PYTHON_STATELESS ["--http"] at "/mcp" in None;
    python_of_the_newer_kind_with_sessions: PYTHON_STATELESS ["--http"] at "/mcp" in Some(V2025_11_25);
    python_of_the_newer_kind_over_sse: PYTHON_STATELESS ["--sse"] at "/sse" in Some(V2025_11_25);
}

/// The newer SDK has no sessions for older clients: their requests are independent, and the server sends none to them.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn node_of_the_newer_kind_answers_older_clients() {
    let server = Listening::start(&NODE_STATELESS, &["--http"]);
    for version in [V2025_03_26, V2025_06_18, V2025_11_25] {
        let client = server.connect(peer::client().protocol_version(version), "/mcp").await;
        assert_eq!(client.protocol_version(), Some(version));
        assert_eq!(client.list_tools().await.unwrap().len(), 9);
        assert_eq!(client.call_tool("echo", json!({ "text": "hello" })).await.unwrap().text(), "hello");
        assert_eq!(client.call_tool("slow", ()).on_progress(|_| {}).await.unwrap().text(), "done");
        client.close().await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_error_of_a_server_of_the_newest_revision_names_the_versions() {
    let server = Listening::start(&NODE_STATELESS, &["--http", "--stateless-only"]);
    let client = server.connect(peer::client(), "/mcp").await;
    assert_eq!(client.protocol_version(), Some(V2026_07_28));
    client.close().await;
    let older = peer::client().protocol_version(V2025_11_25).connect(server.connector("/mcp"));
    let error = within("a refusal", older).await.map(drop).unwrap_err();
    assert!(error.to_string().contains("no common protocol version"), "{error}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn responses_as_json_work() {
    for peer in [&PYTHON_HANDSHAKE, &PYTHON_STATELESS] {
        let server = Listening::start(peer, &["--http", "--json"]);
        let client = server.connect(peer::client(), "/mcp").await;
        assert_eq!(client.call_tool("echo", json!({ "text": "hello" })).await.unwrap().text(), "hello");
        assert_eq!(client.read_resource("memo://hello").await.unwrap().contents.len(), 1);
        client.close().await;
    }
}

/// Makes the server forget its sessions, as a restart does.
async fn forget_sessions(server: &Listening) {
    let address = server.origin.strip_prefix("http://").unwrap();
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /forget HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn an_expired_session_is_restored() {
    let server = Listening::start(&NODE_HANDSHAKE, &["--http"]);
    for builder in [peer::client(), peer::client().reconnect(Backoff::new())] {
        let client = server.connect(builder, "/mcp").await;
        let mut events = client.events();
        let _subscription = client.subscribe("memo://counter").await.unwrap();
        forget_sessions(&server).await;
        // The call gets the error of the expired session, so it has not run and is repeated.
        let count = client.call_tool("touch", ()).await.unwrap().text();
        let updated = events.find(|event| matches!(event, Event::ResourceUpdated { .. }).then_some(()));
        within("a change of what is watched", updated).await.unwrap();
        let read = client.read_resource("memo://counter").bypass_cache().await.unwrap();
        assert_eq!(read.contents[0].bytes().unwrap(), count.as_bytes());
        client.close().await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn everything_works_over_both_transports() {
    for (transport, path) in [("streamableHttp", "/mcp"), ("sse", "/sse")] {
        let server = Listening::everything(transport, 0);
        let model = |_, _| async { Ok(CreateMessageResult::assistant("Paris.", "parrot")) };
        let client = server.connect(peer::client().on_sampling(model), path).await;
        assert_eq!(client.server_info().unwrap().name, "mcp-servers/everything", "{transport}");
        let echo = client.call_tool("echo", json!({ "message": "hello" })).await.unwrap();
        assert_eq!(echo.text(), "Echo: hello");
        let (sender, reports) = mpsc::channel();
        let long = client.call_tool("trigger-long-running-operation", json!({ "duration": 0.2, "steps": 2 }));
        let long = long.on_progress(move |report| sender.send(report.progress.as_f64()).unwrap());
        assert!(!long.await.unwrap().is_error());
        assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1.0, 2.0], "{transport}");
        let mut events = client.events();
        while !client.list_tools().await.unwrap().iter().any(|tool| tool.name == "trigger-sampling-request") {
            let changed = events.find(|event| matches!(event, Event::ToolsChanged).then_some(()));
            within("a change of the tools", changed).await.unwrap();
        }
        let thought = client.call_tool("trigger-sampling-request", json!({ "prompt": "Where?" })).await.unwrap();
        assert!(thought.text().contains("Paris."), "{transport}: {thought:?}");
        within("the end", client.close()).await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_restarted_server_with_another_error_for_sessions_is_reconnected() {
    // It responds with 400 to unknown sessions.
    let server = Listening::everything("streamableHttp", 0);
    let client = server.connect(peer::client().reconnect(Backoff::new()), "/mcp").await;
    let port = server.origin.rsplit(':').next().unwrap().parse().unwrap();
    drop(server);
    let _server = Listening::everything("streamableHttp", port);
    let echo = client.call_tool("echo", json!({ "message": "hello" })).idempotent().await.unwrap();
    assert_eq!(echo.text(), "Echo: hello");
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_group_reaches_the_urls_of_its_configuration() {
    let (modern, older) =
        (Listening::start(&NODE_STATELESS, &["--http"]), Listening::start(&NODE_HANDSHAKE, &["--http"]));
    let config = json!({ "mcpServers": {
        "modern": { "url": format!("{}/mcp", modern.origin), "headers": { "X-Key": "k" } },
        "older": { "url": format!("{}/sse", older.origin), "type": "sse" },
        "unstated": { "url": format!("{}/sse", older.origin) },
    } });
    let config = McpConfig::parse(&config.to_string()).unwrap();
    let fleet = ClientGroup::builder(peer::client())
        .config(&config)
        .transport(HttpTransport::new().configure(HttpConnector::no_proxy));
    let fleet = within("all servers", fleet.connect()).await;
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    for server in ["modern", "older", "unstated"] {
        let text =
            fleet.as_client().call_tool(format!("{server}_echo"), json!({ "text": server })).await.unwrap().text();
        assert_eq!(text, server);
    }
}
