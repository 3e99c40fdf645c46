//! Many servers as one client: those of a configuration file, and one program.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use turms::client::{Backoff, McpConfig};
use turms::http::HttpTransport;
use turms::prelude::*;

#[tokio::main]
async fn main() -> turms::Result {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "mcp.json".to_owned());
    let program = arguments.next().unwrap_or_else(|| "hello".to_owned());
    let group = ClientGroup::builder(Client::builder("group", "1.0.0").reconnect(Backoff::new()))
        .config(&McpConfig::read(file)?)
        .transport(HttpTransport::new())
        .server("greeter", ChildCommand::new(program))
        .connect()
        .await;
    for (server, error) in group.failures() {
        eprintln!("{server}: {error}");
    }
    let client = group.as_client();
    for tool in client.list_tools().await? {
        println!("{}", tool.name);
    }
    println!("{}", client.call_tool("greeter_hello", serde_json::json!({ "name": "Ann" })).await?.text());
    group.close().await;
    Ok(())
}
