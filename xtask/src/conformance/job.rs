//! Running a job: a process of the suite, and the program that it judges.

use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::browser::Browser;
use super::plan::{Job, Scope};
use super::results::{self, Check, Counts, Outcome};
use super::suite::{Node, Role, SUITES, Speaks, TARGET};

/// How long a scenario may take; the suite's own bounds are shorter.
const SCENARIO_TIMEOUT: Duration = Duration::from_secs(90);
/// How long all server scenarios of a revision may take, which is seconds when nothing hangs.
const REVISION_TIMEOUT: Duration = Duration::from_secs(300);
/// How long a server may take to listen.
const START_TIMEOUT: Duration = Duration::from_secs(20);
/// How much of what a process said is repeated when it gave no result.
const LAST_LINES: usize = 25;

/// What the suites are run against.
#[derive(Debug)]
pub(crate) struct Fixtures {
    server: PathBuf,
    client: PathBuf,
    authorization_server: PathBuf,
}

/// The client that the authorization server knows.
const CLIENT_ID: &str = "conformance";

impl Fixtures {
    /// Building their test builds all, with the features that the other tests have.
    pub(crate) const BUILD: &str = "cargo test --quiet --workspace --all-features --no-run --test fixtures";

    /// They are built into the directory that this program was built into.
    pub(crate) fn find() -> io::Result<Self> {
        let home = env::current_exe()?;
        let program = |name: &str| home.with_file_name(format!("{name}{}", env::consts::EXE_SUFFIX));
        Ok(Self {
            server: program("conformance-server"),
            client: program("conformance-client"),
            authorization_server: program("conformance-authorization-server"),
        })
    }
}

impl Job {
    /// Runs it, and says what became of each of its scenarios.
    pub(crate) fn run(&self, node: &Node, fixtures: &Fixtures) -> Vec<Outcome> {
        let directory = self.directory();
        let ended = self.run_suite(node, fixtures, &directory);
        let log = fs::read_to_string(directory.join(LOG)).unwrap_or_default();
        let read = |scenario: &String| (scenario.clone(), results::read(&directory, self.role, scenario));
        self.outcomes(self.scenarios.iter().map(read).collect(), &ended, &log)
    }

    /// Puts together what was written about each scenario, how the suite ended, and what it said.
    fn outcomes(&self, read: Vec<(String, Written)>, ended: &Result<(), String>, log: &str) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = read
            .into_iter()
            .map(|(scenario, written)| {
                let (checks, missing) = written.map_or_else(|why| (Vec::new(), Some(why)), |checks| (checks, None));
                let trouble = missing.map(|why| told(&why, ended, about(&scenario, log)));
                let (suite, role, revision) = (self.suite, self.role, self.revision.clone());
                Outcome { suite, role, revision, scenario, checks, trouble }
            })
            .collect();
        // A suite that found something wrong says so when it ends, too. If nothing else does, it has to be told here: it is
        // how a client that failed is seen.
        let is_clean = |outcome: &Outcome| {
            let Counts { failed, warnings, .. } = outcome.counts();
            outcome.trouble.is_none() && failed + warnings == 0
        };
        if ended.is_err()
            && outcomes.iter().all(is_clean)
            && let Some(first) = outcomes.first_mut()
        {
            first.trouble = Some(told("all checks passed", ended, log));
        }
        outcomes
    }

    fn run_suite(&self, node: &Node, fixtures: &Fixtures, directory: &Path) -> Result<(), String> {
        fs::create_dir_all(directory).map_err(|error| format!("cannot write {}: {error}", directory.display()))?;
        let mut command = node.command(&SUITES[self.suite]);
        command.arg(self.role.command()).arg("--output-dir").arg(directory).args(self.selection());
        // The server is there until the suite has ended.
        let server = match self.role {
            Role::Server => Some(Server::start(&fixtures.server, &["--port", "0", "--with-input"])?),
            Role::AuthorizationServer => Some(Server::start(&fixtures.authorization_server, &[])?),
            Role::Client => None,
        };
        match &server {
            Some(server) => command.arg("--url").arg(&server.address),
            None => command.arg("--command").arg(&fixtures.client),
        };
        let mut browser = None;
        if self.role == Role::AuthorizationServer {
            let port = free_port().map_err(|error| format!("no port for the callback: {error}"))?;
            command.args(["--client-id", CLIENT_ID, "--port", &port.to_string()]);
            browser = Some(Browser::new(directory.join(LOG)));
        }
        let log = File::create(directory.join(LOG)).map_err(|error| format!("cannot write a log: {error}"))?;
        let look = || browser.as_mut().map_or(Ok(()), Browser::look);
        let status =
            run_for(command, &log, self.timeout(), look).map_err(|error| format!("cannot run the suite: {error}"))?;
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("the suite ended with {status}")),
            None => Err(format!("the suite did not end within {} seconds", self.timeout().as_secs())),
        }
    }

    fn selection(&self) -> Vec<&str> {
        let mut selection = match (self.scope, self.scenarios.first()) {
            (Scope::Scenario | Scope::Extension, Some(scenario)) => vec!["--scenario", scenario],
            // It has one set of scenarios.
            _ if self.role == Role::AuthorizationServer => Vec::new(),
            _ => vec!["--suite", "all"],
        };
        if SUITES[self.suite].speaks == Speaks::Any {
            selection.extend(["--spec-version", &self.revision]);
            if self.scope == Scope::Extension {
                selection.push("--force");
            }
        }
        selection
    }

    fn timeout(&self) -> Duration {
        match self.scope {
            Scope::Revision => REVISION_TIMEOUT,
            Scope::Scenario | Scope::Extension => SCENARIO_TIMEOUT,
        }
    }

    /// One for each job, below [`results_directory`].
    fn directory(&self) -> PathBuf {
        let scope = match (self.scope, self.scenarios.first()) {
            (Scope::Scenario | Scope::Extension, Some(scenario)) => scenario.replace('/', "-"),
            _ => "all".to_owned(),
        };
        let name = format!("{}-{}-{}-{scope}", self.suite, self.role.command(), self.revision);
        results_directory().join(name)
    }
}

