//! The servers: their paths, their commands and their limitations.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use turms_client::{ChildCommand, Client, ClientBuilder, HandlerError, VersionCache};
use turms_proto::types::{CreateMessageResult, ElicitResult, Root};
use turms_proto::{Ability, Object, ProtocolVersion};
use turms_testkit::{TIMEOUT, node, peer_file, python, within};

/// A server of this project on one of the official SDKs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// Name in its server info.
    pub(crate) name: &'static str,
    language: Language,
    script: &'static str,
    /// The newest revision that it supports.
    pub(crate) newest: ProtocolVersion,
}

#[derive(Debug, PartialEq, Eq)]
enum Language {
    Node,
    /// Python, with the virtual environment of its packages.
    Python(&'static str),
}

pub(crate) const NODE_HANDSHAKE: Peer = Peer {
    name: "node-handshake",
    language: Language::Node,
    script: "node/handshake.mjs",
    newest: ProtocolVersion::V2025_11_25,
};

pub(crate) const NODE_STATELESS: Peer = Peer {
    name: "node-stateless",
    language: Language::Node,
    script: "node/stateless.mjs",
    newest: ProtocolVersion::V2026_07_28,
};

pub(crate) const PYTHON_HANDSHAKE: Peer = Peer {
    name: "python-handshake",
    language: Language::Python("handshake"),
    script: "python/handshake.py",
    newest: ProtocolVersion::V2025_11_25,
};

pub(crate) const PYTHON_STATELESS: Peer = Peer {
    name: "python-stateless",
    language: Language::Python("stateless"),
    script: "python/stateless.py",
    newest: ProtocolVersion::V2026_07_28,
};

impl Peer {
    pub(crate) fn command(&self) -> ChildCommand {
        ChildCommand::new(self.program()).arg(self.script())
    }

    /// Returns the interpreter of the script.
    pub(crate) fn program(&self) -> PathBuf {
        match self.language {
            Language::Node => node(),
            Language::Python(environment) => python(environment),
        }
    }

    pub(crate) fn script(&self) -> PathBuf {
        peer_file(self.script)
    }

    pub(crate) fn is_python(&self) -> bool {
        matches!(self.language, Language::Python(_))
    }

    /// Returns `true` for a newer SDK, whose servers accept clients of both eras.
    pub(crate) fn is_stateless(&self) -> bool {
        self.newest.has(Ability::Stateless)
    }
}

pub(crate) fn everything() -> ChildCommand {
    ChildCommand::new(node()).arg(peer_file(&published("server-everything"))).arg("stdio")
}

/// Returns the command of the same server over HTTP, on the loopback interface; `PORT` selects the port.
pub(crate) fn everything_over(transport: &str) -> Command {
    let mut command = Command::new(node());
    command.arg("--import").arg(peer_file("node/loopback.mjs"));
    command.arg(peer_file(&published("server-everything"))).arg(transport);
    command
}

pub(crate) fn filesystem(directory: &Path) -> ChildCommand {
    ChildCommand::new(node()).arg(peer_file(&published("server-filesystem"))).arg(directory)
}

fn published(name: &str) -> String {
    format!("node/node_modules/@modelcontextprotocol/{name}/dist/index.js")
}

/// A client with long timeouts and its own version cache.
pub(crate) fn client() -> ClientBuilder {
    Client::builder("turms-interop", "1.0.0")
        .version_cache(VersionCache::new())
        .probe_timeout(TIMEOUT)
        .handshake_timeout(TIMEOUT)
        .timeout(TIMEOUT)
}

/// The client of most tests. Its handlers accept, decline and cancel elicitations in turn, answer or refuse sampling
/// requests, and there is one root.
pub(crate) fn answering() -> ClientBuilder {
    let asked = AtomicUsize::new(0);
    client()
        .roots([Root::new("file:///srv/project").name("project")])
        .on_sampling(|params, _| async move {
            let asked = params.messages[0].content.as_slice()[0].as_text().unwrap_or_default();
            match asked.contains("secret") {
                true => Err(HandlerError::rejected("it is a secret")),
                false => Ok(CreateMessageResult::assistant(format!("{asked} Paris."), "parrot")),
            }
        })
        .on_form(move |_, _| {
            std::future::ready(match asked.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => ElicitResult::accept(object(r#"{"name":"Ann"}"#)).map_err(HandlerError::from),
                1 => Ok(ElicitResult::decline()),
                _ => Ok(ElicitResult::cancel()),
            })
        })
}

pub(crate) fn object(json: &'static str) -> Object {
    Object::parse(json).unwrap()
}

pub(crate) async fn connect(builder: ClientBuilder, command: ChildCommand) -> Client {
    let shown = command.to_string();
    let connected = within("a connection", builder.connect_command(command)).await;
    connected.unwrap_or_else(|error| panic!("{shown}: {error}"))
}
