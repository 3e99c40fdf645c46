//! The programs for the conformance suite, started as its runner starts them. Building this test builds them, which is
//! how `cargo xtask conformance` gets them without compiling the workspace a second time.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};
use turms::Client;
use turms::http::{HttpConnector, Listener};
use turms::jsonrpc::ErrorCode;
use turms::oauth::{Fetcher, discover_server};
use turms::prelude::*;
use turms_testkit::within;

const SERVER: &str = env!("CARGO_BIN_EXE_conformance-server");
const CLIENT: &str = env!("CARGO_BIN_EXE_conformance-client");
const AUTHORIZATION_SERVER: &str = env!("CARGO_BIN_EXE_conformance-authorization-server");

/// Starts the server, which exits when its input ends. Returns its output and the URL that it printed.
fn start() -> (Child, BufReader<ChildStdout>, String) {
    start_program(SERVER, &["--port", "0", "--with-input"])
}

fn start_program(program: &str, args: &[&str]) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut address = String::new();
    output.read_line(&mut address).unwrap();
    (server, output, address)
}

#[test]
fn the_server_prints_its_url_and_ends_with_its_input() {
    let (mut server, mut output, address) = start();
    let authority = address.trim_end().strip_prefix("http://").and_then(|rest| rest.strip_suffix("/mcp"));
    TcpStream::connect(authority.unwrap()).unwrap();

    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "only the URL is printed");
}

#[tokio::test]
async fn the_authorization_server_prints_its_issuer_and_ends_with_its_input() {
    let (mut server, mut output, issuer) = start_program(AUTHORIZATION_SERVER, &[]);
    let issuer = issuer.trim_end();
    let fetcher = Fetcher::for_server(&issuer.parse().unwrap()).no_proxy();
    let metadata = discover_server(&fetcher, issuer).await.unwrap();
    assert_eq!(metadata.issuer, issuer);

    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
    assert_eq!(output.read_to_end(&mut Vec::new()).unwrap(), 0, "only the issuer is printed");
}

#[test]
fn the_error_of_an_invalid_port_names_it() {
    let output = Command::new(SERVER).args(["--port", "http"]).output().unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains(r#"\"http\" is not a port"#), "{output:?}");
}

#[test]
fn the_client_without_a_server_fails() {
    assert!(!Command::new(CLIENT).arg("http://127.0.0.1:1/mcp").output().unwrap().status.success());
}

/// The tools of scenarios that no released suite has yet.
#[tokio::test]
async fn the_server_has_the_tools_of_scenarios_to_come() {
    let (server, _output, address) = start();
    let connector = HttpConnector::new(address.trim_end()).unwrap().no_proxy();
    let client = Client::builder("test", "1").enable_tasks().connect(connector).await.unwrap();

    let tools = client.list_tools().await.unwrap();
    let output_type = |name| {
        let tool = tools.iter().find(|tool| tool.name == name).unwrap();
        json!(tool.output_schema)["type"].clone()
    };
    assert_eq!(output_type("sep_2106_array_output_tool"), "array");
    assert_eq!(output_type("sep_2106_primitive_output_tool"), "number");
    let structured = async |name| {
        let result = client.call_tool(name, ()).await.unwrap();
        result.structured::<Value>().unwrap()
    };
    assert_eq!(structured("sep_2106_array_output_tool").await[0], json!({ "day": "Monday", "celsius": 21.5 }));
    assert_eq!(structured("sep_2106_primitive_output_tool").await, 42.0);
    let declared = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    assert_eq!(structured("test_extension_echo").await, declared);

    let (sender, reports) = mpsc::channel();
    let slow = client.call_tool("test_tool_slow", json!({ "durationMs": 1 }));
    let slow = slow.on_progress(move |report| sender.send(report.progress.as_f64()).unwrap());
    assert_eq!(slow.await.unwrap().text(), "took 1 ms");
    assert_eq!(reports.try_iter().count(), 1);
    assert_eq!(client.call_tool("test_tool_slow", json!({ "durationMs": 0 })).await.unwrap().text(), "took 0 ms");
    assert_eq!(client.call_tool("test_tool_fast", ()).await.unwrap().text(), "fast");
    client.close().await;
    drop(server);
}

/// A server for the scenarios `tasks-client-lifecycle` and `tasks-client-create-handling`.
fn task_server() -> Server {
    let task = |name| Tool::builder(name).task();
    Server::new("tasks", "1")
        .tool(task("quick_task").handler(async || "quick"))
        .tool(Tool::builder("sync_echo").handler_sync(|| "sync"))
        .tool(
            task("failing_task")
                .handler(async || Err::<String, _>(ErrorObject::new(ErrorCode::INTERNAL_ERROR, "failed"))),
        )
        .tool(task("cancel_task").handler(std::future::pending::<String>))
        .tool(task("long_running_echo").handler(async || "echo"))
}

/// The server requires that the endless task is cancelled.
#[tokio::test]
async fn the_client_waits_for_tasks_and_cancels_them() {
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/mcp", listener.address());
    let serving = tokio::spawn(listener.serve(task_server().into_http_service().unwrap()).into_future());
    for scenario in ["tasks-client-lifecycle", "tasks-client-create-handling"] {
        let mut client = tokio::process::Command::new(CLIENT);
        client.arg(&address).env("MCP_CONFORMANCE_SCENARIO", scenario).kill_on_drop(true);
        let output = within("the end of the client", client.output()).await.unwrap();
        assert!(output.status.success(), "{scenario}: {output:?}");
    }
    serving.abort();
}
