//! The transports between client and fixture.

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

/// A transport to the fixture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// A service in the same process, without serialization.
    Local,
    /// A pair of pipes in the same process.
    Pair,
    /// A child process.
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
    /// The transports that work with a paused clock.
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

/// A client that is connected to its own fixture.
pub(crate) struct Reached {
    pub(crate) client: Client,
    pub(crate) version: ProtocolVersion,
    pub(crate) way: Way,
}

impl Reached {
    pub(crate) async fn new(way: Way, version: ProtocolVersion, builder: ClientBuilder) -> Self {
        // Starting a program can take long on a busy machine.
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

    /// Calls a tool of the fixture that cannot fail, and returns its text.
    pub(crate) async fn text(&self, tool: &str, arguments: impl serde::Serialize) -> String {
        self.client.call_tool(tool, arguments).await.unwrap().text()
    }

    /// Waits until a counter of the fixture reaches `count`.
    pub(crate) async fn reaches(&self, counter: &str, count: i64) {
        self.client.call_tool("reached", json!({ "counter": counter, "count": count })).await.unwrap();
    }

    /// Returns a counter of the fixture.
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

/// Starts the fixture as a child process. Cargo builds it with the tests, unless a target is selected.
async fn connect_child(builder: ClientBuilder) -> Client {
    let command = ChildCommand::new(program()).on_stderr(|_| {});
    let connected = builder.version_cache(VersionCache::new()).connect_command(command).await;
    connected.expect("the fixture is built: cargo build --package turms-client --examples")
}

/// A port can be reused by another fixture, so clients share no cached version.
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

/// Returns the path of the fixture, which is in the `examples` directory beside that of the tests.
pub(crate) fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let directory = test.ancestors().nth(2).unwrap();
    directory.join("examples").join(format!("fixture{}", std::env::consts::EXE_SUFFIX))
}

/// A client with handlers for elicitation, sampling and roots.
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

/// A client without handlers for requests of servers.
pub(crate) fn nobody() -> ClientBuilder {
    Client::builder("suite", "1.0.0")
}

/// Runs a test for every transport and revision, with a client that handles all requests of servers.
pub(crate) async fn everywhere(test: impl AsyncFn(Reached)) {
    everywhere_as(person, test).await;
}

/// Runs a test as [`everywhere`] does, with another client.
pub(crate) async fn everywhere_as(builder: impl Fn() -> ClientBuilder, test: impl AsyncFn(Reached)) {
    along(&Way::ALL, &ProtocolVersion::ALL, builder, test).await;
}

/// Runs a test for these transports and revisions.
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

/// Prints the transport and revision of a failed test.
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
