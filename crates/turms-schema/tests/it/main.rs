//! Values held against schemas: by a table of every keyword and dialect, against another implementation, and by the public suite.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod budget;
mod keyword;
mod oracle;
mod refusal;
mod suite;
