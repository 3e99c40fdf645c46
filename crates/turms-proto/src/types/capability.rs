//! Capabilities of clients and servers (basic/lifecycle until 2025-11-25, basic/index after).

use std::fmt;

use turms_proto_derive::ProtocolObject;

use crate::json::{Object, RawJson};
use crate::jsonrpc::{ErrorCode, ErrorObject};
use crate::types::key;

/// Capabilities of a client.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ClientCapabilities {
    /// Experimental capabilities, by name.
    pub experimental: Option<Object>,
    /// Roots.
    pub roots: Option<RootsCapability>,
    /// Sampling.
    pub sampling: Option<SamplingCapability>,
    /// Elicitation.
    #[object(since = V2025_06_18)]
    pub elicitation: Option<ElicitationCapability>,
    /// Requests that run as tasks (2025-11-25).
    #[object(only = V2025_11_25)]
    pub tasks: Option<ClientTasksCapability>,
    /// Extensions, by id, with their settings.
    pub extensions: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The roots capability of a client.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct RootsCapability {
    /// `true` if the client notifies when its roots change.
    #[object(until = V2025_11_25)]
    pub list_changed: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The sampling capability of a client.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct SamplingCapability {
    /// Support for `includeContext`.
    #[object(since = V2025_11_25)]
    pub context: Option<Object>,
    /// Support for tools.
    #[object(since = V2025_11_25)]
    pub tools: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The elicitation capability of a client. An empty object means forms.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ElicitationCapability {
    /// Support for forms.
    #[object(since = V2025_11_25)]
    pub form: Option<Object>,
    /// Support for URLs.
    #[object(since = V2025_11_25)]
    pub url: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The tasks capability of a client (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ClientTasksCapability {
    /// Support for `tasks/list`.
    pub list: Option<Object>,
    /// Support for `tasks/cancel`.
    pub cancel: Option<Object>,
    /// Requests that can run as tasks.
    pub requests: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Capabilities of a server.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct ServerCapabilities {
    /// Experimental capabilities, by name.
    pub experimental: Option<Object>,
    /// Log messages.
    pub logging: Option<Object>,
    /// Completion of arguments.
    #[object(since = V2025_03_26)]
    pub completions: Option<Object>,
    /// Prompts.
    pub prompts: Option<ListCapability>,
    /// Resources.
    pub resources: Option<ResourcesCapability>,
    /// Tools.
    pub tools: Option<ListCapability>,
    /// Requests that run as tasks (2025-11-25).
    #[object(only = V2025_11_25)]
    pub tasks: Option<ServerTasksCapability>,
    /// Extensions, by id, with their settings.
    pub extensions: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The tools or prompts capability of a server.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ListCapability {
    /// `true` if the server notifies when the list changes.
    pub list_changed: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The resources capability of a server.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ResourcesCapability {
    /// `true` if clients can subscribe to changes of a resource.
    pub subscribe: Option<bool>,
    /// `true` if the server notifies when the list changes.
    pub list_changed: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The tasks capability of a server (2025-11-25).
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ServerTasksCapability {
    /// Support for `tasks/list`.
    pub list: Option<Object>,
    /// Support for `tasks/cancel`.
    pub cancel: Option<Object>,
    /// Requests that can run as tasks.
    pub requests: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl ServerTasksCapability {
    /// Returns `true` if tool calls can run as tasks.
    #[must_use]
    pub fn runs_tools(&self) -> bool {
        let tools = self.requests.as_ref().and_then(|requests| requests.get("tools"));
        tools.is_some_and(|tools| tools.member("call").is_some())
    }
}

/// A single capability of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCapability<'a> {
    /// `roots`.
    Roots,
    /// `roots.listChanged`.
    RootsListChanged,
    /// `sampling`.
    Sampling,
    /// `sampling.tools`.
    SamplingTools,
    /// `sampling.context`.
    SamplingContext,
    /// `elicitation.form`.
    FormElicitation,
    /// `elicitation.url`.
    UrlElicitation,
    /// An extension, by id.
    Extension(&'a str),
    /// An experimental capability, by name.
    Experimental(&'a str),
}

/// A single capability of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerCapability<'a> {
    /// `tools`.
    Tools,
    /// `tools.listChanged`.
    ToolsListChanged,
    /// `resources`.
    Resources,
    /// `resources.listChanged`.
    ResourcesListChanged,
    /// `resources.subscribe`.
    ResourceSubscriptions,
    /// `prompts`.
    Prompts,
    /// `prompts.listChanged`.
    PromptsListChanged,
    /// `completions`.
    Completions,
    /// `logging`.
    Logging,
    /// An extension, by id.
    Extension(&'a str),
    /// An experimental capability, by name.
    Experimental(&'a str),
}

impl ClientCapabilities {
    /// Returns `true` if the client declared the capability.
    #[must_use]
    pub fn supports(&self, capability: ClientCapability<'_>) -> bool {
        use ClientCapability::*;
        let roots = self.roots.as_ref();
        let sampling = self.sampling.as_ref();
        let elicitation = self.elicitation.as_ref();
        match capability {
            Roots => roots.is_some(),
            RootsListChanged => roots.is_some_and(|roots| roots.list_changed == Some(true)),
            Sampling => sampling.is_some(),
            SamplingTools => sampling.is_some_and(|sampling| sampling.tools.is_some()),
            SamplingContext => sampling.is_some_and(|sampling| sampling.context.is_some()),
            // 2025-06-18 declares forms with an empty object, and later revisions accept that.
            FormElicitation => elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none()),
            UrlElicitation => elicitation.is_some_and(|modes| modes.url.is_some()),
            Extension(id) => has(self.extensions.as_ref(), id),
            Experimental(name) => has(self.experimental.as_ref(), name),
        }
    }

    /// Requires a capability of the client.
    ///
    /// # Errors
    /// -32021 with the required capability as data, if the client did not declare it.
    pub fn require(&self, capability: ClientCapability<'_>) -> Result<(), ErrorObject> {
        if self.supports(capability) {
            return Ok(());
        }
        let mut data = Object::new();
        data.insert_raw("requiredCapabilities", &capability.declaration());
        let message = format!("the client did not declare the capability {capability}");
        Err(ErrorObject::new(ErrorCode::MISSING_CLIENT_CAPABILITY, message).data(data))
    }

    /// Declares an extension.
    #[must_use]
    pub fn with_extension(mut self, id: &str, settings: impl Into<Object>) -> Self {
        self.extensions.get_or_insert_default().insert_raw(id, &RawJson::from(settings.into()));
        self
    }
}

impl ClientCapability<'_> {
    /// Returns the capabilities object that declares only this capability.
    fn declaration(self) -> RawJson {
        let nested = |path: &[&str]| {
            path.iter().rev().fold(RawJson::from(Object::new()), |inner, name| {
                RawJson::from([(name, inner)].into_iter().collect::<Object>())
            })
        };
        match self {
            Self::Roots => nested(&["roots"]),
            Self::RootsListChanged => RawJson::from(serde_json::json!({ "roots": { "listChanged": true } })),
            Self::Sampling => nested(&["sampling"]),
            Self::SamplingTools => nested(&["sampling", "tools"]),
            Self::SamplingContext => nested(&["sampling", "context"]),
            Self::FormElicitation => nested(&["elicitation", "form"]),
            Self::UrlElicitation => nested(&["elicitation", "url"]),
            Self::Extension(id) => nested(&["extensions", id]),
            Self::Experimental(name) => nested(&["experimental", name]),
        }
    }
}

impl fmt::Display for ClientCapability<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Roots => f.write_str("roots"),
            Self::RootsListChanged => f.write_str("roots.listChanged"),
            Self::Sampling => f.write_str("sampling"),
            Self::SamplingTools => f.write_str("sampling.tools"),
            Self::SamplingContext => f.write_str("sampling.context"),
            Self::FormElicitation => f.write_str("elicitation.form"),
            Self::UrlElicitation => f.write_str("elicitation.url"),
            Self::Extension(id) => write!(f, "extensions[{id:?}]"),
            Self::Experimental(name) => write!(f, "experimental[{name:?}]"),
        }
    }
}

impl ServerCapabilities {
    /// Returns `true` if the server declared the capability.
    #[must_use]
    pub fn supports(&self, capability: ServerCapability<'_>) -> bool {
        use ServerCapability::*;
        let announces =
            |list: &Option<ListCapability>| list.as_ref().is_some_and(|list| list.list_changed == Some(true));
        let resources = self.resources.as_ref();
        match capability {
            Tools => self.tools.is_some(),
            ToolsListChanged => announces(&self.tools),
            Resources => resources.is_some(),
            ResourcesListChanged => resources.is_some_and(|resources| resources.list_changed == Some(true)),
            ResourceSubscriptions => resources.is_some_and(|resources| resources.subscribe == Some(true)),
            Prompts => self.prompts.is_some(),
            PromptsListChanged => announces(&self.prompts),
            Completions => self.completions.is_some(),
            Logging => self.logging.is_some(),
            Extension(id) => has(self.extensions.as_ref(), id),
            Experimental(name) => has(self.experimental.as_ref(), name),
        }
    }

    /// Requires a capability of the server.
    ///
    /// # Errors
    /// If the server did not declare it.
    pub fn require(&self, capability: ServerCapability<'_>) -> Result<(), MissingCapabilityError> {
        if self.supports(capability) { Ok(()) } else { Err(MissingCapabilityError(capability.to_string())) }
    }

    /// Declares an extension.
    #[must_use]
    pub fn with_extension(mut self, id: &str, settings: impl Into<Object>) -> Self {
        self.extensions.get_or_insert_default().insert_raw(id, &RawJson::from(settings.into()));
        self
    }
}

impl fmt::Display for ServerCapability<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tools => f.write_str("tools"),
            Self::ToolsListChanged => f.write_str("tools.listChanged"),
            Self::Resources => f.write_str("resources"),
            Self::ResourcesListChanged => f.write_str("resources.listChanged"),
            Self::ResourceSubscriptions => f.write_str("resources.subscribe"),
            Self::Prompts => f.write_str("prompts"),
            Self::PromptsListChanged => f.write_str("prompts.listChanged"),
            Self::Completions => f.write_str("completions"),
            Self::Logging => f.write_str("logging"),
            Self::Extension(id) => write!(f, "extensions[{id:?}]"),
            Self::Experimental(name) => write!(f, "experimental[{name:?}]"),
        }
    }
}

/// Error for a capability that the server did not declare.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the server did not declare the capability {0}")]
pub struct MissingCapabilityError(String);

/// Returns `true` if the string is a valid extension id: a prefix of dotted labels, which is required, a slash, and a
/// name.
#[must_use]
pub fn is_extension_id(id: &str) -> bool {
    key::is_valid(id) && id.split_once('/').is_some_and(|(_, name)| !name.is_empty())
}

fn has(map: Option<&Object>, name: &str) -> bool {
    map.is_some_and(|map| map.contains(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_elicitation_capability_means_forms() {
        let client: ClientCapabilities = crate::decode(r#"{"elicitation":{}}"#).unwrap();
        assert!(client.supports(ClientCapability::FormElicitation));
        assert!(!client.supports(ClientCapability::UrlElicitation));
        let client: ClientCapabilities = crate::decode(r#"{"elicitation":{"url":{}}}"#).unwrap();
        assert!(!client.supports(ClientCapability::FormElicitation));
    }

    #[test]
    fn runs_tools_requires_the_tools_call_member() {
        let runs = |text| crate::decode::<ServerTasksCapability>(text).unwrap().runs_tools();
        assert!(runs(r#"{"requests":{"tools":{"call":{}}}}"#));
        assert!(!runs(r#"{"list":{},"requests":{"tools":{}}}"#));
    }

    #[test]
    fn the_error_names_the_missing_capability() {
        let error = ClientCapabilities::new().require(ClientCapability::UrlElicitation).unwrap_err();
        assert_eq!(error.code, ErrorCode::MISSING_CLIENT_CAPABILITY);
        assert_eq!(error.data.unwrap().as_str(), r#"{"requiredCapabilities":{"elicitation":{"url":{}}}}"#);
        let error = ClientCapabilities::new().require(ClientCapability::Extension("a.b/c")).unwrap_err();
        assert_eq!(error.data.unwrap().as_str(), r#"{"requiredCapabilities":{"extensions":{"a.b/c":{}}}}"#);
        let error = ServerCapabilities::new().require(ServerCapability::Tools).unwrap_err();
        assert_eq!(error.to_string(), "the server did not declare the capability tools");
    }

    #[test]
    fn an_extension_has_a_prefix_and_a_name() {
        assert!(is_extension_id("io.modelcontextprotocol/skills") && is_extension_id("com.example/a.b_c"));
        for bad in ["", "skills", "com.example/", "/skills", "com..example/skills", "com.example/a/b", "com example/a"]
        {
            assert!(!is_extension_id(bad), "{bad:?}");
        }
    }
}
