//! What a server lets be read (server/resources).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::content::{decode_base64, encode_base64};
use crate::types::{
    Annotations, Base64Error, CacheScope, Cursor, EmptyParams, EmptyResult, Icon, InputResponses, Meta, Outcome,
    PaginatedParams, ResultType,
};

/// Something that can be read.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Resource {
    /// Where it is.
    pub uri: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Its type.
    pub mime_type: Option<String>,
    /// Hints.
    pub annotations: Option<Box<Annotations>>,
    /// Its size in bytes.
    pub size: Option<i64>,
    /// Pictures of it.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A family of resources whose URIs have a form in common.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The form, as in RFC 6570.
    pub uri_template: String,
    /// Its name for programs.
    pub name: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The type of all of them.
    pub mime_type: Option<String>,
    /// Hints.
    pub annotations: Option<Box<Annotations>>,
    /// Pictures of it.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What stands in a resource: text or bytes.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceContents {
    /// Where it was read; may lie within what was asked for.
    pub uri: String,
    /// Its type.
    pub mime_type: Option<String>,
    /// The text, if it is text.
    pub text: Option<String>,
    /// The bytes in base64, if it is not.
    pub blob: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ResourceContents {
    /// Text at `uri`.
    pub fn of_text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri).text(text)
    }

    /// Bytes at `uri`.
    pub fn of_bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri).blob(encode_base64(bytes))
    }

    /// The bytes: of the text, or those in base64.
    ///
    /// # Errors
    /// When the blob is not base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        match (&self.text, &self.blob) {
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, Some(blob)) => decode_base64(blob),
            (None, None) => Ok(Vec::new()),
        }
    }
}

/// A page of resources.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListResourcesResult {
    /// The resources.
    pub resources: Vec<Resource>,
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

/// A page of templates.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListResourceTemplatesResult {
    /// The templates.
    pub resource_templates: Vec<ResourceTemplate>,
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

/// What to read.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ReadResourceParams {
    /// Where it is.
    pub uri: String,
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

/// What was read.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The contents; more than one if the resource has parts.
    pub contents: Vec<ResourceContents>,
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

/// Which resource to watch, or not any more; which one has changed.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceParams {
    /// Where it is.
    pub uri: String,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

crate::types::multi_round!(ReadResourceResult without contents, may be a task: false);

method!(
    /// `resources/list`.
    ListResources = "resources/list", PaginatedParams => ListResourcesResult
);

method!(
    /// `resources/templates/list`.
    ListResourceTemplates = "resources/templates/list", PaginatedParams => ListResourceTemplatesResult
);

method!(
    /// `resources/read`.
    ReadResource = "resources/read", ReadResourceParams => Outcome<ReadResourceResult>
);

method!(
    /// `resources/subscribe`, until 2025-11-25.
    Subscribe = "resources/subscribe", ResourceParams => EmptyResult
);

method!(
    /// `resources/unsubscribe`, until 2025-11-25.
    Unsubscribe = "resources/unsubscribe", ResourceParams => EmptyResult
);

notification!(
    /// `notifications/resources/list_changed`.
    ResourceListChanged = "notifications/resources/list_changed", EmptyParams
);

notification!(
    /// `notifications/resources/updated`.
    ResourceUpdated = "notifications/resources/updated", ResourceParams
);
