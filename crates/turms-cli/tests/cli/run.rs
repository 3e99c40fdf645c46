//! Helpers that run `turms`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

pub(crate) const TURMS: &str = env!("CARGO_BIN_EXE_turms");

/// Returns a command for `turms`, without a terminal and without the configuration of the user.
pub(crate) fn turms<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> TurmsCommand {
    let mut command = Command::new(TURMS);
    command.args(args).env_remove("TURMS_BEARER").env_remove("NO_COLOR");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "TURMS_CA_FILE"] {
        command.env_remove(name).env_remove(name.to_lowercase());
    }
    for name in ["TURMS_CLIENT_ID", "TURMS_CLIENT_SECRET", "TURMS_CLIENT_KEY", "TURMS_KEY", "BROWSER"] {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("XDG_DATA_HOME");
    TurmsCommand { command, stdin: None }
}

/// A `turms` command to run.
pub(crate) struct TurmsCommand {
    pub(crate) command: Command,
    stdin: Option<Vec<u8>>,
}

impl TurmsCommand {
    pub(crate) fn stdin(self, text: impl Into<String>) -> Self {
        self.stdin_bytes(text.into().as_bytes())
    }

    pub(crate) fn stdin_bytes(mut self, bytes: &[u8]) -> Self {
        self.stdin = Some(bytes.to_owned());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn arg(mut self, arg: &str) -> Self {
        self.command.arg(arg);
        self
    }

    pub(crate) fn current_dir(mut self, directory: &Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    pub(crate) fn run(mut self) -> TurmsOutput {
        let stdin = if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().expect("the binary is built with this test");
        if let Some(bytes) = self.stdin {
            child.stdin.take().unwrap().write_all(&bytes).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).expect("turms writes UTF-8");
        TurmsOutput { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Runs it, expects success, and returns standard output.
    pub(crate) fn ok(self) -> String {
        let output = self.run();
        assert_eq!(output.status, Some(0), "{output:?}");
        output.stdout
    }
}

/// Output of a run.
#[derive(Debug, PartialEq)]
pub(crate) struct TurmsOutput {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TurmsOutput {
    /// Asserts the exit status, and that standard error contains all of `messages`.
    #[track_caller]
    pub(crate) fn fails(&self, status: i32, messages: &[&str]) {
        assert_eq!(self.status, Some(status), "{self:?}");
        for part in messages {
            assert!(self.stderr.contains(part), "{part:?} is not in\n{}", self.stderr);
        }
    }
}

/// Compares output with a golden file. `TURMS_BLESS=1` updates the file.
#[track_caller]
pub(crate) fn golden(name: &str, output: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("TURMS_BLESS").is_some() {
        std::fs::write(&path, output).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(output, expected, "tests/golden/{name} differs; TURMS_BLESS=1 updates it");
}

/// The demo server as a process, killed on drop.
pub(crate) struct Demo {
    process: Child,
    pub(crate) url: String,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Demo {
    /// Starts `turms demo` with the option of a transport.
    pub(crate) fn listening(option: &str) -> Self {
        Self::with_options(option, &[])
    }

    /// Starts `turms demo` with the option of a transport and further options.
    pub(crate) fn with_options(option: &str, further: &[&str]) -> Self {
        Self::start(turms(["demo", option, "127.0.0.1:0"].iter().chain(further)))
    }

    /// Runs a command that starts the demo server.
    pub(crate) fn start(mut run: TurmsCommand) -> Self {
        let mut process =
            run.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the demo server has not started");
        }
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.contains("://127.0.0.1:"), "{line}");
        Self { process, url, stderr }
    }

    /// Returns the lines that the demo has written after its URL, up to one that contains `last`.
    pub(crate) fn lines_until(&mut self, last: &str) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        while !lines.last().is_some_and(|line| line.contains(last)) {
            let mut line = String::new();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "{last:?} is not in {lines:?}");
            lines.push(line.trim_end().to_owned());
        }
        lines
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns a script for `sh -c` that is a server of 2025-11-25. It responds to each method with the given lines, in which `$id`
/// is the id of the request. Other methods are unknown.
pub(crate) fn scripted_server(responses: &[(&str, &str)]) -> String {
    const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":$id,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"scripted","version":"1"}}}"#;
    const UNKNOWN: &str = r#"{"jsonrpc":"2.0","id":$id,"error":{"code":-32601,"message":"no such method"}}"#;
    let case = |(method, lines): &(&str, &str)| {
        let lines = lines.replace('\\', "\\\\").replace('"', "\\\"");
        format!("*'\"{method}\"'*) echo \"{lines}\" ;;\n")
    };
    let known: String = responses.iter().chain(&[("initialize", INITIALIZED), ("id", UNKNOWN)]).map(case).collect();
    format!(
        "while read -r line; do id=${{line##*\\\"id\\\":}}; id=${{id%%[,\\}}]*}}; case \"$line\" in\n{known}esac; done"
    )
}

/// A temporary directory, deleted on drop.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turms-cli-{}-{test}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running `turms` process.
pub(crate) struct RunningTurms {
    process: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: Option<BufReader<std::process::ChildStdout>>,
    stderr: BufReader<std::process::ChildStderr>,
}

impl RunningTurms {
    pub(crate) fn start(mut run: TurmsCommand) -> Self {
        run.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = run.command.spawn().unwrap();
        let lines = process.stdout.take().map(BufReader::new);
        let stderr = BufReader::new(process.stderr.take().unwrap());
        Self { stdin: process.stdin.take(), process, lines, stderr }
    }

    /// Returns the next line of standard output.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.as_mut().unwrap().read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Closes standard output, as `head` does.
    pub(crate) fn stop_reading(&mut self) {
        self.lines = None;
    }

    /// Waits for a line of standard error, and returns it.
    pub(crate) fn wait_for_stderr(&mut self, part: &str) -> String {
        let mut line = String::new();
        while !line.contains(part) {
            line.clear();
            assert!(self.stderr.read_line(&mut line).unwrap() > 0, "{part:?} was not written to standard error");
        }
        line.trim().to_owned()
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits for the exit status, and returns the rest of standard error.
    pub(crate) fn end_with_stderr(mut self) -> (Option<i32>, String) {
        drop(self.stdin.take());
        let status = self.process.wait().unwrap().code();
        let mut rest = String::new();
        self.stderr.read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    pub(crate) fn end(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.process.wait().unwrap().code()
    }
}
