//! A session with the calculator over stdio, and a check that the README and the documentation show its code.

use std::io::Write as _;
use std::process::{Command, Stdio};

#[test]
fn the_calculator_adds() {
    let mut calculator =
        Command::new(env!("CARGO_BIN_EXE_calculator")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let session = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"#,
        r#""clientInfo":{"name":"test","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":3}}}"#,
        "\n",
    );
    // Standard input is dropped here, so the calculator exits after the last line.
    calculator.stdin.take().unwrap().write_all(session.as_bytes()).unwrap();
    let output = calculator.wait_with_output().unwrap();
    assert!(output.status.success());
    let responses = String::from_utf8(output.stdout).unwrap();
    let last = responses.lines().last().unwrap();
    assert_eq!(last, r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"5"}]}}"#);
}

#[test]
fn the_readme_shows_the_example() {
    let shown = rust_block(include_str!("../../README.md"), "");
    assert_eq!(unformatted(&shown), unformatted(&example()));
}

#[test]
fn the_documentation_shows_the_example() {
    let shown = rust_block(include_str!("../../crates/turms/src/lib.rs"), "//! ");
    assert_eq!(shown, example());
}

/// Returns the code of the example, without its module documentation.
fn example() -> String {
    let code = include_str!("../calculator.rs").lines().skip_while(|line| line.starts_with("//!") || line.is_empty());
    code.collect::<Vec<_>>().join("\n")
}

/// Removes formatting: white space, trailing commas, and the style of comments.
fn unformatted(code: &str) -> String {
    let code = code.replace("/**", "///").replace("*/", "");
    code.split_whitespace().collect::<String>().replace(",)", ")")
}

/// Returns the first Rust block of a text. All lines begin with `prefix`, which may lack its last space.
fn rust_block(text: &str, prefix: &str) -> String {
    let lines = text.lines().map(|line| line.strip_prefix(prefix).unwrap_or_else(|| line.trim_start_matches("//!")));
    let block = lines.skip_while(|line| !matches!(*line, "```rust,no_run" | "```no_run")).skip(1);
    block.take_while(|line| *line != "```").collect::<Vec<_>>().join("\n")
}
