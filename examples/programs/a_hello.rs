//! A server with one tool, over standard input and output.

use turms::prelude::*;

/// Greets a person.
#[tool(read_only)]
async fn hello(name: String) -> String {
    format!("Hello, {name}!")
}

#[tokio::main]
async fn main() -> turms::Result {
    Server::new("hello", "1.0.0").tool(hello).serve_stdio().await
}
