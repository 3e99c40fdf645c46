//! Starts a server, puts a load on it, checks every answer, and says what each call has cost:
//!
//! `turms-bench-load KIND PAYLOAD WIDTH SECONDS PROGRAM ARGUMENT...`
//!
//! KIND is `stateless` or `session` (over HTTP; `{port}` among the arguments becomes a free port), `stdio`, `idle` (sessions
//! that are left alone) or `listening` (sessions with an open stream). PAYLOAD is `small`, `large` or `list`. WIDTH is how many
//! connections there are, or how many calls are in flight on stdio, or how many sessions. One line comes out, `name=value`
//! each: `calls`, `cpu_ns` of the server for each, `p50_ns`, `p99_ns`, and `bytes` of memory for each session.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod http;
mod message;
mod server;
mod stdio;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use self::message::{Dialect, Payload};
use self::server::Server;

type Failure = Box<dyn Error + Send + Sync>;
type Result<T, E = Failure> = std::result::Result<T, E>;

/// What is to be done.
pub(crate) struct Plan {
    payload: Payload,
    width: usize,
    time: Duration,
    program: Vec<String>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()).await {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Vec<String>) -> Result<String> {
    let [kind, payload, width, seconds, program @ ..] = args.as_slice() else {
        return Err("usage: turms-bench-load KIND PAYLOAD WIDTH SECONDS PROGRAM ARGUMENT...".into());
    };
    let plan = Plan {
        payload: payload.parse()?,
        width: width.parse::<usize>()?.max(1),
        time: Duration::from_secs_f64(seconds.parse()?),
        program: program.to_vec(),
    };
    match kind.as_str() {
        "stateless" => http::load(&plan, Dialect::Stateless).await,
        "session" => http::load(&plan, Dialect::Session).await,
        "idle" => http::keep(&plan, false).await,
        "listening" => http::keep(&plan, true).await,
        "stdio" => stdio::load(&plan).await,
        kind => Err(format!("there is no kind of load {kind:?}").into()),
    }
}
