//! Servers of configuration files.

use serde_json::{Value, json};

use crate::run::{TURMS, TempDir, turms};

fn project() -> TempDir {
    let directory = TempDir::new(&format!("project-{:?}", std::thread::current().id()).replace(['(', ')'], ""));
    let entry = json!({ "command": TURMS, "args": ["demo", "--stdio"], "env": { "SECRET": "hunter2" } });
    directory.file(".mcp.json", &json!({ "mcpServers": { "local": entry } }).to_string());
    let code = json!({ "servers": { "web": { "url": "https://ann:pw@example.com/mcp?key=hunter2" } } });
    directory.file(".vscode/mcp.json", &code.to_string());
    let desktop = json!({ "mcpServers": { "off": { "command": "x", "disabled": true }, "bad": {} } });
    directory.file("home/.config/Claude/claude_desktop_config.json", &desktop.to_string());
    directory.file("home/.cursor/mcp.json", "{ not json");
    directory
}

#[test]
fn a_server_is_found_by_its_name() {
    let directory = project();
    assert_eq!(turms(["call", "local", "add", "a=1", "b=2"]).current_dir(&directory.0).ok(), "3\n");
    let file = directory.path(".mcp.json");
    assert_eq!(turms(["call", "local", "add", "a=1", "b=2", "--config", &file]).ok(), "3\n");
}

#[test]
fn servers_are_listed_without_secrets() {
    let directory = project();
    let output = turms(["servers"]).current_dir(&directory.0).env("HOME", directory.path("home")).run();
    assert_eq!(output.status, Some(0));
    for part in ["Claude Code, project: ", "  local  ", "  web  https://example.com/mcp\n", "(disabled) x", "invalid: "]
    {
        assert!(output.stdout.contains(part), "{part:?} is not in\n{}", output.stdout);
    }
    assert!(
        output.stderr.contains("warning: skipped a configuration file") && output.stderr.contains("line 1"),
        "{}",
        output.stderr
    );
    assert!(!output.stdout.contains("hunter2") && !output.stdout.contains("pw"), "{}", output.stdout);

    let out = turms(["servers", "--json", "-q"]).current_dir(&directory.0).env("HOME", directory.path("home")).ok();
    let listed: Value = serde_json::from_str(&out).unwrap();
    let names: Vec<_> = listed["servers"].as_array().unwrap().iter().map(|server| &server["name"]).collect();
    assert_eq!(names, ["local", "web", "off", "bad"]);
    assert!(!out.contains("hunter2"), "{out}");
}

#[test]
fn verbose_output_has_the_searched_files() {
    let directory = TempDir::new("empty");
    let output = turms(["servers", "-v"]).current_dir(&directory.0).run();
    assert_eq!((output.status, output.stdout.as_str()), (Some(0), ""));
    for part in ["searched Claude Code", "searched Cursor", "searched VS Code", "no servers found"] {
        assert!(output.stderr.contains(part), "{}", output.stderr);
    }
}
