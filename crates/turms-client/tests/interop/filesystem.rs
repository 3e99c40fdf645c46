//! `@modelcontextprotocol/server-filesystem`, which has only tools.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio::sync::mpsc;
use turms_client::{CallError, Client, ConnectError};
use turms_proto::ErrorCode;
use turms_proto::types::{CallToolResult, Root};
use turms_testkit::within;

use crate::peer;

/// Creates an empty directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path.canonicalize().unwrap()
}

async fn call(client: &Client, tool: &str, arguments: Value) -> CallToolResult {
    client.call_tool(tool, arguments).await.unwrap()
}

fn refused<T>(outcome: Result<T, CallError>) -> ErrorCode {
    outcome.map(drop).unwrap_err().error_response().unwrap().code
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn it_has_tools_and_refuses_all_other_lists() {
    let client = peer::connect(peer::client(), peer::filesystem(&directory("lists"))).await;
    assert_eq!(client.server_info().unwrap().name, "secure-filesystem-server");
    let tools = client.list_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "read_text_file" && tool.output_schema.is_some()));
    assert_eq!(refused(client.list_resources().await), ErrorCode::METHOD_NOT_FOUND);
    assert_eq!(refused(client.list_resource_templates().await), ErrorCode::METHOD_NOT_FOUND);
    assert_eq!(refused(client.list_prompts().await), ErrorCode::METHOD_NOT_FOUND);
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_file_is_written_and_read_again() {
    let directory = directory("files");
    let client = peer::connect(peer::client(), peer::filesystem(&directory)).await;
    let (path, content) = (directory.join("note.txt"), "Zwölf\nBoxkämpfer\n");
    assert!(!call(&client, "write_file", json!({ "path": path, "content": content })).await.is_error());
    assert_eq!(fs::read_to_string(&path).unwrap(), content);

    let read = call(&client, "read_text_file", json!({ "path": path })).await;
    assert_eq!(read.text(), content);
    assert_eq!(read.structured::<Value>().unwrap(), json!({ "content": content }));
    assert_eq!(call(&client, "list_directory", json!({ "path": directory })).await.text(), "[FILE] note.txt");
    let info = call(&client, "get_file_info", json!({ "path": path })).await.text();
    assert!(info.starts_with(&format!("size: {}\n", content.len())), "{info}");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn a_path_outside_is_denied_as_a_result() {
    let client = peer::connect(peer::client(), peer::filesystem(&directory("denied"))).await;
    let denied = call(&client, "read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert!(denied.is_error() && denied.text().contains("Access denied"), "{denied:?}");
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn roots_take_the_place_of_the_directories_on_the_command_line() {
    let [named, one, two] = ["named", "one", "two"].map(|name| directory(&format!("roots-{name}")));
    let root = |directory: &Path| Root::new(format!("file://{}", directory.display()));
    let (sender, mut stderr) = mpsc::unbounded_channel();
    let command = peer::filesystem(&named).on_stderr(move |line| _ = sender.send(line.to_owned()));
    let client = peer::connect(peer::client().roots([root(&one)]), command).await;
    let mut updated = async |count: usize| {
        let line = format!("Updated allowed directories from MCP roots: {count} valid directories");
        within(&line, async { while stderr.recv().await.unwrap() != line {} }).await;
    };
    let allowed = async || call(&client, "list_allowed_directories", json!({})).await.text();

    updated(1).await;
    assert_eq!(allowed().await, format!("Allowed directories:\n{}", one.display()));
    client.roots().unwrap().add(root(&two));
    updated(2).await;
    assert_eq!(allowed().await, format!("Allowed directories:\n{}\n{}", one.display(), two.display()));
    client.close().await;
}

#[tokio::test]
#[ignore = "needs the peers: run `cargo xtask test`"]
async fn the_error_of_a_server_that_exits_at_once_has_its_stderr() {
    let nowhere = directory("nowhere").join("none");
    let connected = peer::client().connect_command(peer::filesystem(&nowhere));
    let error = within("a failure", connected).await.map(|client| client.server_info()).unwrap_err();
    let ConnectError::Closed(ended) = &error else { panic!("{error:?}") };
    assert_eq!(ended.how.as_deref(), Some("exited with status 1"));
    let warning = format!("Warning: Cannot access directory {}, skipping", nowhere.display());
    assert_eq!(ended.stderr, [warning.as_str(), "Error: None of the specified directories are accessible"]);
    assert_eq!(
        error.to_string(),
        "the server exited with status 1 before the connection was open; last line of stderr: \"Error: None of the \
         specified directories are accessible\""
    );
}
