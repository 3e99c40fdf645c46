//! An HTTP client that survives failures of its server, and watches a resource.
#![expect(clippy::print_stdout, reason = "a program for a terminal")]

use std::time::Duration;

use turms::client::{Backoff, RetryPolicy};
use turms::prelude::*;

#[tokio::main]
async fn main() -> turms::Result {
    let url = std::env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:8080/mcp".to_owned());
    let client = Client::builder("watch", "1.0.0")
        .reconnect(Backoff::new().initial_delay(Duration::from_millis(50)))
        .retry(RetryPolicy::new().max_retries(3))
        .connect_http(url)
        .await?;
    let mut changes = client.subscribe("note://todo").await?;
    let call = client
        .call_tool("write", serde_json::json!({ "name": "todo", "text": "milk" }))
        .timeout(Duration::from_secs(10))
        .on_progress(|progress| println!("progress {}", progress.progress))
        .idempotent();
    match call.await {
        Ok(result) => println!("{}", result.text()),
        Err(error) if error.may_have_run() => println!("unknown: {error}"),
        Err(error) => return Err(error.into()),
    }
    if let Some(change) = changes.next().await {
        println!("{change:?}");
        println!("{}", client.read_resource("note://todo").await?.text().unwrap_or_default());
    }
    client.close().await;
    Ok(())
}
