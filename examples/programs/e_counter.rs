//! A server in an axum application, with a token check and state for each user.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use tokio::sync::Mutex;
use turms::prelude::*;

#[derive(Clone, Default)]
struct Counts(Arc<Mutex<HashMap<String, u64>>>);

/// Counts the calls of a user.
#[tool]
async fn count(user: Principal, State(counts): State<Counts>) -> String {
    let mut counts = counts.0.lock().await;
    let count = counts.entry(user.subject().to_owned()).or_default();
    *count += 1;
    count.to_string()
}

async fn check_token(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let header = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    let user = match header {
        Some("Bearer for-ann") => "ann",
        Some("Bearer for-bob") => "bob",
        _ => return Err(StatusCode::UNAUTHORIZED),
    };
    request.extensions_mut().insert(Principal::new(user));
    Ok(next.run(request).await)
}

#[tokio::main]
async fn main() -> turms::Result {
    let mcp = Server::new("counter", "1.0.0").tool(count).state(Counts::default()).into_http_service()?;
    let app = axum::Router::new().nest_service("/mcp", mcp.clone()).layer(from_fn(check_token));
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(mcp.shutdown_signal()).await?;
    Ok(())
}
