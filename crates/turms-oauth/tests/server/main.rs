//! The development server and the proxy over real sockets.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod agent;
mod dev_assertions;
mod dev_clients;
mod dev_code;
mod dev_device;
mod dev_documents;
mod dev_dpop;
mod dev_tokens;
mod proxied;
mod proxy_attacks;
mod proxy_login;
mod proxy_mcp;
mod proxy_oidc;
mod proxy_refresh;
mod site;
