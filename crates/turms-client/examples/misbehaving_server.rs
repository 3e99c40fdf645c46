//! A misbehaving server, for testing clients. Each mode is one kind of misbehaviour.
//!
//! Usage: `misbehaving_server MODES ERA ID_FILE`. MODES is a comma-separated list: the mode of the first start, of the
//! second start, and so on, so that a client that reconnects can find a server that works. ERA is `old` (2025-11-25 and
//! earlier) or `new` (2026-07-28). Each started process appends its process id to ID_FILE.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, StdinLock, Write};
use std::process::{Command, ExitCode, Stdio};

use serde_json::{Value, json};

fn main() -> io::Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let (Some(modes), Some(era), Some(id_file)) = (arguments.next(), arguments.next(), arguments.next()) else {
        return Err(io::Error::other("usage: misbehaving_server MODES ERA ID_FILE"));
    };
    let before = std::fs::read_to_string(&id_file).unwrap_or_default();
    let starts = before.lines().filter(|line| line.ends_with(" server")).count();
    record_process(&id_file, std::process::id(), "server")?;
    let modes: Vec<_> = modes.split(',').collect();
    let mode = modes[starts.min(modes.len() - 1)].to_owned();
    MisbehavingServer { mode, old: era == "old", id_file, input: io::stdin().lock(), responses: Vec::new() }.run()
}

/// Appends a line to the id file with one write, so that a reader never sees half a line.
fn record_process(id_file: &str, id: u32, kind: &str) -> io::Result<()> {
    let line = format!("{id} {kind}\n");
    OpenOptions::new().create(true).append(true).open(id_file)?.write_all(line.as_bytes())
}

struct MisbehavingServer {
    mode: String,
    old: bool,
    id_file: String,
    input: StdinLock<'static>,
    /// The client's responses to requests of this server.
    responses: Vec<Value>,
}

/// The next step after a message.
enum Next {
    ReadLine,
    Exit(u8),
}

