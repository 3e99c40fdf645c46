//! MCP Apps: user interfaces that a host shows (extension `io.modelcontextprotocol/ui`, version 2026-01-26 of the
//! extension).
//!
//! Messages between an app and its host are not part of the protocol. This module has the metadata that a server puts
//! in the `_meta` of resources and tools.

use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, Object};
use crate::object::string_enum;
use crate::types::{Meta, Resource, ResourceContents, Tool};

/// The extension id.
pub const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// MIME type of an app.
pub const APP_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Key of the app settings in `_meta`, for tools, resources and resource contents.
const KEY: &str = "ui";

/// Key of the app URI in the `_meta` of a tool, as older servers send it.
const FLAT_KEY: &str = "ui/resourceUri";

/// Settings of an app, in the `_meta` of its resource.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppMeta {
    /// Content security policy. If absent, the app may not connect to or load from any origin.
    pub csp: Option<AppCsp>,
    /// Browser permissions. If absent, the app has none.
    pub permissions: Option<AppPermissions>,
    /// Dedicated origin for the app, in a format that the host defines.
    pub domain: Option<String>,
    /// `true` if the app prefers a border.
    pub prefers_border: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Content security policy of an app: lists of origins.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppCsp {
    /// Origins of network requests (`connect-src`).
    pub connect_domains: Option<Vec<String>>,
    /// Origins of images, scripts, styles and fonts.
    pub resource_domains: Option<Vec<String>>,
    /// Origins of nested frames (`frame-src`).
    pub frame_domains: Option<Vec<String>>,
    /// Base URIs (`base-uri`).
    pub base_uri_domains: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Browser permissions of an app. An empty object requests a permission.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppPermissions {
    /// The camera.
    pub camera: Option<Object>,
    /// The microphone.
    pub microphone: Option<Object>,
    /// Geolocation.
    pub geolocation: Option<Object>,
    /// Write access to the clipboard.
    pub clipboard_write: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// App settings of a tool.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolAppMeta {
    /// URI of the app that shows the result of the tool.
    pub resource_uri: Option<String>,
    /// Callers of the tool; if absent, the model and apps.
    pub visibility: Option<Vec<ToolAudience>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// A caller of a tool.
    open ToolAudience {
        /// The model.
        Model = "model",
        /// Apps of the same server.
        App = "app",
    }
}

/// The apps extension, as a host declares it.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppsCapability {
    /// Supported MIME types of apps.
    pub mime_types: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl AppsCapability {
    /// Returns `true` if the host shows apps of type [`APP_MIME_TYPE`].
    #[must_use]
    pub fn supports_html(&self) -> bool {
        self.mime_types.iter().flatten().any(|mime_type| is_app_mime_type(mime_type))
    }
}

/// Returns `true` if the MIME type is [`APP_MIME_TYPE`], ignoring case and white space.
#[must_use]
pub fn is_app_mime_type(mime_type: &str) -> bool {
    let bare: String = mime_type.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    bare.eq_ignore_ascii_case(APP_MIME_TYPE)
}

impl Tool {
    /// Returns the app settings of the tool; `None` if there are none.
    ///
    /// # Errors
    /// If the settings cannot be decoded.
    pub fn app_meta(&self) -> Option<Result<ToolAppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }

    /// Returns the URI of the app that shows the result of the tool. Also reads `_meta["ui/resourceUri"]`, which older
    /// servers send. URIs without the scheme `ui` are ignored.
    #[must_use]
    pub fn app_uri(&self) -> Option<String> {
        let nested = self.app_meta().and_then(|meta| meta.ok()?.resource_uri);
        let flat = || self.meta.as_ref()?.get_as::<String>(FLAT_KEY)?.ok();
        nested.or_else(flat).filter(|uri| uri.starts_with("ui://"))
    }

    /// Returns `true` if the model may call the tool. Hosts hide other tools from the model. Invalid settings count as
    /// `true`.
    #[must_use]
    pub fn visible_to_model(&self) -> bool {
        match self.app_meta() {
            Some(Ok(meta)) => is_among(&meta, &ToolAudience::Model),
            _ => true,
        }
    }

    /// Returns `true` if apps of the same server may call the tool. Hosts reject calls of other tools. Invalid
    /// settings count as `false`.
    #[must_use]
    pub fn callable_by_app(&self) -> bool {
        match self.app_meta() {
            Some(Ok(meta)) => is_among(&meta, &ToolAudience::App),
            Some(Err(_)) => false,
            None => true,
        }
    }
}

