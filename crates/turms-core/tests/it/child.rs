//! Real child processes: started, connected, ended, and removed from the process table.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader as StdBufReader};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use turms_core::transport::{Child, ChildCommand, ChildExit, ChildProcess, ChildReader, ChildWriter, SpawnError};
use turms_testkit::process::{assert_gone, children, left_of, open_files, process, watchdog_of};
use turms_testkit::{eventually, within};

/// Writes "ready", then ignores the end of its input and SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo ready; while :; do sleep 1; done";
const SHORT_TIMEOUT: Duration = Duration::from_millis(50);
/// Longer than any test may take.
const LONG_TIMEOUT: Duration = Duration::from_secs(3600);

fn sh(script: &str) -> ChildCommand {
    ChildCommand::new("sh").args(["-c", script]).exit_timeout(LONG_TIMEOUT).kill_timeout(LONG_TIMEOUT)
}

/// Starts a program that writes "ready", and waits for that.
async fn start(command: &ChildCommand) -> (BufReader<ChildReader>, ChildWriter, Child) {
    let (reader, writer, child) = command.spawn().unwrap().into_parts();
    let mut reader = BufReader::new(reader);
    assert_eq!(line(&mut reader).await, "ready");
    (reader, writer, child)
}

async fn line(reader: &mut BufReader<ChildReader>) -> String {
    let mut line = String::new();
    within("a line", reader.read_line(&mut line)).await.unwrap();
    line.trim_end().to_owned()
}

async fn end(child: &Child) -> ChildExit {
    within("the end of a child", child.end()).await
}

async fn exited(child: &Child) -> ChildExit {
    within("the exit of a child", child.exited()).await
}

/// Reads the standard output of a process to its end.
async fn output(mut reader: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut output = String::new();
    within("the end of the output", reader.read_to_string(&mut output)).await.unwrap();
    output
}

#[tokio::test]
async fn input_and_output_are_connected() {
    let (mut reader, mut writer, child) = ChildCommand::new("cat").spawn().unwrap().into_parts();

    writer.write_all(b"first part").await.unwrap();
    let mut first = [0; 10];
    reader.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"first part");
    writer.write_all(b"rest").await.unwrap();
    writer.shutdown().await.unwrap();

    assert_eq!(output(reader).await, "rest");
    assert_eq!(exited(&child).await, ChildExit::Code(0));
    assert!(writer.write(b"more").await.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe));
}

#[tokio::test]
async fn large_input_and_output_do_not_deadlock() {
    const SIZE: usize = 8 * 1024 * 1024;
    let (mut reader, mut writer, child) = ChildCommand::new("cat").spawn().unwrap().into_parts();

    let writing = tokio::spawn(async move { writer.write_all(&vec![b'x'; SIZE]).await });
    let mut read = Vec::new();
    within("the end of the output", reader.read_to_end(&mut read)).await.unwrap();

    writing.await.unwrap().unwrap();
    assert_eq!(read.len(), SIZE);
    assert!(end(&child).await.is_success());
}

