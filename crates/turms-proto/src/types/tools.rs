//! Tools of a server (server/tools).

use std::fmt::Display;

use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, EncodeError, Object, RawJson};
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::content::text_of;
use crate::types::{
    CacheScope, Content, Cursor, EmptyParams, Icon, ImageContent, InputResponses, Meta, Outcome, PaginatedParams,
    ResourceContents, ResourceLink, ResultType, TaskRequest,
};

/// Definition of a tool.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct Tool {
    /// Programmatic name: letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// JSON Schema of the arguments. Default: any object.
    #[object(default = Object::trusted(r#"{"type":"object"}"#.into()))]
    pub input_schema: Object,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description for the model.
    pub description: Option<String>,
    /// JSON Schema of the structured output.
    #[object(since = V2025_06_18)]
    pub output_schema: Option<Object>,
    /// Hints on the behaviour of the tool.
    #[object(since = V2025_03_26)]
    pub annotations: Option<ToolAnnotations>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Execution settings.
    #[object(only = V2025_11_25)]
    pub execution: Option<ToolExecution>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl Tool {
    /// Returns the display name: the title, else the title in the annotations, else the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }

    /// Returns `true` if the name is valid: 1 to 128 letters, digits, `_`, `-` and `.`.
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        (1..=128).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    }
}

/// Hints on the behaviour of a tool. They are untrusted: do not base security decisions on them.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Display name.
    pub title: Option<String>,
    /// The tool does not modify its environment; if absent, `false`.
    pub read_only_hint: Option<bool>,
    /// The tool may perform destructive updates; if absent, `true`.
    pub destructive_hint: Option<bool>,
    /// Repeated calls with the same arguments have no additional effect; if absent, `false`.
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with external entities, such as web search; if absent, `true`.
    pub open_world_hint: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ToolAnnotations {
    /// Returns `true` if calls can be repeated safely: the tool is read-only or idempotent.
    #[must_use]
    pub fn is_safe_to_repeat(&self) -> bool {
        self.read_only_hint == Some(true) || self.idempotent_hint == Some(true)
    }
}

string_enum! {
    /// Support of a tool for tasks (2025-11-25).
    open TaskSupport {
        /// The tool cannot run as a task.
        Forbidden = "forbidden",
        /// The tool runs as a task on request.
        Optional = "optional",
        /// The tool always runs as a task.
        Required = "required",
    }
}

