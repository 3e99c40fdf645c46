//! Tools that send notifications before they return, or change the server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use turms::RegistrationError;
use turms::http::StreamControl;
use turms::jsonrpc::Notification;
use turms::prelude::*;
use turms::types::LoggingLevel;

pub(crate) fn add(server: Server) -> Server {
    server
        .tool(test_tool_with_logging)
        .tool(test_logging_tool)
        .tool(test_tool_with_progress)
        .tool(test_tool_slow)
        .tool(test_tool_fast)
        .tool(test_reconnection)
        .tool(test_trigger_tool_change)
        .tool(test_trigger_prompt_change)
        .tool(schema_tool())
}

const PAUSE: Duration = Duration::from_millis(50);

/// Sends three log messages.
#[tool]
async fn test_tool_with_logging(context: Context) -> &'static str {
    context.log(LoggingLevel::Info, "Tool execution started").await;
    tokio::time::sleep(PAUSE).await;
    context.log(LoggingLevel::Info, "Tool processing data").await;
    tokio::time::sleep(PAUSE).await;
    context.log(LoggingLevel::Info, "Tool execution completed").await;
    "Tool with logging executed successfully"
}

/// Sends log messages at four levels.
#[tool]
async fn test_logging_tool(context: Context) -> &'static str {
    for level in [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Warning, LoggingLevel::Error] {
        context.log(level, "a message").await;
    }
    "logged"
}

/// Reports progress.
#[tool]
async fn test_tool_with_progress(progress: Progress) -> &'static str {
    for step in [0, 50, 100] {
        progress.report(step).total(100).await;
        tokio::time::sleep(PAUSE).await;
    }
    "done"
}

/// Runs for 5 s by default, and sends a notification every 100 ms: progress if the client requests it, a custom one
/// otherwise.
#[tool(read_only)]
async fn test_tool_slow(
    /// duration in milliseconds
    #[serde(rename = "durationMs")]
    duration_ms: Option<u32>,
    progress: Progress,
    context: Context,
) -> String {
    const STEP: u32 = 100;
    let duration = duration_ms.unwrap_or(5000);
    for elapsed in (0..duration).step_by(STEP as usize) {
        if context.progress_token().is_some() {
            progress.report(elapsed).total(duration).await;
        } else {
            // Sending fails when the client has disconnected, which also cancels the call.
            let _ = context.peer().notify_raw(Notification::raw("notifications/com.example.slow", None)).await;
        }
        tokio::time::sleep(Duration::from_millis(STEP.min(duration - elapsed).into())).await;
    }
    format!("took {duration} ms")
}

/// Returns without delay.
#[tool(read_only)]
fn test_tool_fast() -> &'static str {
    "fast"
}

/// Closes the stream of its call, and responds later.
#[tool]
async fn test_reconnection(#[extract] stream: Option<Extension<StreamControl>>) -> &'static str {
    if let Some(Extension(stream)) = stream {
        // Clients of other revisions keep their stream.
        let _ = stream.close(Duration::from_millis(500));
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    "Reconnection test completed successfully. If you received this, the client properly reconnected after stream closure."
}

static CHANGES: AtomicUsize = AtomicUsize::new(0);

/// Adds a tool.
#[tool]
async fn test_trigger_tool_change(context: Context) -> Result<String, RegistrationError> {
    let name = format!("test_added_tool_{}", CHANGES.fetch_add(1, Ordering::Relaxed));
    let tool = Tool::builder(&name).description("Was added while the server ran.").handler_sync(|| "added");
    context.server().add_tool(tool)?;
    Ok(name)
}

/// Adds a prompt.
#[tool]
async fn test_trigger_prompt_change(context: Context) -> Result<String, RegistrationError> {
    let name = format!("test_added_prompt_{}", CHANGES.fetch_add(1, Ordering::Relaxed));
    let prompt = Prompt::builder(&name).description("Was added while the server ran.").handler_sync(|| "added");
    context.server().add_prompt(prompt)?;
    Ok(name)
}

/// Returns a tool whose schema uses keywords of JSON Schema 2020-12.
fn schema_tool() -> Tool {
    const SCHEMA: &str = r##"{
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
    }"##;
    let schema = turms::types::Object::parse(SCHEMA).unwrap_or_default();
    Tool::builder("json_schema_2020_12_tool")
        .description("Has a schema with conditions.")
        .input_schema(schema)
        .handler_sync(|| "valid")
}
