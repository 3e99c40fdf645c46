//! Reconnects, the version cache, and the end of connections.

use std::sync::mpsc;

use serde_json::json;
use turms_client::{ChildCommand, Client, VersionCache};
use turms_core::Connector as _;
use turms_proto::session::Dialect;
use turms_proto::types::LoggingLevel;
use turms_proto::{ErrorCode, ProtocolVersion};
use turms_testkit::{eventually, within};

use crate::peer::{self, NODE_HANDSHAKE, NODE_STATELESS, PYTHON_HANDSHAKE, PYTHON_STATELESS, Peer};

async fn remembering(memory: &VersionCache, command: ChildCommand) -> Client {
    peer::connect(peer::client().version_cache(memory.clone()), command).await
}

async fn echo(client: &Client, text: &str) {
    assert_eq!(client.call_tool("echo", json!({ "text": text })).await.unwrap().text(), text);
}

/// The `server/discover` results of these servers are private, so they are requested again.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_cached_stateless_server_gets_only_discover() {
    for peer in [&NODE_STATELESS, &PYTHON_STATELESS] {
        let memory = VersionCache::new();
        remembering(&memory, peer.command()).await.close().await;
        let client = remembering(&memory, peer.command()).await;
        assert_eq!(client.stats().connection.requests_sent, 1);
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2026_07_28));
        assert_eq!(client.server_info().unwrap().name, peer.name);
        client.read_resource("memo://hello").await.unwrap();
        assert_eq!(client.stats().connection.requests_sent, 2);
        client.close().await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_cached_server_with_a_handshake_is_not_probed() {
    for peer in [&NODE_HANDSHAKE, &PYTHON_HANDSHAKE] {
        let memory = VersionCache::new();
        let client = remembering(&memory, peer.command()).await;
        let probed = client.stats().connection.failed;
        client.close().await;
        let client = remembering(&memory, peer.command()).await;
        assert_eq!((probed, client.stats().connection.failed), (1, 0));
        assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2025_11_25));
        client.close().await;
    }
}

/// A fixed command line, which is the identity of the server for a client; a file selects the program that it runs.
struct Disguise(std::path::PathBuf);

impl Disguise {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("turms-disguise-{name}-{}.sh", std::process::id())))
    }

    fn of(&self, peer: &Peer) -> ChildCommand {
        let (program, script) = (peer.program(), peer.script());
        let text = format!("exec {program:?} {script:?} --stateless-only\n");
        std::fs::write(&self.0, text).unwrap();
        ChildCommand::new("sh").arg(&self.0)
    }
}

impl Drop for Disguise {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_cached_server_without_its_handshake_is_probed_again() {
    let memory = VersionCache::new();
    let disguise = Disguise::new("stopped");
    remembering(&memory, disguise.of(&NODE_HANDSHAKE)).await.close().await;
    let identity = disguise.of(&NODE_STATELESS).identity().unwrap();
    assert_eq!(memory.dialect(&identity), Some(Dialect::Handshake(ProtocolVersion::V2025_11_25)));

    let client = remembering(&memory, disguise.of(&NODE_STATELESS)).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2026_07_28));
    echo(&client, "healed").await;
    assert_eq!(memory.dialect(&identity), Some(Dialect::Stateless(ProtocolVersion::V2026_07_28)));
    client.close().await;
}

