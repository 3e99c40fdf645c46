//! The client side over real sockets: with the development server and a guarded MCP server, and with scripted servers for what real ones
//! do not do.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]
#![allow(clippy::disallowed_methods, reason = "tokens expire at a time of day")]

mod attacks;
mod browser;
mod dpop;
mod fetching;
mod flows;
mod functions;
mod hostile;
mod logins;
mod machines;
mod peers;
mod renewal;
mod scopes;
mod script;
mod secrets;
mod tokens;
mod world;
