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
    format!("you are {}", user.subject)
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
    let server = Server::new("who", "1.0.0").tool(who).http();
    let application = Router::new()
        .nest_service("/mcp", server.clone())
        .layer(from_fn(check_token))
        .route("/", get(|| async { "the MCP server is at /mcp" }));
    // The listener limits the number of connections and their timeouts. Any other listener works, too, if it calls
    // `server.shutdown()`: otherwise it waits for open streams forever.
    let listener = Listener::bind("127.0.0.1:8080").await?;
    listener.shutdown_on_signal().on_end(move || server.shutdown()).serve_tower(application).await
}
