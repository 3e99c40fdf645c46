//! The shell: on lines that are piped in, and in a pseudo-terminal, where somebody types.

use std::process::Command;

use rexpect::session::{Options, PtySession, spawn_with_options};

use crate::run::{Scratch, TURMS, golden, turms};

#[test]
fn without_a_command_it_shows_what_it_is() {
    let ran = turms([] as [&str; 0]).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("Turms demo 0.1.0") && ran.stdout.contains("add(a: number, b: number)"), "{ran:?}");
    assert!(ran.stderr.contains("pipe them in"), "{}", ran.stderr);
}

#[test]
fn lines_are_done_one_after_another() {
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
fn every_command_has_both_its_names() {
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
        "the server answered in",
        "pending       nothing",
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
fn a_line_that_fails_does_not_stop_the_others_but_is_how_it_ends() {
    let ran = turms(["shell", "demo"]).stdin("call divide a=1 b=0\ntolls\ncall add a=1 b=2\n").run();
    ran.fails(6, &["tool \"divide\" says that it failed", "there is no command \"tolls\"", "did you mean \"tools\"?"]);
    assert!(ran.stdout.ends_with("\n3\n"), "{}", ran.stdout);
}

#[test]
fn a_line_that_is_no_text_does_not_stop_the_others() {
    let ran = turms(["shell", "demo"]).stdin_bytes(b"call add a=1 b=2\n\xff\xfe\ncall add a=2 b=2\r\n").run();
    ran.fails(2, &["line 2 of standard input is not UTF-8"]);
    assert_eq!(ran.stdout, "3\n4\n");
}

#[test]
fn with_json_nothing_but_json_is_printed() {
    let lines = "help\nhistory\nstate\nroots add /srv\nroots\ncomplete journey country e\n";
    let ran = turms(["shell", "demo", "--json"]).stdin(lines).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    let objects: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect();
    assert_eq!(objects.len(), 3, "{}", ran.stdout);
    assert_eq!(objects[0]["protocolVersion"], "2026-07-28");
    assert_eq!(objects[1]["roots"][0]["uri"], "file:///srv");
    assert!(ran.stderr.contains("subscribe") && ran.stderr.contains("1  help"), "{}", ran.stderr);
}

#[test]
fn changes_are_told_as_they_come() {
    let lines = [
        "subscribe note://shopping",
        "call remember name=shopping text=milk",
        "read note://shopping",
        "ping",
        "unsubscribe note://shopping",
        "call countdown steps=3 pause=30",
    ]
    .join("\n");
    let ran = turms(["shell", "demo"]).stdin(lines).run();
    assert_eq!(ran.status, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("\nmilk\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("* resource note://shopping has changed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("log info: the countdown begins"), "{}", ran.stderr);
}

/// Somebody at a terminal.
pub(crate) fn typing(args: &[&str], home: &Scratch) -> PtySession {
    typing_within(30_000, args, home)
}

/// Somebody who waits for so many milliseconds.
fn typing_within(patience: u64, args: &[&str], home: &Scratch) -> PtySession {
    let mut command = Command::new(TURMS);
    command.args(args).env("TERM", "xterm").env("NO_COLOR", "1").env("XDG_STATE_HOME", &home.0);
    let options = Options::new().timeout_ms(Some(patience)).strip_ansi_escape_codes(true);
    spawn_with_options(command, options).unwrap()
}

#[test]
fn a_person_types_completes_and_leaves() {
    let home = Scratch::new("typing");
    let mut shell = typing(&[], &home);
    shell.exp_string("Turms demo").unwrap();
    shell.exp_string("`help` shows the commands").unwrap();
    shell.exp_string("turms-demo> ").unwrap();

    // Commands, names, arguments, values of the schema.
    shell.send("cal\tweat\tci\tRome un\tf\t").unwrap();
    shell.flush().unwrap();
    shell.exp_string("call weather city=Rome unit=fahrenheit").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("\"temperature\": 69.8").unwrap();

    // Values that only the server knows, which depend on one another.
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

    // The same for those who only want to see the values, and options.
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

    // What was typed is remembered, here and in the next shell.
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
    let mut shell = typing(&[], &home);
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
fn two_shells_remember_the_lines_of_both() {
    let home = Scratch::new("two");
    let mut shells = [typing(&[], &home), typing(&[], &home)];
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
    let mut shell = typing(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("history").unwrap();
    shell.exp_string("   1  call add a=1 b=1").unwrap();
    shell.exp_string("   2  call add a=2 b=2").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn what_is_in_the_way_of_a_shell_is_told() {
    let home = Scratch::new("nobody");
    for (args, told) in [
        (&["shell", "http://127.0.0.1:1/mcp"][..], "hint: nobody listens there"),
        (&["shell", "no-such-server", "--config", "/nonexistent"], "error: /nonexistent: cannot be read"),
        (&["shell", "--", "false"], "hint: it said nothing before that"),
    ] {
        let mut shell = typing(args, &home);
        shell.exp_string(told).unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn ctrl_c_gives_up_on_a_server_that_does_not_answer() {
    let home = Scratch::new("give-up");
    for command in ["shell", "tools"] {
        let mut shell = typing(&[command, "-v", "--", "sh", "-c", "echo here >&2; cat > /dev/null"], &home);
        shell.exp_string("server: here").unwrap();
        shell.send_control('c').unwrap();
        shell.exp_string("error: interrupted before it was connected").unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn ctrl_c_does_not_wait_for_a_server_that_does_not_end() {
    let home = Scratch::new("stubborn");
    let script = format!("trap '' TERM; {TURMS} demo --stdio; while :; do sleep 1; done");
    // It would be asked to end for four seconds, and then be killed.
    let mut shell = typing_within(3500, &["ping", "--", "sh", "-c", &script], &home);
    shell.exp_string("the server answered in").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn ctrl_c_cancels_the_call_and_not_the_shell() {
    let home = Scratch::new("cancel");
    let mut shell = typing(&["shell", "--", TURMS, "demo", "--stdio"], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("call countdown steps=1000 pause=50").unwrap();
    // The bar moves before the call is given up.
    shell.exp_string("998 to go").unwrap();
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
fn what_is_missing_is_asked_for() {
    let home = Scratch::new("missing");
    let mut shell = typing(&[], &home);
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
fn what_a_prompt_misses_is_asked_for_and_completed_by_the_server() {
    let home = Scratch::new("prompt");
    let mut shell = typing(&[], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("prompt journey").unwrap();
    shell.exp_string("country the country: ").unwrap();
    shell.send("Gr\t\r").unwrap();
    shell.flush().unwrap();
    // What the second could be depends on the first.
    shell.exp_string("city the city, which is completed if the country is known: ").unwrap();
    shell.send("Sp\t\r").unwrap();
    shell.flush().unwrap();
    shell.exp_string("Plan a journey to Sparta in Greece.").unwrap();
    shell.send_line("prompt review").unwrap();
    shell.exp_string("text the text: ").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("prompt \"review\" was not got").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn forms_pages_and_the_model_are_asked_at_the_terminal() {
    let home = Scratch::new("forms");
    for protocol in ["modern", "legacy"] {
        let mut shell = typing(&["shell", "demo", "--protocol", protocol], &home);
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
        shell.exp_string("have you (yes or no)? ").unwrap();
        shell.send_line("yes").unwrap();
        shell.exp_string("You agreed to visit the page.").unwrap();

        shell.send_line("call ask_model question='Where is Paris?'").unwrap();
        shell.exp_string("user: Where is Paris?").unwrap();
        shell.exp_string("the model says: ").unwrap();
        shell.send_line("in France").unwrap();
        shell.exp_string("person-at-terminal says: in France").unwrap();
        shell.send_line("exit").unwrap();
        shell.exp_eof().unwrap();
    }
}

#[test]
fn a_notification_does_not_break_the_line() {
    let home = Scratch::new("notification");
    let demo = crate::run::Demo::listening("--http");
    let mut shell = typing(&["shell", &demo.url], &home);
    shell.exp_string("turms-demo> ").unwrap();
    shell.send_line("subscribe note://shopping").unwrap();
    shell.exp_string("changes of note://shopping are shown as they come").unwrap();
    shell.exp_string("turms-demo> ").unwrap();
    shell.send("call add a=20 ").unwrap();
    shell.flush().unwrap();
    shell.exp_string("call add a=20").unwrap();
    turms(["call", &demo.url, "remember", "name=shopping", "text=milk"]).ok();
    shell.exp_string("* resource note://shopping has changed").unwrap();
    // The line that was begun stands below, whole, and can be finished.
    shell.exp_string("turms-demo> call add a=20").unwrap();
    shell.send_line("b=22").unwrap();
    shell.exp_string("\n42\r\n").unwrap();
    shell.send_line("exit").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn one_command_asks_at_the_terminal_too() {
    let home = Scratch::new("once");
    let mut shell = typing(&["call", "demo", "divide", "a=84"], &home);
    shell.exp_string("b (number) what to divide it by: ").unwrap();
    shell.send_line("2").unwrap();
    shell.exp_string("\n42\r\n").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_question_is_told_however_quiet_it_should_be() {
    let home = Scratch::new("quiet");
    let mut shell = typing(&["call", "demo", "visit", "-q"], &home);
    shell.exp_string("https://modelcontextprotocol.io/specification").unwrap();
    shell.exp_string("have you (yes or no)? ").unwrap();
    shell.send_line("no").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn what_is_told_while_an_answer_is_typed_does_not_break_it() {
    let home = Scratch::new("answer");
    // Something is written to standard error when the answer has been begun.
    let fifo = home.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let script = format!("{{ read -r go < {fifo}; echo hello >&2; }} & exec {TURMS} demo --stdio");
    let mut shell = typing(&["call", "ask_model", "question=why", "-v", "--", "sh", "-c", &script], &home);
    shell.exp_string("the model says: ").unwrap();
    shell.send("beca").unwrap();
    shell.flush().unwrap();
    shell.exp_string("beca").unwrap();
    std::fs::write(&fifo, "go\n").unwrap();
    shell.exp_string("server: hello\r\n").unwrap();
    shell.exp_string("the model says: beca").unwrap();
    shell.send_line("use").unwrap();
    shell.exp_string("person-at-terminal says: because").unwrap();
    shell.exp_eof().unwrap();
}

#[test]
fn a_question_that_nobody_waits_for_any_more_leaves_the_terminal_as_it_was() {
    let home = Scratch::new("void");
    let mut shell = typing(&["call", "demo", "sign_up", "--protocol", "legacy", "--timeout", "1"], &home);
    shell.exp_string("name (string) your name: ").unwrap();
    shell.exp_string("press Enter").unwrap();
    shell.send_line("").unwrap();
    shell.exp_string("no answer within").unwrap();
    shell.exp_eof().unwrap();
}
