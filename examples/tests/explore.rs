//! The client of `explore.rs`, run against the other examples, and what a person reads when an example fails.

use std::net::TcpListener;
use std::process::Command;

fn explore(arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_explore")).args(arguments).output().expect("explore runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.success())
}

#[test]
fn it_shows_what_a_server_offers() {
    let (shown, _, _) = explore(&[env!("CARGO_BIN_EXE_calculator")]);
    assert_eq!(shown, "calculator 1.0.0, speaking 2026-07-28\ntool add: Adds two numbers.\n");
    let (shown, _, _) = explore(&[env!("CARGO_BIN_EXE_notebook")]);
    assert!(shown.contains("\nresource "), "{shown}");
    assert!(shown.contains("\nprompt "), "{shown}");
}

#[test]
fn it_says_why_a_server_cannot_be_reached() {
    let (_, complaint, success) = explore(&["no-such-program-here"]);
    assert!(!success);
    let expected = "error: cannot reach \"no-such-program-here\"\n  because cannot start \"no-such-program-here\": program not found\n";
    assert!(complaint.starts_with(expected), "{complaint}");
    let (_, complaint, _) = explore(&["sh", "-c", "echo broken >&2; exit 3"]);
    let expected =
        "error: the server exited with status 3 before the connection was open; last line of stderr: \"broken\"\n";
    assert!(complaint.ends_with(expected), "{complaint}");
}

#[test]
fn a_server_whose_port_is_taken_says_so_in_a_sentence() {
    let held = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = held.local_addr().expect("it is bound").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_clock")).arg(&address).output().expect("clock runs");
    assert!(!output.status.success());
    let reason = TcpListener::bind(&address).expect_err("the port is taken");
    let expected = format!("Error: cannot listen on {address}: {reason}\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}
