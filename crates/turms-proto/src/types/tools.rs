//! What a model can have done (server/tools).

use std::fmt::Display;

use bytestring::ByteString;
use serde::{Deserialize, Serialize};
use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, EncodeError, Object, RawJson};
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{
    CacheScope, Content, Cursor, EmptyParams, Icon, ImageContent, InputResponses, Meta, Outcome, PaginatedParams,
    ResourceContents, ResourceLink, ResultType, TaskRequest,
};

/// A tool.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct Tool {
    /// Its name for programs: letters, digits, `_`, `-` and `.`.
    pub name: String,
    /// The JSON Schema of its arguments.
    #[object(default = Object::trusted(r#"{"type":"object"}"#.into()))]
    pub input_schema: Object,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The JSON Schema of its structured output.
    #[object(since = V2025_06_18)]
    pub output_schema: Option<Object>,
    /// Hints on what calling it means.
    #[object(since = V2025_03_26)]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures of it.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// How it may be run.
    #[object(only = V2025_11_25)]
    pub execution: Option<ToolExecution>,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl Tool {
    /// What to show to people: the title, else the title in the annotations, else the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let annotated = self.annotations.as_ref().and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }

    /// Whether a name is as the specification wants it: 1 to 128 letters, digits, `_`, `-` and `.`.
    #[must_use]
    pub fn is_valid_name(name: &str) -> bool {
        (1..=128).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
    }
}

/// Hints on what calling a tool means. A server may lie: never rest safety on them.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A name for people.
    pub title: Option<String>,
    /// It changes nothing. Assumed false.
    pub read_only_hint: Option<bool>,
    /// It may destroy something. Assumed true.
    pub destructive_hint: Option<bool>,
    /// Calling it again with the same arguments changes nothing more. Assumed false.
    pub idempotent_hint: Option<bool>,
    /// It deals with an open world, as a web search does. Assumed true.
    pub open_world_hint: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ToolAnnotations {
    /// Whether a call may be repeated without asking: the tool is read-only or idempotent.
    #[must_use]
    pub fn is_safe_to_repeat(&self) -> bool {
        self.read_only_hint == Some(true) || self.idempotent_hint == Some(true)
    }
}

string_enum! {
    /// Whether a tool runs as a task (2025-11-25).
    open TaskSupport {
        /// Never.
        Forbidden = "forbidden",
        /// If the caller wants it.
        Optional = "optional",
        /// Always.
        Required = "required",
    }
}

