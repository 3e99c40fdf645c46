//! What a server lets be read (server/resources).

use crate::method::{method, notification};
use crate::object::object;
use crate::types::content::{decode_base64, encode_base64};
use crate::types::{
    Annotations, Base64Error, CacheScope, Cursor, EmptyParams, EmptyResult, Icon, InputResponses, Meta, Outcome,
    PaginatedParams, ResultType,
};

object! {
    /// Something that can be read.
    pub struct Resource {
        required {
            /// Where it is.
            uri: String => "uri",
            /// Its name for programs.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is.
            description: String => "description",
            /// Its type.
            mime_type: String => "mimeType",
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Its size in bytes.
            size: i64 => "size",
            /// Pictures of it.
            icons: Vec<Icon> => "icons",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A family of resources whose URIs have a form in common.
    pub struct ResourceTemplate {
        required {
            /// The form, as in RFC 6570.
            uri_template: String => "uriTemplate",
            /// Its name for programs.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is.
            description: String => "description",
            /// The type of all of them.
            mime_type: String => "mimeType",
            /// Hints.
            annotations: Box<Annotations> => "annotations",
            /// Pictures of it.
            icons: Vec<Icon> => "icons",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What stands in a resource: text or bytes.
    pub struct ResourceContents {
        required {
            /// Where it was read; may lie within what was asked for.
            uri: String => "uri",
        }
        optional {
            /// Its type.
            mime_type: String => "mimeType",
            /// The text, if it is text.
            text: String => "text",
            /// The bytes in base64, if it is not.
            blob: String => "blob",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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

object! {
    /// A page of resources.
    pub struct ListResourcesResult (custom) {
        required {
            /// The resources.
            resources: Vec<Resource> => "resources",
        }
        optional {
            /// Where the next page begins, if there is one.
            next_cursor: Cursor => "nextCursor",
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// For how many milliseconds it may be reused.
            ttl_ms: i64 = 0 => "ttlMs",
            /// By whom.
            cache_scope: CacheScope = CacheScope::Private => "cacheScope",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// A page of templates.
    pub struct ListResourceTemplatesResult (custom) {
        required {
            /// The templates.
            resource_templates: Vec<ResourceTemplate> => "resourceTemplates",
        }
        optional {
            /// Where the next page begins, if there is one.
            next_cursor: Cursor => "nextCursor",
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// For how many milliseconds it may be reused.
            ttl_ms: i64 = 0 => "ttlMs",
            /// By whom.
            cache_scope: CacheScope = CacheScope::Private => "cacheScope",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What to read.
    pub struct ReadResourceParams {
        required {
            /// Where it is.
            uri: String => "uri",
        }
        optional {
            /// Answers to what the last round asked for.
            input_responses: InputResponses => "inputResponses",
            /// What the last round wants to see again, as it came.
            request_state: String => "requestState",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What was read.
    pub struct ReadResourceResult (custom) {
        required {
            /// The contents; more than one if the resource has parts.
            contents: Vec<ResourceContents> => "contents",
        }
        optional {
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// For how many milliseconds it may be reused.
            ttl_ms: i64 = 0 => "ttlMs",
            /// By whom.
            cache_scope: CacheScope = CacheScope::Private => "cacheScope",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// Which resource to watch, or not any more; which one has changed.
    pub struct ResourceParams {
        required {
            /// Where it is.
            uri: String => "uri",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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
