//! A tool that runs as a task, and a client that waits for it.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Duration;

use turms::prelude::*;

/// Writes the report of a year.
#[tool(task)]
async fn report(year: u32) -> String {
    tokio::time::sleep(Duration::from_millis(10)).await;
    format!("The report of {year}.")
}

#[tokio::main]
async fn main() -> turms::Result {
    let server = Server::new("reports", "1.0.0").tool(report).build()?;
    let client = Client::builder("reader", "1.0.0").enable_tasks().connect_service(server).await?;
    let task = client.call_tool_as_task("report", serde_json::json!({ "year": 2026 })).await?;
    println!("{:?} is {}", task.id(), task.status());
    println!("{}", task.wait().await?.text());
    Ok(())
}
