//! Protocol metadata, `_meta` (basic/index, "General fields").

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, EncodeError, Object, RawJson};
use crate::types::{ClientCapabilities, Implementation, LoggingLevel};
use crate::{ProgressToken, RequestId};

/// Keys of `_meta` that the protocol defines.
pub mod key {
    /// Token for progress notifications of a request.
    pub const PROGRESS_TOKEN: &str = "progressToken";
    /// Protocol revision of a request.
    pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    /// Capabilities of the client that sent a request.
    pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
    /// Name and version of the client that sent a request.
    pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
    /// Minimum level of log messages for a request.
    pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
    /// Name and version of the server that responded.
    pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
    /// Id of the `subscriptions/listen` request that a notification belongs to.
    pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
    /// Task that a message belongs to (2025-11-25).
    pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
    /// Response for the model while a task runs (2025-11-25).
    pub const MODEL_IMMEDIATE_RESPONSE: &str = "io.modelcontextprotocol/model-immediate-response";
    /// W3C trace context.
    pub const TRACEPARENT: &str = "traceparent";
    /// W3C trace state.
    pub const TRACESTATE: &str = "tracestate";
    /// W3C baggage.
    pub const BAGGAGE: &str = "baggage";

    /// Returns `true` if the key is well formed: an optional prefix of dotted labels and a slash, then a name.
    #[must_use]
    pub fn is_valid(key: &str) -> bool {
        let (prefix, name) = match key.split_once('/') {
            Some((prefix, name)) => (Some(prefix), name),
            None => (None, key),
        };
        prefix.is_none_or(|prefix| prefix.split('.').all(is_label)) && is_name(name)
    }

    /// Returns `true` if the key is reserved for the protocol: the second label of its prefix is
    /// `modelcontextprotocol` or `mcp`.
    #[must_use]
    pub fn is_reserved(key: &str) -> bool {
        let second = key.split_once('/').and_then(|(prefix, _)| prefix.split('.').nth(1));
        matches!(second, Some("modelcontextprotocol" | "mcp"))
    }

    fn is_label(label: &str) -> bool {
        let bytes = label.as_bytes();
        bytes.first().is_some_and(u8::is_ascii_alphabetic)
            && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    }

    fn is_name(name: &str) -> bool {
        let bytes = name.as_bytes();
        bytes.first().is_none_or(u8::is_ascii_alphanumeric)
            && bytes.last().is_none_or(u8::is_ascii_alphanumeric)
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
    }
}

/// Protocol metadata (`_meta`), stored as JSON text, because most of it is only forwarded.
#[doc(alias = "metadata")]
#[doc(alias = "_meta")]
#[derive(Clone, Default)]
pub struct Meta {
    object: Object,
    /// Cached result of `declares_capabilities`; `None` if it is not known yet.
    declares: Option<bool>,
}

impl Meta {
    /// Creates an empty object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the `_meta` of the parameters of a request or notification.
    #[must_use]
    pub fn of_params(params: Option<&RawJson>) -> Option<Self> {
        params?.meta()?.as_object().map(Self::from)
    }

    /// Adds a member.
    ///
    /// # Errors
    /// If the value cannot be encoded as JSON.
    pub fn with<T: Serialize + ?Sized>(mut self, name: &str, value: &T) -> Result<Self, EncodeError> {
        self.insert(name, value)?;
        Ok(self)
    }

    /// Decodes the metadata of a request in one pass.
    ///
    /// # Errors
    /// If a member that the protocol defines has the wrong type.
    pub fn request(&self) -> Result<RequestMeta, DecodeError> {
        self.decode()
    }

    /// Returns the progress token.
    ///
    /// # Errors
    /// If it is neither a string nor an integer.
    pub fn progress_token(&self) -> Result<Option<ProgressToken>, DecodeError> {
        self.get_as(key::PROGRESS_TOKEN).transpose()
    }

    /// Returns the protocol revision of a stateless request; it may be an unsupported one.
    ///
    /// # Errors
    /// If it is not a string.
    pub fn protocol_version(&self) -> Result<Option<String>, DecodeError> {
        self.get_as(key::PROTOCOL_VERSION).transpose()
    }

    /// Returns the name and version of the server that responded.
    ///
    /// # Errors
    /// If it is not an implementation object.
    pub fn server_info(&self) -> Result<Option<Implementation>, DecodeError> {
        self.get_as(key::SERVER_INFO).transpose()
    }

    /// Returns the id of the `subscriptions/listen` request that a notification belongs to.
    ///
    /// # Errors
    /// If it is neither a string nor an integer.
    pub fn subscription_id(&self) -> Result<Option<RequestId>, DecodeError> {
        self.get_as(key::SUBSCRIPTION_ID).transpose()
    }

    /// Returns `true` if the request declares at least one client capability.
    #[must_use]
    pub fn declares_capabilities(&self) -> bool {
        self.declares.unwrap_or_else(|| {
            let declared = self.get(key::CLIENT_CAPABILITIES).and_then(RawJson::into_object);
            declared.is_some_and(|declared| !declared.is_empty())
        })
    }

    /// Creates metadata for which `declares_capabilities` is already known.
    pub(crate) fn declaring(object: Object, declares: bool) -> Self {
        Self { object, declares: Some(declares) }
    }

