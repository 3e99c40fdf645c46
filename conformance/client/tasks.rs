//! Calls that become tasks.

use std::error::Error;

use serde_json::json;
use turms::Client;
use turms::types::TaskStatus;

/// Waits for a task, calls a tool without a task, waits for a task that fails, and cancels one.
pub(crate) async fn lifecycle(client: &Client) -> Result<(), Box<dyn Error>> {
    client.list_tools().await?;
    client.call_tool("quick_task", ()).await?;
    client.call_tool("sync_echo", ()).await?;
    let failed = client.call_tool("failing_task", ()).await;
    if failed.is_ok_and(|result| !result.is_error()) {
        return Err("the task did not fail".into());
    }
    let task = client.call_tool_as_task("cancel_task", ()).await?;
    task.cancel().await?;
    task.refresh().await?;
    if task.status() != TaskStatus::Cancelled {
        return Err(format!("the task is not cancelled but {:?}", task.status()).into());
    }
    Ok(())
}

/// Calls a tool whose call becomes a task, and waits for its result.
pub(crate) async fn create(client: &Client) -> Result<(), Box<dyn Error>> {
    client.list_tools().await?;
    client.call_tool("long_running_echo", json!({ "text": "hello" })).await?;
    Ok(())
}
