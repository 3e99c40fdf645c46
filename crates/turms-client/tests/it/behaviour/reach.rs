//! The ways to the fixture.

use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;

use serde_json::json;
use turms_client::{ChildCommand, Client, ClientBuilder, VersionCache};
use turms_core::TransportKind;
use turms_core::transport::memory;
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_proto::ProtocolVersion;
use turms_proto::revision::{Fit, Transport};
use turms_proto::types::{CreateMessageResult, ElicitParams, ElicitResult, Root};
use turms_testkit::{TIMEOUT, within};
use turms_ws::{ServeWs as _, WsConnector};

use turms_testkit::behaviour_server as fixture;

/// A way to the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As a service of this process: calls are calls.
    Local,
    /// Over a pair of pipes within this process.
    Pair,
    /// As a program of its own.
    Child,
    /// Over a WebSocket.
    Ws,
    /// Over HTTP.
    Http,
    /// Over HTTP+SSE.
    Sse,
}

impl Way {
    pub(crate) const ALL: [Self; 6] = [Self::Local, Self::Pair, Self::Child, Self::Ws, Self::Http, Self::Sse];
    /// Those on which time can be turned by hand.
    pub(crate) const IN_PROCESS: [Self; 2] = [Self::Local, Self::Pair];

    pub(crate) fn carries(self, version: ProtocolVersion) -> bool {
        let transport = match self {
            Self::Local => Transport::Memory,
            Self::Pair | Self::Child => Transport::Stdio,
            Self::Ws => Transport::WebSocket,
            Self::Http => Transport::StreamableHttp,
            Self::Sse => Transport::HttpSse,
        };
        transport.fit(version) != Fit::Impossible
    }
}

/// A client that is connected to a fixture of its own.
pub(crate) struct Reached {
    pub(crate) client: Client,
    pub(crate) version: ProtocolVersion,
    pub(crate) way: Way,
}

impl Reached {
    pub(crate) async fn new(way: Way, version: ProtocolVersion, builder: ClientBuilder) -> Self {
        // A program may take its time to start on a machine that has much to do.
        let builder = builder.protocol_version(version).probe_timeout(TIMEOUT);
        let client = match way {
            Way::Local => builder.connect_service(fixture::server().build().unwrap()).await.unwrap(),
            Way::Pair => {
                let (near, far) = memory();
                tokio::spawn(async move { fixture::server().serve(far.0, far.1).await });
                builder.connect_stream(near.0, near.1).await.unwrap()
            }
            Way::Child => connect_child(builder).await,
            Way::Ws => connect_ws(builder).await,
            Way::Http => connect_http(builder, "mcp", TransportKind::StreamableHttp).await,
            Way::Sse => connect_http(builder, "sse", TransportKind::HttpSse).await,
        };
        Self { client, version, way }
    }

    /// Calls a tool of the fixture's that cannot fail.
    pub(crate) async fn text(&self, tool: &str, arguments: impl serde::Serialize) -> String {
        self.client.call_tool(tool, arguments).await.unwrap().text()
    }

    /// Waits until the fixture has counted something so often.
    pub(crate) async fn reaches(&self, counter: &str, count: i64) {
        self.client.call_tool("reached", json!({ "counter": counter, "count": count })).await.unwrap();
    }

    /// How often the fixture has counted something.
    pub(crate) async fn count(&self, counter: &str) -> i64 {
        let counters: serde_json::Value = serde_json::from_str(&self.text("effects", ()).await).unwrap();
        counters[counter].as_i64().unwrap_or_default()
    }
}

impl Deref for Reached {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// Starts the fixture as a program. Cargo builds it with the tests unless it is told to build only some of them.
async fn connect_child(builder: ClientBuilder) -> Client {
    let command = ChildCommand::new(program()).on_stderr(|_| {});
    let connected = builder.version_cache(VersionCache::new()).connect_command(command).await;
    connected.expect("the fixture is built: cargo build --package turms-client --examples")
}

/// Each fixture has a port of its own, and what was found out about a port says nothing about the next one who has it.
async fn connect_ws(builder: ClientBuilder) -> Client {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let connector = WsConnector::new(format!("ws://{}/", listener.address())).unwrap();
    tokio::spawn(listener.serve(fixture::server().into_ws_service().unwrap()));
    builder.version_cache(VersionCache::new()).connect(connector).await.unwrap()
}

async fn connect_http(builder: ClientBuilder, path: &str, transport: TransportKind) -> Client {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let connector = HttpConnector::new(format!("http://{}/{path}", listener.address())).unwrap();
    tokio::spawn(listener.serve(fixture::server().into_http_service().unwrap()));
    let connector = connector.transport(transport).no_proxy();
    builder.version_cache(VersionCache::new()).connect(connector).await.unwrap()
}

/// Examples stand beside the directory of the tests.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    directory.join("examples").join(format!("fixture{}", std::env::consts::EXE_SUFFIX))
}

/// A client whose person, model and machine answer everything.
pub(crate) fn person() -> ClientBuilder {
    Client::builder("suite", "1.0.0")
        .on_elicitation(|params, _| async move {
            match params {
                ElicitParams::Url(_) => Ok(ElicitResult::accept_url()),
                _ => Ok(ElicitResult::accept(json!({ "name": "Ann" }))?),
            }
        })
        .on_sampling(|_, _| async { Ok(CreateMessageResult::assistant("Paris", "test-model")) })
        .roots([Root::new("file:///home")])
}

/// A client that cannot be asked anything.
pub(crate) fn nobody() -> ClientBuilder {
    Client::builder("suite", "1.0.0")
}

/// Runs a test for every revision, every way, with a client that can be asked everything.
pub(crate) async fn everywhere(test: impl AsyncFn(Reached)) {
    everywhere_as(person, test).await;
}

/// As [`everywhere`], with another client.
pub(crate) async fn everywhere_as(builder: impl Fn() -> ClientBuilder, test: impl AsyncFn(Reached)) {
    along(&Way::ALL, &ProtocolVersion::ALL, builder, test).await;
}

/// Runs a test for these revisions, these ways.
pub(crate) async fn along(
    ways: &[Way],
    versions: &[ProtocolVersion],
    builder: impl Fn() -> ClientBuilder,
    test: impl AsyncFn(Reached),
) {
    for way in ways {
        for version in versions.iter().filter(|version| way.carries(**version)) {
            let place = ConfigFile(*way, *version);
            let run = async { test(Reached::new(*way, *version, builder()).await).await };
            within(&format!("the end of the test {place}"), run).await;
        }
    }
}

/// Says where a test failed.
struct ConfigFile(Way, ProtocolVersion);

impl fmt::Display for ConfigFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}, {}", self.0, self.1)
    }
}

impl Drop for ConfigFile {
    #[expect(clippy::print_stderr, reason = "a failed test has to say where it failed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this was: {self}");
        }
    }
}
