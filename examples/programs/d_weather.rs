//! A tool with structured output and an error type of its own.

use schemars::JsonSchema;
use serde::Serialize;
use turms::prelude::*;

#[derive(Serialize, JsonSchema)]
struct Weather {
    city: String,
    degrees: f64,
}

#[derive(Debug)]
struct UnknownCity(String);

impl std::fmt::Display for UnknownCity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no weather station in {}", self.0)
    }
}

impl std::error::Error for UnknownCity {}

/// Returns the weather of a city.
#[tool(read_only)]
async fn weather(city: String) -> Result<Json<Weather>, UnknownCity> {
    match city.as_str() {
        "Rome" => Ok(Json(Weather { city, degrees: 21.5 })),
        _ => Err(UnknownCity(city)),
    }
}

#[tokio::main]
async fn main() -> turms::Result {
    Server::new("weather", "1.0.0").tool(weather).serve_stdio().await
}
