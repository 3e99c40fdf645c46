//! Interoperability with clients on each version of the official SDKs, over each transport and in each era that the SDK supports.
//!
//! The clients run as processes. `peers/README.md` describes their steps; `cargo xtask peers` installs them.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use turms_testkit::{peer_file, within};

use crate::dialog::{NEWEST, NEWEST_OLDER};
use crate::fixture::Fixture;

/// A client on one of the official SDKs.
struct Script {
    program: PathBuf,
    script: PathBuf,
}

fn node(script: &str) -> Script {
    Script { program: turms_testkit::node(), script: peer_file(&format!("node/{script}")) }
}

fn python(environment: &str, script: &str) -> Script {
    Script { program: turms_testkit::python(environment), script: peer_file(&format!("python/{script}")) }
}

/// The value of each step.
struct Conversation(BTreeMap<String, Value>);

impl Conversation {
    #[track_caller]
    fn step(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("the step {name} was not taken"))
    }
}

impl Script {
    /// Runs the client against a new fixture, and checks that all its steps succeed.
    async fn converse(&self, path: &str, mode: &str) -> Conversation {
        let fixture = Fixture::start().await;
        let mut command = Command::new(&self.program);
        command.arg(&self.script).arg(format!("http://{}{path}", fixture.address)).arg(mode);
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = within("the end of the client", command.output()).await.unwrap();
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{mode}: {}\n{said}\n{complained}", output.status);
        let steps = said.lines().map(|line| {
            let step: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(step["ok"], true, "{line}");
            (step["step"].as_str().unwrap().to_owned(), step["value"].clone())
        });
        let conversation = Conversation(steps.collect());
        conversation.assert_all(path == "/sse");
        conversation
    }
}

impl Conversation {
    /// Checks the steps whose values are the same for every client and revision.
    fn assert_all(&self, is_sse: bool) {
        let tools: Vec<_> = self.step("tools").as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for tool in ["add", "count", "ended", "fail", "greet", "grow", "log", "think", "wait"] {
            assert!(tools.contains(&tool), "{tools:?}");
        }
        for (step, value) in [
            ("call", json!("3")),
            ("fail", json!({ "isError": true, "text": "it failed, as asked" })),
            ("unknown", json!({ "code": -32602 })),
            ("progress", json!({ "progress": [1, 2, 3, 4, 5], "answer": "counted to 5" })),
            ("elicit", json!("Hello, Ann!")),
            ("questions", json!(["What is your name?"])),
            ("sample", json!("parrot: The capital? Paris.")),
            ("log", json!({ "answer": "logged", "logs": [{ "level": "warning", "data": "loud" }] })),
            ("read", json!("Hello from a peer.")),
            ("prompts", json!(["review"])),
            ("prompt", json!("Write a brief review of this code:\n1 + 1")),
            ("cancel", json!("given up")),
            ("several", json!({ "sums": (1..=20).collect::<Vec<_>>(), "counts": true })),
            ("change", json!(true)),
            ("ping", json!({})),
        ] {
            assert_eq!(self.step(step), &value, "{step}");
        }
        assert!(self.step("resources").to_string().contains("memo://hello"));
        self.step("close");
        assert_eq!(self.0.contains_key("resume"), !is_sse);
    }

    /// Checks the error code that the client reports for a resource that does not exist.
    fn assert_missed(&self, code: i64) {
        assert_eq!(self.step("unread"), &json!({ "code": code }));
    }

    /// Checks that the client got everything over a stream that broke and was resumed.
    fn assert_resumed(&self) {
        let all = json!({
            "progress": (1..=20).collect::<Vec<_>>(), "answer": "counted to 20", "broken": 1, "resumed": true
        });
        assert_eq!(self.step("resume"), &all);
    }

    #[track_caller]
    fn assert_version(&self, version: &str) {
        assert_eq!(self.step("connect")["version"], version);
    }
}

/// The code to which the second TypeScript SDK translates -32002 (resource not found in older revisions).
const TRANSLATED: i64 = -32602;

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_typescript_sdk_is_served_over_streamable_http() {
    let conversation = node("client-handshake.mjs").converse("/mcp", "streamable").await;
    conversation.assert_version(NEWEST_OLDER);
    conversation.assert_missed(-32002);
    conversation.assert_resumed();
    assert_eq!(conversation.step("terminate"), &json!({ "had": true, "has": false }));
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_typescript_sdk_is_served_over_http_and_sse() {
    node("client-handshake.mjs").converse("/sse", "sse").await.assert_missed(-32002);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_finds_the_newest_revision() {
    let conversation = node("client-stateless.mjs").converse("/mcp", "auto").await;
    conversation.assert_version(NEWEST);
    assert_eq!(conversation.step("connect")["session"], false);
    conversation.assert_missed(-32602);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_is_served_in_the_newest_revision() {
    node("client-stateless.mjs").converse("/mcp", NEWEST).await.assert_version(NEWEST);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_is_served_in_older_revisions() {
    let conversation = node("client-stateless.mjs").converse("/mcp", "legacy").await;
    conversation.assert_version(NEWEST_OLDER);
    conversation.assert_missed(TRANSLATED);
    conversation.assert_resumed();
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_is_served_over_http_and_sse() {
    node("client-stateless.mjs").converse("/sse", "sse").await.assert_missed(TRANSLATED);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_python_sdk_is_served_over_streamable_http() {
    let conversation = python("handshake", "client_handshake.py").converse("/mcp", "streamable").await;
    conversation.assert_version(NEWEST_OLDER);
    conversation.assert_missed(-32002);
    conversation.assert_resumed();
    assert_eq!(conversation.step("session"), true);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_python_sdk_is_served_over_http_and_sse() {
    python("handshake", "client_handshake.py").converse("/sse", "sse").await.assert_missed(-32002);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_finds_the_newest_revision() {
    let conversation = python("stateless", "client_stateless.py").converse("/mcp", "auto").await;
    conversation.assert_version(NEWEST);
    conversation.assert_missed(-32602);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_is_served_in_the_newest_revision() {
    python("stateless", "client_stateless.py").converse("/mcp", NEWEST).await.assert_version(NEWEST);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_is_served_in_older_revisions() {
    let conversation = python("stateless", "client_stateless.py").converse("/mcp", "legacy").await;
    conversation.assert_version(NEWEST_OLDER);
    conversation.assert_missed(-32002);
    conversation.assert_resumed();
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_is_served_over_http_and_sse() {
    python("stateless", "client_stateless.py").converse("/sse", "sse").await.assert_missed(-32002);
}
