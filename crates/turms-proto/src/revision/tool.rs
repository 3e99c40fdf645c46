//! Translation of tools. Structured output is limited to objects from 2025-06-18 to 2025-11-25, and any JSON after.

use super::{Ability, ProtocolVersion, Translate};
use crate::json::{Object, RawJson};
use crate::types::{CallToolResult, Content, Tool, ToolResultContent};

impl Translate for Tool {
    fn lower(&mut self, to: ProtocolVersion) {
        if !to.has(Ability::AnyStructuredOutput) {
            self.output_schema.take_if(|schema| !describes_object(schema));
            expand_boolean_schemas(&mut self.input_schema);
            if let Some(schema) = &mut self.output_schema {
                expand_boolean_schemas(schema);
            }
        }
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
    }
}

fn describes_object(schema: &Object) -> bool {
    matches!(schema.get_as::<String>("type"), Some(Ok(kind)) if kind == "object")
}

/// Replaces the schemas `true` and `false` of properties by objects, as older revisions require.
fn expand_boolean_schemas(schema: &mut Object) {
    let Some(properties) = schema.get("properties").and_then(|properties| properties.as_object()) else {
        return;
    };
    let is_boolean = |value: &RawJson| matches!(value.as_str(), "true" | "false");
    if !properties.iter().any(|(_, value)| is_boolean(&value)) {
        return;
    }
    let expanded = properties.iter().map(|(name, value)| match value.as_str() {
        "true" => (name, RawJson::from(Object::new())),
        "false" => (name, RawJson::trusted(r#"{"not":{}}"#.into())),
        _ => (name, value),
    });
    let expanded: Object = expanded.collect();
    schema.insert_raw("properties", &expanded.into());
}

impl Translate for CallToolResult {
    fn lower(&mut self, to: ProtocolVersion) {
        lower_structured(&mut self.structured_content, &mut self.content, to);
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
        super::result::complete(&mut self.result_type, from);
    }
}

impl Translate for ToolResultContent {
    fn lower(&mut self, to: ProtocolVersion) {
        lower_structured(&mut self.structured_content, &mut self.content, to);
        self.lower_members(to);
    }

    fn raise(&mut self, from: ProtocolVersion) {
        self.raise_members(from);
    }
}

/// Drops structured content that the revision does not support, and adds it as text unless a text block has it
/// already.
fn lower_structured(structured: &mut Option<RawJson>, content: &mut Vec<Content>, to: ProtocolVersion) {
    let is_supported = |value: &RawJson| {
        to.has(Ability::AnyStructuredOutput) || to.has(Ability::StructuredOutput) && value.is_object()
    };
    if let Some(dropped) = structured.take_if(|value| !is_supported(value))
        && !content.iter().any(|block| block.as_text() == Some(dropped.as_str()))
    {
        content.push(Content::text(dropped.as_str()));
    }
}
