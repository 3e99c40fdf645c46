use serde_json::Value;
use turms::types::{Prompt, Resource, ResourceTemplate, Tool, ToolAnnotations};

use super::{indent, pretty};
use crate::schema;
use crate::text::StyledText;

/// Formats a tool: signature, annotations and description. In full, with its schemas.
pub(crate) fn tool(tool: &Tool, in_full: bool) -> StyledText {
    let schema = tool.input_schema.decode::<Value>().unwrap_or(Value::Null);
    let mut text = StyledText::new().name(&tool.name).plain(format!("({})", signature(&schema)));
    let labels = annotation_labels(tool);
    if !labels.is_empty() {
        text = text.dim(format!("  {}", labels.join(", ")));
    }
    text = described(text, tool.title.as_deref(), tool.description.as_deref(), in_full);
    if in_full {
        for property in schema::properties(&schema) {
            if let Some(description) = property.description() {
                text = text.dim(format!("\n      {}: ", property.name)).plain(description);
            }
        }
        text = text.dim("\n      input schema:\n").plain(indent(&pretty(&tool.input_schema.clone().into())));
        if let Some(output) = &tool.output_schema {
            text = text.dim("\n      output schema:\n").plain(indent(&pretty(&output.clone().into())));
        }
    }
    text
}

/// Formats the arguments: `a: number, tone?: "plain"|"warm"`.
fn signature(schema: &Value) -> String {
    let properties = schema::properties(schema);
    let shown = properties.iter().map(|property| {
        let mark = if property.required { "" } else { "?" };
        format!("{}{mark}: {}", property.name, property.kind())
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn annotation_labels(tool: &Tool) -> Vec<&'static str> {
    let none = ToolAnnotations::new();
    let annotations = tool.annotations.as_ref().unwrap_or(&none);
    let mut labels = Vec::new();
    let mut label = |applies: bool, text| {
        if applies {
            labels.push(text)
        }
    };
    label(annotations.read_only_hint == Some(true), "read-only");
    label(annotations.destructive_hint == Some(true), "destructive");
    label(annotations.idempotent_hint == Some(true), "idempotent");
    label(annotations.open_world_hint == Some(true), "open-world");
    label(tool.output_schema.is_some(), "structured");
    labels
}

/// Formats a resource.
pub(crate) fn resource(resource: &Resource, in_full: bool) -> StyledText {
    let mut text = StyledText::new().name(&resource.uri).dim(format!("  {}", resource.name));
    if let Some(kind) = &resource.mime_type {
        text = text.dim(format!(", {kind}"));
    }
    if let Some(size) = resource.size.and_then(|size| usize::try_from(size).ok()) {
        text = text.dim(format!(", {}", super::size(size)));
    }
    described(text, resource.title.as_deref(), resource.description.as_deref(), in_full)
}

/// Formats a resource template.
pub(crate) fn template(template: &ResourceTemplate, in_full: bool) -> StyledText {
    let mut text = StyledText::new().name(&template.uri_template).dim(format!("  {}", template.name));
    if let Some(kind) = &template.mime_type {
        text = text.dim(format!(", {kind}"));
    }
    described(text, template.title.as_deref(), template.description.as_deref(), in_full)
}

/// Formats a prompt: arguments and description.
pub(crate) fn prompt(prompt: &Prompt, in_full: bool) -> StyledText {
    let arguments = prompt.arguments.iter().flatten();
    let shown = arguments.clone().map(|argument| {
        let mark = if argument.required == Some(true) { "" } else { "?" };
        format!("{}{mark}", argument.name)
    });
    let text = StyledText::new().name(&prompt.name).plain(format!("({})", shown.collect::<Vec<_>>().join(", ")));
    let mut text = described(text, prompt.title.as_deref(), prompt.description.as_deref(), in_full);
    if in_full {
        for argument in arguments {
            let description = argument.description.as_deref().unwrap_or_default();
            text = text.dim(format!("\n      {}: ", argument.name)).plain(description);
        }
    }
    text
}

/// Adds the title and the first line of the description, or all of it.
fn described(mut text: StyledText, title: Option<&str>, description: Option<&str>, in_full: bool) -> StyledText {
    let description = description.unwrap_or_default().trim();
    let shown = match description.split_once('\n') {
        Some((first, _)) if !in_full => format!("{} …", first.trim_end()),
        _ => description.to_owned(),
    };
    if let Some(title) = title.filter(|title| !title.trim().is_empty()) {
        text = text.dim(format!("  “{title}”"));
    }
    if shown.is_empty() { text } else { text.plain("\n").plain(indent(&shown)) }
}

#[cfg(test)]
mod tests {
    use turms::types::Object;

    use super::*;

    #[test]
    fn a_tool_is_shown_with_its_signature() {
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
