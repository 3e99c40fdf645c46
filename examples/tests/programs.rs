//! The programs of `examples/programs`, run as processes.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::{Command, Output, Stdio};

use serde_json::json;
use turms::http::Listener;
use turms::prelude::*;
use turms::types::{ElicitResult, SubscriptionFilter};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    name: String,
    text: String,
}

async fn connect(program: &str) -> Client {
    let client = Client::builder("test", "1.0.0")
        .on_elicitation(|_, _| async { Ok(ElicitResult::accept(json!({ "sure": true }))?) });
    client.connect_command(ChildCommand::new(program)).await.unwrap()
}

/// Runs a program to its end, outside of the runtime.
async fn run(program: &'static str, arguments: &[String]) -> Output {
    let arguments = arguments.to_vec();
    let run = move || Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn hello_greets() {
    let client = connect(env!("CARGO_BIN_EXE_a_hello")).await;
    assert_eq!(client.call_tool("hello", json!({ "name": "Ann" })).await.unwrap().text(), "Hello, Ann!");
    client.close().await;
}

#[tokio::test]
async fn notes_are_written_read_and_completed() {
    let client = connect(env!("CARGO_BIN_EXE_b_notes")).await;
    let mut changes = client.subscribe(SubscriptionFilter::from("note://todo")).await.unwrap();
    let written = client.call_tool("write", json!({ "name": "todo", "text": "milk" })).await.unwrap();
    assert_eq!(written.text(), "note://todo");
    assert!(changes.next().await.is_some());
    let note = client.read_resource("note://todo").await.unwrap();
    assert!(format!("{:?}", note.contents).contains("milk"));
    let prompt = client.get_prompt("summarize", json!({ "name": "todo" })).await.unwrap();
    assert!(format!("{:?}", prompt.messages).contains("note://todo"));
    let names = client.complete(turms::types::Reference::prompt("summarize"), "name", "to").await.unwrap();
    assert_eq!(names.values, ["todo"]);
    let error = client.call_tool("remove", json!({ "name": "none" })).await.unwrap();
    assert!(error.is_error() && error.text().contains("there is no note"));
    client.close().await;
}

#[tokio::test]
async fn the_agent_confirms_what_clean_asks() {
    let output = run(env!("CARGO_BIN_EXE_f_agent"), &[env!("CARGO_BIN_EXE_c_clean").to_owned()]).await;
    let stdout = stdout(&output);
    assert!(stdout.contains("clean asks: Delete everything that is older than 30 days?"), "{stdout}");
    assert!(stdout.ends_with("Everything was deleted.\n"), "{stdout}");
}

#[tokio::test]
async fn weather_is_structured() {
    let client = connect(env!("CARGO_BIN_EXE_d_weather")).await;
    let rome = client.call_tool("weather", json!({ "city": "Rome" })).await.unwrap();
    let weather: serde_json::Value = rome.structured().unwrap();
    assert_eq!(weather["degrees"], 21.5);
    let failed = client.call_tool("weather", json!({ "city": "Atlantis" })).await.unwrap().into_result().unwrap_err();
    assert_eq!(failed.to_string(), "the tool failed: no weather station in Atlantis");
    client.close().await;
}

#[tokio::test]
async fn the_counter_counts_for_each_user() {
    use std::io::BufRead as _;

    let mut server =
        Command::new(env!("CARGO_BIN_EXE_e_counter")).arg("127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
    let mut url = String::new();
    std::io::BufReader::new(server.stdout.take().unwrap()).read_line(&mut url).unwrap();
    for (user, count) in [("ann", "1"), ("ann", "2"), ("bob", "1")] {
        let token = format!("Bearer for-{user}");
        let connector = turms::http::HttpConnector::new(url.trim()).unwrap().no_proxy().header("authorization", token);
        let client = Client::builder("test", "1.0.0").connect(connector).await.unwrap();
        assert_eq!(client.call_tool("count", ()).await.unwrap().text(), count, "{user}");
    }
    let connector = turms::http::HttpConnector::new(url.trim()).unwrap().no_proxy();
    Client::builder("test", "1.0.0").connect(connector).await.unwrap_err();
    server.kill().unwrap();
    server.wait().unwrap();
}

#[tokio::test]
async fn a_change_is_watched_over_http() {
    let write = Tool::builder("write").handler(|Args(note): Args<Note>, server: ServerHandle| async move {
        server.notify_resource_updated(format!("note://{}", note.name));
        format!("{} written", note.text)
    });
    let note = Resource::builder("note://todo").handler_sync(|| "milk");
    let listener = Listener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let service = Server::new("notes", "1.0.0").tool(write).resource(note).into_http_service().unwrap();
    let serving = tokio::spawn(listener.serve(service));
    let output = run(env!("CARGO_BIN_EXE_g_watch"), &[url]).await;
    let stdout = stdout(&output);
    assert!(stdout.starts_with("milk written\n") && stdout.contains("milk"), "{stdout}");
    serving.abort();
}

#[tokio::test]
async fn a_group_has_the_tools_of_its_servers() {
    let file = std::env::temp_dir().join(format!("turms-programs-{}.json", std::process::id()));
    let config = json!({ "mcpServers": { "notes": { "command": env!("CARGO_BIN_EXE_b_notes") } } });
    std::fs::write(&file, config.to_string()).unwrap();
    let arguments = [file.display().to_string(), env!("CARGO_BIN_EXE_a_hello").to_owned()];
    let output = run(env!("CARGO_BIN_EXE_h_group"), &arguments).await;
    std::fs::remove_file(file).unwrap();
    let stdout = stdout(&output);
    for line in ["notes_write", "notes_count", "greeter_hello", "Hello, Ann!"] {
        assert!(stdout.lines().any(|other| other == line), "{line}: {stdout}");
    }
}

#[tokio::test]
async fn a_report_is_waited_for() {
    let stdout = stdout(&run(env!("CARGO_BIN_EXE_j_report"), &[]).await);
    assert!(stdout.ends_with("The report of 2026.\n"), "{stdout}");
}
