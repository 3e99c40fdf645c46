//! A server with one tool, on standard input and output.

use turms::prelude::*;

/// Adds two numbers.
#[tool(read_only)]
async fn add(
    /// the first number
    a: f64,
    /// the second number
    b: f64,
) -> f64 {
    a + b
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    Server::new("calculator", "1.0.0").tool(add).serve_stdio().await
}
