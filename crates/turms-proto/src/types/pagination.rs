//! Pagination and caching of lists (server/utilities/pagination, server/utilities/caching).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::object::string_enum;
use crate::types::Meta;

/// Opaque position of a page. It is sent back unchanged. The empty string is a valid cursor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// Returns the wire format.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<String>> From<T> for Cursor {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Cursor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

crate::revision::opaque!(Cursor);

/// Parameters of every list request.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PaginatedParams {
    /// Cursor of the page to list; `None` for the first page.
    pub cursor: Option<Cursor>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// Caches that may store a result.
    open CacheScope {
        /// Shared caches.
        Public = "public",
        /// Caches of the same authorization context.
        Private = "private",
    }
}
