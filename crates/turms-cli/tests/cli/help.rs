use std::io;
use std::process::Stdio;

use crate::run::{golden, turms};

#[test]
fn help_is_printed_for_every_spelling() {
    let short = turms(["-h"]).ok();
    assert!(short.contains("Model Context Protocol") && short.contains("Usage: turms"), "{short}");
    let long = turms(["--help"]).ok();
    assert_eq!(turms(["help"]).ok(), long);
    golden("help.txt", &long);
}

#[test]
fn help_documents_the_exit_status() {
    let help = turms(["--help"]).ok();
    for line in
        ["2    usage", "3    cannot connect", "4    authorization", "5    protocol", "6    tool error", "7    timeout"]
    {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn the_version_is_one_line() {
    for spelling in ["--version", "-V"] {
        assert_eq!(turms([spelling]).ok(), "turms 0.1.0\n");
    }
}

#[test]
fn an_unknown_argument_is_an_error() {
    let output = turms(["--frobnicate"]).run();
    output.fails(2, &["error: unexpected argument '--frobnicate'", "--help"]);
    assert_eq!(output.stdout, "");
    turms(["tolls"]).run().fails(2, &["'tolls'", "'tools'"]);
}

#[test]
fn control_characters_are_not_repeated_to_the_terminal() {
    let output = turms(["\u{1b}[2J"]).run();
    assert_eq!(output.status, Some(2));
    assert!(!output.stderr.contains('\u{1b}'));
}

#[test]
fn a_closed_pipe_is_not_a_failure() {
    for args in [&["--help"][..], &["tools", "demo"]] {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut run = turms(args);
        let child = run.command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stderr, b"");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_a_failure() {
    for args in [&["--version"][..], &["tools", "demo"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = turms(args).command.stdin(Stdio::null()).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: cannot write to standard output: "));
    }
}

#[test]
fn completions_contain_all_commands_and_options() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = turms(["completions", shell]).ok();
        for word in ["turms", "templates", "args-json", "logout", "client-key", "auth-tool-scope"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    turms(["completions", "dos"]).run().fails(2, &["dos"]);
}

#[test]
fn manual_pages_contain_all_commands_and_options() {
    let page = turms(["man"]).ok();
    for word in [".TH turms 1", "Exit status", "TARGET", "listen"] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    let page = turms(["man", "call"]).ok();
    for word in [".TH turms-call 1", "\\-\\-args\\-json", "\\-\\-bearer"] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    let page = turms(["man", "auth", "login"]).ok();
    for word in [".TH turms-auth-login 1", "\\-\\-device", "\\-\\-profile"] {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    turms(["man", "auth", "logn"]).run().fails(2, &["unknown command \"logn\"", "did you mean \"login\"?"]);
    turms(["man", "cal"]).run().fails(2, &["unknown command \"cal\"", "did you mean \"call\"?"]);
}
