//! Tests of the server, most of them over real sockets: exact responses, resumed streams, hostile clients, and clients of other
//! SDKs.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]
#![allow(clippy::needless_pass_by_value, reason = "messages are written where they are sent")]

mod call_log;
mod calls;
mod chaos;
mod framing;
#[cfg(feature = "fuzzing")]
mod fuzz;
mod held;
mod hostile;
#[cfg(feature = "server-http2")]
mod http2;
mod in_process;
mod interop;
mod limits;
mod listener;
mod malformed;
mod mounted;
mod pipelining;
mod raw;
mod requests;
mod resume;
mod sessions;
mod shared_sessions;
mod stores;
mod tasks;
mod text_arguments;
#[cfg(feature = "server-tls")]
mod tls;
mod use_hyper;

use turms_testkit::{fixture, messages as dialog, raw_http as wire};
