//! Tools that send no input requests.

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

/// Divides one number by another. Fails if the divisor is zero.
#[tool(read_only)]
pub(super) async fn divide(
    /// the dividend
    a: f64,
    /// the divisor
    b: f64,
) -> Result<f64, &'static str> {
    if b == 0.0 { Err("cannot divide by zero") } else { Ok(a / b) }
}

#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum TemperatureUnit {
    #[default]
    Celsius,
    Fahrenheit,
}

/// The weather in a city.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Weather {
    city: String,
    temperature: f64,
    unit: TemperatureUnit,
    conditions: String,
}

/// Returns the weather in a city, which is always the same: this is a demo.
#[tool(read_only, open_world)]
pub(super) async fn weather(
    /// the city
    city: String,
    /// the unit of the temperature
    unit: Option<TemperatureUnit>,
) -> Json<Weather> {
    let unit = unit.unwrap_or_default();
    let temperature = match unit {
        TemperatureUnit::Celsius => 21.0,
        TemperatureUnit::Fahrenheit => 69.8,
    };
    Json(Weather { city, temperature, unit, conditions: "sunny".to_owned() })
}

/// Counts down with progress notifications and log messages. It can be cancelled.
#[tool(read_only)]
pub(super) async fn countdown(
    /// number of steps
    #[schemars(range(min = 1, max = 1000))]
    steps: u32,
    /// duration of each step in milliseconds
    pause: Option<u32>,
    progress: Progress,
    context: Context,
) -> String {
    let pause = Duration::from_millis(pause.unwrap_or(100).into());
    context.log(LoggingLevel::Info, "countdown started").await;
    for step in 1..=steps {
        tokio::time::sleep(pause).await;
        progress.report(step).total(steps).message(format!("{} left", steps - step)).await;
    }
    context.log(LoggingLevel::Notice, "countdown finished").await;
    format!("counted {steps} steps")
}

/// Writes a report in three chapters. Clients that support tasks can run it as a task.
#[tool(read_only, task)]
pub(super) async fn report(
    /// topic of the report
    topic: String,
    /// duration of each chapter in milliseconds
    pause: Option<u32>,
    context: Context,
) -> String {
    for chapter in 1..=3 {
        context.set_status_message(&format!("chapter {chapter} of 3")).await;
        tokio::time::sleep(Duration::from_millis(pause.unwrap_or(100).into())).await;
    }
    format!("A report about {topic}, in 3 chapters.")
}

/// Returns the logo: an image with a caption.
#[tool(read_only)]
pub(super) async fn logo() -> Vec<Content> {
    vec![Content::text("The logo:"), Content::image(LOGO, "image/png")]
}

/// Returns text with control characters for terminals. A client must escape them.
#[tool(read_only)]
pub(super) async fn mischief() -> &'static str {
    "\u{1b}[2J\u{1b}[31mred\u{1b}]0;title\u{7}\rover\u{202e}written"
}
