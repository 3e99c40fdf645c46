//! Interoperability with the official SDKs over their WebSocket transports, and with the `ws` package for Node.js. They run as real
//! processes; `cargo xtask peers` installs them.
#![cfg(unix)]

use std::process::Stdio;
use std::sync::mpsc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use turms_client::{CallErrorKind, Client, ClosedCause};
use turms_testkit::{peer_file, within};
use turms_ws::WsConnector;

use crate::fixture::{TestServer, builder, connect};

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

/// Runs a client against our server and returns the report that it prints.
async fn report_of(mut client: Command) -> Value {
    let server = TestServer::new().await;
    let client = client.arg(format!("ws://{}/", server.address)).kill_on_drop(true);
    let output = within("the end of the client", client.output()).await.unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    server.router.handle().shutdown();
    within("the end of the server", server.serving).await.unwrap().unwrap();
    report
}

fn expected_report() -> Value {
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
async fn the_client_of_the_typescript_sdk_works() {
    let mut report = report_of(node("ws-client.mjs")).await;
    let stateless = report.as_object_mut().unwrap().remove("stateless").unwrap();
    assert_eq!(report, expected_report());
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
async fn the_client_of_the_python_sdk_works() {
    let mut report = report_of(python("ws_client.py")).await;
    // In Python the numbers are floats.
    assert_eq!(report["progress"].take(), json!([1.0, 2.0, 3.0]));
    report["progress"] = json!([1, 2, 3]);
    assert_eq!(report, expected_report());
}

/// Starts a server that exits with its input, and connects to it.
async fn start_and_connect(mut command: Command) -> (Client, Child) {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = within("a port", lines.next_line()).await.unwrap().expect("the server prints its port");
    let connector = WsConnector::new(format!("ws://127.0.0.1:{port}/")).unwrap();
    (connect(connector, builder()).await, child)
}

async fn check_calls(client: &Client) {
    let call = async |tool: &'static str, arguments: Value| {
        within(tool, client.call_tool(tool, arguments).into_future()).await.unwrap().text()
    };
    let sum: Value = serde_json::from_str(&call("add", json!({ "a": 1, "b": 2 })).await).unwrap();
    assert_eq!(sum["sum"].as_f64(), Some(3.0));
    let text = "a\u{e4}\u{1f980}".repeat(50_000);
    assert!(call("echo", json!({ "text": text })).await == text);
    assert_eq!(call("greet", json!({})).await, "Hello, Ann!");
    let (sender, reports) = mpsc::channel();
    let report = move |report: &turms_proto::types::ProgressParams| {
        let _ = sender.send(report.progress.as_f64());
    };
    let slow = client.call_tool("slow", json!({ "pause": 1 })).on_progress(report).into_future();
    assert_eq!(within("slow", slow).await.unwrap().text(), "done");
    assert_eq!(reports.try_iter().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_of_the_ws_package_works() {
    let (client, mut server) = start_and_connect(node("ws-server.mjs")).await;
    check_calls(&client).await;
    let error = within("an error", client.call_tool("leave", ()).into_future()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::Lost(_))), "{error:?}");
    assert!(error.to_string().contains("closed the connection (4000: as asked)"), "{error}");
    drop(server.stdin.take());
    within("the end of the server", server.wait()).await.unwrap();
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_server_of_the_python_sdk_works() {
    let (client, mut server) = start_and_connect(python("ws_server.py")).await;
    check_calls(&client).await;
    within("the close", client.close()).await;
    drop(server.stdin.take());
    within("the end of the server", server.wait()).await.unwrap();
}