/// The `server/discover` result is private, so it is requested again, and the response shows that a handshake is
/// needed.
#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_cached_server_with_a_new_handshake_is_detected_on_connect() {
    let memory = VersionCache::new();
    let disguise = Disguise::new("begun");
    remembering(&memory, disguise.of(&PYTHON_STATELESS)).await.close().await;

    let client = remembering(&memory, disguise.of(&PYTHON_HANDSHAKE)).await;
    assert_eq!(client.protocol_version(), Some(ProtocolVersion::V2025_11_25));
    echo(&client, "healed").await;
    assert_eq!(client.server_info().unwrap().name, "python-handshake");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_client_without_handlers_gets_no_requests() {
    for peer in [&NODE_HANDSHAKE, &NODE_STATELESS, &PYTHON_HANDSHAKE, &PYTHON_STATELESS] {
        let client = peer::connect(peer::client(), peer.command()).await;
        for tool in ["greet", "think", "roots"] {
            let asked = client.call_tool(tool, json!({ "question": "Where?" })).await;
            if peer.is_stateless() {
                assert_eq!(asked.unwrap_err().error_response().unwrap().code, ErrorCode::MISSING_CLIENT_CAPABILITY);
            } else {
                assert!(asked.unwrap().is_error());
            }
        }
        client.close().await;
    }
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_log_level_set_before_connecting_applies_to_the_first_call() {
    for peer in [&NODE_HANDSHAKE, &NODE_STATELESS] {
        let (sender, logs) = mpsc::channel();
        let builder = peer::client()
            .log_level(LoggingLevel::Warning)
            .on_log(move |message| sender.send(message.data.decode::<String>().unwrap()).unwrap());
        let client = peer::connect(builder, peer.command()).await;
        for (text, level) in [("quiet", "notice"), ("loud", "warning")] {
            client.call_tool("log", json!({ "text": text, "level": level })).await.unwrap();
        }
        assert_eq!(logs.try_iter().collect::<Vec<_>>(), ["loud"]);
        client.close().await;
    }
}

/// Tests that need the process table.
#[cfg(target_os = "linux")]
mod processes {
    use std::path::Path;
    use std::time::Duration;

    use turms_client::{Backoff, ClientBuilder, ConnectionEvent, ConnectionStatus, Event, Events};

    use super::*;
    use turms_testkit::process::left_of;

    use crate::process::{child_with, kill};

    /// Returns the command of a server with a unique argument, by which its process is found.
    fn marked(peer: &Peer, test: &str) -> (ChildCommand, String) {
        let mark = format!("--test={test}-{}", peer.name);
        (peer.command().arg(&mark), mark)
    }

    async fn closes(builder: ClientBuilder, command: ChildCommand, mark: &str) {
        let client = peer::connect(builder, command).await;
        let id = child_with(mark);
        within("the end of the server", client.close()).await;
        let left = left_of(id);
        assert!(left.is_empty(), "{left:#?}");
        assert_eq!(client.status(), ConnectionStatus::Closed);
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn closing_leaves_no_process() {
        for peer in [&NODE_HANDSHAKE, &NODE_STATELESS, &PYTHON_HANDSHAKE, &PYTHON_STATELESS] {
            let (command, mark) = marked(peer, "closing");
            closes(peer::answering(), command, &mark).await;
        }
        closes(peer::client(), peer::everything().arg("--test=closing"), "stdio --test=closing").await;
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop/closing");
        std::fs::create_dir_all(&directory).unwrap();
        closes(peer::client(), peer::filesystem(&directory), "interop/closing").await;
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn closing_ends_a_server_that_is_still_at_work() {
        for peer in [&NODE_HANDSHAKE, &NODE_STATELESS, &PYTHON_HANDSHAKE, &PYTHON_STATELESS] {
            let (command, mark) = marked(peer, "at-work");
            let client = peer::connect(peer::client(), command.exit_timeout(Duration::from_millis(100))).await;
            let id = child_with(&mark);
            let slow = tokio::spawn(client.call_tool("slow", json!({ "pause": 3_600_000 })).into_future());
            eventually("a call that waits", async || !client.pending_calls().is_empty()).await;
            echo(&client, "between").await;
            within("the end of the server", client.close()).await;
            let left = left_of(id);
            assert!(left.is_empty(), "{left:#?}");
            let error = within("the end of the call", slow).await.unwrap().unwrap_err();
            assert!(error.is_disconnected() && error.may_have_run(), "{error}");
        }
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn dropping_the_client_leaves_no_process() {
        let (command, mark) = marked(&NODE_HANDSHAKE, "dropping");
        let client = peer::connect(peer::client(), command).await;
        let id = child_with(&mark);
        let other = client.clone();
        drop(client);
        echo(&other, "not yet").await;
        drop(other);
        eventually("the end of every process", async || left_of(id).is_empty()).await;
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn without_supervision_a_killed_server_ends_the_client() {
        let (command, mark) = marked(&NODE_HANDSHAKE, "unsupervised");
        let client = peer::connect(peer::client(), command).await;
        let slow = tokio::spawn(client.call_tool("slow", json!({ "pause": 3_600_000 })).into_future());
        eventually("a call that waits", async || !client.pending_calls().is_empty()).await;
        echo(&client, "between").await;
        kill(child_with(&mark));
        let error = within("the end of the call", slow).await.unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "tools/call \"slow\": the server was killed by signal 9 before the response; the call may have run"
        );
        eventually("the end of the client", async || client.status() == ConnectionStatus::Closed).await;
        let error = client.ping().await.unwrap_err();
        assert!(error.is_disconnected() && !error.may_have_run(), "{error}");
    }

    async fn reconnected(events: &mut Events) -> (String, u64) {
        let mut how = None;
        let reconnected = events.find(|event| match event {
            Event::Connection(ConnectionEvent::Lost(ended)) => {
                how = ended.how;
                None
            }
            Event::Connection(ConnectionEvent::Connected { generation, .. }) => Some(generation),
            _ => None,
        });
        let generation = within("another connection", reconnected).await.unwrap();
        (how.unwrap_or_default(), generation)
    }

    /// Changes the counter until the client receives an update.
    async fn is_told_again(client: &Client, events: &mut Events) {
        let told = async {
            loop {
                client.call_tool("touch", ()).await.unwrap();
                let told = events.find(|event| match event {
                    Event::ResourceUpdated { .. } => Some(true),
                    Event::ToolsChanged => Some(false),
                    _ => None,
                });
                if tokio::time::timeout(Duration::from_millis(100), told).await == Ok(Some(true)) {
                    return;
                }
            }
        };
        within("a change of the counter", told).await;
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn with_supervision_a_killed_server_is_started_again() {
        for peer in [&NODE_HANDSHAKE, &NODE_STATELESS] {
            let (command, mark) = marked(peer, "supervised");
            let builder = peer::answering().reconnect(Backoff::new());
            let client = peer::connect(builder, command).await;
            let mut events = client.events();
            let _subscription = client.subscribe("memo://counter").await.unwrap();
            let first = child_with(&mark);
            kill(first);
            assert_eq!(reconnected(&mut events).await, ("was killed by signal 9".to_owned(), 2));
            echo(&client, "again").await;
            assert_ne!(child_with(&mark), first);
            let thought = client.call_tool("think", json!({ "question": "Where?" })).await.unwrap().text();
            assert_eq!(thought, "parrot: Where? Paris.");
            is_told_again(&client, &mut events).await;
            client.close().await;
        }
    }

    #[tokio::test]
    #[ignore = "needs the peers: run `cargo xtask test`"]
    async fn a_call_right_after_the_kill_waits_for_the_next_server() {
        let (command, mark) = marked(&NODE_STATELESS, "right-after");
        let client = peer::connect(peer::client().reconnect(Backoff::new()), command).await;
        for _ in 0..3 {
            kill(child_with(&mark));
            // The client may or may not have noticed the lost connection; a read is repeated in both cases.
            let read = within("an answer", client.read_resource("memo://hello").into_future()).await.unwrap();
            assert_eq!(read.contents[0].text.as_deref(), Some("Hello from a peer."));
        }
        client.close().await;
    }
}
