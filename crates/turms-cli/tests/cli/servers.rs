//! Servers out of configuration files.

use serde_json::{Value, json};

use crate::run::{Scratch, TURMS, turms};

fn project() -> Scratch {
    let scratch = Scratch::new(&format!("project-{:?}", std::thread::current().id()).replace(['(', ')'], ""));
    let entry = json!({ "command": TURMS, "args": ["demo", "--stdio"], "env": { "SECRET": "hunter2" } });
    scratch.file(".mcp.json", &json!({ "mcpServers": { "local": entry } }).to_string());
    let code = json!({ "servers": { "web": { "url": "https://ann:pw@example.com/mcp?key=hunter2" } } });
    scratch.file(".vscode/mcp.json", &code.to_string());
    let desktop = json!({ "mcpServers": { "off": { "command": "x", "disabled": true }, "bad": {} } });
    scratch.file("home/.config/Claude/claude_desktop_config.json", &desktop.to_string());
    scratch.file("home/.cursor/mcp.json", "{ not json");
    scratch
}

#[test]
fn a_server_is_known_by_its_name() {
    let scratch = project();
    assert_eq!(turms(["call", "local", "add", "a=1", "b=2"]).cwd(&scratch.0).ok(), "3\n");
    let file = scratch.path(".mcp.json");
    assert_eq!(turms(["call", "local", "add", "a=1", "b=2", "--config", &file]).ok(), "3\n");
}

#[test]
fn all_that_are_known_are_listed_without_their_secrets() {
    let scratch = project();
    let ran = turms(["servers"]).cwd(&scratch.0).env("HOME", scratch.path("home")).run();
    assert_eq!(ran.status, Some(0));
    for part in [
        "Claude Code, project: ",
        "  local  ",
        "  web  https://example.com/mcp\n",
        "(switched off) x",
        "cannot be used: ",
    ] {
        assert!(ran.stdout.contains(part), "{part:?} is not in\n{}", ran.stdout);
    }
    assert!(ran.stderr.contains("warning: a file was passed over") && ran.stderr.contains("line 1"), "{}", ran.stderr);
    assert!(!ran.stdout.contains("hunter2") && !ran.stdout.contains("pw"), "{}", ran.stdout);

    let out = turms(["servers", "--json", "-q"]).cwd(&scratch.0).env("HOME", scratch.path("home")).ok();
    let listed: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<_> = listed["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(names, ["local", "web", "off", "bad"]);
    assert!(!out.contains("hunter2"), "{out}");
}

#[test]
fn where_was_looked_is_told_to_those_who_ask() {
    let scratch = Scratch::new("empty");
    let ran = turms(["servers", "-v"]).cwd(&scratch.0).run();
    assert_eq!((ran.status, ran.stdout.as_str()), (Some(0), ""));
    for part in ["looked in Claude Code", "looked in Cursor", "looked in VS Code", "no server was found"] {
        assert!(ran.stderr.contains(part), "{}", ran.stderr);
    }
}