#[tokio::test]
async fn arguments_variables_and_directory_are_set() {
    let command = sh(r#"printf '%s|%s|%s|%s|%s' "$1" "$2" "$A" "$B" "$PWD""#)
        .arg("sh")
        .args(["one and", "two"])
        .env("A", "first")
        .envs([("B", "second")])
        .current_dir("/");
    let (reader, _writer, _child) = command.spawn().unwrap().into_parts();

    assert_eq!(output(reader).await, "one and|two|first|second|/");
}

async fn environment(command: ChildCommand) -> BTreeMap<String, String> {
    let (reader, _writer, _child) = command.spawn().unwrap().into_parts();
    let output = output(reader).await;
    output.split('\0').filter_map(|pair| pair.split_once('=')).map(|(n, v)| (n.to_owned(), v.to_owned())).collect()
}

#[tokio::test]
async fn variables_of_the_host_are_inherited_only_on_request() {
    let (name, value) = ("CARGO_MANIFEST_DIR", std::env::var("CARGO_MANIFEST_DIR").expect("run by cargo"));
    let env = ChildCommand::new("env").arg("-0");

    let variables = environment(env.clone().env("OWN", "yes").env("LANG", "xx")).await;
    assert_eq!(variables.get("OWN").map(String::as_str), Some("yes"));
    assert_eq!(variables.get("LANG").map(String::as_str), Some("xx"));
    assert_eq!(variables.get("PATH"), std::env::var("PATH").ok().as_ref());
    let expected = ["OWN", "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR"];
    let leaked = variables.keys().find(|name| !expected.contains(&name.as_str()) && !name.starts_with("LC_"));
    assert_eq!(leaked, None);

    let inherited = environment(env.env("OWN", "yes").inherit_env()).await;
    assert_eq!(inherited.get(name), Some(&value));
    assert_eq!(inherited.get("OWN").map(String::as_str), Some("yes"));
}

#[tokio::test]
async fn spawn_errors_name_the_program_or_directory() {
    let error = ChildCommand::new("no-such-program").spawn().unwrap_err();
    assert_eq!(error.to_string(), r#"cannot start "no-such-program": program not found"#);
    assert!(error.is_not_found() && std::error::Error::source(&error).is_some());

    let error = sh("true").current_dir("/no/such/directory").spawn().unwrap_err();
    assert_eq!(error.to_string(), r#"cannot start "sh": "/no/such/directory" is not a directory"#);
    assert!(!error.is_not_found());

    let error = ChildCommand::new("/").spawn().unwrap_err();
    assert!(matches!(error, SpawnError::Refused { .. }), "{error:?}");
}

/// Collects the lines of standard error.
fn collect_stderr(command: ChildCommand) -> (ChildCommand, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let received = Arc::clone(&lines);
    (command.on_stderr(move |line| received.lock().unwrap().push(line.to_owned())), lines)
}

#[tokio::test]
async fn standard_error_is_received_line_by_line() {
    let (command, lines) = collect_stderr(sh(r"printf 'one\r\n\ntw\377o\nlast' >&2; exit 3"));
    let process = command.spawn().unwrap();

    assert_eq!(exited(process.child()).await, ChildExit::Code(3));
    assert_eq!(*lines.lock().unwrap(), ["one", "", "tw\u{fffd}o", "last"]);
    assert_eq!(process.child().stderr_tail(), ["one", "", "tw\u{fffd}o", "last"]);
}

#[tokio::test]
async fn standard_error_is_complete_when_the_exit_is_known() {
    for number in 0..50 {
        let process = sh(&format!("echo why {number} >&2; exit 1")).on_stderr(|_| {}).spawn().unwrap();
        assert_eq!(exited(process.child()).await, ChildExit::Code(1));
        assert_eq!(process.child().stderr_tail(), [format!("why {number}")]);
    }
}

#[tokio::test]
async fn a_flood_on_standard_error_neither_blocks_nor_grows() {
    // A line of 5 MB, endless lines, and at the same time an exchange over standard input and output.
    let flood = "head -c 5000000 /dev/zero | tr '\\0' x >&2; echo >&2; yes >&2 & echo ready; read -r word; echo $word";
    let (longest, count) = (Arc::new(Mutex::new(0)), Arc::new(Mutex::new(0_u64)));
    let (long, counted) = (Arc::clone(&longest), Arc::clone(&count));
    let command = sh(flood).on_stderr(move |line| {
        let mut longest = long.lock().unwrap();
        *longest = line.len().max(*longest);
        *counted.lock().unwrap() += 1;
    });
    let (mut reader, mut writer, child) = start(&command).await;

    eventually("many lines are received", async || *count.lock().unwrap() > 20_000).await;
    writer.write_all(b"still-there\n").await.unwrap();
    assert_eq!(line(&mut reader).await, "still-there");
    assert_eq!(exited(&child).await, ChildExit::Code(0));
    end(&child).await;

    assert_gone(child.id());
    assert_eq!(*longest.lock().unwrap(), 8 * 1024 + " [cut]".len());
    assert_eq!(child.stderr_tail(), ["y"; 20]);
}

#[tokio::test]
async fn a_panic_of_the_stderr_callback_is_caught() {
    let command = sh("echo one >&2; echo two >&2; exit 1").on_stderr(|_| panic!("expected panic"));
    let process = command.spawn().unwrap();

    assert_eq!(exited(process.child()).await, ChildExit::Code(1));
    assert_eq!(process.child().stderr_tail(), ["one", "two"]);
}

#[derive(Clone, Default)]
struct RecordedEvents(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

struct FieldVisitor<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for FieldVisitor<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: tracing::Subscriber> Layer<S> for RecordedEvents {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        let mut fields = BTreeMap::from([("target", event.metadata().target().to_owned())]);
        event.record(&mut FieldVisitor(&mut fields));
        self.0.lock().unwrap().push(fields);
    }
}

#[tokio::test]
async fn standard_error_is_logged_by_default() {
    let events = RecordedEvents::default();
    let _subscribed = tracing::subscriber::set_default(tracing_subscriber::registry().with(events.clone()));
    let process = sh("echo something >&2").spawn().unwrap();

    exited(process.child()).await;
    let events = events.0.lock().unwrap();
    let event = events.iter().find(|event| event["message"] == "something").unwrap();
    assert_eq!(event["target"], "turms::child");
    assert_eq!(event["program"], "sh");
    assert_eq!(event["pid"], process.child().id().to_string());
}

#[tokio::test]
async fn a_process_that_exits_with_its_input_is_not_signalled() {
    let (_reader, writer, child) = start(&sh("echo ready; cat; exit 5")).await;
    eventually("the watchdog runs", async || watchdog_of(child.id()).is_some()).await;

    drop(writer);
    assert_eq!(end(&child).await, ChildExit::Code(5));
    assert_gone(child.id());
}

#[tokio::test]
async fn the_input_is_closed_even_if_the_writer_exists() {
    let (_reader, mut writer, child) = start(&sh("echo ready; cat")).await;

    assert_eq!(end(&child).await, ChildExit::Code(0));
    assert_gone(child.id());
    assert!(writer.write(b"more").await.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe));
    writer.shutdown().await.unwrap();
}

#[tokio::test]
async fn a_pending_write_fails_when_the_process_is_ended() {
    let (_reader, mut writer, child) = start(&sh("echo ready; exec sleep 1000").exit_timeout(SHORT_TIMEOUT)).await;
    let writing = tokio::spawn(async move { writer.write_all(&vec![b'x'; 1024 * 1024]).await });

    end(&child).await;
    let written = within("the end of a write", writing).await.unwrap();
    assert!(written.is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe));
}

#[tokio::test]
async fn a_process_that_ignores_the_end_of_its_input_is_terminated() {
    let (_reader, _writer, child) = start(&sh("echo ready; exec sleep 1000").exit_timeout(SHORT_TIMEOUT)).await;

    assert_eq!(end(&child).await, ChildExit::Signal(15));
    assert_gone(child.id());
}

#[tokio::test]
#[ignore = "needs Python: run `cargo xtask test`"]
async fn a_process_that_has_left_its_group_is_ended_alone() {
    let script =
        "import os, time; os.setpgid(0, os.getpgid(os.getppid())); print('ready', flush=True); time.sleep(1000)";
    let command = ChildCommand::new(turms_testkit::program("python3"))
        .args(["-c", script])
        .exit_timeout(SHORT_TIMEOUT)
        .kill_timeout(LONG_TIMEOUT);
    let (_reader, _writer, child) = start(&command).await;
    assert_eq!(process(child.id()).map(|it| it.group), process(std::process::id()).map(|it| it.group));

    assert_eq!(end(&child).await, ChildExit::Signal(15));
    assert!(process(child.id()).is_none());
    assert_gone(child.id());
}

#[tokio::test]
async fn a_stopped_process_is_killed() {
    let command = sh("echo ready; kill -STOP $$").exit_timeout(SHORT_TIMEOUT).kill_timeout(SHORT_TIMEOUT);
    let (_reader, _writer, child) = start(&command).await;

    assert_eq!(end(&child).await, ChildExit::Signal(9));
    assert_gone(child.id());
}

#[tokio::test]
async fn a_process_can_handle_sigterm() {
    let script = "trap 'echo bye; exit 4' TERM; echo ready; while :; do sleep 0.01; done";
    let (reader, _writer, child) = start(&sh(script).exit_timeout(SHORT_TIMEOUT)).await;

    assert_eq!(end(&child).await, ChildExit::Code(4));
    assert_eq!(output(reader).await, "bye\n");
    assert_gone(child.id());
}

#[tokio::test]
async fn a_process_that_ignores_sigterm_is_killed() {
    let (_reader, _writer, child) = start(&sh(STUBBORN).exit_timeout(SHORT_TIMEOUT).kill_timeout(SHORT_TIMEOUT)).await;

    assert_eq!(end(&child).await, ChildExit::Signal(9));
    assert_gone(child.id());
}

#[tokio::test]
async fn the_whole_group_is_ended() {
    let (_reader, _writer, child) = start(&sh("sleep 1000 & (sleep 1000 &) ; echo ready; cat")).await;
    assert!(left_of(child.id()).len() >= 4);

    assert_eq!(end(&child).await, ChildExit::Code(0));
    assert_gone(child.id());
}

#[tokio::test]
async fn members_of_the_group_that_ignore_sigterm_are_killed() {
    let script = format!("({STUBBORN}) & cat");
    let (_reader, _writer, child) = start(&sh(&script).kill_timeout(SHORT_TIMEOUT)).await;

    assert_eq!(end(&child).await, ChildExit::Code(0));
    assert_gone(child.id());
}

#[tokio::test]
async fn a_process_that_has_exited_can_be_ended() {
    let process = sh("exit 3").spawn().unwrap();
    let child = process.child();

    assert_eq!(exited(child).await, ChildExit::Code(3));
    assert_eq!(child.exit_status(), Some(ChildExit::Code(3)));
    for _ in 0..3 {
        assert_eq!(end(child).await, ChildExit::Code(3));
        assert_eq!(exited(child).await, ChildExit::Code(3));
    }
    assert_gone(child.id());
}

#[tokio::test]
async fn a_process_that_closes_its_output_keeps_running() {
    let (reader, _writer, child) = start(&sh("echo ready; exec sleep 1000 >&-").exit_timeout(SHORT_TIMEOUT)).await;

    assert_eq!(output(reader).await, "");
    assert_eq!(child.exit_status(), None);
    assert!(process(child.id()).is_some());
    assert_eq!(end(&child).await, ChildExit::Signal(15));
    assert_gone(child.id());
}

#[tokio::test]
async fn an_exit_is_noticed_while_other_processes_hold_the_output() {
    let stubborn = format!("({STUBBORN}) & read -r word; exit 7");
    let (reader, mut writer, child) = start(&sh(&stubborn)).await;

    writer.write_all(b"go\n").await.unwrap();
    assert_eq!(exited(&child).await, ChildExit::Code(7));
    assert!(!left_of(child.id()).is_empty());
    drop(child);
    assert_eq!(output(reader).await, "");
}

#[tokio::test]
async fn the_rest_of_the_group_is_ended_after_an_exit() {
    let (reader, mut writer, child) = start(&sh("sleep 1000 & echo ready; read -r word; exit 7")).await;

    writer.write_all(b"go\n").await.unwrap();
    assert_eq!(exited(&child).await, ChildExit::Code(7));
    assert_eq!(output(reader).await, "");
    eventually("the group has exited", async || left_of(child.id()).is_empty()).await;
}

#[tokio::test]
async fn the_output_ends_even_if_a_process_outside_the_group_holds_it() {
    let daemon = "setsid sh -c 'echo ready; echo $$; exec sleep 1000' & cat; echo last";
    let (mut reader, _writer, child) = start(&sh(daemon)).await;
    let escaped = line(&mut reader).await.parse().unwrap();
    eventually("the daemon runs", async || process(escaped).is_some_and(|it| it.command.contains("sleep"))).await;

    assert_eq!(end(&child).await, ChildExit::Code(0));
    assert_eq!(output(reader).await, "last\n");
    assert_gone(child.id());
    assert!(process(escaped).is_some());
    assert!(Command::new("kill").args(["-KILL", &escaped.to_string()]).status().unwrap().success());
}

#[tokio::test]
async fn exited_and_end_may_be_called_concurrently() {
    let (_reader, _writer, child) = start(&sh("echo ready; exec sleep 1000").exit_timeout(SHORT_TIMEOUT)).await;
    let waiting: Vec<_> =
        (0..4).map(|_| child.clone()).map(|child| tokio::spawn(async move { exited(&child).await })).collect();
    let ending: Vec<_> =
        (0..4).map(|_| child.clone()).map(|child| tokio::spawn(async move { end(&child).await })).collect();

    for waiter in waiting.into_iter().chain(ending) {
        assert_eq!(waiter.await.unwrap(), ChildExit::Signal(15));
    }
    assert_gone(child.id());
}

#[tokio::test]
async fn dropping_the_future_of_end_does_not_cancel_it() {
    let (_reader, _writer, child) = start(&sh(STUBBORN).exit_timeout(SHORT_TIMEOUT).kill_timeout(SHORT_TIMEOUT)).await;

    assert!(timeout(Duration::from_millis(1), child.end()).await.is_err());
    eventually("the group has exited", async || left_of(child.id()).is_empty()).await;
    assert_eq!(child.exit_status(), Some(ChildExit::Signal(9)));
}

#[tokio::test]
async fn dropping_the_last_handle_during_end_kills_the_group() {
    let (_reader, _writer, child) = start(&sh(STUBBORN)).await;
    let id = child.id();

    assert!(timeout(SHORT_TIMEOUT, child.end()).await.is_err());
    drop(child);
    eventually("the group has exited", async || left_of(id).is_empty()).await;
}

#[tokio::test]
async fn dropping_the_last_handle_kills_the_group() {
    let (_reader, _writer, child) = start(&sh(&format!("sleep 1000 & {STUBBORN}"))).await;
    let (id, other) = (child.id(), child.clone());

    drop(child);
    assert_eq!(other.exit_status(), None);
    drop(other);
    eventually("the group has exited", async || left_of(id).is_empty()).await;
}

#[tokio::test]
async fn dropping_a_child_process_kills_the_group() {
    let process: ChildProcess = sh(STUBBORN).spawn().unwrap();
    let id = process.child().id();

    drop(process);
    eventually("the group has exited", async || left_of(id).is_empty()).await;
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn dropping_the_last_handle_kills_the_group_without_a_running_runtime() {
    let (idle, other) = (runtime(), runtime());
    let (_reader, _writer, child) = idle.block_on(start(&sh(STUBBORN)));
    let id = child.id();

    drop(child);
    other.block_on(eventually("the group has exited", async || left_of(id).is_empty()));
    drop(idle);
}

#[test]
fn shutting_the_runtime_down_kills_the_group() {
    let (short, other) = (runtime(), runtime());
    let (reader, writer, child) = short.block_on(start(&sh(STUBBORN)));

    drop(short);
    other.block_on(async {
        assert_eq!(end(&child).await, ChildExit::Signal(9));
        assert_eq!(exited(&child).await, ChildExit::Signal(9));
    });
    assert_gone(child.id());
    drop((reader, writer, child));
}

#[test]
fn a_handle_may_be_dropped_with_the_runtime() {
    let short = runtime();
    let id = short.block_on(async {
        let (reader, writer, child) = start(&sh(STUBBORN)).await;
        let id = child.id();
        tokio::spawn(async move {
            let _held = (reader, writer, child);
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        id
    });

    drop(short);
    runtime().block_on(eventually("the group has exited", async || left_of(id).is_empty()));
}

#[tokio::test]
async fn the_watchdog_has_no_other_files_open() {
    let (_reader, _writer, child) = start(&sh("echo ready; cat")).await;
    let mut watchdog = None;
    eventually("the watchdog runs", async || {
        watchdog = watchdog_of(child.id());
        watchdog.is_some()
    })
    .await;
    let watchdog = watchdog.unwrap();

    let open = |number: u32| fs::read_link(format!("/proc/{}/fd/{number}", watchdog.id)).unwrap();
    assert!(open(0).to_str().unwrap().starts_with("pipe:"));
    assert_eq!(open(1).to_str(), Some("/dev/null"));
    assert_eq!(open(2).to_str(), Some("/dev/null"));
    assert_eq!(watchdog.group, watchdog.id);
    assert_eq!(watchdog.parent, std::process::id());
    let of_child: Vec<_> = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().collect();
    let of_watchdog: Vec<_> = fs::read_dir(format!("/proc/{}/fd", watchdog.id)).unwrap().collect();
    assert!(of_watchdog.len() <= of_child.len(), "{of_watchdog:?}");
    end(&child).await;
}

/// The environment variable of a subprocess test, which another test starts in its own process.
const SUBPROCESS: &str = "TURMS_TEST_SUBPROCESS";

/// Creates a command that runs one of the tests below in its own process.
fn subprocess(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("child::{name}"), "--ignored", "--nocapture"]).env(SUBPROCESS, name);
    command
}

fn is_subprocess() -> bool {
    std::env::var_os(SUBPROCESS).is_some()
}

#[tokio::test]
async fn the_group_is_ended_when_this_process_is_killed() {
    let mut host = subprocess("subprocess_that_is_killed").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = StdBufReader::new(host.stdout.take().unwrap()).lines().map_while(Result::ok);
    let group = lines.find_map(|line| line.split_once("group=")?.1.parse().ok()).expect("the id of a group");
    eventually("the watchdog runs", async || watchdog_of(group).is_some()).await;

    host.kill().unwrap();
    host.wait().unwrap();
    eventually("the group has exited", async || left_of(group).is_empty()).await;
}

#[test]
#[ignore = "a subprocess of another test"]
fn subprocess_that_is_killed() {
    if !is_subprocess() {
        return;
    }
    runtime().block_on(async {
        let script = format!("sleep 1000 & {STUBBORN}");
        let (_reader, _writer, child) =
            start(&sh(&script).exit_timeout(SHORT_TIMEOUT).kill_timeout(SHORT_TIMEOUT)).await;
        println!("\ngroup={}", child.id());
        exited(&child).await;
    });
}

#[test]
fn many_processes_leak_neither_processes_nor_files() {
    assert!(subprocess("subprocess_that_starts_many").status().unwrap().success());
}

#[test]
#[ignore = "a subprocess of another test"]
fn subprocess_that_starts_many() {
    if !is_subprocess() {
        return;
    }
    runtime().block_on(async {
        let cycle = async |number: usize| {
            let (_reader, writer, child) = start(&sh("echo ready; cat")).await;
            match number % 4 {
                0 => drop(writer),
                1 => return,
                _ => {}
            }
            assert_eq!(end(&child).await, ChildExit::Code(0));
            assert_gone(child.id());
        };
        cycle(0).await;
        eventually("all children have exited", async || children() == 0).await;
        eventually("the files of the first are closed", async || open_files() <= 16).await;
        let before = open_files();
        for number in 0..200 {
            cycle(number).await;
        }
        eventually("all children have exited", async || children() == 0).await;
        eventually("the files are closed", async || open_files() <= before).await;
    });
}

#[test]
fn adopted_processes_are_reaped() {
    assert!(subprocess("subprocess_that_adopts").status().unwrap().success());
}

#[test]
#[ignore = "a subprocess of another test"]
fn subprocess_that_adopts() {
    if !is_subprocess() {
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    runtime().block_on(async {
        let (_reader, _writer, child) = start(&sh("sleep 1000 & echo ready; cat")).await;
        assert_eq!(end(&child).await, ChildExit::Code(0));
        assert_gone(child.id());
    });
}

#[test]
fn public_types_are_send_and_sync() {
    fn assert_send_and_sync<T: Send + Sync + Unpin + 'static>() {}
    assert_send_and_sync::<ChildCommand>();
    assert_send_and_sync::<ChildProcess>();
    assert_send_and_sync::<ChildReader>();
    assert_send_and_sync::<ChildWriter>();
    assert_send_and_sync::<Child>();
    assert_send_and_sync::<SpawnError>();
}
