//! The tools of a server.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use turms_core::__internal::run_blocking;
use turms_proto::header::ParamHeaders;
use turms_proto::types::{CallToolResult, TaskSupport, Tool};
use turms_proto::{Object, RawJson};
use turms_schema::{Trust, Validator};

/// The last listed tools of a server: annotations, output schema, task support.
#[derive(Debug)]
pub(crate) struct ToolIndex {
    known: Mutex<HashMap<String, Arc<KnownTool>>>,
    /// Maximum number of steps of one validation.
    max_validation_steps: u64,
}

#[derive(Debug)]
pub(crate) struct KnownTool {
    safe: bool,
    /// The task support of the tool; `None` if the server does not list the tool.
    tasks: Option<TaskSupport>,
    output: Option<Object>,
    /// Compiled on first use; contains `None` if the schema is invalid.
    validator: OnceLock<Option<Validator>>,
    max_steps: u64,
}

impl ToolIndex {
    /// Maximum number of tools, because a server may list any number.
    const CAPACITY: usize = 100_000;

    pub(crate) fn new(max_validation_steps: u64) -> Self {
        Self { known: Mutex::default(), max_validation_steps }
    }

    pub(crate) fn learn(&self, tools: &[Tool]) {
        let mut known = self.known.lock();
        for tool in tools {
            if known.len() < Self::CAPACITY || known.contains_key(&tool.name) {
                let safe = tool.annotations.as_ref().is_some_and(|annotations| annotations.is_safe_to_repeat());
                let output = tool.output_schema.clone();
                let tasks = tool.execution.as_ref().and_then(|execution| execution.task_support.clone());
                let tasks = Some(tasks.unwrap_or(TaskSupport::Forbidden));
                let (validator, max_steps) = (OnceLock::new(), self.max_validation_steps);
                let known_tool = KnownTool { safe, tasks, output, validator, max_steps };
                known.insert(tool.name.clone(), Arc::new(known_tool));
            }
        }
    }

    /// Records that the server does not list a tool, so that it is not looked up again.
    pub(crate) fn learn_missing(&self, name: &str) {
        let unknown = || {
            let (validator, max_steps) = (OnceLock::new(), self.max_validation_steps);
            Arc::new(KnownTool { safe: false, tasks: None, output: None, validator, max_steps })
        };
        let mut known = self.known.lock();
        if known.len() < Self::CAPACITY {
            known.entry(name.to_owned()).or_insert_with(unknown);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.known.lock().get(name).cloned()
    }

    pub(crate) fn forget(&self) {
        self.known.lock().clear();
    }
}

impl KnownTool {
    /// Returns `true` if a call may be repeated although it may have run.
    pub(crate) fn is_idempotent(&self) -> bool {
        self.safe
    }

    /// Returns the task support of the tool (2025-11-25), if it is known.
    pub(crate) fn task_support(&self) -> Option<&TaskSupport> {
        self.tasks.as_ref()
    }

    /// Returns `true` if a result must be validated on a separate thread, because the result or a not yet compiled
    /// schema is large.
    pub(crate) fn is_large(&self, result: &CallToolResult) -> bool {
        let (Some(schema), Some(content)) = (&self.output, &result.structured_content) else { return false };
        let is_large = |text: &str| text.len() > Validator::MAX_INLINE_BYTES;
        is_large(content.as_str()) || is_large(schema.as_str()) && self.validator.get().is_none()
    }

    /// Validates a result against the output schema of the tool, and returns the violations. A result with `isError`
    /// needs no structured output.
    pub(crate) fn violations(&self, name: &str, result: &CallToolResult) -> Vec<String> {
        let Some(schema) = self.output.as_ref().filter(|_| !result.is_error()) else { return Vec::new() };
        let Some(content) = &result.structured_content else {
            return vec!["there is none".to_owned()];
        };
        let Some(validator) = self.validator.get_or_init(|| usable(name, schema)) else { return Vec::new() };
        let max_steps = Validator::steps_for(content.as_str().len(), self.max_steps);
        match validator.check_within(content, max_steps) {
            Ok(warnings) => {
                if !warnings.is_empty() {
                    let formats: Vec<String> = warnings.iter().map(|it| format!("structuredContent{it}")).collect();
                    let formats = formats.join("; ");
                    tracing::warn!(target: "turms::client", tool = ?name, %formats, "the tool's output has other formats than declared");
                }
                Vec::new()
            }
            Err(error) => error.messages("structuredContent"),
        }
    }

