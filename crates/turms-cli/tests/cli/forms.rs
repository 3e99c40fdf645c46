//! Forms with an optional field, filled in by other clients: the TypeScript SDK v2 and rmcp, which `cargo xtask peers` installs.

use std::process::Command;

use serde_json::{Value, json};
use turms_testkit::{node, peer_file};

use crate::run::{Demo, TURMS};

/// The revisions that have forms.
const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// Runs a client that fills in the form of the tool `sign_up`, with and without the optional field.
#[track_caller]
fn fills_in(client: &mut Command, version: &str, target: &[&str]) {
    let output = client.arg(version).args(target).output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{version}: {}\n{stdout}\n{stderr}", output.status);
    let report: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(report["version"], version);
    let with_and_without = [
        "Welcome, Ann, aged 42, on the plan Team, with news.",
        "Welcome, Ann, of unknown age, on the plan Team, with news.",
    ];
    assert_eq!(report["texts"], json!(with_and_without), "{version}");
    let form = &report["forms"][0];
    assert_eq!(form["properties"]["age"]["type"], "integer", "{version}: {form}");
    assert_eq!(form["required"], json!(["name", "plan", "news"]), "{version}: {form}");
}

fn typescript() -> Command {
    let mut command = Command::new(node());
    command.arg(peer_file("node/client-form.mjs"));
    command
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn the_typescript_sdk_fills_in_optional_fields_over_stdio() {
    for version in VERSIONS {
        fills_in(&mut typescript(), version, &[TURMS, "demo", "--stdio"]);
    }
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn the_typescript_sdk_fills_in_optional_fields_over_http() {
    let demo = Demo::listening("--http");
    for version in VERSIONS {
        fills_in(&mut typescript(), version, &[&demo.url]);
    }
}

#[test]
#[ignore = "needs the peers: run `cargo xtask test`"]
fn rmcp_fills_in_optional_fields() {
    let program = peer_file("rust/debug/turms-peer-rmcp");
    for version in VERSIONS {
        fills_in(&mut Command::new(&program), version, &[TURMS, "demo", "--stdio"]);
    }
}
