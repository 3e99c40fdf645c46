//! The benchmark server, written as an application would.

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

/// Report progress, then return the given text unchanged
#[tool]
async fn echo_with_progress(
    /// Text to send back unchanged
    text: String,
    progress: Progress,
) -> String {
    progress.report(1.0).await;
    text
}

/// Returns a server with a tool that reports progress, so that its response is an event stream if the client asks for
/// progress.
pub fn server_with_progress() -> Server {
    server(2).tool(echo_with_progress)
}

/// Returns a server with `tools` tools. `echo` and `add` are always included.
pub fn server(tools: usize) -> Server {
    (3..=tools).fold(Server::new("bench", "1.0.0").tool(echo).tool(add), |server, number| {
        let tool = Tool::builder(format!("tool_{number:03}"))
            .description(format!("Synthetic tool number {number:03} that adds two integers"))
            .handler(async |Args(AddArgs { a, b }): Args<AddArgs>| (a + b).to_string());
        server.tool(tool)
    })
}

/// Returns the server configured by `BENCH_TOOLS`.
pub fn from_environment() -> Server {
    match std::env::var("BENCH_TOOLS").as_deref() {
        Ok("progress") => server_with_progress(),
        tools => server(tools.ok().and_then(|count| count.parse().ok()).unwrap_or(2)),
    }
}
