//! Bridges between transports, with our client and our server: mcp-remote and supergateway, in each direction and each
//! revision that they support. `cargo xtask peers` installs them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use serde_json::json;
use turms::ProtocolVersion::{self, *};
use turms::client::{CancellationToken, Event, Events, TransportKind, VersionCache};
use turms::http::HttpConnector;
use turms::jsonrpc::ErrorCode;
use turms::types::{Ability, CreateMessageResult, ElicitResult, Reference, Root};
use turms::ws::WsConnector;
use turms::{ChildCommand, Client, ClientBuilder};
use turms_testkit::{TIMEOUT, eventually, node, peer_file, within};

use crate::run::{Demo, TURMS, TempDir};

const HANDSHAKE_VERSIONS: [ProtocolVersion; 4] = [V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25];

/// A feature that a bridge does not support.
#[derive(Clone, Copy, PartialEq)]
enum Unsupported {
    /// Progress of a call.
    Progress,
    /// Subscriptions, and notifications of changes.
    Changes,
    /// Requests of the server to the client.
    ServerRequests,
    /// State between calls: each request gets a new server process.
    State,
    /// Tasks of 2026-07-28.
    Tasks,
}

fn client(version: impl Into<Option<ProtocolVersion>>) -> ClientBuilder {
    let builder = Client::builder("turms-bridges", "1.0.0")
        .roots([Root::new("file:///srv/project")])
        .on_sampling(|_, _| async { Ok(CreateMessageResult::assistant("Paris.", "parrot")) })
        .on_form(|_, _| async { Ok(ElicitResult::accept(json!({ "name": "Ann", "plan": "team", "news": true }))?) })
        .version_cache(VersionCache::new())
        .probe_timeout(TIMEOUT)
        .handshake_timeout(TIMEOUT)
        .timeout(TIMEOUT);
    match version.into() {
        Some(version) => builder.protocol_version(version),
        None => builder,
    }
}

/// Uses all features of the demo server that a bridge supports, and closes the connection.
async fn check_bridge(client: Client, version: ProtocolVersion, unsupported: &[Unsupported]) {
    let supports = |feature| !unsupported.contains(&feature);
    assert_eq!(client.protocol_version(), Some(version));
    assert_eq!(client.server_info().unwrap().name, "turms-demo");

    calls(&client).await;
    reads(&client).await;
    if supports(Unsupported::Progress) {
        reports_progress(&client).await;
    }
    if supports(Unsupported::ServerRequests) {
        answers_requests(&client, version).await;
    }
    if supports(Unsupported::Changes) && supports(Unsupported::State) {
        notifies_of_changes(&client).await;
    } else if supports(Unsupported::State) {
        assert_eq!(
            call(&client, "remember", json!({ "name": "shopping", "text": "milk" })).await,
            "written to note://shopping"
        );
        assert_eq!(read(&client, "note://shopping").await, b"milk");
    }
    if supports(Unsupported::Tasks) {
        let report = call(&client, "report", json!({ "topic": "tea", "pause": 1 })).await;
        assert_eq!(report, "A report about tea, in 3 chapters.");
    }
    client.ping().await.unwrap();
    // The last step: supergateway keeps sending notifications to the stream of a cancelled request.
    cancels(&client).await;
    within("the end of the connection", client.close()).await;
}