fn is_among(meta: &ToolAppMeta, audience: &ToolAudience) -> bool {
    meta.visibility.as_ref().is_none_or(|visibility| visibility.contains(audience))
}

impl Resource {
    /// Returns the settings of the app; `None` if there are none.
    ///
    /// # Errors
    /// If the settings cannot be decoded.
    pub fn app_meta(&self) -> Option<Result<AppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }
}

impl ResourceContents {
    /// Returns `true` if the contents are an app.
    #[must_use]
    pub fn is_app(&self) -> bool {
        self.uri.starts_with("ui://") && self.mime_type.as_deref().is_some_and(is_app_mime_type)
    }

    /// Returns the settings of the app. If `None`, the settings in the list of resources apply.
    ///
    /// # Errors
    /// If the settings cannot be decoded.
    pub fn app_meta(&self) -> Option<Result<AppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }
}

impl Meta {
    /// Sets the settings of an app.
    pub fn set_app(&mut self, app: &AppMeta) {
        self.set(KEY, app);
    }

    /// Copies the members of `other`, as [`extend`](Object::extend) does, but merges app settings member by member.
    pub fn merge(&mut self, other: &Self) {
        let settings = [&*self, other].map(|meta| meta.get(KEY)?.as_object());
        self.extend(other);
        if let [Some(mut app), Some(more)] = settings {
            app.extend(&more);
            self.insert_raw(KEY, &app.into());
        }
    }

    /// Sets the app settings of a tool.
    pub fn set_tool_app(&mut self, app: &ToolAppMeta) {
        self.set(KEY, app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(meta: &str) -> Tool {
        crate::decode(&format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"_meta":{meta}}}"#)).unwrap()
    }

    #[test]
    fn the_app_of_a_tool_is_found_in_current_and_former_metadata() {
        assert_eq!(tool(r#"{"ui":{"resourceUri":"ui://a"}}"#).app_uri().as_deref(), Some("ui://a"));
        assert_eq!(tool(r#"{"ui/resourceUri":"ui://b"}"#).app_uri().as_deref(), Some("ui://b"));
        assert_eq!(
            tool(r#"{"ui":{"resourceUri":"ui://a"},"ui/resourceUri":"ui://b"}"#).app_uri().as_deref(),
            Some("ui://a")
        );
        assert_eq!(tool(r#"{"ui":{"resourceUri":"https://a"}}"#).app_uri(), None);
        assert_eq!(tool("{}").app_uri(), None);
    }

    #[test]
    fn visibility_determines_the_callers() {
        let callers = |meta: &str| (tool(meta).visible_to_model(), tool(meta).callable_by_app());
        assert_eq!(callers("{}"), (true, true));
        assert_eq!(callers(r#"{"ui":{"resourceUri":"ui://a"}}"#), (true, true));
        assert_eq!(callers(r#"{"ui":{"visibility":["app"]}}"#), (false, true));
        assert_eq!(callers(r#"{"ui":{"visibility":["model"]}}"#), (true, false));
        assert_eq!(callers(r#"{"ui":{"visibility":["robot"]}}"#), (false, false));
        assert_eq!(callers(r#"{"ui":{"visibility":"app"}}"#), (true, false));
    }

    #[test]
    fn merging_keeps_all_app_metadata() {
        let meta = |text: &str| Meta::from(Object::parse(text).unwrap());
        let mut merged = meta(r#"{"a":1,"ui":{"resourceUri":"ui://a","visibility":["app"]}}"#);
        merged.merge(&meta(r#"{"a":2,"b":3}"#));
        assert_eq!(merged.as_str(), r#"{"ui":{"resourceUri":"ui://a","visibility":["app"]},"a":2,"b":3}"#);
        merged.merge(&meta(r#"{"ui":{"visibility":["model"]}}"#));
        assert_eq!(merged.get("ui").unwrap().as_str(), r#"{"resourceUri":"ui://a","visibility":["model"]}"#);
    }

    #[test]
    fn the_metadata_of_an_app_round_trips() {
        let text =
            r#"{"csp":{"connectDomains":["https://a"]},"permissions":{"camera":{}},"domain":"d","prefersBorder":true}"#;
        let meta: AppMeta = crate::decode(text).unwrap();
        assert_eq!(crate::RawJson::encode(&meta).unwrap().as_str(), text);
        assert!(is_app_mime_type("text/html; profile=mcp-app") && !is_app_mime_type("text/html"));
    }
}