/// Where the suites write what they find.
pub(crate) fn results_directory() -> PathBuf {
    Path::new(TARGET).join("results")
}

const LOG: &str = "log";

/// Runs a command for at most this long; `None` if it had to be ended. Meanwhile, calls `look` again and again; if that fails, the
/// command is ended.
fn run_for(
    mut command: Command,
    log: &File,
    timeout: Duration,
    look: impl FnMut() -> io::Result<()>,
) -> io::Result<Option<ExitStatus>> {
    let mut child = command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log.try_clone()?).spawn()?;
    let ended = wait_for(&mut child, timeout, look);
    if !matches!(ended, Ok(Some(_))) {
        child.kill()?;
        child.wait()?;
    }
    ended
}

fn wait_for(
    child: &mut Child,
    timeout: Duration,
    mut look: impl FnMut() -> io::Result<()>,
) -> io::Result<Option<ExitStatus>> {
    const PAUSE: Duration = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while waited < timeout {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        look()?;
        thread::sleep(PAUSE);
        waited += PAUSE;
    }
    Ok(None)
}

/// A port on loopback that is free now.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A server of its own for each job: it ends with this value and, whatever happens to us, with its input.
struct Server {
    child: Child,
    address: String,
    _input: Option<ChildStdin>,
}

impl Server {
    fn start(program: &Path, args: &[&str]) -> Result<Self, String> {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let (output, input) = (child.stdout.take(), child.stdin.take());
        let mut server = Self { child, address: String::new(), _input: input };
        let (said, hear) = mpsc::channel();
        thread::spawn(move || {
            let line = output.and_then(|output| BufReader::new(output).lines().next()?.ok());
            // Nobody hears it when it comes too late.
            let _ = said.send(line);
        });
        let line = hear.recv_timeout(START_TIMEOUT).ok().flatten();
        server.address = line.ok_or_else(|| format!("{} does not say where it listens", program.display()))?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was written about a scenario, or why there is nothing.
type Written = Result<Vec<Check>, String>;

/// What went wrong, how the suite ended, and what it said last.
fn told(what: &str, ended: &Result<(), String>, log: &str) -> String {
    let how = ended.as_ref().err().map(|how| format!("; {how}")).unwrap_or_default();
    format!("{what}{how}\n{}", last_lines(log))
}

/// What a suite that ran many scenarios said about this one.
fn about<'a>(scenario: &str, log: &'a str) -> &'a str {
    const HEADING: &str = "=== Running scenario: ";
    match log.split_once(&format!("{HEADING}{scenario} ===")) {
        Some((_, rest)) => rest.split(HEADING).next().unwrap_or(rest),
        None => log,
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::results::Status;
    use super::super::results::tests::check;
    use super::*;

    #[test]
    fn a_process_that_does_not_end_is_ended() {
        let path = env::temp_dir().join(format!("turms-xtask-{}-log", std::process::id()));
        let log = File::create(&path).unwrap();
        let mut forever = Command::new("sleep");
        forever.arg("1000");
        assert!(run_for(forever, &log, Duration::from_millis(40), || Ok(())).unwrap().is_none());
        let mut quick = Command::new("cargo");
        quick.arg("--version");
        assert!(run_for(quick, &log, Duration::from_secs(60), || Ok(())).unwrap().unwrap().success());
        assert!(fs::read_to_string(&path).unwrap().starts_with("cargo "));
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_process_is_ended_when_looking_fails() {
        let mut forever = Command::new("sleep");
        forever.arg("1000");
        let mut child = forever.spawn().unwrap();
        let error = wait_for(&mut child, Duration::from_secs(60), || Err(io::Error::other("no page"))).unwrap_err();
        assert_eq!(error.to_string(), "no page");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn outcomes(read: Vec<(&str, Written)>, ended: Result<(), &str>) -> Vec<(usize, Option<String>)> {
        let job = Job {
            suite: 0,
            role: Role::Client,
            revision: "2026-07-28".to_owned(),
            scope: Scope::Revision,
            scenarios: Vec::new(),
        };
        let read = read.into_iter().map(|(scenario, written)| (scenario.to_owned(), written)).collect();
        let outcomes = job.outcomes(read, &ended.map_err(str::to_owned), "it fell over");
        outcomes.into_iter().map(|outcome| (outcome.checks.len(), outcome.trouble)).collect()
    }

    #[test]
    fn a_missing_result_is_told_with_the_way_the_suite_ended() {
        let passed = || Ok(vec![check("pong", Status::Success, "")]);
        let late = outcomes(vec![("ping", passed()), ("tools", Err("no result".to_owned()))], Err("too late"));
        assert_eq!(late, [(1, None), (0, Some("no result; too late\nit fell over".to_owned()))]);
        let dropped = outcomes(vec![("tools", Err("no result".to_owned()))], Ok(()));
        assert_eq!(dropped, [(0, Some("no result\nit fell over".to_owned()))]);
    }

    #[test]
    fn a_suite_that_fails_for_no_reason_it_wrote_down_is_told() {
        let passed = || Ok(vec![check("pong", Status::Success, "")]);
        let failed = || Ok(vec![check("pong", Status::Failure, "")]);
        let crashed = outcomes(vec![("ping", passed())], Err("it ended with 1"));
        assert_eq!(crashed, [(1, Some("all checks passed; it ended with 1\nit fell over".to_owned()))]);
        assert_eq!(outcomes(vec![("ping", failed())], Err("it ended with 1")), [(1, None)]);
        assert_eq!(outcomes(vec![("ping", passed())], Ok(())), [(1, None)]);
    }

    #[test]
    fn a_server_that_says_nothing_is_named() {
        let error = Server::start(Path::new("true"), &[]).err().unwrap();
        assert_eq!(error, "true does not say where it listens");
        let error = Server::start(Path::new("no-such-program-here"), &[]).err().unwrap();
        assert!(error.starts_with("cannot start no-such-program-here: "), "{error}");
    }

    #[test]
    fn what_was_said_about_a_scenario_is_found_among_the_rest() {
        let log = "=== Running scenario: ping ===\nfine\n\n=== Running scenario: tools ===\nfell over\n";
        assert_eq!(about("ping", log).trim(), "fine");
        assert_eq!(about("tools", log).trim(), "fell over");
        assert_eq!(about("other", log), log);
    }

    #[test]
    fn only_the_end_of_a_long_log_is_repeated() {
        let log: String = (0..100).map(|line| format!("{line}\n\n")).collect();
        let end = last_lines(&log);
        assert_eq!((end.lines().count(), end.lines().next()), (LAST_LINES, Some("75")));
        assert_eq!(last_lines("short"), "short");
    }
}