impl MisbehavingServer {
    fn run(&mut self) -> io::Result<ExitCode> {
        if let Some(code) = self.start()? {
            return Ok(ExitCode::from(code));
        }
        while let Some(message) = self.read()? {
            match self.handle(&message)? {
                Next::ReadLine => {}
                Next::Exit(code) => return Ok(ExitCode::from(code)),
            }
        }
        if self.mode.starts_with("stubborn") {
            hang();
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Runs the startup behaviour of the mode. Returns an exit status if the process must exit now.
    fn start(&self) -> io::Result<Option<u8>> {
        match self.mode.as_str() {
            "exits_at_once" => {
                log("reading the configuration")?;
                log("no such file: odd.toml")?;
                return Ok(Some(78));
            }
            "leaves_child_at_once" => {
                self.start_child()?;
                return Ok(Some(4));
            }
            "stubborn" | "stubborn_and_mute" if std::env::var_os("IGNORES_SIGTERM").is_none() => {
                // An ignored signal stays ignored after `exec`. The id is already recorded, so the new program writes
                // to `/dev/null`.
                let this = std::env::current_exe()?;
                let script = r#"trap '' TERM; exec "$0" "$1" "$2" /dev/null"#;
                let era = if self.old { "old" } else { "new" };
                let mut ignoring_sigterm = Command::new("sh");
                return Err(exec(
                    ignoring_sigterm.args(["-c", script]).arg(this).args([&self.mode, era]).env("IGNORES_SIGTERM", "1"),
                ));
            }
            "asks_early" => {
                write_line(&json!({ "jsonrpc": "2.0", "id": "early-ping", "method": "ping" }))?;
                write_line(&json!({ "jsonrpc": "2.0", "id": "early-roots", "method": "roots/list" }))?;
            }
            "floods_stderr" => flood(io::stderr(), b"lorem ipsum dolor sit amet\n"),
            _ => {}
        }
        Ok(None)
    }

    fn read(&mut self) -> io::Result<Option<Value>> {
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(io::Error::other)
    }

    fn handle(&mut self, message: &Value) -> io::Result<Next> {
        if self.mode == "mute" {
            return Ok(Next::ReadLine);
        }
        let Some(method) = message["method"].as_str() else {
            self.responses.push(message.clone());
            return Ok(Next::ReadLine);
        };
        let id = &message["id"];
        match method {
            "server/discover" if self.mode == "dies_when_probed" => {
                log("panicked: what is server/discover?")?;
                Ok(Next::Exit(101))
            }
            _ if id.is_null() => Ok(Next::ReadLine),
            "tools/call" if message["params"]["name"] == "odd" => self.misbehave(id),
            "ping" if matches!(self.mode.as_str(), "never_answers_calls" | "stubborn_and_mute") => Ok(Next::ReadLine),
            _ => {
                self.write_garbage()?;
                write_line(&self.correct_response(id, method, &message["params"]))?;
                Ok(Next::ReadLine)
            }
        }
    }

    /// Writes the invalid output that some modes send before every response.
    fn write_garbage(&self) -> io::Result<()> {
        match self.mode.as_str() {
            "garbage" => {
                let not_json = "Server listening on stdio\n\n{\"jsonrpc\":\"2.0\",\"id\n";
                let no_messages = "null\n42\n\"text\"\n{}\n[]\n[1]\n{\"jsonrpc\":\"1.0\",\"id\":999,\"result\":{}}\n";
                let nested = format!("{}\n", "[".repeat(100_000));
                write_all(format!("{not_json}{no_messages}{nested}").as_bytes())
            }
            "binary" => {
                let mut junk: Vec<u8> = (0..=255).cycle().take(64 * 1024).collect();
                junk.push(b'\n');
                write_all(&junk)
            }
            _ => Ok(()),
        }
    }

    fn misbehave(&mut self, id: &Value) -> io::Result<Next> {
        match self.mode.as_str() {
            "exits_mid_call" => {
                log("working")?;
                log("out of cheese")?;
                return Ok(Next::Exit(3));
            }
            "half_line_then_exit" => {
                write_all(br#"{"jsonrpc":"2.0","id":"#)?;
                return Ok(Next::Exit(0));
            }
            "half_line_then_hang" => write_all(br#"{"jsonrpc":"2.0","id":"#)?,
            "never_answers_calls" | "stubborn" => {}
            "never_reads_again" => hang(),
            "closes_stdout" => return Err(exec(Command::new("sleep").arg("1000").stdout(Stdio::null()))),
            "leaves_child" => {
                self.start_child()?;
                return Ok(Next::Exit(5));
            }
            "long_line" => write_line(&result_of(id, &"x".repeat(17 * 1024 * 1024)))?,
            "huge_result" => write_line(&result_of(id, &"x".repeat(8 * 1024 * 1024)))?,
            "floods_notifications" => {
                flood(io::stdout(), b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/noise\",\"params\":{}}\n");
            }
            "floods_garbage" => flood(io::stdout(), b"[1,2,3] is not a message\n"),
            "wrong_ids" => {
                let number = id.as_i64().unwrap_or_default();
                for wrong in
                    [json!(number + 1000), json!(number.to_string()), json!(-number), json!(number as f64 + 0.5)]
                {
                    write_line(&result_of(&wrong, "wrong"))?;
                }
                write_line(&result_of(id, "right"))?;
            }
            "duplicates" => {
                write_line(&result_of(id, "first"))?;
                write_line(&result_of(id, "second"))?;
                write_line(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32603, "message": "third" } }))?;
            }
            "null_id" => {
                let error = json!({ "code": -32603, "message": "to whom it may concern" });
                write_line(&json!({ "jsonrpc": "2.0", "id": null, "error": error }))?;
            }
            "no_outcome" => write_line(&json!({ "jsonrpc": "2.0", "id": id }))?,
            "asks_undeclared" => write_line(&result_of(id, &self.request_undeclared()?))?,
            "asks_early" => {
                let responses = serde_json::to_string(&self.responses)?;
                write_line(&result_of(id, &responses))?;
            }
            _ => {
                self.write_garbage()?;
                write_line(&result_of(id, "odd, but well"))?;
            }
        }
        Ok(Next::ReadLine)
    }

    /// Sends requests for capabilities that the client has not declared. Returns the error codes of the responses.
    fn request_undeclared(&mut self) -> io::Result<String> {
        let message = json!({ "role": "user", "content": { "type": "text", "text": "?" } });
        let form = json!({ "type": "object", "properties": {} });
        let requests = [
            ("sampling/createMessage", json!({ "messages": [message], "maxTokens": 1 })),
            ("elicitation/create", json!({ "message": "?", "requestedSchema": form })),
            ("roots/list", json!({})),
            ("tools/list", json!({})),
            ("no/such/method", json!({})),
        ];
        for (method, params) in &requests {
            write_line(&json!({ "jsonrpc": "2.0", "id": method, "method": method, "params": params }))?;
        }
        while self.responses.len() < requests.len() {
            match self.read()? {
                Some(response) => self.responses.push(response),
                None => break,
            }
        }
        let codes = self.responses.iter().map(|response| format!("{} {}", response["id"], response["error"]["code"]));
        Ok(codes.collect::<Vec<_>>().join("\n"))
    }

    /// Returns the correct response to a request.
    fn correct_response(&self, id: &Value, method: &str, params: &Value) -> Value {
        let tool = |name: &str| json!({ "name": name, "inputSchema": { "type": "object" } });
        let result = match method {
            "server/discover" if !self.old => json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": { "tools": {} },
                "resultType": "complete",
                "ttlMs": 0,
                "cacheScope": "private",
            }),
            "initialize" if self.old => json!({
                "protocolVersion": params["protocolVersion"],
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "misbehaving_server", "version": "1" },
            }),
            "ping" if self.old => json!({}),
            "tools/list" => json!({ "tools": [tool("odd"), tool("echo")] }),
            "tools/call" => return result_of(id, params["arguments"]["text"].as_str().unwrap_or("nothing")),
            _ => {
                let error = json!({ "code": -32601, "message": format!("method not found: {method}") });
                return json!({ "jsonrpc": "2.0", "id": id, "error": error });
            }
        };
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    }

    /// Starts a child process that inherits stdout and does not exit on its own.
    fn start_child(&self) -> io::Result<()> {
        let child = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn()?;
        record_process(&self.id_file, child.id(), "child")
    }
}

fn result_of(id: &Value, text: &str) -> Value {
    let result = json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn write_line(message: &Value) -> io::Result<()> {
    write_all(format!("{message}\n").as_bytes())
}

fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    output.flush()
}

/// Writes a line to stderr.
fn log(line: &str) -> io::Result<()> {
    writeln!(io::stderr(), "{line}")
}

/// Writes the same line as fast as possible, on its own thread, until the reader closes the pipe.
fn flood(mut output: impl Write + Send + 'static, line: &'static [u8]) {
    let lines = line.repeat(4096 / line.len());
    std::thread::spawn(move || while output.write_all(&lines).is_ok() {});
}

/// Replaces this process by another program. Returns only if that fails.
#[cfg(unix)]
fn exec(command: &mut Command) -> io::Error {
    std::os::unix::process::CommandExt::exec(command)
}

#[cfg(not(unix))]
fn exec(_: &mut Command) -> io::Error {
    io::ErrorKind::Unsupported.into()
}

/// Blocks until this process is killed.
fn hang() -> ! {
    loop {
        std::thread::park();
    }
}
