//! Another server: `@modelcontextprotocol/server-everything`, which `cargo xtask peers` installs.

use serde_json::{Value, json};
use turms_testkit::peer_file;

use crate::run::{TempDir, turms};

/// Returns the command that starts the server, and checks that its files exist.
fn server() -> [String; 3] {
    let script = peer_file("node/node_modules/@modelcontextprotocol/server-everything/dist/index.js");
    [turms_testkit::node(), script, "stdio".into()].map(|part| part.to_str().unwrap().to_owned())
}

fn everything(args: &[&str]) -> crate::run::TurmsCommand {
    let server = server();
    turms(args.iter().copied().chain(["--"]).chain(server.iter().map(String::as_str)))
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_info_and_tools_are_shown() {
    let info = everything(&["info"]).ok();
    assert!(info.contains("mcp-servers/everything") && info.contains("2025-11-25 (handshake)"), "{info}");
    let tools = everything(&["tools"]).ok();
    assert!(tools.contains("get-sum(a: number, b: number)"), "{tools}");
}

/// The instructions of this server are long.
#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn the_shell_only_shows_the_first_line_of_the_instructions() {
    let [node, script, transport] = &server();
    let home = TempDir::new("flood");
    let mut shell = crate::shell::type_in(&["shell", "--", node, script, transport], &home);
    shell.exp_string("# Everything Server").unwrap();
    shell.exp_string("`info` shows all").unwrap();
    shell.exp_string("mcp-servers/everything> ").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_tools_are_called() {
    assert_eq!(everything(&["call", "get-sum", "a=40", "b=2"]).ok(), "The sum of 40 and 2 is 42.\n");
    let out = everything(&["--json", "call", "get-structured-content", "location=New York"]).ok();
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["structuredContent"]["temperature"], json!(33));
    everything(&["call", "get-structured-content", "location=Rome"])
        .run()
        .fails(2, &["expected one of \"New York\", \"Chicago\", \"Los Angeles\", found \"Rome\""]);
    everything(&["call", "get-sun"]).run().fails(2, &["did you mean \"get-sum\"?"]);
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_task_is_waited_for() {
    let out = everything(&["call", "simulate-research-query", "topic=tea"]).ok();
    assert!(out.contains("tea"), "{out}");
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_image_is_saved() {
    let directory = TempDir::new("everything");
    let file = directory.path("tiny.png");
    let out = everything(&["call", "get-tiny-image", "-o", &file]).ok();
    assert!(out.contains("[image image/png, "), "{out}");
    assert!(std::fs::read(file).unwrap().starts_with(b"\x89PNG"));
    let blob = directory.path("blob");
    let prompt = ["prompt", "resource-prompt", "resourceType=Blob", "resourceId=1", "-o", &blob];
    assert!(everything(&prompt).ok().contains(&format!("saved to {blob}]")));
    assert!(std::fs::read_to_string(blob).unwrap().starts_with("Resource 1: "));
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_progress_is_shown() {
    let output = everything(&["call", "trigger-long-running-operation", "duration=0.2", "steps=2", "-v"]).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(output.stderr.contains("progress: 1/2") && output.stderr.contains("progress: 2/2"), "{}", output.stderr);
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_resources_and_prompts_are_read() {
    let read = everything(&["read", "demo://resource/static/document/features.md"]).ok();
    assert!(read.starts_with('#'), "{read}");
    let templates = everything(&["templates"]).ok();
    assert!(templates.contains("demo://resource/dynamic/text/{resourceId}"), "{templates}");
    let prompt = everything(&["prompt", "args-prompt", "city=Bonn"]).ok();
    assert_eq!(prompt, "user: What's weather in Bonn?\n");
    let completed = everything(&["complete", "completable-prompt", "department", "S"]).ok();
    assert_eq!(completed, "Sales\nSupport\n");
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn its_input_requests_are_answered() {
    let directory = TempDir::new("everything-asks");
    let answers = directory.file("answers.json", r#"{"form": {"name": "Ann"}, "sampling": "Paris"}"#);
    let lines = "call trigger-elicitation-request\ncall trigger-sampling-request prompt=Where? maxTokens=20\n";
    let [node, script, transport] = &server();
    let output = turms(["shell", "--answers", &answers, "--", node, script, transport]).stdin(lines).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(output.stdout.contains("- Name: Ann") && output.stdout.contains("Paris"), "{}", output.stdout);
}
