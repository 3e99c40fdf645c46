//! The small server that is measured: `turms-bench-server stdio`, or `turms-bench-server http PORT` for `/mcp` on
//! 127.0.0.1. Everything is as it ships. `BENCH_TOOLS=100` makes it a hundred tools in all.

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

fn server() -> Server {
    let tools = std::env::var("BENCH_TOOLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    (3..=tools).fold(Server::new("bench", "1.0.0").tool(echo).tool(add), |server, number| {
        let tool = Tool::builder(format!("tool_{number:03}"))
            .description(format!("Synthetic tool number {number:03} that adds two integers"))
            .handler(async |Args(AddArgs { a, b }): Args<AddArgs>| (a + b).to_string());
        server.tool(tool)
    })
}

#[tokio::main]
async fn main() -> turms::Result<()> {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("http") => {
            let port = args.next().unwrap_or_else(|| "8080".to_owned());
            server().serve_http(format!("127.0.0.1:{port}")).await
        }
        _ => server().serve_stdio().await,
    }
}
