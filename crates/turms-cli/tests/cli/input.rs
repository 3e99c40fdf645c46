//! Input requests, answered from a file.

use crate::run::{TURMS, TempDir, turms};

#[test]
fn input_requests_are_answered_from_a_file_in_every_era() {
    let directory = TempDir::new("answers");
    let answers = directory.file(
        "answers.json",
        r#"{"form": {"name": "Ann", "plan": "team", "news": true}, "url": "accept", "sampling": "Paris"}"#,
    );
    for protocol in ["modern", "legacy"] {
        let call = |tool: &str, more: &[&str]| {
            let args = ["call", tool, "--answers", &answers, "--protocol", protocol, "--root", "/srv/x"];
            turms(args.iter().chain(more).chain(&["--", TURMS, "demo", "--stdio"])).ok()
        };
        assert_eq!(call("sign_up", &[]), "Welcome, Ann, of unknown age, on the plan Team, with news.\n");
        assert_eq!(call("visit", &[]), "You opened the page.\n");
        assert_eq!(call("ask_model", &["question=Where?"]), "answers-file says: Paris\n");
        assert_eq!(call("show_roots", &[]), "file:///srv/x\n");
    }
}

#[test]
fn requests_can_be_declined_and_cancelled() {
    let directory = TempDir::new("no");
    let answers = directory.file("answers.json", r#"{"form": ["decline"], "url": ["cancel"]}"#);
    assert_eq!(turms(["call", "demo", "sign_up", "--answers", &answers]).ok(), "You declined.\n");
    assert_eq!(turms(["call", "demo", "visit", "--answers", &answers]).ok(), "You cancelled.\n");
}

#[test]
fn without_answers_there_is_a_hint() {
    for tool in ["sign_up", "visit"] {
        let output = turms(["call", "demo", tool]).run();
        output.fails(5, &["the client did not declare the capability elicitation", "hint: the server requests input"]);
    }
    let output = turms(["call", "demo", "sign_up", "--protocol", "legacy"]).run();
    output.fails(
        6,
        &["hint: the server requests input: run the command at a terminal, or give answers with --answers FILE"],
    );
}

#[test]
fn an_invalid_answers_file_has_a_hint() {
    let directory = TempDir::new("bad");
    let answers = directory.file("answers.json", r#"{"from": {}}"#);
    turms(["call", "demo", "visit", "--answers", &answers])
        .run()
        .fails(2, &["unknown member \"from\"", "hint: the format is"]);
    let wrong = directory.file("wrong.json", r#"{"form": {"name": 7}}"#);
    let output = turms(["call", "demo", "sign_up", "--answers", &wrong]).run();
    output.fails(5, &["name"]);
}