    /// Like [`KnownTool::violations`], on a separate thread.
    pub(crate) async fn violations_apart(self: Arc<Self>, name: &str, result: &CallToolResult) -> Vec<String> {
        let (name, result) = (name.to_owned(), result.clone());
        let checked = run_blocking(move || self.violations(&name, &result)).await;
        checked.unwrap_or_else(|| vec!["the validation was not finished".to_owned()])
    }
}

fn usable(name: &str, schema: &Object) -> Option<Validator> {
    Validator::new(schema, Trust::Foreign)
        .map(Validator::formats_as_annotations)
        .inspect_err(|error| {
            tracing::warn!(target: "turms::client", tool = ?name, %error, "the tool's output cannot be validated");
        })
        .ok()
}

/// Removes the tools that cannot be called because their header declarations are not valid (server/tools,
/// "x-mcp-header").
pub(crate) fn remove_invalid(tools: &mut Vec<Tool>) {
    tools.retain(|tool| {
        let schema = RawJson::from(tool.input_schema.clone());
        // Few tools have the keyword, and searching the text is cheaper than decoding the schema.
        if !schema.as_str().contains("x-mcp-header") {
            return true;
        }
        let checked = match schema.decode() {
            Ok(schema) => ParamHeaders::from_schema(&schema).map(drop).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = &checked {
            tracing::warn!(target: "turms::client", tool = ?tool.name, %error, "the tool is left out");
        }
        checked.is_ok()
    });
}

#[cfg(test)]
mod tests {
    use turms_schema::DEFAULT_MAX_VALIDATION_STEPS;

    use super::*;

    fn tool(schema: &'static str) -> Tool {
        Tool::new("a").output_schema(Object::parse(schema).unwrap())
    }

    #[test]
    fn output_is_held_against_the_schema() {
        let tools = ToolIndex::new(DEFAULT_MAX_VALIDATION_STEPS);
        tools.learn(&[tool(r#"{"type":"object","required":["sum"]}"#)]);
        let known = tools.get("a").unwrap();
        let result = |json: &'static str| CallToolResult::new().structured_content(RawJson::parse(json).unwrap());
        assert!(known.violations("a", &result(r#"{"sum":1}"#)).is_empty());
        let complaint = "structuredContent: \"sum\" is a required property";
        assert_eq!(known.violations("a", &result("{}")), [complaint]);
        assert_eq!(known.violations("a", &CallToolResult::from_text("1")), ["there is none"]);
        assert!(known.violations("a", &CallToolResult::error("no")).is_empty());
    }

    /// The warnings that are logged while something is done.
    #[derive(Debug, Default, Clone)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            *metadata.level() == tracing::Level::WARN
        }

        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }

        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            let mut fields = String::new();
            event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                fields.push_str(&format!("{field}={value:?} "));
            });
            self.0.lock().push(fields);
        }

        fn enter(&self, _: &tracing::span::Id) {}

        fn exit(&self, _: &tracing::span::Id) {}
    }

    #[test]
    fn another_format_is_a_warning_where_formats_are_annotations() {
        let result = CallToolResult::new().structured_content(RawJson::parse(r#"{"day":"today"}"#).unwrap());
        let checked = |dialect: &str| {
            let schema = format!(r#"{{{dialect}"type":"object","properties":{{"day":{{"format":"date"}}}}}}"#);
            let tools = ToolIndex::new(DEFAULT_MAX_VALIDATION_STEPS);
            tools.learn(&[Tool::new("a").output_schema(Object::parse(schema).unwrap())]);
            let warnings = Warnings::default();
            let known = tools.get("a").unwrap();
            let violations = tracing::subscriber::with_default(warnings.clone(), || known.violations("a", &result));
            let warnings = warnings.0.lock().join("; ");
            (violations, warnings)
        };
        let words = "structuredContent.day: \"today\" is not a \"date\"";
        for dialect in ["", r#""$schema":"https://json-schema.org/draft/2019-09/schema","#] {
            let (violations, warnings) = checked(dialect);
            assert_eq!(violations, [""; 0]);
            assert!(warnings.contains(words) && warnings.contains("tool=\"a\""), "{warnings}");
        }
        let (violations, warnings) = checked(r#""$schema":"http://json-schema.org/draft-07/schema#","#);
        assert_eq!((violations, warnings.as_str()), (vec![words.to_owned()], ""));
    }

    #[test]
    fn work_on_an_output_is_bounded_by_the_setting() {
        let result = |length| CallToolResult::new().structured_content(RawJson::string(&"ab".repeat(length)));
        let violations = |max_steps, length| {
            let tools = ToolIndex::new(max_steps);
            tools.learn(&[tool(r#"{"pattern":"(?:a?b?){500}[^ab]{3}x|^[ab]*$"}"#)]);
            tools.get("a").unwrap().violations("a", &result(length))
        };
        let words = "structuredContent: is too expensive to validate with \"pattern\", see `max_validation_steps`";
        assert_eq!(violations(DEFAULT_MAX_VALIDATION_STEPS, 2_000_000), [words]);
        assert!(violations(DEFAULT_MAX_VALIDATION_STEPS, 1000).is_empty());
        assert_eq!(violations(1000, 1000), [words]);
    }

    #[test]
    fn a_schema_that_cannot_be_used_does_not_fail_calls() {
        let tools = ToolIndex::new(DEFAULT_MAX_VALIDATION_STEPS);
        tools.learn(&[tool(r#"{"$ref":"https://example.com/x.json"}"#)]);
        let result = CallToolResult::new().structured_content(RawJson::NULL);
        assert!(tools.get("a").unwrap().violations("a", &result).is_empty());
    }

    #[test]
    fn tools_with_invalid_headers_are_left_out() {
        let with = |name: &str, header: &str| {
            let schema = format!(
                r#"{{"type":"object","properties":{{"region":{{"type":"string","x-mcp-header":"{header}"}}}}}}"#
            );
            Tool::new(name).input_schema(Object::parse(schema).unwrap())
        };
        let mut tools = vec![with("good", "Region"), with("bad", "not a token"), Tool::new("plain")];
        remove_invalid(&mut tools);
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["good", "plain"]);
    }
}
