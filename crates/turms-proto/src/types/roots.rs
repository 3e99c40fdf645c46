//! Where a client lets servers look (client/roots).

use crate::method::{method, notification};
use crate::object::object;
use crate::types::{EmptyParams, Meta};

object! {
    /// A directory or file that the client has opened to servers.
    pub struct Root {
        required {
            /// A `file://` URI.
            uri: String => "uri",
        }
        optional {
            /// What to call it.
            name: String => "name",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// The answer to `roots/list`.
    pub struct ListRootsResult {
        required {
            /// The roots.
            roots: Vec<Root> => "roots",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

method!(
    /// `roots/list`, asked by servers; since 2026-07-28 only inside `inputRequests`.
    ListRoots = "roots/list", EmptyParams => ListRootsResult
);

notification!(
    /// `notifications/roots/list_changed`, until 2025-11-25.
    RootsListChanged = "notifications/roots/list_changed", EmptyParams
);
