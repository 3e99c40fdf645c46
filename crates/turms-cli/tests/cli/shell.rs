//! The shell: with lines from standard input, and in a pseudo-terminal.

use std::process::Command;

use rexpect::session::{Options, PtySession, spawn_with_options};

use crate::run::{TURMS, TempDir, golden, turms};

#[test]
fn without_input_the_shell_shows_an_overview() {
    let output = turms([] as [&str; 0]).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(
        output.stdout.starts_with("Turms demo 0.1.0") && output.stdout.contains("add(a: number, b: number)"),
        "{output:?}"
    );
    assert!(output.stderr.contains("pipe them in"), "{}", output.stderr);
}

#[test]
fn lines_run_in_order() {
    let lines = [
        "# a remark",
        "",
        "call add a=1 b=2",
        "call add {\"a\": 2, \"b\": 3}",
        "read note://travel",
        "prompt journey country=Italy city=Rome",
        "history",
        "exit",
        "call add a=9 b=9",
    ]
    .join("\n");
    golden("script.txt", &turms([] as [&str; 0]).stdin(lines).ok());
}

#[test]
fn every_command_runs_by_name_or_alias() {
    let lines = [
        "list_tools",
        "call_tool add a=1 b=2",
        "list_prompts",
        "get_prompt review text=x",
        "list_resources",
        "read_resource note://travel",
        "templates",
        "complete journey country e",
        "ping",
        "info",
        "show_state",
        "roots add /srv",
        "roots",
        "roots remove /srv",
        "log debug",
        "help",
        "help call",
        "raw completion/complete {\"ref\":{\"type\":\"ref/prompt\",\"name\":\"journey\"},\"argument\":{\"name\":\"country\",\"value\":\"e\"}}",
        "clear",
        "quit",
    ]
    .join("\n");
    let out = turms(["shell", "demo"]).stdin(lines).ok();
    for part in [
        "add(a: number",
        "\n3\n",
        "journey(country, city)",
        "user: Review this text:\nx",
        "demo://readme",
        "to Rome, by ship",
        "note://{name}",
        "\nEgypt\n",
        "response in",
        "pending       none",
        "requests      ",
        "file:///srv",
        "subscribe",
        "KEY=VALUE",
        "\"Egypt\"",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
}

#[test]
fn a_line_that_fails_sets_the_exit_status_and_does_not_stop_the_shell() {
    let output = turms(["shell", "demo"]).stdin("call divide a=1 b=0\ntolls\ncall add a=1 b=2\n").run();
    output.fails(6, &["tool \"divide\" failed", "unknown command \"tolls\"", "did you mean \"tools\"?"]);
    assert!(output.stdout.ends_with("\n3\n"), "{}", output.stdout);
}

#[test]
fn a_line_that_is_not_utf8_does_not_stop_the_shell() {
    let output = turms(["shell", "demo"]).stdin_bytes(b"call add a=1 b=2\n\xff\xfe\ncall add a=2 b=2\r\n").run();
    output.fails(2, &["line 2 of standard input is not UTF-8"]);
    assert_eq!(output.stdout, "3\n4\n");
}

#[test]
fn with_json_standard_output_is_json() {
    let lines = "help\nhistory\nstate\nroots add /srv\nroots\ncomplete journey country e\n";
    let output = turms(["shell", "demo", "--json"]).stdin(lines).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    let objects: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    assert_eq!(objects.len(), 3, "{}", output.stdout);
    assert_eq!(objects[0]["protocolVersion"], "2026-07-28");
    assert_eq!(objects[1]["roots"][0]["uri"], "file:///srv");
    assert!(output.stderr.contains("subscribe") && output.stderr.contains("1  help"), "{}", output.stderr);
}

#[test]
fn changes_are_shown_as_they_happen() {
    let lines = [
        "subscribe note://shopping",
        "call remember name=shopping text=milk",
        "read note://shopping",
        "ping",
        "call countdown steps=3 pause=30",
        "unsubscribe note://shopping",
    ]
    .join("\n");
    let output = turms(["shell", "demo"]).stdin(lines).run();
    assert_eq!(output.status, Some(0), "{output:?}");
    assert!(output.stdout.contains("\nmilk\n"), "{}", output.stdout);
    assert!(output.stderr.contains("* resource note://shopping changed"), "{}", output.stderr);
    assert!(output.stderr.contains("log info: countdown started"), "{}", output.stderr);
}

/// Starts `turms` in a pseudo-terminal.
pub(crate) fn type_in(args: &[&str], home: &TempDir) -> PtySession {
    type_within(30_000, args, home)
}

/// Starts `turms` in a pseudo-terminal, with a timeout in milliseconds for each expected text.
fn type_within(timeout: u64, args: &[&str], home: &TempDir) -> PtySession {
    let mut command = Command::new(TURMS);
    command.args(args).env("TERM", "xterm").env("NO_COLOR", "1").env("XDG_STATE_HOME", &home.0);
    let options = Options::new().timeout_ms(Some(timeout)).strip_ansi_escape_codes(true);
    spawn_with_options(command, options).unwrap()
}

#[test]
fn lines_are_edited_completed_and_stored() {
    let home = TempDir::new("typing");
    let mut shell = type_in(&[], &home);
    shell.exp_string("Turms demo").unwrap();
    shell.exp_string("`help` shows the commands").unwrap();
    shell.exp_string("turms-demo> ").unwrap();

    // Commands, names, arguments, and values of the schema.
    shell.send("cal\tweat\tci\tRome un\tf\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("call weather city=Rome unit=fahrenheit").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("\"temperature\": 69.8").unwrap();

    // Values from the server, which depend on other arguments.
    shell.send("prompt jo\tcou\tGr\tcit\tSp\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("prompt journey country=Greece city=Sparta").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("Plan a journey to Sparta in Greece.").unwrap();
    shell.send("read note://tr\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("read note://travel").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("to Rome, by ship").unwrap();

    // Arguments of `complete`, and options.
    shell.send("complete journey cou\tIt\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("complete journey country Italy").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("\nItaly\r\n").unwrap();
    shell.send("call add --ar\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("call add --args-json ").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("read note://travel").unwrap();
    shell.exp_string("to Rome, by ship").unwrap();

    // The history is kept for the next shell.
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
    let mut shell = type_in(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send("\u{1b}[A\u{1b}[A").unwrap();
    shell.flush().unwrap();
    shell.exp_string("read note://travel").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("history").unwrap();
    shell.exp_string("   1  call weather city=Rome unit=fahrenheit").unwrap();
    shell.exp_regex("[0-9]  history\r\n").unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_control('d').unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn two_shells_share_the_history() {
    let home = TempDir::new("two");
    let mut shells = [type_in(&[], &home), type_in(&[], &home)];
    for shell in &mut shells {
        shell.exp_string("turms-demo> ").unwrap();
    }
    for (shell, line) in shells.iter_mut().zip(["call add a=1 b=1", "call add a=2 b=2"]) {
        shell.send_line(line).unwrap();
        shell.exp_string("turms-demo> ").unwrap();
    }
    for shell in &mut shells {
        shell.send_control('d').unwrap();
        shell.exp_eof().unwrap();
    }
    let mut shell = type_in(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("history").unwrap();
    shell.exp_string("   1  call add a=1 b=1").unwrap();
    shell.exp_string("   2  call add a=2 b=2").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn connection_errors_are_shown() {
    let home = TempDir::new("refused");
    for (args, message) in [
        (&["shell", "http://127.0.0.1:1/mcp"][..], "hint: is the server running"),
        (&["shell", "no-such-server", "--config", "/nonexistent"], "error: /nonexistent: cannot be read"),
        (&["shell", "--", "false"], "hint: it wrote nothing to standard error"),
    ] {
        let mut shell = type_in(args, &home);
        shell.exp_string(message).unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn ctrl_c_cancels_connecting() {
    let home = TempDir::new("give-up");
    for command in ["shell", "tools"] {
        let mut shell = type_in(&[command, "-v", "--", "sh", "-c", "echo here >&2; cat > /dev/null"], &home);
        shell.exp_string("server: here").unwrap();
        shell.send_control('c').unwrap();
        shell.exp_string("error: interrupted while connecting").unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn ctrl_c_does_not_wait_for_a_server_that_does_not_exit() {
    let home = TempDir::new("stubborn");
    let script = format!("trap '' TERM; {TURMS} demo --stdio; while :; do sleep 1; done");
    // Without Ctrl-C it would be killed after four seconds.
    let mut shell = type_within(3500, &["ping", "--", "sh", "-c", &script], &home);
    shell.exp_string("response in").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn ctrl_c_cancels_the_call_and_not_the_shell() {
    let home = TempDir::new("cancel");
    let mut shell = type_in(&["shell", "--", TURMS, "demo", "--stdio"], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("call countdown steps=1000 pause=50").unwrap();
    // Progress is shown before the call is cancelled.
    shell.exp_string("998 left").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("error: cancelled").unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("call add a=40 b=2").unwrap();
    shell.exp_string("\n42\r\n").unwrap();
    shell.send_line("state").unwrap();
    shell.exp_string("1 cancelled").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn missing_arguments_of_a_tool_are_prompted_for() {
    let home = TempDir::new("missing");
    let mut shell = type_in(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("call add a=1").unwrap();
    shell.exp_string("b (number) the second number: ").unwrap();
    shell.send_line("two").unwrap();
    shell.exp_string("expected a number, found \"two\"").unwrap();
    shell.exp_string("b (number) the second number: ").unwrap();
    shell.send_line("2").unwrap();
    shell.exp_string("\n3\r\n").unwrap();
    shell.send_line("call add a=1").unwrap();
    shell.exp_string("b (number) the second number: ").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("tool \"add\" was not called").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn missing_arguments_of_a_prompt_are_prompted_for_and_completed() {
    let home = TempDir::new("prompt");
    let mut shell = type_in(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("prompt journey").unwrap();
    shell.exp_string("country the country: ").unwrap();
    shell.send("Gr\t\r").unwrap();
    shell.flush().unwrap();
    // The values of the second argument depend on the first.
    shell.exp_string("city the city; its completion depends on the country: ").unwrap();
    shell.send("Sp\t\r").unwrap();
    shell.flush().unwrap();
    shell.exp_string("Plan a journey to Sparta in Greece.").unwrap();
    shell.send_line("prompt review").unwrap();
    shell.exp_string("text the text: ").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("prompt \"review\": cancelled").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn input_requests_are_answered_at_the_terminal() {
    let home = TempDir::new("forms");
    for protocol in ["modern", "legacy"] {
        let mut shell = type_in(&["shell", "demo", "--protocol", protocol], &home);
        shell.exp_string("turms-demo> ").unwrap();
        shell.send_line("call sign_up").unwrap();
        shell.exp_string("Please sign up.").unwrap();
        shell.exp_string("name (string) your name: ").unwrap();
        shell.send_line("Ann").unwrap();
        shell.exp_string("age? (integer) your age: ").unwrap();
        shell.send_line("").unwrap();
        shell.exp_string("your plan: ").unwrap();
        shell.send("te\t\r").unwrap();
        shell.flush().unwrap();
        shell.exp_string("news (yes or no) do you want news?: ").unwrap();
        shell.send_line("no").unwrap();
        shell.exp_string("Welcome, Ann, of unknown age, on the plan Team, without news.").unwrap();

        shell.send_line("call visit").unwrap();
        shell.exp_string("https://modelcontextprotocol.io/specification").unwrap();
        shell.exp_string("opened (yes or no)? ").unwrap();
        shell.send_line("yes").unwrap();
        shell.exp_string("You opened the page.").unwrap();

        shell.send_line("call ask_model question='Where is Paris?'").unwrap();
        shell.exp_string("user: Where is Paris?").unwrap();
        shell.exp_string("model response: ").unwrap();
        shell.send_line("in France").unwrap();
        shell.exp_string("person-at-terminal says: in France").unwrap();
        shell.send_line("exit").unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn a_notification_does_not_break_the_line() {
    let home = TempDir::new("notification");
    let demo = crate::run::Demo::listening("--http");
    let mut shell = type_in(&["shell", &demo.url], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("subscribe note://shopping").unwrap();
    shell.exp_string("subscribed to note://shopping").unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send("call add a=20 ").unwrap();
    shell.flush().unwrap();
    shell.exp_string("call add a=20").unwrap();
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    shell.exp_string("* resource note://shopping changed").unwrap();
    // The edited line is redrawn below, and can be finished.
    shell.exp_string("turms-demo> call add a=20").unwrap();
    shell.send_line("b=22").unwrap();
    shell.exp_string("\n42\r\n").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn one_command_prompts_at_the_terminal_too() {
    let home = TempDir::new("once");
    let mut shell = type_in(&["call", "demo", "divide", "a=84"], &home);
    shell.exp_string("b (number) the divisor: ").unwrap();
    shell.send_line("2").unwrap();
    shell.exp_string("\n42\r\n").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn input_requests_are_shown_with_quiet() {
    let home = TempDir::new("quiet");
    let mut shell = type_in(&["call", "demo", "visit", "-q"], &home);
    shell.exp_string("https://modelcontextprotocol.io/specification").unwrap();
    shell.exp_string("opened (yes or no)? ").unwrap();
    shell.send_line("no").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_message_does_not_break_an_answer() {
    let home = TempDir::new("answer");
    // The server writes to standard error while the answer is being edited.
    let fifo = home.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = format!("{{ read -r go < {fifo}; echo hello >&2; }} & exec {TURMS} demo --stdio");
    let mut shell = type_in(&["call", "ask_model", "question=why", "-v", "--", "sh", "-c", &script], &home);
    shell.exp_string("model response: ").unwrap();
    shell.send("beca").unwrap();
    shell.flush().unwrap();
    shell.exp_string("beca").unwrap();
    std::fs::write(&fifo, "go\n").unwrap();
    shell.exp_string("server: hello\r\n").unwrap();
    shell.exp_string("model response: beca").unwrap();
    shell.send_line("use").unwrap();
    shell.exp_string("person-at-terminal says: because").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_cancelled_request_restores_the_terminal() {
    let home = TempDir::new("void");
    let mut shell = type_in(&["call", "demo", "sign_up", "--protocol", "legacy", "--timeout", "1"], &home);
    shell.exp_string("name (string) your name: ").unwrap();
    shell.exp_string("press Enter").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("no response within 1 s").unwrap();
    shell.exp_eof().unwrap();
}
