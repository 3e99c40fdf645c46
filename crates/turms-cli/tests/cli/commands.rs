//! Every command, at the demo server in the same process.

use serde_json::{Value, json};

use crate::run::{Going, Scratch, acting, golden, turms};

fn json_of(args: &[&str]) -> Value {
    let out = turms(["--json"].iter().chain(args)).ok();
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn what_people_see_is_as_it_was() {
    for (name, args) in [
        ("info.txt", &["info", "demo"][..]),
        ("tools.txt", &["tools", "demo"]),
        ("tool.txt", &["tools", "demo", "weather"]),
        ("resources.txt", &["resources", "demo"]),
        ("templates.txt", &["templates", "demo"]),
        ("prompts.txt", &["prompts", "demo"]),
        ("prompts-in-full.txt", &["prompts", "demo", "-v"]),
        ("prompt.txt", &["prompt", "demo", "review", "text=Salve", "tone=warm"]),
        ("read.txt", &["read", "demo", "demo://readme"]),
        ("call.txt", &["call", "demo", "weather", "city=Rome"]),
        ("raw.txt", &["raw", "demo", "completion/complete", RAW]),
    ] {
        let ran = turms(args).run();
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{args:?}");
        golden(name, &ran.stdout);
    }
}

const RAW: &str = r#"{"ref":{"type":"ref/prompt","name":"journey"},"argument":{"name":"country","value":"e"}}"#;

#[test]
fn json_is_what_the_protocol_has() {
    assert_eq!(json_of(&["info", "demo"])["capabilities"]["resources"]["subscribe"], json!(true));
    assert_eq!(json_of(&["ping", "demo"]), json!({ "resultType": "complete" }));
    assert_eq!(json_of(&["tools", "demo"])["tools"][0]["name"], json!("add"));
    assert_eq!(json_of(&["tools", "demo", "add"])["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(json_of(&["call", "demo", "add", "a=1", "b=2"])["content"], json!([{ "type": "text", "text": "3" }]));
    assert_eq!(json_of(&["resources", "demo"])["resources"][0]["uri"], json!("demo://readme"));
    assert_eq!(json_of(&["templates", "demo"])["resourceTemplates"][0]["uriTemplate"], json!("note://{name}"));
    assert_eq!(json_of(&["read", "demo", "note://travel"])["contents"][0]["text"], json!("to Rome, by ship"));
    assert_eq!(json_of(&["prompts", "demo"])["prompts"][0]["name"], json!("review"));
    assert_eq!(json_of(&["prompt", "demo", "review", "text=x"])["messages"][1]["role"], json!("user"));
    let completion = json_of(&["complete", "demo", "journey", "country", "e"]);
    assert_eq!(completion["completion"]["values"], json!(["Egypt"]));
    assert_eq!(json_of(&["raw", "demo", "completion/complete", RAW])["completion"]["values"], json!(["Egypt"]));
}

/// Not raised to the newest revision, nor in another order, nor without what no revision knows.
#[test]
fn json_is_what_the_server_sent() {
    let tool = r#"{"odd":1e2,"name":"look","inputSchema":{"type":"object"}}"#;
    let list = format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{{"x":[1.0],"tools":[{tool}]}}}}"#);
    let called = r#"{"jsonrpc":"2.0","id":$id,"result":{"isError":false,"content":[],"y":{}}}"#;
    let server = acting(&[("tools/list", &list), ("tools/call", called)]);
    let exact = |args: &[&str]| turms(["--json"].iter().chain(args).chain(&["--", "sh", "-c", &server])).ok();
    assert_eq!(exact(&["tools"]), format!("{{\"x\":[1.0],\"tools\":[{tool}]}}\n"));
    assert_eq!(exact(&["call", "look"]), "{\"isError\":false,\"content\":[],\"y\":{}}\n");
    assert!(exact(&["tools", "look"]).starts_with("{\"odd\":"));
    let info: Value = serde_json::from_str(&exact(&["info"])).unwrap();
    assert_eq!(info["serverInfo"], json!({ "name": "actor", "version": "1" }));
    assert_eq!(info["protocolVersion"], json!("2025-11-25"));

    // The same of what became a task, and not of another call.
    for (protocol, expected) in [("modern", json!("complete")), ("legacy", Value::Null)] {
        let lines = "call add a=1 b=2\ncall report topic=Veii pause=1\n";
        let out = turms(["shell", "demo", "--json", "--protocol", protocol]).stdin(lines).ok();
        let result: Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
        assert_eq!(result["content"][0]["text"], json!("A report about Veii, in 3 chapters."), "{out}");
        assert_eq!(result["resultType"], expected, "{out}");
    }
}

#[test]
fn a_call_goes_on_as_a_task() {
    let demo = crate::run::Demo::listening("--http");
    let begin =
        |pause: &str| turms(["call", &demo.url, "report", "topic=Veii", pause, "--task"]).ok().trim().to_owned();
    let id = begin("pause=1");
    let out = turms(["tasks", &demo.url, &id, "--wait"]).ok();
    assert_eq!(out, "A report about Veii, in 3 chapters.\n");
    let out = turms(["tasks", &demo.url, &id]).ok();
    assert!(out.starts_with(&format!("{id}  completed")), "{out}");
    assert!(out.ends_with("\nA report about Veii, in 3 chapters.\n"), "{out}");
    let ran = turms(["call", &demo.url, "report", "topic=Veii", "pause=1", "--task"]).run();
    let told = format!("`turms tasks {} {} --wait` waits for it", demo.url, ran.stdout.trim());
    assert!(ran.stderr.contains(&told), "{}", ran.stderr);
    let ran = turms(["call", "demo", "report", "topic=Veii", "--task"]).run();
    assert!(ran.stderr.contains("warning: the server ends with this command, and the task with it"), "{}", ran.stderr);
    turms(["tasks", "--", "sh", "-c", &acting(&[])]).run().fails(5, &["the server makes no tasks"]);
    turms(["tasks", &demo.url]).run().fails(2, &["does not list tasks", "hint: name one by its id"]);

    let id = begin("pause=60000");
    let out = turms(["tasks", &demo.url, &id]).ok();
    assert!(out.starts_with(&format!("{id}  working")), "{out}");
    let out = turms(["tasks", &demo.url, &id, "--cancel"]).ok();
    assert!(out.starts_with(&format!("{id}  cancelled")), "{out}");
    turms(["tasks", &demo.url, "no-such-task"]).run().fails(5, &["no task \"no-such-task\""]);
}

#[test]
fn tasks_of_a_session_are_listed_in_either_era() {
    for protocol in ["modern", "legacy"] {
        let lines = "call report topic=Rome pause=60000 --task\ntasks\n";
        let out = turms(["shell", "demo", "--protocol", protocol]).stdin(lines).ok();
        let (id, listed) = out.split_once('\n').unwrap();
        assert!(listed.starts_with(&format!("{id}  working")), "{protocol}: {out}");
    }
}

#[test]
fn a_call_that_becomes_a_task_is_waited_for() {
    let out = turms(["call", "demo", "report", "topic=Rome", "pause=1"]).ok();
    assert_eq!(out, "A report about Rome, in 3 chapters.\n");
}

#[test]
fn the_server_says_how_fast_it_answers() {
    let out = turms(["ping", "demo"]).ok();
    assert!(out.starts_with("the server answered in "), "{out}");
}

#[test]
fn arguments_are_typed_text_or_json_or_a_file() {
    assert_eq!(turms(["call", "demo", "add", "a=1.5", "b:=2e0"]).ok(), "3.5\n");
    assert_eq!(turms(["call", "demo", "add", r#"{"a": 1, "b": 1}"#]).ok(), "2\n");
    assert_eq!(turms(["call", "demo", "add", "--args-json", "-"]).stdin(r#"{"a": 2, "b": 2}"#).ok(), "4\n");
    let scratch = Scratch::new("args");
    let file = scratch.file("args.json", r#"{"a": 3, "b": 3}"#);
    assert_eq!(turms(["call", "demo", "add", "--args-json", &file]).ok(), "6\n");
    let params = scratch.file("params.json", r#"{"name": "add", "arguments": {"a": 4, "b": 4}}"#);
    for ran in [
        turms(["raw", "demo", "tools/call", &format!("@{params}"), "--json"]),
        turms(["raw", "demo", "tools/call", "-", "--json"]).stdin(std::fs::read_to_string(&params).unwrap()),
    ] {
        let result: Value = serde_json::from_str(&ran.ok()).unwrap();
        assert_eq!(result["content"][0]["text"], json!("8"));
    }
}

#[test]
fn a_value_is_what_a_file_holds() {
    let scratch = Scratch::new("value");
    let (text, number) = (scratch.file("text", "Salve,\nmunde"), scratch.file("number", " 40\n"));
    let out = turms(["prompt", "demo", "review", &format!("text=@{text}")]).ok();
    assert!(out.ends_with("Review this text:\nSalve,\nmunde\n"), "{out}");
    assert_eq!(turms(["call", "demo", "add", &format!("a:=@{number}"), "b=2"]).ok(), "42\n");
    turms(["call", "demo", "weather", "city=@rome"]).run().fails(
        1,
        &[
            "argument \"city\": cannot read \"rome\"",
            "hint: text that begins with @ is written as JSON: 'city:=\"@rome\"'",
        ],
    );
}

#[test]
fn binary_content_is_told_of_or_saved() {
    let scratch = Scratch::new("output");
    let (picture, file) = (scratch.path("logo.png"), scratch.path("again.png"));
    assert_eq!(turms(["call", "demo", "logo"]).ok(), "The logo:\n[image image/png, 91 bytes]\n");
    assert_eq!(turms(["read", "demo", "demo://logo"]).ok(), "[content image/png, 91 bytes]\n");

    let out = turms(["call", "demo", "logo", "--output", &picture]).ok();
    assert_eq!(out, format!("The logo:\n[image image/png, 91 bytes, saved to {picture}]\n"));
    turms(["read", "demo", "demo://logo", "-o", &file, "--json"]).ok();
    let bytes = std::fs::read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes == std::fs::read(&file).unwrap());

    // Standard output is then for the content alone, byte for byte.
    let output = turms(["call", "demo", "logo", "-o", "-"]).command.output().unwrap();
    assert_eq!(output.stdout, bytes);
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("[image image/png, 91 bytes, saved to standard output]")
    );
    assert_eq!(turms(["read", "demo", "note://travel", "-o", "-"]).ok(), "to Rome, by ship");
    turms(["read", "demo", "demo://logo", "-o", "-", "--json"]).run().fails(2, &["--json and --output - would both"]);

    turms(["read", "demo", "note://travel", "-o", &scratch.path("")]).ok();
    assert_eq!(std::fs::read_to_string(scratch.path("content-1.txt")).unwrap(), "to Rome, by ship");
    let ran = turms(["prompt", "demo", "review", "text=x", "-o", &file]).run();
    assert!(ran.stderr.contains("warning: --output: there was nothing binary to save"), "{}", ran.stderr);
    turms(["call", "demo", "logo", "-o", "/nonexistent/x"]).run().fails(1, &["cannot write /nonexistent/x"]);
}

#[test]
fn what_a_server_says_is_shown_and_not_obeyed() {
    let out = turms(["call", "demo", "mischief"]).ok();
    assert_eq!(out, "\\u{1b}[2J\\u{1b}[31mred\\u{1b}]0;title\\u{7}\\rover\\u{202e}written\n");
    let out = turms(["call", "demo", "mischief", "--color", "always", "--json"]).ok();
    assert!(!out.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{out:?}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert!(value["content"][0]["text"].as_str().unwrap().starts_with("\u{1b}[2J"));
}

#[test]
fn colours_are_for_terminals_or_on_demand() {
    assert!(!turms(["tools", "demo"]).ok().contains('\u{1b}'));
    let coloured = turms(["tools", "demo", "--color", "always"]).ok();
    assert!(coloured.starts_with("\u{1b}[1madd\u{1b}[0m("), "{coloured:?}");
}

#[test]
fn progress_and_log_are_told_to_those_who_ask() {
    let args = ["call", "demo", "countdown", "steps=2", "pause=1"];
    let ran = turms(args).run();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("counted 2 steps\n", ""));
    let ran = turms(args.iter().chain(&["-v"])).run();
    assert_eq!(ran.stdout, "counted 2 steps\n");
    for line in ["log info: the countdown begins", "progress: 1/2 1 to go", "log notice: the countdown is over"] {
        assert!(ran.stderr.contains(line), "{}", ran.stderr);
    }
}

#[test]
fn every_request_is_told_to_those_who_ask_three_times() {
    let ran = turms(["call", "demo", "add", "a=1", "b=2", "-vvv"]).run();
    assert_eq!(ran.stdout, "3\n");
    for line in ["← server/discover {", "→ tools/list", "→ tools/call {\"name\":\"add\"", "← tools/call {\"content\":"]
    {
        assert!(ran.stderr.contains(line), "{}", ran.stderr);
    }
    let ran = turms(["listen", "demo", "-n", "0", "-q"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""));
}

#[test]
fn values_are_completed_with_what_is_known() {
    assert_eq!(
        turms(["complete", "demo", "journey", "city", "--with", "country=Greece"]).ok(),
        "Athens\nCorinth\nSparta\n"
    );
    assert_eq!(turms(["complete", "demo", "journey", "city", "s", "--with", "country=Greece"]).ok(), "Sparta\n");
    let ran = turms(["complete", "demo", "journey", "city", "X"]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), "the server knows of nothing that \"city\" could be\n"));
    assert_eq!(turms(["complete", "demo", "note://{name}", "name", "sh"]).ok(), "shopping\n");
}

#[test]
fn the_log_of_an_older_revision_is_shown_as_it_comes() {
    let ran = turms(["log", "demo", "--protocol", "modern"]).run();
    ran.fails(5, &["a server logs only about the request that it works on", "hint: `call ... -v` shows", "legacy"]);

    // Of the revisions that the server speaks, one is chosen in which it logs unasked.
    let demo = crate::run::Demo::listening("--http");
    for (json, expected) in [
        (None, "log info: shopping was written"),
        (
            Some("--json"),
            r#"{"method":"notifications/message","params":{"level":"info","data":"shopping was written"}}"#,
        ),
    ] {
        let args = ["log", &demo.url, "info", "-n", "1"];
        let mut listening = Going::start(turms(args.into_iter().chain(json)));
        listening.told("listening");
        turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
        assert_eq!(listening.line(), expected);
        // It is the data, and told nowhere else.
        let (status, stderr) = listening.end_with_stderr();
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn who_listens_for_somebody_ends_with_them() {
    let demo = crate::run::Demo::listening("--http");
    let mut listening = Going::start(turms(["listen", &demo.url, "-r", "note://shopping"]));
    listening.told("listening");
    listening.stop_reading();
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    assert_eq!(listening.end(), Some(0));
}

#[test]
fn who_listens_may_say_for_how_long() {
    for command in ["listen", "log"] {
        let ran = turms([command, "demo", "--timeout", "0.05"]).run();
        ran.fails(7, &["error: nothing came within 50ms", "hint: without --timeout"]);
    }
}

#[test]
fn what_a_server_logs_unasked_is_told_to_those_who_ask() {
    let server = acting(&[(
        "tools/list",
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"psst"}}
{"jsonrpc":"2.0","id":$id,"result":{"tools":[]}}"#,
    )]);
    let ran = turms(["tools", "--", "sh", "-c", &server]).run();
    assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), "the server has no tools\n"));
    let ran = turms(["tools", "-v", "--", "sh", "-c", &server]).run();
    assert!(ran.stderr.contains("log info: psst"), "{ran:?}");
}

/// A server that somebody else changes: the demo over HTTP.
#[test]
fn changes_are_shown_as_they_happen() {
    let demo = crate::run::Demo::listening("--http");
    let mut listening = Going::start(turms(["listen", &demo.url, "-r", "note://shopping", "-n", "2"]));
    listening.told("listening");
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    assert_eq!(listening.line(), "resource note://shopping has changed");
    turms(["call", &demo.url, "learn"]).ok();
    assert_eq!(listening.line(), "the list of tools has changed");
    assert_eq!(listening.end(), Some(0));

    let mut listening = Going::start(turms(["listen", &demo.url, "-r", "note://shopping", "--json"]));
    listening.told("listening");
    turms(["call", &demo.url, "remember", "name=shopping", "text=oil"]).ok();
    let change: Value = serde_json::from_str(&listening.line()).unwrap();
    assert_eq!(change["method"], json!("notifications/resources/updated"));
    assert_eq!(change["params"]["uri"], json!("note://shopping"));
    // Whoever listens until they have heard enough ends it so.
    #[cfg(unix)]
    {
        let told = std::process::Command::new("kill").args(["-INT", &listening.id().to_string()]).status().unwrap();
        assert!(told.success());
        assert_eq!(listening.end(), Some(0));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_call_says_so() {
    let mut going = Going::start(turms(["call", "demo", "countdown", "steps=1000", "pause=1000", "-v"]));
    going.told("the countdown begins");
    std::process::Command::new("kill").args(["-INT", &going.id().to_string()]).status().unwrap();
    assert_eq!(going.end(), Some(130));
}