/// Execution settings of a tool (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolExecution {
    /// Support for tasks.
    pub task_support: Option<TaskSupport>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `tools/list`: a page of tools.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Cursor of the next page; `None` on the last page.
    pub next_cursor: Option<Cursor>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Time for which the result may be cached, in milliseconds. Default: 0.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// Caches that may store the result. Default: [`CacheScope::Private`].
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `tools/call`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CallToolParams {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the tool.
    pub arguments: Option<Object>,
    /// Request to run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Responses to the input requests of the previous round.
    #[object(since = V2026_07_28)]
    pub input_responses: Option<InputResponses>,
    /// Request state from the previous round, sent back unchanged.
    #[object(since = V2026_07_28)]
    pub request_state: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl CallToolParams {
    /// Returns the name and arguments of a call that has only these and `_meta`, as most calls do. They share the
    /// buffer of `params`. Returns `None` for other or invalid parameters, which need to be decoded in full.
    #[doc(hidden)]
    #[must_use]
    pub fn plain(params: &RawJson) -> Option<(ByteString, Option<Object>)> {
        let [name, arguments, meta] = params.call_members()?;
        if meta.is_some_and(|meta| !meta.starts_with('{')) {
            return None;
        }
        let arguments = match arguments {
            Some(arguments) => Some(params.part(arguments).into_object()?),
            None => None,
        };
        Some((params.text_of(name?)?, arguments))
    }
}

/// Result of `tools/call`.
#[doc(alias = "ToolResult")]
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct CallToolResult {
    /// Content for the model and the user.
    #[object(default = Vec::new())]
    pub content: Vec<Content>,
    /// `true` if the tool failed.
    pub is_error: Option<bool>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Structured content: the result as JSON.
    #[object(since = V2025_06_18)]
    pub structured_content: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl CallToolResult {
    /// Creates a result with one text block.
    pub fn from_text(text: impl Into<String>) -> Self {
        let mut result = Self::new();
        // Most results have one block, so allocate exactly one.
        result.content = vec![Content::text(text)];
        result
    }

    /// Creates an error result. The message is shown to the model, so it should say how to correct the call.
    pub fn error(message: impl Display) -> Self {
        Self::from_text(message.to_string()).with_is_error(true)
    }

    /// Creates a result with structured content and the same JSON as a text block, for clients that read only text.
    ///
    /// # Errors
    /// If the value cannot be encoded as JSON.
    pub fn from_structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let value = RawJson::encode(value)?;
        Ok(Self::from_text(value.as_str()).structured_content(value))
    }

    /// Adds a content block.
    #[must_use]
    pub fn with(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }

    /// Adds a text block.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with(Content::text(text))
    }

    /// Adds an image block.
    #[must_use]
    pub fn with_image(self, bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        self.with(Content::image(bytes, mime_type))
    }

    /// Adds an audio block.
    #[must_use]
    pub fn with_audio(self, bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        self.with(Content::audio(bytes, mime_type))
    }

    /// Adds an embedded resource.
    #[must_use]
    pub fn with_resource(self, contents: ResourceContents) -> Self {
        self.with(Content::resource(contents))
    }

    /// Adds a link to a resource.
    #[must_use]
    pub fn with_link(self, link: impl Into<ResourceLink>) -> Self {
        self.with(Content::resource_link(link))
    }

    /// Sets the structured content and keeps the content blocks.
    ///
    /// # Errors
    /// If the value cannot be encoded as JSON.
    pub fn with_structured<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, EncodeError> {
        Ok(self.structured_content(RawJson::encode(value)?))
    }

    /// Returns the text of all text blocks, separated by line breaks.
    #[must_use]
    pub fn text(&self) -> String {
        text_of(&self.content)
    }

    /// Iterates over the images.
    pub fn images(&self) -> impl Iterator<Item = &ImageContent> {
        self.content.iter().filter_map(|content| match content {
            Content::Image(image) => Some(image),
            _ => None,
        })
    }

    /// Returns `true` if the tool failed.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.is_error == Some(true)
    }

    /// Decodes the structured content.
    ///
    /// # Errors
    /// If there is none, or it does not match the type. Servers before 2025-06-18 send none.
    pub fn structured<'de, T: Deserialize<'de>>(&'de self) -> Result<T, DecodeError> {
        let missing = || DecodeError::custom("the result has no structuredContent");
        let value = self.structured_content.as_ref().ok_or_else(missing)?;
        value.decode().map_err(|error| error.within("structuredContent"))
    }

    /// Turns the result of a tool that failed into an error.
    ///
    /// # Errors
    /// If the tool [failed](Self::is_error).
    pub fn into_result(self) -> Result<Self, ToolFailedError> {
        if self.is_error() { Err(ToolFailedError(Box::new(self))) } else { Ok(self) }
    }
}

/// The error of a tool that failed: see [`CallToolResult::into_result`].
#[derive(Debug, Clone, PartialEq)]
pub struct ToolFailedError(Box<CallToolResult>);

impl ToolFailedError {
    /// Returns the result, which says what failed.
    #[must_use]
    pub fn result(&self) -> &CallToolResult {
        &self.0
    }
}

impl Display for ToolFailedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.text() {
            text if text.is_empty() => f.write_str("the tool failed"),
            text => write!(f, "the tool failed: {text}"),
        }
    }
}

impl std::error::Error for ToolFailedError {}

crate::types::multi_round!(CallToolResult without content, may be a task: true);

method!(
    /// `tools/list`.
    ListTools = "tools/list", PaginatedParams => ListToolsResult
);

