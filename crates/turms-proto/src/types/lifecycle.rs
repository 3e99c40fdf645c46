//! Handshake and discovery (basic/lifecycle until 2025-11-25, server/discover after).

use turms_proto_derive::ProtocolObject;

use crate::ProtocolVersion;
use crate::json::Object;
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{CacheScope, ClientCapabilities, EmptyParams, Meta, ResultType, ServerCapabilities, key};

string_enum! {
    /// Background for which an icon is designed.
    open Theme {
        /// A light background.
        Light = "light",
        /// A dark background.
        Dark = "dark",
    }
}

/// An icon.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// MIME type of the image, if the URI does not specify it.
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    pub sizes: Option<Vec<String>>,
    /// Background for which the icon is designed.
    pub theme: Option<Theme>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Name and version of a client or server. For display and logs only: do not base decisions on it.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Implementation {
    /// Programmatic name.
    pub name: String,
    /// The version.
    pub version: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Description of the program.
    #[object(since = V2025_11_25)]
    pub description: Option<String>,
    /// URL of the website.
    #[object(since = V2025_11_25)]
    pub website_url: Option<String>,
    /// Icons for display.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `initialize`, until 2025-11-25.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision that the client requests.
    pub protocol_version: String,
    /// Capabilities of the client.
    pub capabilities: ClientCapabilities,
    /// Name and version of the client.
    pub client_info: Implementation,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `initialize`, until 2025-11-25.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InitializeResult {
    /// The negotiated revision.
    pub protocol_version: String,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Name and version of the server.
    pub server_info: Implementation,
    /// Instructions for the model on how to use the server.
    pub instructions: Option<String>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Result of `server/discover`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions that the server supports.
    pub supported_versions: Vec<String>,
    /// Capabilities of the server.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model on how to use the server.
    pub instructions: Option<String>,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete)]
    pub result_type: Option<ResultType>,
    /// Time for which the result may be cached, in milliseconds. Default: 0.
    #[object(default = 0)]
    pub ttl_ms: Option<i64>,
    /// Caches that may store the result. Default: [`CacheScope::Private`].
    #[object(default = CacheScope::Private)]
    pub cache_scope: Option<CacheScope>,
    /// Protocol metadata (`_meta`), with the server's name and version.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl DiscoverResult {
    /// Creates the result for a server that supports `versions`.
    #[must_use]
    pub fn of(versions: &[ProtocolVersion], capabilities: ServerCapabilities, server: &Implementation) -> Self {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        let mut meta = Meta::new();
        meta.set(key::SERVER_INFO, server);
        Self::new(versions, capabilities).meta(meta)
    }

    /// Returns the name and version of the server, from `_meta`.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.meta.as_ref()?.server_info().ok().flatten()
    }
}

method!(
    /// `initialize`, until 2025-11-25.
    Initialize = "initialize", InitializeParams => InitializeResult
);

method!(
    /// `server/discover`, since 2026-07-28.
    Discover = "server/discover", EmptyParams => DiscoverResult
);

notification!(
    /// `notifications/initialized`, until 2025-11-25.
    InitializedNotification = "notifications/initialized", EmptyParams
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, count, when};

        let discover_result = DiscoverResult::new(Vec::new(), ServerCapabilities::new());
        let code = [
            ("DiscoverResult::ttl_ms", count(discover_result.ttl_ms.unwrap())),
            (
                "DiscoverResult::cache_scope",
                when(discover_result.cache_scope == Some(CacheScope::Private), "[`CacheScope::Private`]"),
            ),
        ];
        assert_documented(include_str!("lifecycle.rs"), &code);
    }
}