/// How a tool may be run (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolExecution {
    /// Whether it runs as a task.
    pub task_support: Option<TaskSupport>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A page of tools.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListToolsResult {
    /// The tools.
    pub tools: Vec<Tool>,
    /// Where the next page begins, if there is one.
    pub next_cursor: Option<Cursor>,
    /// What kind of result this is.
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// For how many milliseconds it may be reused.
    #[object(default = 0, since = V2026_07_28)]
    pub ttl_ms: Option<i64>,
    /// By whom.
    #[object(default = CacheScope::Private, since = V2026_07_28)]
    pub cache_scope: Option<CacheScope>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CallToolParams {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Option<Object>,
    /// Run it as a task (2025-11-25).
    #[object(only = V2025_11_25)]
    pub task: Option<TaskRequest>,
    /// Answers to what the last round asked for.
    #[object(since = V2026_07_28)]
    pub input_responses: Option<InputResponses>,
    /// What the last round wants to see again, as it came.
    #[object(since = V2026_07_28)]
    pub request_state: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl CallToolParams {
    /// The name and the arguments of a call that asks for no more, as most do; they share the text of its parameters. `None` if
    /// there is more to it or something is wrong: then it has to be decoded as a whole.
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

/// What a tool gave, or how it failed.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ToolResult {
    /// For the model and the people.
    #[object(default = Vec::new())]
    pub content: Vec<Content>,
    /// Whether the tool failed.
    pub is_error: Option<bool>,
    /// What kind of result this is.
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// The same as data.
    #[object(since = V2025_06_18)]
    pub structured_content: Option<RawJson>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ToolResult {
    /// A text.
    pub fn of_text(text: impl Into<String>) -> Self {
        let mut result = Self::new();
        // One block is what most results have.
        result.content = vec![Content::text(text)];
        result
    }

    /// A failure, in words that let the model do better.
    pub fn error(message: impl Display) -> Self {
        Self::of_text(message.to_string()).is_error(true)
    }

    /// Data, and the same as text for those who read only that.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn structured<T: Serialize + ?Sized>(value: &T) -> Result<Self, EncodeError> {
        let value = RawJson::encode(value)?;
        Ok(Self::of_text(value.as_str()).structured_content(value))
    }

    /// One more block.
    #[must_use]
    pub fn with(mut self, content: impl Into<Content>) -> Self {
        self.content.push(content.into());
        self
    }

    /// One more text.
    #[must_use]
    pub fn with_text(self, text: impl Into<String>) -> Self {
        self.with(Content::text(text))
    }

    /// One more picture.
    #[must_use]
    pub fn with_image(self, bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        self.with(Content::image(bytes, mime_type))
    }

    /// One more sound.
    #[must_use]
    pub fn with_audio(self, bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        self.with(Content::audio(bytes, mime_type))
    }

    /// One more resource with its contents, text or bytes.
    #[must_use]
    pub fn with_resource(self, contents: ResourceContents) -> Self {
        self.with(Content::resource(contents))
    }

    /// One more resource to be read.
    #[must_use]
    pub fn with_link(self, link: impl Into<ResourceLink>) -> Self {
        self.with(Content::resource_link(link))
    }

    /// Data beside what is there already.
    ///
    /// # Errors
    /// When the value cannot be written as JSON.
    pub fn with_json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, EncodeError> {
        Ok(self.structured_content(RawJson::encode(value)?))
    }

    /// The text of all text blocks, a line break between two.
    #[must_use]
    pub fn text(&self) -> String {
        let mut texts = self.content.iter().filter_map(Content::as_text);
        let mut text = texts.next().unwrap_or_default().to_owned();
        for more in texts {
            text.push('\n');
            text.push_str(more);
        }
        text
    }

    /// The pictures.
    pub fn images(&self) -> impl Iterator<Item = &ImageContent> {
        self.content.iter().filter_map(|content| match content {
            Content::Image(image) => Some(image),
            _ => None,
        })
    }

    /// Whether the tool failed.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.is_error == Some(true)
    }

    /// The structured content as a type, if there is any.
    #[must_use]
    pub fn structured_as<'de, T: Deserialize<'de>>(&'de self) -> Option<Result<T, DecodeError>> {
        self.structured_content.as_ref().map(|value| value.decode().map_err(|error| error.within("structuredContent")))
    }
}

crate::types::multi_round!(ToolResult without content, may be a task: true);

method!(
    /// `tools/list`.
    ListTools = "tools/list", PaginatedParams => ListToolsResult
);

method!(
    /// `tools/call`.
    CallTool = "tools/call", CallToolParams => Outcome<ToolResult>
);

notification!(
    /// `notifications/tools/list_changed`.
    ToolListChanged = "notifications/tools/list_changed", EmptyParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_as_text_pictures_and_data() {
        let result = ToolResult::structured(&[1, 2]).unwrap().with("two").with(Content::image([1], "image/png"));
        assert_eq!(result.text(), "[1,2]\ntwo");
        assert_eq!(result.images().count(), 1);
        assert_eq!(result.structured_as::<Vec<i64>>().unwrap().unwrap(), [1, 2]);
        assert!(!result.failed() && ToolResult::error("no").failed());
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
        let result: ToolResult = crate::decode(r#"{"content":[],"structuredContent":null}"#).unwrap();
        assert_eq!(result.structured_content, Some(RawJson::NULL));
        assert_eq!(serde_json::to_string(&result).unwrap(), r#"{"content":[],"structuredContent":null}"#);
    }
}
