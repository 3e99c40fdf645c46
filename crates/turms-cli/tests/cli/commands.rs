//! Every command, on the demo server in the same process.

use serde_json::{Value, json};

use crate::run::{RunningTurms, TempDir, golden, scripted_server, turms};

fn json_output(args: &[&str]) -> Value {
    let out = turms(["--json"].iter().chain(args)).ok();
    assert_eq!(out.lines().count(), 1, "{out}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn text_output_matches_the_golden_files() {
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
        let output = turms(args).run();
        assert_eq!((output.status, output.stderr.as_str()), (Some(0), ""), "{args:?}");
        golden(name, &output.stdout);
    }
}

const RAW: &str = r#"{"ref":{"type":"ref/prompt","name":"journey"},"argument":{"name":"country","value":"e"}}"#;

#[test]
fn json_output_has_the_format_of_the_protocol() {
    assert_eq!(json_output(&["info", "demo"])["capabilities"]["resources"]["subscribe"], json!(true));
    assert_eq!(json_output(&["ping", "demo"]), json!({ "resultType": "complete" }));
    assert_eq!(json_output(&["tools", "demo"])["tools"][0]["name"], json!("add"));
    assert_eq!(json_output(&["tools", "demo", "add"])["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(
        json_output(&["call", "demo", "add", "a=1", "b=2"])["content"],
        json!([{ "type": "text", "text": "3" }])
    );
    assert_eq!(json_output(&["resources", "demo"])["resources"][0]["uri"], json!("demo://readme"));
    assert_eq!(json_output(&["templates", "demo"])["resourceTemplates"][0]["uriTemplate"], json!("note://{name}"));
    assert_eq!(json_output(&["read", "demo", "note://travel"])["contents"][0]["text"], json!("to Rome, by ship"));
    assert_eq!(json_output(&["prompts", "demo"])["prompts"][0]["name"], json!("review"));
    assert_eq!(json_output(&["prompt", "demo", "review", "text=x"])["messages"][1]["role"], json!("user"));
    let completion = json_output(&["complete", "demo", "journey", "country", "e"]);
    assert_eq!(completion["completion"]["values"], json!(["Egypt"]));
    assert_eq!(json_output(&["raw", "demo", "completion/complete", RAW])["completion"]["values"], json!(["Egypt"]));
}

/// The JSON output is not translated to the newest revision, keeps its order, and keeps unknown members.
#[test]
fn json_output_is_the_exact_result_of_the_server() {
    let tool = r#"{"odd":1e2,"name":"look","inputSchema":{"type":"object"}}"#;
    let list = format!(r#"{{"jsonrpc":"2.0","id":$id,"result":{{"x":[1.0],"tools":[{tool}]}}}}"#);
    let called = r#"{"jsonrpc":"2.0","id":$id,"result":{"isError":false,"content":[],"y":{}}}"#;
    let server = scripted_server(&[("tools/list", &list), ("tools/call", called)]);
    let exact = |args: &[&str]| turms(["--json"].iter().chain(args).chain(&["--", "sh", "-c", &server])).ok();
    assert_eq!(exact(&["tools"]), format!("{{\"x\":[1.0],\"tools\":[{tool}]}}\n"));
    assert_eq!(exact(&["call", "look"]), "{\"isError\":false,\"content\":[],\"y\":{}}\n");
    assert!(exact(&["tools", "look"]).starts_with("{\"odd\":"));
    let info: Value = serde_json::from_str(&exact(&["info"])).unwrap();
    assert_eq!(info["serverInfo"], json!({ "name": "scripted", "version": "1" }));
    assert_eq!(info["protocolVersion"], json!("2025-11-25"));

    // The result of a task is that of the right call.
    for (protocol, expected) in [("modern", json!("complete")), ("legacy", Value::Null)] {
        let lines = "call add a=1 b=2\ncall report topic=Veii pause=1\n";
        let out = turms(["shell", "demo", "--json", "--protocol", protocol]).stdin(lines).ok();
        let result: Value = serde_json::from_str(out.lines().nth(1).unwrap()).unwrap();
        assert_eq!(result["content"][0]["text"], json!("A report about Veii, in 3 chapters."), "{out}");
        assert_eq!(result["resultType"], expected, "{out}");
    }
}

#[test]
fn a_call_continues_as_a_task() {
    let demo = crate::run::Demo::listening("--http");
    let begin =
        |pause: &str| turms(["call", &demo.url, "report", "topic=Veii", pause, "--task"]).ok().trim().to_owned();
    let id = begin("pause=1");
    let out = turms(["tasks", &demo.url, &id, "--wait"]).ok();
    assert_eq!(out, "A report about Veii, in 3 chapters.\n");
    let out = turms(["tasks", &demo.url, &id]).ok();
    assert!(out.starts_with(&format!("{id}  completed")), "{out}");
    assert!(out.ends_with("\nA report about Veii, in 3 chapters.\n"), "{out}");
    let output = turms(["call", &demo.url, "report", "topic=Veii", "pause=1", "--task"]).run();
    let note = format!("`turms tasks {} {} --wait` waits for it", demo.url, output.stdout.trim());
    assert!(output.stderr.contains(&note), "{}", output.stderr);
    let options = ["--task", "--protocol", "modern", "--timeout", "30", "--header", "X-Key: secret", "--output", "a b"];
    let output = turms(["call", &demo.url, "report", "topic=Veii", "pause=1"].iter().chain(&options)).run();
    let (url, id) = (&demo.url, output.stdout.trim());
    let options = "--header 'X-Key: ...' --timeout 30 --protocol modern";
    let note = format!("`turms tasks {url} {options} {id} --wait --output 'a b'` waits for it");
    assert!(output.stderr.contains(&note) && !output.stderr.contains("secret"), "{}", output.stderr);
    let output = turms(["call", "demo", "report", "topic=Veii", "--task"]).run();
    assert!(
        output.stderr.contains("warning: the server exits with this command, and the task with it"),
        "{}",
        output.stderr
    );
    turms(["tasks", "--", "sh", "-c", &scripted_server(&[])]).run().fails(5, &["the server does not support tasks"]);
    turms(["tasks", &demo.url]).run().fails(2, &["does not list tasks", "hint: give the id of a task"]);

    let id = begin("pause=60000");
    let out = turms(["tasks", &demo.url, &id]).ok();
    assert!(out.starts_with(&format!("{id}  working")), "{out}");
    let out = turms(["tasks", &demo.url, &id, "--cancel"]).ok();
    assert!(out.starts_with(&format!("{id}  cancelled")), "{out}");
    turms(["tasks", &demo.url, "no-such-task"]).run().fails(5, &["task \"no-such-task\" not found"]);
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
fn ping_prints_the_round_trip_time() {
    let out = turms(["ping", "demo"]).ok();
    assert!(out.starts_with("response in "), "{out}");
}

#[test]
fn arguments_are_typed_text_or_json_or_a_file() {
    assert_eq!(turms(["call", "demo", "add", "a=1.5", "b:=2e0"]).ok(), "3.5\n");
    assert_eq!(turms(["call", "demo", "add", r#"{"a": 1, "b": 1}"#]).ok(), "2\n");
    assert_eq!(turms(["call", "demo", "add", "--args-json", "-"]).stdin(r#"{"a": 2, "b": 2}"#).ok(), "4\n");
    let directory = TempDir::new("args");
    let file = directory.file("args.json", r#"{"a": 3, "b": 3}"#);
    assert_eq!(turms(["call", "demo", "add", "--args-json", &file]).ok(), "6\n");
    let params = directory.file("params.json", r#"{"name": "add", "arguments": {"a": 4, "b": 4}}"#);
    for output in [
        turms(["raw", "demo", "tools/call", &format!("@{params}"), "--json"]),
        turms(["raw", "demo", "tools/call", "-", "--json"]).stdin(std::fs::read_to_string(&params).unwrap()),
    ] {
        let result: Value = serde_json::from_str(&output.ok()).unwrap();
        assert_eq!(result["content"][0]["text"], json!("8"));
    }
}

#[test]
fn a_value_can_be_read_from_a_file() {
    let directory = TempDir::new("value");
    let (text, number) = (directory.file("text", "Salve,\nmunde"), directory.file("number", " 40\n"));
    let out = turms(["prompt", "demo", "review", &format!("text=@{text}")]).ok();
    assert!(out.ends_with("Review this text:\nSalve,\nmunde\n"), "{out}");
    assert_eq!(turms(["call", "demo", "add", &format!("a:=@{number}"), "b=2"]).ok(), "42\n");
    turms(["call", "demo", "weather", "city=@rome"]).run().fails(
        1,
        &["argument \"city\": cannot read \"rome\"", "hint: write text that begins with @ as JSON: 'city:=\"@rome\"'"],
    );
}

#[test]
fn binary_content_is_described_or_saved() {
    let directory = TempDir::new("output");
    let (picture, file) = (directory.path("logo.png"), directory.path("again.png"));
    assert_eq!(turms(["call", "demo", "logo"]).ok(), "The logo:\n[image image/png, 91 bytes]\n");
    assert_eq!(turms(["read", "demo", "demo://logo"]).ok(), "[content image/png, 91 bytes]\n");

    let out = turms(["call", "demo", "logo", "--output", &picture]).ok();
    assert_eq!(out, format!("The logo:\n[image image/png, 91 bytes, saved to {picture}]\n"));
    turms(["read", "demo", "demo://logo", "-o", &file, "--json"]).ok();
    let bytes = std::fs::read(&picture).unwrap();
    assert!(bytes.starts_with(b"\x89PNG") && bytes == std::fs::read(&file).unwrap());

    // Standard output only has the content, byte for byte.
    let output = turms(["call", "demo", "logo", "-o", "-"]).command.output().unwrap();
    assert_eq!(output.stdout, bytes);
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("[image image/png, 91 bytes, saved to standard output]")
    );
    assert_eq!(turms(["read", "demo", "note://travel", "-o", "-"]).ok(), "to Rome, by ship");
    turms(["read", "demo", "demo://logo", "-o", "-", "--json"]).run().fails(2, &["--json and --output - both"]);

    turms(["read", "demo", "note://travel", "-o", &directory.path("")]).ok();
    assert_eq!(std::fs::read_to_string(directory.path("content-1.txt")).unwrap(), "to Rome, by ship");
    let output = turms(["prompt", "demo", "review", "text=x", "-o", &file]).run();
    assert!(output.stderr.contains("warning: --output: the result has no binary content"), "{}", output.stderr);
    turms(["call", "demo", "logo", "-o", "/nonexistent/x"]).run().fails(1, &["cannot write /nonexistent/x"]);
}

#[test]
fn control_characters_of_the_server_are_escaped() {
    let out = turms(["call", "demo", "mischief"]).ok();
    assert_eq!(out, "\\u{1b}[2J\\u{1b}[31mred\\u{1b}]0;title\\u{7}\\rover\\u{202e}written\n");
    let out = turms(["call", "demo", "mischief", "--color", "always", "--json"]).ok();
    assert!(!out.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{out:?}");
    let value: Value = serde_json::from_str(&out).unwrap();
    assert!(value["content"][0]["text"].as_str().unwrap().starts_with("\u{1b}[2J"));
}

#[test]
fn colours_are_for_terminals_or_on_request() {
    assert!(!turms(["tools", "demo"]).ok().contains('\u{1b}'));
    let coloured = turms(["tools", "demo", "--color", "always"]).ok();
    assert!(coloured.starts_with("\u{1b}[1madd\u{1b}[0m("), "{coloured:?}");
}

#[test]
fn verbose_output_has_progress_and_log_messages() {
    let args = ["call", "demo", "countdown", "steps=2", "pause=1"];
    let output = turms(args).run();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("counted 2 steps\n", ""));
    let output = turms(args.iter().chain(&["-v"])).run();
    assert_eq!(output.stdout, "counted 2 steps\n");
    for line in ["log info: countdown started", "progress: 1/2 1 left", "log notice: countdown finished"] {
        assert!(output.stderr.contains(line), "{}", output.stderr);
    }
}

#[test]
fn trace_output_has_every_request() {
    let output = turms(["call", "demo", "add", "a=1", "b=2", "-vvv"]).run();
    assert_eq!(output.stdout, "3\n");
    for line in ["← server/discover {", "→ tools/list", "→ tools/call {\"name\":\"add\"", "← tools/call {\"content\":"]
    {
        assert!(output.stderr.contains(line), "{}", output.stderr);
    }
    let output = turms(["listen", "demo", "-n", "0", "-q"]).run();
    assert_eq!((output.status, output.stderr.as_str()), (Some(0), ""));
}

#[test]
fn completion_depends_on_other_arguments() {
    assert_eq!(
        turms(["complete", "demo", "journey", "city", "--with", "country=Greece"]).ok(),
        "Athens\nCorinth\nSparta\n"
    );
    assert_eq!(turms(["complete", "demo", "journey", "city", "s", "--with", "country=Greece"]).ok(), "Sparta\n");
    let output = turms(["complete", "demo", "journey", "city", "X"]).run();
    assert_eq!((output.status, output.stderr.as_str()), (Some(0), "the server has no completions for \"city\"\n"));
    assert_eq!(turms(["complete", "demo", "note://{name}", "name", "sh"]).ok(), "shopping\n");
}

#[test]
fn log_prints_messages_of_older_revisions() {
    let output = turms(["log", "demo", "--protocol", "modern"]).run();
    output.fails(5, &["a server only sends log messages during a request", "hint: `call ... -v` shows", "legacy"]);

    // A revision is chosen in which the server sends log messages at any time.
    let demo = crate::run::Demo::listening("--http");
    for (json, expected) in [
        (None, "log info: shopping was written"),
        (
            Some("--json"),
            r#"{"method":"notifications/message","params":{"level":"info","data":"shopping was written"}}"#,
        ),
    ] {
        let args = ["log", &demo.url, "info", "-n", "1"];
        let mut running = RunningTurms::start(turms(args.into_iter().chain(json)));
        running.wait_for_stderr("listening");
        turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
        assert_eq!(running.line(), expected);
        // Log messages are data here, and not printed on standard error.
        let (status, stderr) = running.end_with_stderr();
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
    }
}

#[test]
fn listen_stops_when_its_output_is_closed() {
    let demo = crate::run::Demo::listening("--http");
    let mut running = RunningTurms::start(turms(["listen", &demo.url, "-r", "note://shopping"]));
    running.wait_for_stderr("listening");
    running.stop_reading();
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    assert_eq!(running.end(), Some(0));
}

#[test]
fn listen_and_log_have_a_timeout() {
    for command in ["listen", "log"] {
        let output = turms([command, "demo", "--timeout", "0.05"]).run();
        output.fails(7, &["error: nothing received within 50 ms", "hint: without --timeout"]);
    }
}

#[test]
fn unsolicited_log_messages_are_only_shown_with_verbose() {
    let server = scripted_server(&[(
        "tools/list",
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"psst"}}
{"jsonrpc":"2.0","id":$id,"result":{"tools":[]}}"#,
    )]);
    let output = turms(["tools", "--", "sh", "-c", &server]).run();
    assert_eq!((output.status, output.stderr.as_str()), (Some(0), "the server has no tools\n"));
    let output = turms(["tools", "-v", "--", "sh", "-c", &server]).run();
    assert!(output.stderr.contains("log info: psst"), "{output:?}");
}

/// The changes are made by another client.
#[test]
fn changes_are_shown_as_they_happen() {
    let demo = crate::run::Demo::listening("--http");
    let mut running = RunningTurms::start(turms(["listen", &demo.url, "-r", "note://shopping", "-n", "2"]));
    running.wait_for_stderr("listening");
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    assert_eq!(running.line(), "resource note://shopping changed");
    turms(["call", &demo.url, "learn"]).ok();
    assert_eq!(running.line(), "the list of tools changed");
    assert_eq!(running.end(), Some(0));

    let mut running = RunningTurms::start(turms(["listen", &demo.url, "-r", "note://shopping", "--json"]));
    running.wait_for_stderr("listening");
    turms(["call", &demo.url, "remember", "name=shopping", "text=oil"]).ok();
    let change: Value = serde_json::from_str(&running.line()).unwrap();
    assert_eq!(change["method"], json!("notifications/resources/updated"));
    assert_eq!(change["params"]["uri"], json!("note://shopping"));
    // Ctrl-C is the normal way to stop.
    #[cfg(unix)]
    {
        let killed = std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(running.end(), Some(0));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_call_has_its_exit_status() {
    let mut running = RunningTurms::start(turms(["call", "demo", "countdown", "steps=1000", "pause=1000", "-v"]));
    running.wait_for_stderr("countdown started");
    std::process::Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert_eq!(running.end(), Some(130));
}
