//! Tools that need nobody but themselves.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use turms::prelude::*;
use turms::types::LoggingLevel;

use super::LOGO;

/// Adds two numbers.
#[tool(read_only, idempotent)]
pub(super) async fn add(
    /// the first number
    a: f64,
    /// the second number
    b: f64,
) -> f64 {
    a + b
}

/// Divides one number by another, and fails if that cannot be done.
#[tool(read_only)]
pub(super) async fn divide(
    /// what to divide
    a: f64,
    /// what to divide it by
    b: f64,
) -> Result<f64, &'static str> {
    if b == 0.0 { Err("nothing can be divided by zero") } else { Ok(a / b) }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Unit {
    #[default]
    Celsius,
    Fahrenheit,
}

/// The weather somewhere.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Weather {
    city: String,
    temperature: f64,
    unit: Unit,
    conditions: String,
}

/// Tells the weather of a city, which is always the same: this is a demo.
#[tool(read_only, open_world)]
pub(super) async fn weather(
    /// the city
    city: String,
    /// the unit of the temperature
    unit: Option<Unit>,
) -> Json<Weather> {
    let unit = unit.unwrap_or_default();
    let temperature = match unit {
        Unit::Celsius => 21.0,
        Unit::Fahrenheit => 69.8,
    };
    Json(Weather { city, temperature, unit, conditions: "sunny".to_owned() })
}

/// Counts down, reports how far it has come, and writes to the log. It can be cancelled.
#[tool(read_only)]
pub(super) async fn countdown(
    /// how many steps to take
    #[schemars(range(min = 1, max = 1000))]
    steps: u32,
    /// how long each step takes, in milliseconds
    pause: Option<u32>,
    progress: Progress,
    context: Context,
) -> String {
    let pause = Duration::from_millis(pause.unwrap_or(100).into());
    context.log(LoggingLevel::Info, "the countdown begins").await;
    for step in 1..=steps {
        tokio::time::sleep(pause).await;
        progress.say(step, Some(f64::from(steps)), &format!("{} to go", steps - step)).await;
    }
    context.log(LoggingLevel::Notice, "the countdown is over").await;
    format!("counted {steps} steps")
}

/// Writes a report, chapter by chapter. It takes its time, so clients that know of tasks need not wait for it.
#[tool(read_only, task)]
pub(super) async fn report(
    /// what it is about
    topic: String,
    /// how long each chapter takes, in milliseconds
    pause: Option<u32>,
    context: Context,
) -> String {
    for chapter in 1..=3 {
        context.task_message(&format!("chapter {chapter} of 3")).await;
        tokio::time::sleep(Duration::from_millis(pause.unwrap_or(100).into())).await;
    }
    format!("A report about {topic}, in 3 chapters.")
}

/// Shows the logo, a picture with a caption.
#[tool(read_only)]
pub(super) async fn logo() -> Vec<Content> {
    vec![Content::text("The logo:"), Content::image(LOGO, "image/png")]
}

/// Answers with what would steer a terminal. A good client shows it and does not obey.
#[tool(read_only)]
pub(super) async fn mischief() -> &'static str {
    "\u{1b}[2J\u{1b}[31mred\u{1b}]0;title\u{7}\rover\u{202e}written"
}