async fn calls(client: &Client) {
    assert!(client.list_tools().await.unwrap().iter().any(|tool| tool.name == "sign_up"));
    assert_eq!(call(client, "add", json!({ "a": 1, "b": 2 })).await, "3");
    let failed = client.call_tool("divide", json!({ "a": 1, "b": 0 })).await.unwrap();
    assert!(failed.is_error() && failed.text().contains("divide by zero"), "{failed:?}");
    let unknown = client.call_tool("no-such-tool", ()).await.unwrap_err();
    assert_eq!(unknown.error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
    let mut sums = tokio::task::JoinSet::new();
    for a in 0..10 {
        let client = client.clone();
        sums.spawn(async move { (a, call(&client, "add", json!({ "a": a, "b": 0.5 })).await) });
    }
    for (a, sum) in sums.join_all().await {
        assert_eq!(sum, format!("{a}.5"));
    }
}

async fn reads(client: &Client) {
    assert_eq!(read(client, "note://travel").await, b"to Rome, by ship");
    assert!(read(client, "demo://logo").await.starts_with(b"\x89PNG"));
    assert!(client.read_resource("note://nowhere").await.unwrap_err().error_response().is_some());
    let prompt = client.get_prompt("journey", json!({ "country": "Italy", "city": "Veii" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text().unwrap(), "Plan a journey to Veii in Italy.");
    let countries = client.complete(Reference::prompt("journey"), "country", "i").await.unwrap();
    assert_eq!(countries.values, ["Italy"]);
}

/// A call that is cancelled leaves the connection usable.
async fn cancels(client: &Client) {
    let cancel = CancellationToken::new();
    let slow = client.call_tool("countdown", json!({ "steps": 1000, "pause": 60_000 })).cancellation_token(&cancel);
    let slow = tokio::spawn(slow.into_future());
    eventually("a call in flight", async || !client.pending_calls().is_empty()).await;
    cancel.cancel();
    let error = within("the end of the call", slow).await.unwrap().unwrap_err();
    assert!(error.is_cancelled(), "{error}");
    assert_eq!(call(client, "add", json!({ "a": 2, "b": 2 })).await, "4");
}

async fn reports_progress(client: &Client) {
    let (sender, reports) = mpsc::channel();
    let counting = client.call_tool("countdown", json!({ "steps": 3, "pause": 1 }));
    let counted = counting.on_progress(move |report| sender.send(report.progress.as_f64()).unwrap()).await.unwrap();
    assert_eq!(counted.text(), "counted 3 steps");
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

async fn answers_requests(client: &Client, version: ProtocolVersion) {
    assert_eq!(call(client, "show_roots", ()).await, "file:///srv/project");
    assert_eq!(call(client, "ask_model", json!({ "question": "Where?" })).await, "parrot says: Paris.");
    if version.has(Ability::FormElicitation) {
        let welcome = "Welcome, Ann, of unknown age, on the plan Team, with news.";
        assert_eq!(call(client, "sign_up", ()).await, welcome);
    }
}

async fn notifies_of_changes(client: &Client) {
    let mut events = client.events();
    let _subscription = client.subscribe("note://shopping").await.unwrap();
    call(client, "remember", json!({ "name": "shopping", "text": "milk" })).await;
    receives(&mut events, |event| matches!(event, Event::ResourceUpdated { uri } if uri == "note://shopping")).await;
    assert_eq!(read(client, "note://shopping").await, b"milk");

    call(client, "learn", ()).await;
    receives(&mut events, |event| matches!(event, Event::ToolsChanged)).await;
    assert_eq!(call(client, "shout", json!({ "text": "hello" })).await, "HELLO");
}

async fn receives(events: &mut Events, mut wanted: impl FnMut(&Event) -> bool) {
    let event = events.find(|event| wanted(&event).then_some(()));
    within("a notification of a change", event).await.unwrap();
}

async fn call(client: &Client, tool: &str, arguments: impl serde::Serialize) -> String {
    let result = client.call_tool(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error:?}"));
    assert!(!result.is_error(), "{tool}: {result:?}");
    result.text()
}

async fn read(client: &Client, uri: &str) -> Vec<u8> {
    let read = client.read_resource(uri).bypass_cache().await.unwrap_or_else(|error| panic!("{uri}: {error:?}"));
    read.contents[0].bytes().unwrap()
}

async fn connect(builder: ClientBuilder, connector: impl turms::transport::Connector) -> Client {
    within("a connection", builder.connect(connector)).await.unwrap()
}

async fn start(builder: ClientBuilder, command: ChildCommand) -> Client {
    within("a connection", builder.connect_command(command)).await.unwrap()
}

/// mcp-remote: bridges a remote server to stdio.
fn mcp_remote(url: &str, home: &TempDir) -> ChildCommand {
    // It stores files for authorization, and reads them before each connection.
    ChildCommand::new(node())
        .arg(peer_file("node/node_modules/mcp-remote/dist/proxy.js"))
        .arg(url)
        .env("MCP_REMOTE_CONFIG_DIR", &home.0)
}

/// supergateway: bridges a remote server to stdio. The option selects the transport of the server.
fn supergateway(option: &str, url: &str) -> ChildCommand {
    ChildCommand::new(node()).arg(peer_file(SUPERGATEWAY)).args([option, url, "--outputTransport", "stdio"])
}

const SUPERGATEWAY: &str = "node/node_modules/supergateway/dist/index.js";

/// The demo server, bridged from stdio to a network transport by supergateway. Killed on drop.
struct Gateway {
    process: Child,
    /// Address and port.
    authority: String,
}

impl Gateway {
    fn start(transport: &str, options: &[&str]) -> Self {
        let mut command = Command::new(node());
        command.arg("--import").arg(peer_file("node/loopback.mjs")).arg(peer_file(SUPERGATEWAY));
        command.args(["--stdio", &format!("'{TURMS}' demo --stdio"), "--outputTransport", transport, "--port", "0"]);
        command.args(options).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("http://127.0.0.1:").map(str::to_owned));
        // A full pipe would block the gateway.
        std::thread::spawn(move || lines.for_each(drop));
        let port = address.unwrap_or_else(|| panic!("{command:?} does not listen"));
        Self { process, authority: format!("127.0.0.1:{port}") }
    }

    fn http(&self, path: &str, transport: TransportKind) -> HttpConnector {
        HttpConnector::new(format!("http://{}{path}", self.authority)).unwrap().no_proxy().transport(transport)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// mcp-remote sends `Mcp-Method` in every revision.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn mcp_remote_carries_the_handshake_revisions_over_http() {
    let (demo, home) = (Demo::listening("--http"), TempDir::new("mcp-remote-handshake"));
    for version in HANDSHAKE_VERSIONS {
        check_bridge(start(client(version), mcp_remote(&demo.url, &home)).await, version, &[]).await;
    }
}

/// mcp-remote does not send `Mcp-Name` for tasks.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn mcp_remote_carries_the_newest_revision_over_http() {
    let (demo, home) = (Demo::listening("--http"), TempDir::new("mcp-remote-newest"));
    check_bridge(start(client(None), mcp_remote(&demo.url, &home)).await, V2026_07_28, &[Unsupported::Tasks]).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn mcp_remote_carries_http_and_sse() {
    let (demo, home) = (Demo::listening("--sse"), TempDir::new("mcp-remote-sse"));
    let remote = mcp_remote(&demo.url, &home).args(["--transport", "sse-only"]);
    check_bridge(start(client(V2024_11_05), remote).await, V2024_11_05, &[]).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_serves_a_program_over_http_with_sessions() {
    let gateway = Gateway::start("streamableHttp", &["--stateful"]);
    for version in HANDSHAKE_VERSIONS {
        let client = connect(client(version), gateway.http("/mcp", TransportKind::StreamableHttp)).await;
        check_bridge(client, version, &[]).await;
    }
}

/// Each request starts its own process, to which the gateway declares no client capabilities.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_serves_a_program_over_http_without_sessions() {
    let gateway = Gateway::start("streamableHttp", &[]);
    let client = connect(client(V2025_11_25), gateway.http("/mcp", TransportKind::StreamableHttp)).await;
    check_bridge(client, V2025_11_25, &[Unsupported::State, Unsupported::ServerRequests]).await;
}

/// Each request starts its own process; input responses reach the same process.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_serves_a_program_over_http_in_the_newest_revision() {
    let gateway = Gateway::start("streamableHttp", &[]);
    let client = connect(client(None), gateway.http("/mcp", TransportKind::StreamableHttp)).await;
    check_bridge(client, V2026_07_28, &[Unsupported::State, Unsupported::Tasks]).await;
}

/// All clients share one process, which gets an `initialize` from each.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_serves_a_program_over_http_and_sse_to_one_client_after_another() {
    let gateway = Gateway::start("sse", &[]);
    for version in HANDSHAKE_VERSIONS {
        let client = connect(client(version), gateway.http("/sse", TransportKind::HttpSse)).await;
        check_bridge(client, version, &[]).await;
    }
}

/// All clients share one process. The gateway changes the ids of the client's messages, including those of its
/// responses, and does not change them back in `_meta`: server requests and subscriptions of 2026-07-28 do not work.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_serves_a_program_over_websocket_to_one_client_after_another() {
    let gateway = Gateway::start("ws", &[]);
    let connector = || WsConnector::new(format!("ws://{}/message", gateway.authority)).unwrap();
    for version in HANDSHAKE_VERSIONS {
        check_bridge(connect(client(version), connector()).await, version, &[Unsupported::ServerRequests]).await;
    }
    check_bridge(connect(client(V2026_07_28), connector()).await, V2026_07_28, &[Unsupported::Changes]).await;
}

/// Features that supergateway lacks as a client: it drops all messages of the server except responses.
const RESPONSES_ONLY: [Unsupported; 3] = [Unsupported::Progress, Unsupported::Changes, Unsupported::ServerRequests];

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_bridges_http_to_stdio() {
    let demo = Demo::listening("--http");
    for version in HANDSHAKE_VERSIONS {
        let client = start(client(version), supergateway("--streamableHttp", &demo.url)).await;
        check_bridge(client, version, &RESPONSES_ONLY).await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_bridges_http_sse_to_stdio() {
    let demo = Demo::listening("--sse");
    let client = start(client(V2024_11_05), supergateway("--sse", &demo.url)).await;
    check_bridge(client, V2024_11_05, &RESPONSES_ONLY).await;
}

/// The client probes for the newest revision first. For the probe the gateway sends its own `initialize`, so that of
/// the client is the second one of the session.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn supergateway_bridges_clients_that_probe_for_the_newest_revision() {
    for (option, transport, version) in [("--streamableHttp", "--http", V2025_11_25), ("--sse", "--sse", V2024_11_05)] {
        let demo = Demo::listening(transport);
        check_bridge(start(client(None), supergateway(option, &demo.url)).await, version, &RESPONSES_ONLY).await;
    }
}
