//! Pages that a host shows beside a conversation (the extension `io.modelcontextprotocol/ui`, revision 2026-01-26).
//!
//! What a page and its host say to each other does not go through the protocol. Here is what a server says of its pages and
//! tools, in `_meta`.

use turms_proto_derive::ProtocolObject;

use crate::json::{DecodeError, Object};
use crate::object::string_enum;
use crate::types::{Meta, Resource, ResourceContents, Tool};

/// The id of the extension.
pub const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// The type of a page.
pub const APP_MIME_TYPE: &str = "text/html;profile=mcp-app";

/// Under what in `_meta` all of this stands.
const KEY: &str = "ui";

/// Where the page of a tool used to stand.
const FLAT_KEY: &str = "ui/resourceUri";

/// What a page wants of its host.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppMeta {
    /// Where it may connect to and load from; nowhere without.
    pub csp: Option<AppCsp>,
    /// What it may use of the machine; nothing without.
    pub permissions: Option<AppPermissions>,
    /// The origin that it wants to be shown at, in the host's words.
    pub domain: Option<String>,
    /// Whether it wants a border around it.
    pub prefers_border: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Where a page may connect to and load from.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppCsp {
    /// Where it may send requests.
    pub connect_domains: Option<Vec<String>>,
    /// Where its pictures, scripts, styles and fonts may come from.
    pub resource_domains: Option<Vec<String>>,
    /// Which pages it may have within it.
    pub frame_domains: Option<Vec<String>>,
    /// What its relative addresses may be relative to.
    pub base_uri_domains: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What a page may use of the machine.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppPermissions {
    /// The camera.
    pub camera: Option<Object>,
    /// The microphone.
    pub microphone: Option<Object>,
    /// Where the machine is.
    pub geolocation: Option<Object>,
    /// Writing to the clipboard.
    pub clipboard_write: Option<Object>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What a tool has to do with pages.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct ToolAppMeta {
    /// The page that shows what the tool gives.
    pub resource_uri: Option<String>,
    /// Who may call the tool; the model and the page without.
    pub visibility: Option<Vec<ToolAudience>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

string_enum! {
    /// Who may call a tool.
    open ToolAudience {
        /// The model.
        Model = "model",
        /// Pages of the same server.
        App = "app",
    }
}

/// What a host declares that it can show.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct AppsCapability {
    /// The types of pages.
    pub mime_types: Option<Vec<String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl AppsCapability {
    /// Whether pages of [`APP_MIME_TYPE`] can be shown.
    #[must_use]
    pub fn shows_html(&self) -> bool {
        self.mime_types.iter().flatten().any(|mime_type| is_app_mime_type(mime_type))
    }
}

/// Whether something is of the type of a page, however it is spaced.
#[must_use]
pub fn is_app_mime_type(mime_type: &str) -> bool {
    let bare: String = mime_type.chars().filter(|char| !char.is_ascii_whitespace()).collect();
    bare.eq_ignore_ascii_case(APP_MIME_TYPE)
}

impl Tool {
    /// What it has to do with pages; `None` if it says nothing of that.
    ///
    /// # Errors
    /// When what it says is not of the right shape.
    pub fn app_meta(&self) -> Option<Result<ToolAppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }

    /// The page that shows what it gives, also where older servers say so. Only URIs of pages count.
    #[must_use]
    pub fn app_uri(&self) -> Option<String> {
        let nested = self.app_meta().and_then(|meta| meta.ok()?.resource_uri);
        let flat = || self.meta.as_ref()?.get_as::<String>(FLAT_KEY)?.ok();
        nested.or_else(flat).filter(|uri| uri.starts_with("ui://"))
    }

    /// Whether the model is to be offered the tool. A host leaves others out of what the model sees.
    #[must_use]
    pub fn visible_to_model(&self) -> bool {
        match self.app_meta() {
            Some(Ok(meta)) => is_among(&meta, &ToolAudience::Model),
            _ => true,
        }
    }

    /// Whether a page of the same server may call the tool. A host refuses what others ask for, and all of what cannot be read.
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
    /// What it wants of its host, if it is a page.
    ///
    /// # Errors
    /// When what it says is not of the right shape.
    pub fn app_meta(&self) -> Option<Result<AppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }
}

impl ResourceContents {
    /// Whether it is a page.
    #[must_use]
    pub fn is_app(&self) -> bool {
        self.uri.starts_with("ui://") && self.mime_type.as_deref().is_some_and(is_app_mime_type)
    }

    /// What it wants of its host, if it is a page. Where it says nothing, what stands in the list of resources counts.
    ///
    /// # Errors
    /// When what it says is not of the right shape.
    pub fn app_meta(&self) -> Option<Result<AppMeta, DecodeError>> {
        self.meta.as_ref()?.get_as(KEY)
    }
}

impl Meta {
    /// Says what a page wants of its host.
    pub fn set_app(&mut self, app: &AppMeta) {
        self.set(KEY, app);
    }

    /// Takes over what another says, as [`extend`](Object::extend) does, except that what is said of pages and what the other
    /// does not say of them stays.
    pub fn merge(&mut self, other: &Self) {
        let said = [&*self, other].map(|meta| meta.get(KEY)?.as_object());
        self.extend(other);
        if let [Some(mut app), Some(more)] = said {
            app.extend(&more);
            self.insert_raw(KEY, &app.into());
        }
    }

    /// Says what a tool has to do with pages.
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
    fn the_page_of_a_tool_is_found_where_it_stands_and_where_it_stood() {
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
    fn visibility_says_who_may_call() {
        let who = |meta: &str| (tool(meta).visible_to_model(), tool(meta).callable_by_app());
        assert_eq!(who("{}"), (true, true));
        assert_eq!(who(r#"{"ui":{"resourceUri":"ui://a"}}"#), (true, true));
        assert_eq!(who(r#"{"ui":{"visibility":["app"]}}"#), (false, true));
        assert_eq!(who(r#"{"ui":{"visibility":["model"]}}"#), (true, false));
        assert_eq!(who(r#"{"ui":{"visibility":["robot"]}}"#), (false, false));
        assert_eq!(who(r#"{"ui":{"visibility":"app"}}"#), (true, false));
    }

    #[test]
    fn merging_loses_nothing_of_what_is_said_of_pages() {
        let meta = |text: &str| Meta::from(Object::parse(text).unwrap());
        let mut merged = meta(r#"{"a":1,"ui":{"resourceUri":"ui://a","visibility":["app"]}}"#);
        merged.merge(&meta(r#"{"a":2,"b":3}"#));
        assert_eq!(merged.as_str(), r#"{"ui":{"resourceUri":"ui://a","visibility":["app"]},"a":2,"b":3}"#);
        merged.merge(&meta(r#"{"ui":{"visibility":["model"]}}"#));
        assert_eq!(merged.get("ui").unwrap().as_str(), r#"{"resourceUri":"ui://a","visibility":["model"]}"#);
    }

    #[test]
    fn what_a_page_wants_survives_being_written() {
        let text =
            r#"{"csp":{"connectDomains":["https://a"]},"permissions":{"camera":{}},"domain":"d","prefersBorder":true}"#;
        let meta: AppMeta = crate::decode(text).unwrap();
        assert_eq!(crate::RawJson::encode(&meta).unwrap().as_str(), text);
        assert!(is_app_mime_type("text/html; profile=mcp-app") && !is_app_mime_type("text/html"));
    }
}
