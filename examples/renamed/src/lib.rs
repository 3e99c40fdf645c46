//! A server in a crate that depends on Turms under the name `mcp`. The key `crate` passes the name to the attributes.

use mcp::prelude::*;

/// Adds two numbers.
#[tool(crate = mcp, read_only)]
async fn add(
    /// the first number
    a: i64,
    b: Option<i64>,
) -> Result<String, ToolError> {
    Ok((a + b.unwrap_or(1)).to_string())
}

/// Asks for a review.
#[prompt(crate = mcp)]
async fn review(code: String) -> String {
    format!("Review this code: {code}")
}

/// A note.
#[resource("note://{name}", crate = "mcp", mime_type = "text/plain")]
async fn note(name: String) -> Option<String> {
    (name == "todo").then(|| "milk".to_owned())
}

struct Notes(&'static str);

#[handlers(crate = mcp)]
impl Notes {
    /// Returns all notes.
    #[tool(read_only)]
    async fn all(&self, context: Context) -> String {
        format!("{} for {}", self.0, context.protocol_version())
    }

    /// Greets.
    #[prompt]
    async fn greet(&self, #[complete(Self::names)] name: String) -> String {
        format!("Greet {name}.")
    }

    async fn names(&self, request: CompletionRequest) -> Vec<String> {
        vec![format!("{}nn", request.value)]
    }
}

/// Creates the server.
pub fn server() -> Server {
    Server::new("renamed", "1.0.0").tool(add).prompt(review).resource(note).handlers(Notes("milk"))
}
