//! Lists that come in pages and say how long they keep (server/utilities/pagination, server/utilities/caching).

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::Object;
use crate::object::string_enum;
use crate::types::Meta;

/// Where the next page begins: opaque, handed back as it came. The empty string is a cursor too.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Cursor(String);

impl Cursor {
    /// As it stands on the wire.
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

/// The parameters of every list request.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct PaginatedParams {
    /// Where to begin; the first page without.
    pub cursor: Option<Cursor>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// Who may reuse an answer.
    open CacheScope {
        /// Everybody.
        Public = "public",
        /// Whoever has the same authorization.
        Private = "private",
    }
}
