//! Prompts, one of them with completions.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::prelude::*;

/// Asks for a text to be reviewed.
#[prompt]
pub(super) async fn review(
    /// the text
    text: String,
    /// tone of the review
    tone: Option<String>,
) -> GetPromptResult {
    let tone = tone.unwrap_or_else(|| "plain".to_owned());
    GetPromptResult::new([]).system(format!("Answer in a {tone} tone.")).user(format!("Review this text:\n{text}"))
}

/// Cities by country.
const CITIES: [(&str, &[&str]); 3] = [
    ("Egypt", &["Alexandria", "Memphis", "Thebes"]),
    ("Greece", &["Athens", "Corinth", "Sparta"]),
    ("Italy", &["Ostia", "Ravenna", "Rome", "Veii"]),
];

#[derive(Deserialize, JsonSchema)]
struct Journey {
    /// the country
    country: String,
    /// the city; its completion depends on the country
    city: String,
}

/// Returns a prompt with completions. Those of the second argument depend on the first.
pub(super) fn journey() -> Prompt {
    Prompt::builder("journey")
        .description("Asks for a journey to be planned.")
        .completion("country", |request: CompletionRequest| async move {
            starting_with(&request.value, CITIES.iter().map(|(country, _)| *country))
        })
        .completion("city", |request: CompletionRequest| async move {
            let country = request.arguments.get("country").cloned().unwrap_or_default();
            let cities =
                CITIES.iter().filter(|(name, _)| *name == country).flat_map(|(_, cities)| cities.iter().copied());
            starting_with(&request.value, cities)
        })
        .handler(|Args(Journey { country, city }): Args<Journey>| async move {
            format!("Plan a journey to {city} in {country}.")
        })
}

fn starting_with<'a>(typed: &str, values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let typed = typed.to_lowercase();
    values.filter(|value| value.to_lowercase().starts_with(&typed)).collect()
}
