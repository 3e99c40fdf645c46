use serde_json::Value;
use turms::types::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};

use super::{indented, pretty};
use crate::schema;
use crate::text::Text;

/// A tool: how it is called, what it promises, what it is for. In full, with its schemas.
pub(crate) fn tool(tool: &Tool, in_full: bool) -> Text {
    let schema = tool.input_schema.decode::<Value>().unwrap_or(Value::Null);
    let mut text = Text::new().name(&tool.name).plain(format!("({})", signature(&schema)));
    let marks = marks(tool);
    if !marks.is_empty() {
        text = text.faint(format!("  {}", marks.join(", ")));
    }
    text = described(text, tool.title.as_deref(), tool.description.as_deref(), in_full);
    if in_full {
        for property in schema::properties(&schema) {
            if let Some(description) = property.description() {
                text = text.faint(format!("\n      {}: ", property.name)).plain(description);
            }
        }
        text = text.faint("\n      input schema:\n").plain(indented(&pretty(&tool.input_schema.clone().into())));
        if let Some(output) = &tool.output_schema {
            text = text.faint("\n      output schema:\n").plain(indented(&pretty(&output.clone().into())));
        }
    }
    text
}

/// `a: number, tone?: "plain"|"warm"`
fn signature(schema: &Value) -> String {
    let properties = schema::properties(schema);
    let shown = properties.iter().map(|property| {
        let mark = if property.required { "" } else { "?" };
        format!("{}{mark}: {}", property.name, property.kind())
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn marks(tool: &Tool) -> Vec<&'static str> {
    let none = ToolAnnotations::new();
    let annotations = tool.annotations.as_ref().unwrap_or(&none);
    let mut marks = Vec::new();
    let mut mark = |holds: bool, word| {
        if holds {
            marks.push(word)
        }
    };
    mark(annotations.read_only_hint == Some(true), "read-only");
    mark(annotations.destructive_hint == Some(true), "destructive");
    mark(annotations.idempotent_hint == Some(true), "idempotent");
    mark(annotations.open_world_hint == Some(true), "reaches out");
    mark(tool.output_schema.is_some(), "structured");
    marks
}

/// A resource.
pub(crate) fn resource(resource: &Resource, in_full: bool) -> Text {
    let mut text = Text::new().name(&resource.uri).faint(format!("  {}", resource.name));
    if let Some(kind) = &resource.mime_type {
        text = text.faint(format!(", {kind}"));
    }
    if let Some(size) = resource.size.and_then(|size| usize::try_from(size).ok()) {
        text = text.faint(format!(", {}", super::size(size)));
    }
    described(text, resource.title.as_deref(), resource.description.as_deref(), in_full)
}

/// A template of resources.
pub(crate) fn template(template: &ResourceTemplate, in_full: bool) -> Text {
    let mut text = Text::new().name(&template.uri_template).faint(format!("  {}", template.name));
    if let Some(kind) = &template.mime_type {
        text = text.faint(format!(", {kind}"));
    }
    described(text, template.title.as_deref(), template.description.as_deref(), in_full)
}

/// A prompt: how it is got, and what it is for.
pub(crate) fn prompt(prompt: &Prompt, in_full: bool) -> Text {
    let arguments = prompt.arguments.iter().flatten();
    let shown = arguments.clone().map(|argument| {
        let mark = if argument.required == Some(true) { "" } else { "?" };
        format!("{}{mark}", argument.name)
    });
    let text = Text::new().name(&prompt.name).plain(format!("({})", shown.collect::<Vec<_>>().join(", ")));
    let mut text = described(text, prompt.title.as_deref(), prompt.description.as_deref(), in_full);
    if in_full {
        for argument in arguments {
            let description = argument.description.as_deref().unwrap_or_default();
            text = text.faint(format!("\n      {}: ", argument.name)).plain(description);
        }
    }
    text
}

/// The title and the first line of the description, or all of it.
fn described(mut text: Text, title: Option<&str>, description: Option<&str>, in_full: bool) -> Text {
    let description = description.unwrap_or_default().trim();
    let shown = match description.split_once('\n') {
        Some((first, _)) if !in_full => format!("{} …", first.trim_end()),
        _ => description.to_owned(),
    };
    if let Some(title) = title.filter(|title| !title.trim().is_empty()) {
        text = text.faint(format!("  “{title}”"));
    }
    if shown.is_empty() { text } else { text.plain("\n").plain(indented(&shown)) }
}

#[cfg(test)]
mod tests {
    use turms::proto::Object;

    use super::*;

    #[test]
    fn a_tool_is_shown_as_it_is_called() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"number"},"tone":{"enum":["plain","warm"]}},"required":["a"]}"#;
        let shown = Tool::new("add")
            .input_schema(Object::parse(schema).unwrap())
            .description("Adds.\nMore.")
            .annotations(ToolAnnotations::new().read_only_hint(true));
        let brief = tool(&shown, false).render(false);
        assert_eq!(brief, "add(a: number, tone?: \"plain\"|\"warm\")  read-only\n    Adds. …");
        assert!(tool(&shown, true).render(false).contains("Adds.\n    More."));
    }
}
