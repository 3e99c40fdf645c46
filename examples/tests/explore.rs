//! The client `explore` with the other examples as servers, and the errors that the examples print.

use std::net::TcpListener;
use std::process::Command;

fn explore(arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_explore")).args(arguments).output().expect("explore runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr), output.status.success())
}

#[test]
fn it_lists_tools_resources_and_prompts() {
    let (shown, _, _) = explore(&[env!("CARGO_BIN_EXE_calculator")]);
    assert_eq!(shown, "calculator 1.0.0, protocol 2026-07-28\ntool add: Adds two numbers.\n");
    let (shown, _, _) = explore(&[env!("CARGO_BIN_EXE_notebook")]);
    assert!(shown.contains("\nresource "), "{shown}");
    assert!(shown.contains("\nprompt "), "{shown}");
}

#[test]
fn it_prints_errors_with_their_causes() {
    let (_, stderr, success) = explore(&["no-such-program-here"]);
    assert!(!success);
    let expected = "error: cannot reach \"no-such-program-here\"\n  caused by: cannot start \"no-such-program-here\": program not found\n";
    assert!(stderr.starts_with(expected), "{stderr}");
    let (_, stderr, _) = explore(&["sh", "-c", "echo broken >&2; exit 3"]);
    let expected =
        "error: the server exited with status 3 before the connection was open; last line of stderr: \"broken\"\n";
    assert!(stderr.ends_with(expected), "{stderr}");
}

#[test]
fn a_port_in_use_is_reported_as_a_sentence() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    let output = Command::new(env!("CARGO_BIN_EXE_clock")).arg(&address).output().expect("clock runs");
    assert!(!output.status.success());
    let reason = TcpListener::bind(&address).expect_err("the port is in use");
    let expected = format!("Error: cannot listen on {address}\ncaused by: {reason}\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
}
