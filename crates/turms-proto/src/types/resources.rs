//! Resources of a server (server/resources).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::content::{decode_base64, encode_base64};
use crate::types::{
    Annotations, Base64Error, CacheScope, Cursor, EmptyParams, EmptyResult, Icon, InputResponses, Meta, Outcome,
    PaginatedParams, ResultType,
};

/// Definition of a resource.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Resource {
    /// The URI.
    pub uri: String,
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description of the resource.
    pub description: Option<String>,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Size in bytes.
    pub size: Option<i64>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A template for the URIs of resources.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The URI template (RFC 6570).
    pub uri_template: String,
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description of the resources.
    pub description: Option<String>,
    /// MIME type of all matching resources.
    pub mime_type: Option<String>,
    /// Hints on how to use the content.
    pub annotations: Option<Box<Annotations>>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Contents of a resource: text or binary data.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceContents {
    /// URI of the contents. It may be a sub-resource of the requested URI.
    pub uri: String,
    /// The MIME type.
    pub mime_type: Option<String>,
    /// The text; absent for binary data.
    pub text: Option<String>,
    /// Binary data in base64.
    pub blob: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ResourceContents {
    /// Creates contents from text.
    pub fn from_text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self::new(uri).text(text)
    }

    /// Creates contents from bytes, which are encoded in base64.
    pub fn from_bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self::new(uri).blob(encode_base64(bytes))
    }

    /// Returns the bytes of the text or of the decoded blob.
    ///
    /// # Errors
    /// If the blob is not valid base64.
    pub fn bytes(&self) -> Result<Vec<u8>, Base64Error> {
        match (&self.text, &self.blob) {
            (Some(text), _) => Ok(text.as_bytes().to_vec()),
            (None, Some(blob)) => decode_base64(blob),
            (None, None) => Ok(Vec::new()),
        }
    }
}

/// Result of `resources/list`: a page of resources.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListResourcesResult {
    /// The resources.
    pub resources: Vec<Resource>,
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

/// Result of `resources/templates/list`: a page of templates.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ListResourceTemplatesResult {
    /// The templates.
    pub resource_templates: Vec<ResourceTemplate>,
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

/// Parameters of `resources/read`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ReadResourceParams {
    /// The URI.
    pub uri: String,
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

/// Result of `resources/read`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// The contents; more than one if the resource has several parts.
    pub contents: Vec<ResourceContents>,
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

impl ReadResourceResult {
    /// Returns the first text of the contents; `None` if all of them are binary.
    ///
    /// ```
    /// # use turms_proto as turms;
    /// use turms::types::{ReadResourceResult, ResourceContents};
    ///
    /// let image = ResourceContents::from_bytes("file:///a.png", [0]);
    /// let text = ResourceContents::from_text("file:///a.txt", "milk");
    /// assert_eq!(ReadResourceResult::new([image.clone(), text]).text(), Some("milk"));
    /// assert_eq!(ReadResourceResult::new([image]).text(), None);
    /// ```
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        self.contents.iter().find_map(|contents| contents.text.as_deref())
    }
}

/// Parameters of `resources/subscribe`, `resources/unsubscribe` and `notifications/resources/updated`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourceParams {
    /// The URI.
    pub uri: String,
    /// Protocol metadata (`_meta`).
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
    ResourceListChangedNotification = "notifications/resources/list_changed", EmptyParams
);

notification!(
    /// `notifications/resources/updated`.
    ResourceUpdatedNotification = "notifications/resources/updated", ResourceParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let list_resources_result = ListResourcesResult::new(Vec::new());
        let list_resource_templates_result = ListResourceTemplatesResult::new(Vec::new());
        let read_resource_result = ReadResourceResult::new(Vec::new());
        let code = [
            ("ListResourcesResult::ttl_ms", count(list_resources_result.ttl_ms.unwrap())),
            (
                "ListResourcesResult::cache_scope",
                when(list_resources_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
            ("ListResourceTemplatesResult::ttl_ms", count(list_resource_templates_result.ttl_ms.unwrap())),
            (
                "ListResourceTemplatesResult::cache_scope",
                when(
                    list_resource_templates_result.cache_scope == Some(CacheScope::Private),
                    "[`CacheScope::Private`]",
                ),
            ),
            ("ReadResourceResult::ttl_ms", count(read_resource_result.ttl_ms.unwrap())),
            (
                "ReadResourceResult::cache_scope",
                when(read_resource_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
        ];
        assert_documented(include_str!("resources.rs"), &code);
    }
}
