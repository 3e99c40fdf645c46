//! Held against others' implementations: the official SDKs over their own WebSocket transports, and the `ws` package for
//! Node.js. They are real processes; `cargo xtask peers` installs them.
#![cfg(unix)]

use std::process::Stdio;
use std::sync::mpsc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use turms_client::{CallErrorKind, Client, ClosedCause};
use turms_testkit::{peer_file, within};
use turms_ws::WsConnector;

use crate::fixture::{Served, builder, connect};

fn node(script: &str) -> Command {
    let mut command = Command::new(turms_testkit::node());
    command.arg(peer_file(&format!("node/{script}")));
    command
}

fn python(script: &str) -> Command {
    let mut command = Command::new(turms_testkit::python("handshake"));
    command.arg(peer_file(&format!("python/{script}")));
    command
}

/// What a client tells of its conversation with our server.
async fn told(mut client: Command) -> Value {
    let served = Served::new().await;
    let client = client.arg(format!("ws://{}/", served.address)).kill_on_drop(true);
    let output = within("the end of the client", client.output()).await.unwrap();
    let told = serde_json::from_slice(&output.stdout);
    let told = told.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    served.router.handle().shutdown();
    within("the end of the server", served.ended).await.unwrap().unwrap();
    told
}

fn conversation() -> Value {
    json!({
        "server": "fixture",
        "sum": "3",
        "greeting": "Hello, Ann! (1)",
        "steps": "done",
        "progress": [1, 2, 3],
        "echo": true,
    })
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_client_of_the_typescript_sdk_is_served() {
    let mut told = told(node("ws-client.mjs")).await;
    let stateless = told.as_object_mut().unwrap().remove("stateless").unwrap();
    assert_eq!(told, conversation());
    let expected = json!({
        "subprotocol": "mcp",
        "pong": "there?",
        "sum": "7",
        "binary": false,
        "code": 1003,
        "reason": "a message must be text, not binary",
    });
    assert_eq!(stateless, expected);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_client_of_the_python_sdk_is_served() {
    let mut told = told(python("ws_client.py")).await;
    // Python tells whole numbers from others.
    assert_eq!(told["progress"].take(), json!([1.0, 2.0, 3.0]));
    told["progress"] = json!([1, 2, 3]);
    assert_eq!(told, conversation());
}

/// Starts a server that ends with its input, and connects to it.
async fn reach(mut command: Command) -> (Client, Child) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = within("a port", lines.next_line()).await.unwrap().expect("the server says where it listens");
    let connector = WsConnector::new(format!("ws://127.0.0.1:{port}/")).unwrap();
    (connect(connector, builder()).await, child)
}

async fn converse(client: &Client) {
    let call = async |tool: &'static str, arguments: Value| {
        within(tool, client.call_tool(tool, arguments).into_future()).await.unwrap().text()
    };
    let sum: Value = serde_json::from_str(&call("add", json!({ "a": 1, "b": 2 })).await).unwrap();
    assert_eq!(sum["sum"].as_f64(), Some(3.0));
    let text = "a\u{e4}\u{1f980}".repeat(50_000);
    assert!(call("echo", json!({ "text": text })).await == text);
    assert_eq!(call("greet", json!({})).await, "Hello, Ann!");
    let (write, heard) = mpsc::channel();
    let report = move |report: &turms_proto::types::ProgressParams| {
        let _ = write.send(report.progress.as_f64());
    };
    let slow = client.call_tool("slow", json!({ "pause": 1 })).on_progress(report).into_future();
    assert_eq!(within("slow", slow).await.unwrap().text(), "done");
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_on_the_ws_package_is_spoken_to() {
    let (client, mut server) = reach(node("ws-server.mjs")).await;
    converse(&client).await;
    let error = within("an error", client.call_tool("leave", ()).into_future()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::Lost(_))), "{error:?}");
    assert!(error.to_string().contains("closed the connection (4000: as asked)"), "{error}");
    drop(server.stdin.take());
    within("the end of the server", server.wait()).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_server_of_the_python_sdk_is_spoken_to() {
    let (client, mut server) = reach(python("ws_server.py")).await;
    converse(&client).await;
    within("the goodbye", client.close()).await;
    drop(server.stdin.take());
    within("the end of the server", server.wait()).await.unwrap();
}
