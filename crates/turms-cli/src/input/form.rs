//! Prompts for the fields of a form, one after another.

use serde_json::{Map, Value};

use super::terminal_prompt::TerminalPrompt;
use crate::line_editor::{AnswerChoices, LineInput};
use crate::schema::SchemaProperty;
use crate::text::{StyledText, escape_line};

/// Outcome of a form.
pub(crate) enum FormOutcome {
    Accepted(Map<String, Value>),
    /// Ctrl-C.
    Cancelled,
    /// Ctrl-D.
    Declined,
}

/// Prompts for each property, and again if the value is invalid. An empty line selects the default or omits an optional
/// property.
pub(crate) async fn fill_form(terminal: &TerminalPrompt, properties: &[SchemaProperty<'_>]) -> FormOutcome {
    let mut values = Map::new();
    for property in properties {
        loop {
            let text = match terminal.read_answer(prompt(property), choices(property)).await {
                LineInput::Entered(text) => text,
                LineInput::Interrupted => return FormOutcome::Cancelled,
                LineInput::Eof => return FormOutcome::Declined,
            };
            match parse_answer(property, text.trim()) {
                Ok(Some(value)) => drop(values.insert(property.name.to_owned(), value)),
                Ok(None) => {}
                Err(problem) => {
                    terminal.print(StyledText::new().dim("  ").plain(problem));
                    continue;
                }
            }
            break;
        }
    }
    FormOutcome::Accepted(values)
}

fn parse_answer(property: &SchemaProperty<'_>, text: &str) -> Result<Option<Value>, String> {
    if !text.is_empty() {
        let value = property.parse_value(&yes_or_no(property, text));
        return value.map(Some).map_err(|problem| match property.kind().as_str() {
            "boolean" => format!("expected yes or no, found {text:?}"),
            _ => problem,
        });
    }
    match property.default() {
        Some(default) => Ok(Some(default.clone())),
        None if !property.required => Ok(None),
        None if property.kind() == "string" => Ok(Some(Value::from(""))),
        None => Err(format!("{} is required: {}", property.name, property.kind())),
    }
}

/// Converts yes and no to a boolean.
fn yes_or_no(property: &SchemaProperty<'_>, text: &str) -> String {
    match text.to_lowercase().as_str() {
        "y" | "yes" if property.kind() == "boolean" => "true".to_owned(),
        "n" | "no" if property.kind() == "boolean" => "false".to_owned(),
        _ => text.to_owned(),
    }
}

fn choices(property: &SchemaProperty<'_>) -> AnswerChoices {
    match property.kind().as_str() {
        "boolean" => AnswerChoices::of(["yes", "no"]),
        _ => AnswerChoices::of(property.choices()),
    }
}

fn prompt(property: &SchemaProperty<'_>) -> String {
    let mut prompt = format!("  {}", property.name);
    if !property.required {
        prompt.push('?');
    }
    match property.kind() {
        kind if kind == "boolean" => prompt.push_str(" (yes or no)"),
        kind => prompt.push_str(&format!(" ({kind})")),
    }
    if let Some(description) = property.description() {
        prompt.push_str(&format!(" {}", description.lines().next().unwrap_or_default()));
    }
    if let Some(default) = property.default() {
        let default = default.as_str().map_or_else(|| default.to_string(), ToOwned::to_owned);
        prompt.push_str(&format!(" [{default}]"));
    }
    prompt.push_str(": ");
    escape_line(&prompt)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema;

    #[test]
    fn the_prompt_shows_the_type_and_the_default() {
        let root = json!({
            "properties": {
                "sure": { "type": "boolean", "description": "Really?\nReally." },
                "tone": { "enum": ["plain", "warm"], "default": "plain" },
                "bad\u{1b}[2J": { "type": "string" },
            },
            "required": ["sure"],
        });
        let prompts: Vec<_> = schema::properties(&root).iter().map(prompt).collect();
        assert_eq!(
            prompts,
            ["  sure (yes or no) Really?: ", "  tone? (\"plain\"|\"warm\") [plain]: ", "  bad\\u{1b}[2J? (string): "]
        );
    }

    #[test]
    fn an_empty_line_selects_the_default_or_omits_an_optional_property() {
        let root = json!({
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer", "default": 3 }, "c": { "type": "boolean" } },
            "required": ["a", "b"],
        });
        let property = |name| schema::property(&root, name).unwrap();
        assert_eq!(parse_answer(&property("a"), "").unwrap_err(), "a is required: integer");
        assert_eq!(parse_answer(&property("b"), ""), Ok(Some(json!(3))));
        assert_eq!(parse_answer(&property("c"), ""), Ok(None));
        assert_eq!(parse_answer(&property("c"), "yes"), Ok(Some(json!(true))));
        assert_eq!(parse_answer(&property("c"), "maybe").unwrap_err(), "expected yes or no, found \"maybe\"");
    }
}
