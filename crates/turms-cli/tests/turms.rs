//! The real binary, used as a person or a script would.

use std::io;
use std::process::{Command, Output, Stdio};

fn turms(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_turms"));
    command.args(args).stdin(Stdio::null());
    command
}

fn output(args: &[&str]) -> Output {
    turms(args).output().expect("the binary was built beside this test")
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("turms writes UTF-8")
}

#[test]
fn every_way_of_asking_for_help_gives_the_same_help() {
    let plain = output(&[]);
    assert!(plain.status.success());
    assert!(text(&plain.stdout).starts_with("turms 0.1.0\n"));
    assert!(text(&plain.stdout).contains("Model Context Protocol"));
    assert!(plain.stderr.is_empty());

    for spelling in ["help", "--help", "-h"] {
        assert_eq!(output(&[spelling]), plain, "{spelling}");
    }
}

#[test]
fn the_version_is_one_line() {
    for spelling in ["--version", "-V"] {
        let output = output(&[spelling]);
        assert!(output.status.success());
        assert_eq!(text(&output.stdout), "turms 0.1.0\n");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn an_unknown_argument_is_an_error_with_a_hint() {
    let output = output(&["--frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    assert_eq!(
        text(&output.stderr),
        "error: unknown argument \"--frobnicate\"\nhint: `turms --help` shows what it accepts\n"
    );
}

#[test]
fn a_reader_that_has_gone_away_is_not_a_failure() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let output = turms(&["--help"])
        .stdout(writer)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(|child| child.wait_with_output())
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "");
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let output = turms(&["--version"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).starts_with("error: cannot write to standard output: "));
}
