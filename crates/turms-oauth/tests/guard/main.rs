//! The token guard over real sockets: on the listener of `turms-http` and in an axum application, over every transport.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(clippy::needless_pass_by_value, reason = "messages are written where they are sent")]

mod differential;
mod documents;
mod dpop;
mod fixture;
mod forged;
mod introspection;
mod issuer;
mod issuers;
mod keys;
mod layer;
mod malformed;
mod ownership;
mod providers;
mod scopes;
mod secrets;
mod settings;
mod streams;
mod tokens;
