//! Who speaks and what they can do (basic/lifecycle until 2025-11-25, server/discover after).

use crate::ProtocolVersion;
use crate::method::{method, notification};
use crate::object::{object, string_enum};
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

object! {
    /// A picture that stands for something.
    pub struct Icon {
        required {
            /// An `https:` or `data:` URI.
            src: String => "src",
        }
        optional {
            /// The picture's type, where the URI does not tell.
            mime_type: String => "mimeType",
            /// Sizes such as `48x48`, or `any`.
            sizes: Vec<String> => "sizes",
            /// The background it is made for.
            theme: Theme => "theme",
        }
    }
}

object! {
    /// A program that speaks the protocol. For people and logs: never decide anything by it.
    pub struct Implementation {
        required {
            /// Its name for programs.
            name: String => "name",
            /// Its version.
            version: String => "version",
        }
        optional {
            /// Its name for people.
            title: String => "title",
            /// What it is.
            description: String => "description",
            /// Where to read more.
            website_url: String => "websiteUrl",
            /// Pictures of it.
            icons: Vec<Icon> => "icons",
        }
    }
}

object! {
    /// How a client of the older dialect opens a connection.
    pub struct InitializeParams {
        required {
            /// The revision that it would like to speak.
            protocol_version: String => "protocolVersion",
            /// What it can do.
            capabilities: ClientCapabilities => "capabilities",
            /// Who it is.
            client_info: Implementation => "clientInfo",
        }
        optional {
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// How a server of the older dialect answers.
    pub struct InitializeResult {
        required {
            /// The revision that both speak from now on.
            protocol_version: String => "protocolVersion",
            /// What it can do.
            capabilities: ServerCapabilities => "capabilities",
            /// Who it is.
            server_info: Implementation => "serverInfo",
        }
        optional {
            /// How to use it, for the model.
            instructions: String => "instructions",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What a server tells about itself without a handshake.
    pub struct DiscoverResult {
        required {
            /// The revisions that it speaks.
            supported_versions: Vec<String> => "supportedVersions",
            /// What it can do.
            capabilities: ServerCapabilities => "capabilities",
        }
        optional {
            /// How to use it, for the model.
            instructions: String => "instructions",
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// For how many milliseconds it may be reused.
            ttl_ms: i64 = 0 => "ttlMs",
            /// By whom.
            cache_scope: CacheScope = CacheScope::Private => "cacheScope",
            /// Beside the subject; says who the server is.
            meta: Meta => "_meta",
        }
    }
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
