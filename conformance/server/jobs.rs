//! Tools that run as tasks.

use std::time::Duration;

use turms::InputError;
use turms::jsonrpc::ErrorCode;
use turms::prelude::*;

use crate::input::{ask_text, confirm};

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(greet)
        .tool(slow_compute)
        .tool(failing_job)
        .tool(protocol_error_job)
        .tool(confirm_delete)
        .tool(multi_input)
        .tool(test_tool_with_task)
}

/// Greets without delay.
#[tool]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Runs for the given number of seconds.
#[tool(task)]
async fn slow_compute(seconds: f64, label: Option<String>) -> String {
    tokio::time::sleep(Duration::from_secs_f64(seconds.clamp(0.0, 3600.0))).await;
    format!("{} took {seconds} s", label.as_deref().unwrap_or("it"))
}

/// Fails after one second; it runs only as a task.
#[tool(task = "required")]
async fn failing_job() -> Result<String, std::io::Error> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    Err(std::io::Error::other("the job failed"))
}

/// Returns a protocol error.
#[tool(task)]
async fn protocol_error_job() -> Result<String, ErrorObject> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Err(ErrorObject::new(ErrorCode::INTERNAL_ERROR, "the job broke"))
}

/// Requests a confirmation before it deletes.
#[tool(task)]
async fn confirm_delete(context: Context, filename: String) -> Result<String, InputError> {
    confirm(&context, "confirm").await?;
    Ok(format!("deleted {filename}"))
}

/// Sends two input requests at once.
#[tool(task)]
async fn multi_input(context: Context) -> Result<String, InputError> {
    let (name, confirmed) =
        tokio::join!(ask_text(&context, "name", "What is your name?", "name"), confirm(&context, "confirm"));
    confirmed?;
    Ok(format!("confirmed by {}", name?))
}

/// Requests a name and continues as a task.
#[tool(task = "deferred")]
async fn test_tool_with_task(context: Context) -> Result<String, InputError> {
    let name = ask_text(&context, "user_name", "What is your name?", "name").await?;
    context.continue_as_task().await;
    Ok(format!("Hello, {name}!"))
}
