//! A tool that asks for confirmation, reports progress and stops work of its own when the call is cancelled.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Whether to delete the files
    sure: bool,
}

/// Deletes files that are older than some days.
#[tool(destructive)]
async fn clean(days: u32, context: Context, progress: Progress, token: CancellationToken) -> Result<String, ToolError> {
    let question = format!("Delete everything that is older than {days} days?");
    let answer = context.elicit::<Confirm>(question).key("confirm").await?;
    let Elicited::Accepted(Confirm { sure: true }) = answer else { return Ok("Nothing was deleted.".into()) };
    let (steps, mut done) = tokio::sync::mpsc::channel(1);
    let work = tokio::task::spawn_blocking(move || {
        for step in 1..=10 {
            if token.is_cancelled() || steps.blocking_send(step).is_err() {
                break;
            }
        }
    });
    while let Some(step) = done.recv().await {
        progress.report(step).total(10).message("deleting").await;
    }
    work.await?;
    Ok("Everything was deleted.".into())
}

#[tokio::main]
async fn main() -> turms::Result {
    Server::new("clean", "1.0.0").tool(clean).serve_stdio().await
}
