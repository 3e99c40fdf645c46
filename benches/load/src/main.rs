//! Load generator: starts a server, calls it, checks every response, and prints the cost of a call.
//!
//! `turms-bench-load KIND PAYLOAD WIDTH SECONDS PROGRAM ARGUMENT...`
//!
//! KIND is one of
//! - `stateless` and `session`: HTTP with 2026-07-28, or in sessions of 2025-11-25. `{port}` in the arguments is
//!   replaced by a free port. WIDTH is the number of connections.
//! - `crowd`: one session that calls, next to WIDTH idle sessions.
//! - `client` and `client-session`: HTTP with the Turms client, with 2026-07-28 or in a session of 2025-11-25. WIDTH is
//!   the number of concurrent calls.
//! - `other-client` and `other-client-session`: the same with another client, the program named by `BENCH_CLIENT`.
//! - `post`: sends the same message with the hyper-util client, which the Turms client uses.
//! - `inside`: the Turms client and server in this process. No program is started.
//! - `stdio`: WIDTH is the number of calls in flight.
//! - `idle` and `listening`: memory of WIDTH idle sessions, without or with an open stream each.
//!
//! PAYLOAD is `small`, `list`, a size such as `100k`, or `progress` for calls whose response is an event stream.
//!
//! If the environment variable `BENCH_TOKEN` is set, requests over HTTP have it as bearer token.
//!
//! If the environment variable `BENCH_LINGER` is set, a load over HTTP waits for the server to exit on its own. If
//! `BENCH_TERMINATE` is set, the server is shut down cleanly (its stdin is closed and it gets SIGTERM), so that a
//! profiler can write its results.
//!
//! The output is one line of `name=value` pairs:
//! - `calls`, and `all_calls` including the warm-up;
//! - `cpu_ns`: CPU time of the server per call; `early_ns` and `late_ns`: the same in the first and the second half of
//!   the time;
//! - `client_ns`: CPU time of this process per call;
//! - `p50_ns` and `p99_ns`: latency;
//! - `bytes`: memory per session.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool prints")]
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

/// The parsed arguments.
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
