//! The `turms` command.

mod args;

use std::env;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::ExitCode;

use args::Action;
use turms_proto::ProtocolVersion;

const VERSION: &str = concat!("turms ", env!("CARGO_PKG_VERSION"), "\n");

fn main() -> ExitCode {
    match args::parse(env::args_os().skip(1)) {
        Ok(Action::Help) => print(&help()),
        Ok(Action::Version) => print(VERSION),
        Err(error) => {
            complain(format_args!("{error}\nhint: `turms --help` shows what it accepts"));
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let revisions = ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", ");
    format!(
        "\
{VERSION}
Turms is a Rust toolkit for the Model Context Protocol (MCP). This is its command.
Revisions of the protocol: {revisions}.

Usage: turms [OPTION]

Options:
  -h, --help     Print this help
  -V, --version  Print the version
"
    )
}

/// Writes the answer to standard output. A reader that has gone away has read all it wanted, so that is a success.
fn print(text: &str) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("cannot write to standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Tells a person what went wrong. If even that cannot be written, only the exit status is left to say it.
fn complain(error: impl Display) {
    let _ = writeln!(io::stderr(), "error: {error}");
}
