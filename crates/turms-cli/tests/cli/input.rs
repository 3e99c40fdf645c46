//! What a server asks, answered from a file.

use crate::run::{Scratch, TURMS, turms};

#[test]
fn answers_come_out_of_a_file_in_every_era() {
    let scratch = Scratch::new("answers");
    let answers = scratch.file(
        "answers.json",
        r#"{"form": {"name": "Ann", "plan": "team", "news": true}, "url": "accept", "sampling": "Paris"}"#,
    );
    for protocol in ["modern", "legacy"] {
        let ask = |tool: &str, more: &[&str]| {
            let args = ["call", tool, "--answers", &answers, "--protocol", protocol, "--root", "/srv/x"];
            turms(args.iter().chain(more).chain(&["--", TURMS, "demo", "--stdio"])).ok()
        };
        assert_eq!(ask("sign_up", &[]), "Welcome, Ann, of unknown age, on the plan Team, with news.\n");
        assert_eq!(ask("visit", &[]), "You agreed to visit the page.\n");
        assert_eq!(ask("ask_model", &["question=Where?"]), "answers-file says: Paris\n");
        assert_eq!(ask("show_roots", &[]), "file:///srv/x\n");
    }
}

#[test]
fn no_is_an_answer() {
    let scratch = Scratch::new("no");
    let answers = scratch.file("answers.json", r#"{"form": ["decline"], "url": ["cancel"]}"#);
    assert_eq!(turms(["call", "demo", "sign_up", "--answers", &answers]).ok(), "You declined.\n");
    assert_eq!(turms(["call", "demo", "visit", "--answers", &answers]).ok(), "You did not answer.\n");
}

#[test]
fn nobody_is_there_to_be_asked() {
    for tool in ["sign_up", "visit"] {
        let ran = turms(["call", "demo", tool]).run();
        ran.fails(
            5,
            &["the client did not declare the capability elicitation", "hint: questions are answered at a terminal"],
        );
    }
    let ran = turms(["call", "demo", "sign_up", "--protocol", "legacy"]).run();
    ran.fails(6, &["hint: questions are answered at a terminal, or from a file with --answers FILE"]);
}

#[test]
fn a_file_that_is_none_is_explained() {
    let scratch = Scratch::new("bad");
    let answers = scratch.file("answers.json", r#"{"from": {}}"#);
    turms(["call", "demo", "visit", "--answers", &answers])
        .run()
        .fails(2, &["\"from\" is not something that servers ask for", "hint: a file of answers is written"]);
    let wrong = scratch.file("wrong.json", r#"{"form": {"name": 7}}"#);
    let ran = turms(["call", "demo", "sign_up", "--answers", &wrong]).run();
    ran.fails(5, &["name"]);
}
