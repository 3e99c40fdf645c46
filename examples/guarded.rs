//! A server that checks access tokens, with an authorization server for development beside it:
//! `cargo run -p turms-examples --bin guarded`, then `cargo run -p turms-examples --bin login`.
//!
//! With a real provider, `Issuer::discover` gets its URL, and the development server goes.
#![expect(clippy::print_stdout, reason = "the example prints its results")]

use turms::http::Listener;
use turms::oauth::dev::DevServer;
use turms::oauth::{Issuer, TokenGuard};
use turms::prelude::*;

/// Reads the note of the caller.
#[tool(read_only)]
async fn read(caller: Principal) -> String {
    format!("the note of {}", caller.subject())
}

/// Writes the note of the caller.
#[tool(scopes = ["notes:write"])]
async fn write(text: String, caller: Principal) -> String {
    format!("{} wrote {text:?}", caller.subject())
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    // Not for production: it approves each login as Ann.
    let login = DevServer::builder()
        .user("ann")
        .auto_approve("ann")
        .scopes(["notes:read", "notes:write"])
        .bind("127.0.0.1:0")
        .await?;
    let listener = Listener::bind(&address).await?;
    let address = listener.local_addr().map_or(address, |bound| bound.to_string());
    let url = format!("http://{address}/mcp");

    let guard = TokenGuard::builder(&url)
        .issuer(Issuer::discover(login.issuer()))
        .scopes(["notes:read"])
        .implies("notes:write", ["notes:read"])
        .build()?;
    let server = Server::new("notes", "1.0.0").tool(read).tool(write);
    println!("{url}");
    listener.serve(server.into_http_service()?.guard(guard)).await
}
