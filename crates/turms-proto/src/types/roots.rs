//! Roots of a client (client/roots).

use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::method::{method, notification};
use crate::types::{EmptyParams, Meta};

/// A directory or file that servers may use.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Root {
    /// A `file://` URI.
    pub uri: String,
    /// Display name.
    pub name: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", since = V2025_06_18)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `roots/list`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListRootsResult {
    /// The roots.
    pub roots: Vec<Root>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta", until = V2025_11_25)]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `roots/list`, sent by servers; since 2026-07-28 only inside `inputRequests`.
    ListRoots = "roots/list", EmptyParams => ListRootsResult
);

notification!(
    /// `notifications/roots/list_changed`, until 2025-11-25.
    RootsListChangedNotification = "notifications/roots/list_changed", EmptyParams
);
