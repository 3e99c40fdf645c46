//! Who speaks and what they can do (basic/lifecycle until 2025-11-25, server/discover after).

use turms_proto_derive::ProtocolObject;

use crate::ProtocolVersion;
use crate::json::Object;
use crate::method::{method, notification};
use crate::object::string_enum;
use crate::types::{CacheScope, ClientCapabilities, EmptyParams, Meta, ResultType, ServerCapabilities, key};

string_enum! {
    /// The background an icon is made for.
    open Theme {
        /// A light one.
        Light = "light",
        /// A dark one.
        Dark = "dark",
    }
}

/// A picture that stands for something.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Icon {
    /// An `https:` or `data:` URI.
    pub src: String,
    /// The picture's type, where the URI does not tell.
    pub mime_type: Option<String>,
    /// Sizes such as `48x48`, or `any`.
    pub sizes: Option<Vec<String>>,
    /// The background it is made for.
    pub theme: Option<Theme>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A program that speaks the protocol. For people and logs: never decide anything by it.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Implementation {
    /// Its name for programs.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// What it is.
    #[object(since = V2025_11_25)]
    pub description: Option<String>,
    /// Where to read more.
    #[object(since = V2025_11_25)]
    pub website_url: Option<String>,
    /// Pictures of it.
    #[object(since = V2025_11_25)]
    pub icons: Option<Vec<Icon>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// How a client of the older dialect opens a connection.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InitializeParams {
    /// The revision that it would like to speak.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ClientCapabilities,
    /// Who it is.
    pub client_info: Implementation,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// How a server of the older dialect answers.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct InitializeResult {
    /// The revision that both speak from now on.
    pub protocol_version: String,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// Who it is.
    pub server_info: Implementation,
    /// How to use it, for the model.
    pub instructions: Option<String>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What a server tells about itself without a handshake.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The revisions that it speaks.
    pub supported_versions: Vec<String>,
    /// What it can do.
    pub capabilities: ServerCapabilities,
    /// How to use it, for the model.
    pub instructions: Option<String>,
    /// What kind of result this is.
    #[object(default = ResultType::Complete)]
    pub result_type: Option<ResultType>,
    /// For how many milliseconds it may be reused.
    #[object(default = 0)]
    pub ttl_ms: Option<i64>,
    /// By whom.
    #[object(default = CacheScope::Private)]
    pub cache_scope: Option<CacheScope>,
    /// Beside the subject; says who the server is.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl DiscoverResult {
    /// What a server of these revisions tells about itself.
    #[must_use]
    pub fn of(versions: &[ProtocolVersion], capabilities: ServerCapabilities, server: &Implementation) -> Self {
        let versions: Vec<String> = versions.iter().map(ToString::to_string).collect();
        let mut meta = Meta::new();
        meta.set(key::SERVER_INFO, server);
        Self::new(versions, capabilities).meta(meta)
    }

    /// Who the server says it is.
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
    Initialized = "notifications/initialized", EmptyParams
);
