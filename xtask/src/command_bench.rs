//! Startup time, size and memory of the `turms` command, compared with the MCP Inspector.

use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program;

const BINARY: &str = "target/dist/turms";
const RUNS: usize = 50;

/// Builds the command with the release profile, and prints its figures.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    std::env::set_current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?;
    program::run(&mut program::command("cargo build --profile dist --package turms-cli"))?;
    let binary = fs::canonicalize(BINARY)?;

    println!("task: list the tools of `turms demo --stdio`, from the start of the process to its end");
    let times = timed(RUNS, || {
        let mut command = Command::new(&binary);
        command.args(["tools", "--"]).arg(&binary).args(["demo", "--stdio"]);
        command
    })?;
    println!("turms: {}", Figures(&times));
    println!("size: {}", size(&binary)?);
    match memory(&binary)? {
        Some((client, server)) => println!("memory at its peak: {client} (client), {server} (server)"),
        None => println!("memory: only Linux tells"),
    }
    match inspector() {
        Some(inspector) => {
            let times = timed(5, || {
                let mut command = Command::new(&inspector);
                command.arg("--cli").arg(&binary).args(["demo", "--stdio", "--method", "tools/list"]);
                command
            })?;
            println!("MCP Inspector, --cli: {}", Figures(&times));
        }
        None => println!("MCP Inspector: not installed (npm install --global @modelcontextprotocol/inspector)"),
    }
    Ok(())
}

/// Durations of the runs, sorted. The first run fills the caches and is not counted.
#[expect(clippy::disallowed_methods, reason = "time is what is measured")]
fn timed(runs: usize, command: impl Fn() -> Command) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times = Vec::new();
    for run in 0..=runs {
        let mut command = command();
        let start = Instant::now();
        let output = command.stdin(Stdio::null()).output()?;
        let took = start.elapsed();
        if !output.status.success() || !String::from_utf8_lossy(&output.stdout).contains("countdown") {
            return Err(format!("{}: {}", program::line(&command), String::from_utf8_lossy(&output.stderr)).into());
        }
        if run > 0 {
            times.push(took);
        }
    }
    times.sort_unstable();
    Ok(times)
}

struct Figures<'a>(&'a [Duration]);

impl std::fmt::Display for Figures<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = |share: usize| {
            self.0.get(self.0.len() * share / 100).or_else(|| self.0.last()).copied().unwrap_or_default()
        };
        write!(f, "median {:.1?}, fastest {:.1?}, 95 % within {:.1?} ({} runs)", at(50), at(0), at(95), self.0.len())
    }
}

/// Returns the size of the binary, with and, if `strip` is installed, without symbols.
fn size(binary: &Path) -> Result<String, Box<dyn Error>> {
    let mebibytes = |path: &Path| fs::metadata(path).map(|file| format!("{:.1} MiB", file.len() as f64 / 1_048_576.0));
    let stripped = binary.with_extension("stripped");
    let strip = Command::new("strip").arg("-o").arg(&stripped).arg(binary).status();
    if !strip.is_ok_and(|status| status.success()) {
        return Ok(format!("{}, not stripped: there is no `strip`", mebibytes(binary)?));
    }
    let size = format!("{} stripped, {} as it is", mebibytes(&stripped)?, mebibytes(binary)?);
    fs::remove_file(stripped)?;
    Ok(size)
}

/// Returns the peak memory of client and server after listing the tools. Uses `turms shell`, which keeps running.
fn memory(binary: &Path) -> Result<Option<(String, String)>, Box<dyn Error>> {
    if !Path::new("/proc/self/status").exists() {
        return Ok(None);
    }
    let mut shell = Command::new(binary)
        .args(["shell", "--"])
        .arg(binary)
        .args(["demo", "--stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = shell.stdin.take().ok_or("the shell has no input")?;
    writeln!(input, "tools")?;
    let output = BufReader::new(shell.stdout.take().ok_or("the shell has no output")?);
    // The last tool of the demo: the list is complete.
    output.lines().map_while(Result::ok).find(|line| line.starts_with("learn("));
    let client = peak(shell.id())?;
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", shell.id())).unwrap_or_default();
    let servers = children.split_whitespace().filter_map(|id| id.parse().ok());
    let server = servers.filter_map(|id| peak(id).ok()).max_by_key(|peak| peak.1).unwrap_or_default();
    drop(input);
    shell.wait()?;
    Ok(Some((client.0, server.0)))
}

fn peak(process: u32) -> Result<(String, u64), Box<dyn Error>> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    let kibibytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok((format!("{:.1} MiB", kibibytes as f64 / 1024.0), kibibytes))
}

/// Returns the Inspector's command: from PATH, or from the installed peers.
fn inspector() -> Option<PathBuf> {
    let beside = Path::new("target/peers/node/node_modules/.bin/mcp-inspector");
    if beside.exists() {
        return fs::canonicalize(beside).ok();
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("mcp-inspector")).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_those_of_the_ordered_times() {
        let times: Vec<_> = (1..=20).map(Duration::from_millis).collect();
        assert_eq!(Figures(&times).to_string(), "median 11.0ms, fastest 1.0ms, 95 % within 20.0ms (20 runs)");
        assert_eq!(Figures(&[]).to_string(), "median 0.0ns, fastest 0.0ns, 95 % within 0.0ns (0 runs)");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_a_process_is_told() {
        assert!(peak(std::process::id()).unwrap().1 > 0);
        assert!(peak(u32::MAX).is_err());
    }
}
