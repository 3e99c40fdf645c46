//! The small server that is measured, written as any user of Turms would.

use turms::prelude::*;

/// Return the given text unchanged
#[tool]
async fn echo(
    /// Text to send back unchanged
    text: String,
) -> String {
    text
}

/// Add two integers
#[tool]
async fn add(
    /// Left operand
    a: i64,
    /// Right operand
    b: i64,
) -> String {
    (a + b).to_string()
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct AddArgs {
    /// Left operand
    a: i64,
    /// Right operand
    b: i64,
}

/// Return the given text unchanged, after a word about how far it is
#[tool]
async fn echo_with_progress(
    /// Text to send back unchanged
    text: String,
    progress: Progress,
) -> String {
    progress.report(1.0).await;
    text
}

/// A server whose answers come by events if the client wants to know about progress.
pub fn server_with_progress() -> Server {
    server(2).tool(echo_with_progress)
}

/// A server with so many tools, of which there are at least `echo` and `add`.
pub fn server(tools: usize) -> Server {
    (3..=tools).fold(Server::new("bench", "1.0.0").tool(echo).tool(add), |server, number| {
        let tool = Tool::builder(format!("tool_{number:03}"))
            .description(format!("Synthetic tool number {number:03} that adds two integers"))
            .handler(async |Args(AddArgs { a, b }): Args<AddArgs>| (a + b).to_string());
        server.tool(tool)
    })
}

/// Builds the server that `BENCH_TOOLS` names.
pub fn from_environment() -> Server {
    match std::env::var("BENCH_TOOLS").as_deref() {
        Ok("progress") => server_with_progress(),
        tools => server(tools.ok().and_then(|count| count.parse().ok()).unwrap_or(2)),
    }
}
