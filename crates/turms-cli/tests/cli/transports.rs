//! The same commands over every transport and in every revision.

use crate::run::{Demo, RunningTurms, TURMS, TempDir, turms};

/// Runs most commands and checks their output.
fn run_commands(target: &[&str], program: &[&str]) {
    let run = |command: &[&str], words: &[&str]| {
        let args: Vec<&str> = command.iter().chain(target).chain(words).chain(program).copied().collect();
        turms(args).ok()
    };
    assert_eq!(run(&["call"], &["add", "a=1", "b=2"]), "3\n");
    assert_eq!(run(&["read"], &["note://travel"]), "to Rome, by ship\n");
    assert_eq!(run(&["complete"], &["journey", "country", "i"]), "Italy\n");
    assert_eq!(
        run(&["prompt"], &["journey", "country=Italy", "city=Veii"]),
        "user: Plan a journey to Veii in Italy.\n"
    );
    assert!(run(&["tools"], &[]).starts_with("add(a: number, b: number)"));
    assert!(run(&["resources"], &[]).contains("demo://readme"));
    assert!(run(&["templates"], &[]).contains("note://{name}"));
    assert!(run(&["prompts"], &[]).contains("journey(country, city)"));
    assert!(run(&["ping"], &[]).contains("response in"));
    assert_eq!(run(&["call"], &["countdown", "steps=2", "pause=1"]), "counted 2 steps\n");
    assert!(run(&["info"], &[]).contains("demo 0.1.0"));
    assert!(run(&["raw"], &["tools/list"]).contains("\"name\": \"add\""));
    assert_eq!(run(&["listen"], &["-n", "0"]), "");
    let shell: Vec<&str> = ["shell"].iter().chain(target).chain(program).copied().collect();
    let lines = "subscribe note://shopping\ncall remember name=shopping text=milk\nread note://shopping\n";
    assert_eq!(turms(shell).stdin(lines).ok(), "written to note://shopping\nmilk\n");
}

#[test]
fn in_process() {
    run_commands(&["demo"], &[]);
}

#[test]
fn over_stdio() {
    run_commands(&[], &["--", TURMS, "demo", "--stdio"]);
}

#[test]
fn over_http() {
    let demo = Demo::listening("--http");
    run_commands(&[&demo.url], &[]);
    assert!(turms(["info", &demo.url]).ok().contains("transport     HTTP\n"));
}

#[test]
fn over_websocket() {
    let demo = Demo::listening("--ws");
    run_commands(&[&demo.url], &[]);
    assert!(turms(["info", &demo.url]).ok().contains("transport     WebSocket\n"));
}

#[test]
fn over_http_and_sse() {
    let demo = Demo::listening("--sse");
    run_commands(&[&demo.url, "--transport", "sse"], &[]);
    let info = turms(["info", &demo.url, "--transport", "sse"]).ok();
    assert!(info.contains("transport     HTTP+SSE\n") && info.contains("2024-11-05 (handshake)"), "{info}");
}

#[test]
fn in_every_revision() {
    for (choice, version) in [
        ("auto", "2026-07-28 (stateless)"),
        ("modern", "2026-07-28 (stateless)"),
        ("legacy", "2025-11-25 (handshake)"),
        ("2025-06-18", "2025-06-18 (handshake)"),
        ("2025-03-26", "2025-03-26 (handshake)"),
        ("2024-11-05", "2024-11-05 (handshake)"),
    ] {
        let info = turms(["info", "--protocol", choice, "--", TURMS, "demo", "--stdio"]).ok();
        assert!(info.contains(version), "{choice}: {info}");
        let sum = turms(["call", "demo", "add", "a=1", "b=2", "--protocol", choice]).ok();
        assert_eq!(sum, "3\n");
    }
}

#[test]
fn a_program_gets_its_environment_and_working_directory() {
    let script = "printf '%s\\n' \"$GREETING in $(basename \"$PWD\")\" >&2; exit 1";
    let output = turms(["info", "-e", "GREETING=salve", "--cwd", "/usr", "--", "sh", "-c", script]).run();
    output.fails(3, &["salve in usr"]);
}

/// The server starts after the client has printed that it is waiting, which is after the probe timeout.
#[cfg(unix)]
#[test]
fn a_program_that_starts_slowly_is_waited_for() {
    let directory = TempDir::new("slow-start");
    for protocol in ["modern", "auto"] {
        let start = directory.path(protocol);
        assert!(std::process::Command::new("mkfifo").arg(&start).status().unwrap().success());
        let slow = format!("read -r go <{start}; exec {TURMS} demo --stdio");
        let mut running = RunningTurms::start(turms(["info", "--protocol", protocol, "--", "sh", "-c", &slow]));
        running.wait_for_stderr("waiting for");
        std::fs::write(&start, "go\n").unwrap();
        let info = std::iter::from_fn(|| Some(running.line()).filter(|line| !line.is_empty())).collect::<Vec<_>>();
        assert!(info.iter().any(|line| line.contains("2026-07-28")), "{info:?}");
        assert_eq!(running.end(), Some(0));
    }
}
