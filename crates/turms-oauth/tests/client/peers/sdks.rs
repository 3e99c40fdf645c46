//! The official SDKs: their clients log in to our guarded server, and our client to theirs, both with the same provider.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::process::Command;
use turms_testkit::{peer_file, within};

use super::guarded_server::GuardedServer;
use super::provider::{Provider, ServerProcess, agent, script};
use super::{call, connect};

fn python(environment: &str, script: &str) -> Command {
    let mut command = Command::new(turms_testkit::python(environment));
    command.arg(peer_file(&format!("python/{script}"))).kill_on_drop(true);
    command
}

/// Runs a client against our server. It logs in, calls, renews a token and calls again, and asks for another scope if it can.
async fn check_client(mut client: Command, mode: &str, steps_up: bool) {
    let provider = Provider::start().await;
    let server = GuardedServer::start(provider.discovered()).await;
    client.arg(server.url()).args((!mode.is_empty()).then_some(mode)).stdin(Stdio::null());
    let output = within("the end of the client", client.output()).await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    let events = provider.events().await;
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {complaint}\n{events:?}"));
    let expected = json!({
        "read": "read by ann",
        "renewed": "read by ann",
        "rotated": true,
        "written": if steps_up { json!("written by ann") } else { json!(false) },
        "logins": if steps_up { 2 } else { 1 },
    });
    assert_eq!(report, expected, "{events:?}\n{complaint}");
    let mut grants = vec!["registered", "grant authorization_code", "grant refresh_token"];
    grants.extend(steps_up.then_some("grant authorization_code"));
    assert_eq!(events, grants);
    assert_eq!((server.counters.count("read"), server.counters.count("write")), (2, i64::from(steps_up)));
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_typescript_sdk_logs_in() {
    check_client(script("login-handshake.mjs"), "", false).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_logs_in() {
    check_client(script("login-stateless.mjs"), "2026-07-28", true).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_typescript_sdk_logs_in_to_a_session() {
    check_client(script("login-stateless.mjs"), "legacy", true).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_first_python_sdk_logs_in() {
    check_client(python("handshake", "login_handshake.py"), "", true).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_logs_in() {
    check_client(python("stateless", "login_stateless.py"), "2026-07-28", true).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_second_python_sdk_logs_in_to_a_session() {
    check_client(python("stateless", "login_stateless.py"), "legacy", true).await;
}

/// Logs in to a server of another SDK, calls, renews the token and calls again.
async fn check_server(mut command: Command) {
    let provider = Provider::start().await;
    command.arg(&provider.issuer);
    let server = ServerProcess::start(command).await;
    let url = format!("{}/mcp", server.origin);
    let auth = agent();
    let client = connect(&url, auth.clone()).await;
    assert_eq!(call(&client, "read").await, "read by ann");
    within("a renewal", auth.refresh_now(&url)).await.unwrap();
    assert_eq!(call(&client, "read").await, "read by ann");
    assert_eq!(provider.events().await, ["registered", "grant authorization_code", "grant refresh_token"]);
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_of_the_first_typescript_sdk_is_logged_in_to() {
    check_server(script("guarded-handshake.mjs")).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_of_the_second_typescript_sdk_is_logged_in_to() {
    check_server(script("guarded-stateless.mjs")).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_of_the_first_python_sdk_is_logged_in_to() {
    check_server(python("handshake", "guarded_handshake.py")).await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_server_of_the_second_python_sdk_is_logged_in_to() {
    check_server(python("stateless", "guarded_stateless.py")).await;
}
