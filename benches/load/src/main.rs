//! Starts a server, puts a load on it, checks every answer, and says what each call has cost:
//!
//! `turms-bench-load KIND PAYLOAD WIDTH SECONDS PROGRAM ARGUMENT...`
//!
//! KIND is one of
//! - `stateless` and `session`: over HTTP, by 2026-07-28 or in sessions of 2025-11-25; `{port}` among the arguments becomes a
//!   free port, WIDTH is how many connections there are;
//! - `crowd`: the same in one session among WIDTH others;
//! - `client` and `client-session`: over HTTP by the client of Turms, by 2026-07-28 or in a session of 2025-11-25, WIDTH calls at
//!   once;
//! - `other-client` and `other-client-session`: the same by another client, which `BENCH_CLIENT` names;
//! - `post`: the same message over and over by the client of hyper-util, which is below that of Turms;
//! - `inside`: by the client of Turms in the process of the server, which is ours; no program is started;
//! - `stdio`: WIDTH is how many calls are in flight;
//! - `idle` and `listening`: WIDTH sessions that are left alone, or with an open stream.
//!
//! PAYLOAD is `small`, `list`, a size such as `100k`, or `progress` for calls that are answered by events.
//!
//! With `BENCH_LINGER` in its environment, a load over HTTP waits for the server to end by itself. With `BENCH_TERMINATE`,
//! the server is ended in order (its input is closed and it gets SIGTERM), so that a profiler around it can write its results.
//!
//! One line comes out, `name=value` each: `calls`, and `all_calls` with those before the server was warm; of the server
//! `cpu_ns` for each, and `early_ns` and `late_ns` in the first and the second half of the time; `client_ns` of this process for
//! each; `p50_ns`, `p99_ns`; `bytes` of memory for each session.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to a terminal")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

mod client;
mod http;
mod inside;
mod message;
mod server;
mod stdio;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use turms::ProtocolVersion;

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
        "stateless" => http::load(&plan, Dialect::Stateless, 0).await,
        "session" => http::load(&plan, Dialect::Session, 0).await,
        "crowd" => http::load(&Plan { width: 1, ..plan }, Dialect::Session, plan.width).await,
        "client" => client::load(&plan, Dialect::Stateless).await,
        "client-session" => client::load(&plan, Dialect::Session).await,
        "post" => client::bare(&plan).await,
        "other-client" => client::other(&plan, ProtocolVersion::V2026_07_28).await,
        "other-client-session" => client::other(&plan, ProtocolVersion::V2025_11_25).await,
        "inside" => inside::load(&plan).await,
        "idle" => http::keep(&plan, false).await,
        "listening" => http::keep(&plan, true).await,
        "stdio" => stdio::load(&plan).await,
        kind => Err(format!("there is no kind of load {kind:?}").into()),
    }
}