method!(
    /// `tools/call`.
    CallTool = "tools/call", CallToolParams => Outcome<CallToolResult>
);

notification!(
    /// `notifications/tools/list_changed`.
    ToolListChangedNotification = "notifications/tools/list_changed", EmptyParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_text_pictures_and_data() {
        let result =
            CallToolResult::from_structured(&[1, 2]).unwrap().with("two").with(Content::image([1], "image/png"));
        assert_eq!(result.text(), "[1,2]\ntwo");
        assert_eq!(result.images().count(), 1);
        assert_eq!(result.structured::<Vec<i64>>().unwrap(), [1, 2]);
        assert!(result.structured::<String>().unwrap_err().to_string().contains("structuredContent"));
        let missing = CallToolResult::new().structured::<String>().unwrap_err();
        assert_eq!(missing.to_string(), "the result has no structuredContent");
        assert!(!result.is_error() && CallToolResult::error("no").is_error());
    }

    #[test]
    fn a_tool_that_failed_is_an_error_on_request() {
        assert_eq!(CallToolResult::from_text("yes").into_result().unwrap().text(), "yes");
        let error = CallToolResult::error("no").into_result().unwrap_err();
        assert_eq!((error.to_string().as_str(), error.result().text().as_str()), ("the tool failed: no", "no"));
        assert_eq!(CallToolResult::new().with_is_error(true).into_result().unwrap_err().to_string(), "the tool failed");
    }

    #[test]
    fn a_plain_call_is_the_same_as_it_is_decoded() {
        let of = |text: &str| {
            let params = RawJson::parse(text.to_owned()).unwrap();
            let plain = CallToolParams::plain(&params);
            if let Some((name, arguments)) = &plain {
                let mut whole: CallToolParams = params.decode().unwrap();
                assert_eq!((&*whole.name, &whole.arguments), (&**name, arguments), "{text}");
                (whole.arguments, whole.meta) = (None, None);
                assert_eq!(whole, CallToolParams::new(&**name), "{text}");
            }
            plain.is_some()
        };
        assert!(of(r#"{"name":"a"}"#));
        assert!(of(r#"{ "_meta" : {"x":1}, "arguments":{"text":"b c"},"name":"a\u0062"}"#));
        for other in [
            r#"{"name":"a","arguments":null}"#,
            r#"{"name":"a","arguments":[]}"#,
            r#"{"name":"a","name":"b"}"#,
            r#"{"\u006eame":"a"}"#,
            r#"{"name":"a","other":1}"#,
            r#"{"name":"a","requestState":"s"}"#,
            r#"{"name":1}"#,
            r#"{"name":"\ud800"}"#,
            r#"{"arguments":{}}"#,
            r#"{}"#,
            r#"[]"#,
            "1",
        ] {
            assert!(!of(other), "{other}");
        }
    }

    #[test]
    fn the_title_is_shown_before_the_name() {
        let tool = Tool::new("add");
        assert_eq!(tool.display_name(), "add");
        let tool = tool.annotations(ToolAnnotations::new().title("Adder"));
        assert_eq!(tool.display_name(), "Adder");
        assert_eq!(tool.title("Add").display_name(), "Add");
    }

    #[test]
    fn null_is_structured_content() {
        let result: CallToolResult = crate::decode(r#"{"content":[],"structuredContent":null}"#).unwrap();
        assert_eq!(result.structured_content, Some(RawJson::NULL));
        assert_eq!(serde_json::to_string(&result).unwrap(), r#"{"content":[],"structuredContent":null}"#);
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let tool = Tool::new("add");
        let list_tools_result = ListToolsResult::new(Vec::new());
        let code = [
            ("Tool::input_schema", when(tool.input_schema.as_str() == r#"{"type":"object"}"#, "any object")),
            ("ListToolsResult::ttl_ms", count(list_tools_result.ttl_ms.unwrap())),
            (
                "ListToolsResult::cache_scope",
                when(list_tools_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
        ];
        assert_documented(include_str!("tools.rs"), &code);
    }
}