    pub(crate) fn set(&mut self, name: &str, value: &impl Serialize) {
        match RawJson::encode(value) {
            Ok(value) => self.insert_raw(name, &value),
            Err(error) => debug_assert!(false, "protocol types are always encodable: {error}"),
        }
    }
}

impl PartialEq for Meta {
    fn eq(&self, other: &Self) -> bool {
        self.object == other.object
    }
}

impl Eq for Meta {}

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meta").field(&self.object).finish()
    }
}

impl Deref for Meta {
    type Target = Object;

    fn deref(&self) -> &Object {
        &self.object
    }
}

impl DerefMut for Meta {
    fn deref_mut(&mut self) -> &mut Object {
        self.declares = None;
        &mut self.object
    }
}

impl From<Object> for Meta {
    fn from(object: Object) -> Self {
        Self { object, declares: None }
    }
}

impl From<Meta> for Object {
    fn from(meta: Meta) -> Self {
        meta.object
    }
}

impl Serialize for Meta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Object::deserialize(deserializer).map(Self::from)
    }
}

/// The decoded metadata of a request.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct RequestMeta {
    /// Token for progress notifications.
    pub progress_token: Option<ProgressToken>,
    /// Protocol revision of the request. Required since 2026-07-28, absent before.
    #[object(rename = "io.modelcontextprotocol/protocolVersion", since = V2026_07_28)]
    pub protocol_version: Option<String>,
    /// Capabilities of the client. Required since 2026-07-28, absent before.
    #[object(rename = "io.modelcontextprotocol/clientCapabilities", since = V2026_07_28)]
    pub client_capabilities: Option<ClientCapabilities>,
    /// Name and version of the client.
    #[object(rename = "io.modelcontextprotocol/clientInfo", since = V2026_07_28)]
    pub client_info: Option<Implementation>,
    /// Minimum level of log messages.
    #[object(rename = "io.modelcontextprotocol/logLevel", since = V2026_07_28)]
    pub log_level: Option<LoggingLevel>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl From<&RequestMeta> for Meta {
    fn from(request: &RequestMeta) -> Self {
        let mut meta = Self::from(request.extra.clone());
        if let Some(token) = &request.progress_token {
            meta.set(key::PROGRESS_TOKEN, token);
        }
        if let Some(version) = &request.protocol_version {
            meta.set(key::PROTOCOL_VERSION, version);
        }
        if let Some(capabilities) = &request.client_capabilities {
            meta.set(key::CLIENT_CAPABILITIES, capabilities);
        }
        if let Some(info) = &request.client_info {
            meta.set(key::CLIENT_INFO, info);
        }
        if let Some(level) = &request.log_level {
            meta.set(key::LOG_LEVEL, level);
        }
        // Each request of a client gets a clone of this metadata. Computing the flag here once saves in-process
        // services from searching the text for every request.
        meta.declares = Some(meta.declares_capabilities());
        meta
    }
}

/// Parameters of a method that defines none.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct EmptyParams {
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// An empty result.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct EmptyResult {
    /// Type of the result; absent before 2026-07-28, which means [`Complete`](crate::types::ResultType::Complete).
    #[object(default = crate::types::ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<crate::types::ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::RootsCapability;

    #[test]
    fn keys_are_checked_for_validity_and_reservation() {
        for good in ["a", "", "a.b_c-d", "io.modelcontextprotocol/x", "com.example-x.y/", "traceparent"] {
            assert!(key::is_valid(good), "{good}");
        }
        for bad in ["-a", "a-", "1a.b/x", "a..b/x", "a/b/c", "é"] {
            assert!(!key::is_valid(bad), "{bad}");
        }
        assert!(key::is_reserved("dev.mcp/x") && key::is_reserved("com.mcp.tools/x"));
        assert!(!key::is_reserved("com.example.mcp/x") && !key::is_reserved("mcp"));
    }

    #[test]
    fn the_cached_flag_is_reset_by_changes() {
        let object = |text: &str| Object::parse(text.to_owned()).unwrap();
        let declared = r#"{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}"#;
        assert!(Meta::from(object(declared)).declares_capabilities());
        for nothing in ["{}", r#"{"io.modelcontextprotocol/clientCapabilities":{ }}"#] {
            assert!(!Meta::from(object(nothing)).declares_capabilities());
        }
        let mut meta = Meta::declaring(object(declared), true);
        meta.remove(key::CLIENT_CAPABILITIES);
        assert!(!meta.declares_capabilities());
        assert_eq!(meta, Meta::new());
    }

    #[test]
    fn the_flag_is_cached_for_new_requests() {
        let roots = ClientCapabilities::new().roots(RootsCapability::new());
        for (capabilities, declares) in [(ClientCapabilities::new(), false), (roots, true)] {
            let meta = Meta::from(&RequestMeta::new().client_capabilities(capabilities));
            assert_eq!(meta.clone().declares, Some(declares));
            assert_eq!(Meta::from(Object::from(meta)).declares_capabilities(), declares);
        }
    }

    #[test]
    fn request_metadata_round_trips() {
        let text = r#"{"mine":[1],"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
        let meta = Meta::from(Object::parse(text).unwrap());
        let request = meta.request().unwrap();
        assert_eq!(request.progress_token, Some("t".into()));
        assert_eq!(Meta::from(&request), meta);
    }
}
