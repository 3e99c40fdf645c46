//! One value after another, asked from its schema.

use serde_json::{Map, Value};

use super::terminal_prompt::Person;
use crate::line_editor::{Choices, Line};
use crate::schema::Property;
use crate::text::{Text, shown_line};

/// What a person did with a form.
pub(crate) enum Filled {
    In(Map<String, Value>),
    /// Ctrl-C.
    Cancelled,
    /// Ctrl-D.
    Declined,
}

/// Asks for each property in turn, again if the answer does not fit. Nothing is an answer for what has a default or may be
/// left out.
pub(crate) async fn ask_for(person: &Person, properties: &[Property<'_>]) -> Filled {
    let mut values = Map::new();
    for property in properties {
        loop {
            let text = match person.answer(prompt(property), choices(property)).await {
                Line::Typed(text) => text,
                Line::Interrupted => return Filled::Cancelled,
                Line::End => return Filled::Declined,
            };
            match read(property, text.trim()) {
                Ok(Some(value)) => drop(values.insert(property.name.to_owned(), value)),
                Ok(None) => {}
                Err(problem) => {
                    person.tell(Text::new().faint("  ").plain(problem));
                    continue;
                }
            }
            break;
        }
    }
    Filled::In(values)
}

fn read(property: &Property<'_>, text: &str) -> Result<Option<Value>, String> {
    if !text.is_empty() {
        let value = property.value_of(&yes_or_no(property, text));
        return value.map(Some).map_err(|problem| match property.kind().as_str() {
            "boolean" => format!("expected yes or no, found {text:?}"),
            _ => problem,
        });
    }
    match property.default() {
        Some(default) => Ok(Some(default.clone())),
        None if !property.required => Ok(None),
        None if property.kind() == "string" => Ok(Some(Value::from(""))),
        None => Err(format!("{} has to be given: {}", property.name, property.kind())),
    }
}

/// People say yes and no.
fn yes_or_no(property: &Property<'_>, text: &str) -> String {
    match text.to_lowercase().as_str() {
        "y" | "yes" if property.kind() == "boolean" => "true".to_owned(),
        "n" | "no" if property.kind() == "boolean" => "false".to_owned(),
        _ => text.to_owned(),
    }
}

fn choices(property: &Property<'_>) -> Choices {
    match property.kind().as_str() {
        "boolean" => Choices::of(["yes", "no"]),
        _ => Choices::of(property.choices()),
    }
}

fn prompt(property: &Property<'_>) -> String {
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
    shown_line(&prompt)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema;

    #[test]
    fn the_question_says_what_may_be_answered() {
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
    fn nothing_is_an_answer_for_what_has_a_default_or_may_be_left_out() {
        let root = json!({
            "properties": { "a": { "type": "integer" }, "b": { "type": "integer", "default": 3 }, "c": { "type": "boolean" } },
            "required": ["a", "b"],
        });
        let property = |name| schema::property(&root, name).unwrap();
        assert_eq!(read(&property("a"), "").unwrap_err(), "a has to be given: integer");
        assert_eq!(read(&property("b"), ""), Ok(Some(json!(3))));
        assert_eq!(read(&property("c"), ""), Ok(None));
        assert_eq!(read(&property("c"), "yes"), Ok(Some(json!(true))));
        assert_eq!(read(&property("c"), "maybe").unwrap_err(), "expected yes or no, found \"maybe\"");
    }
}
