//! A server in an axum application, with a page and a token check:
//! `cargo run -p turms-examples --bin application`, then
//! `curl http://127.0.0.1:8080/` and, for clients, `http://127.0.0.1:8080/mcp` with `Authorization: Bearer ann-s-token`.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use turms::http::Listener;
use turms::prelude::*;

/// Returns the name of the user.
#[tool(read_only)]
async fn who(user: Principal) -> String {
    format!("you are {}", user.subject())
}

/// Checks the token and adds its user as a `Principal`. A session can only be used by the user who started it.
async fn check_token(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let subject = match token {
        Some("ann-s-token") => "Ann",
        Some("bob-s-token") => "Bob",
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(Principal::new(subject));
    Ok(next.run(request).await)
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    let mcp = Server::new("who", "1.0.0").tool(who).into_http_service()?;
    let application = Router::new()
        .nest_service("/mcp", mcp.clone())
        .layer(from_fn(check_token))
        .route("/", get(|| async { "the MCP server is at /mcp" }));
    // The listener limits the number of connections and their timeouts. `axum::serve` works, too, with
    // `.with_graceful_shutdown(mcp.shutdown_signal())`. Without it, the shutdown waits for open streams.
    let listener = Listener::bind("127.0.0.1:8080").await?;
    listener.with_graceful_shutdown(mcp.shutdown_signal()).serve_tower(application).await
}
