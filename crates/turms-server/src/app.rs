//! MCP Apps: HTML pages that a host displays in a conversation (extension `io.modelcontextprotocol/ui`).

use std::sync::Arc;

use turms_proto::Ability;
use turms_proto::types::{
    APP_MIME_TYPE, APPS_EXTENSION, AppCsp, AppMeta, AppPermissions, AppsCapability, Meta, ResourceContents,
    ToolAppMeta, ToolAudience,
};

use crate::build_error::ComponentError;
use crate::catalog::Catalog;
use crate::context::Context;
use crate::extension::{ExtensionBuilder, ServerExtension};
use crate::resource::Resource;
use crate::server::Component;
use crate::tool::{Tool, ToolBuilder};

/// An HTML page at a `ui://` URI that a host displays, with its content security policy and permissions.
#[derive(Debug, Clone)]
#[must_use = "a page has no effect unless it is added to Apps"]
pub struct App {
    uri: String,
    html: String,
    title: Option<String>,
    description: Option<String>,
    meta: AppMeta,
}

impl App {
    /// Creates a page at a URI such as `ui://weather/view.html`.
    pub fn new(uri: impl Into<String>, html: impl Into<String>) -> Self {
        let meta = AppMeta::new();
        Self { uri: uri.into(), html: html.into(), title: None, description: None, meta }
    }

    /// Sets the human-readable title.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the content security policy: the origins the page may connect to and load from. Default: none.
    pub fn csp(mut self, csp: AppCsp) -> Self {
        self.meta.csp = Some(csp);
        self
    }

    /// Sets the browser permissions that the page requests, such as the camera. Default: none.
    pub fn permissions(mut self, permissions: AppPermissions) -> Self {
        self.meta.permissions = Some(permissions);
        self
    }

    /// Sets the dedicated origin of the page, in a format defined by the host.
    pub fn domain(mut self, domain: impl Into<String>) -> Self {
        self.meta.domain = Some(domain.into());
        self
    }

    /// Sets whether the host should draw a border around the page. Default: the host decides.
    pub fn prefers_border(mut self, border: bool) -> Self {
        self.meta.prefers_border = Some(border);
        self
    }

    fn resource(&self) -> Resource {
        let mut meta = Meta::new();
        meta.set_app(&self.meta);
        let mut builder = Resource::builder(&*self.uri).mime_type(APP_MIME_TYPE).meta(meta.clone());
        if let Some(title) = &self.title {
            builder = builder.title(&**title);
        }
        if let Some(description) = &self.description {
            builder = builder.description(&**description);
        }
        let page = ResourceContents::from_text(&*self.uri, &*self.html).mime_type(APP_MIME_TYPE).meta(meta);
        builder.handler_sync(move || page.clone())
    }
}

/// The pages of a server: the protocol extension `io.modelcontextprotocol/ui`.
///
/// Link a tool to a page with [`ToolBuilder::app`]. The tool must still return a result that is readable without the
/// page. Clients that cannot display pages see neither the pages nor the tools that are [for pages
/// only](ToolBuilder::app_only).
///
/// ```
/// # use turms_server as turms;
/// use turms::{App, Apps, Server, Tool};
///
/// # fn main() -> Result<(), turms_core::Error> {
/// let view = App::new("ui://weather/view.html", "<!doctype html><title>Weather</title>").prefers_border(true);
/// let weather = Tool::builder("weather").app("ui://weather/view.html").handler_sync(|| "Sunny, 20 degrees.");
/// let refresh = Tool::builder("refresh").app_only().handler_sync(|| "Sunny, 21 degrees.");
/// let server = Server::new("weather", "1.0.0").extension(Apps::new().app(view)).tool(weather).tool(refresh);
/// # server.build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "pages have no effect unless they are added to a server"]
pub struct Apps {
    apps: Vec<App>,
}

impl Apps {
    /// Creates an extension without pages.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a page. Building the server fails if its URI does not start with `ui://`.
    pub fn app(mut self, app: App) -> Self {
        self.apps.push(app);
        self
    }
}

impl ServerExtension for Apps {
    fn id(&self) -> &str {
        APPS_EXTENSION
    }

    fn register(self: Arc<Self>, mut scope: ExtensionBuilder) -> ExtensionBuilder {
        for app in &self.apps {
            scope = match app.uri.strip_prefix("ui://") {
                Some(path) if !path.is_empty() && !path.contains('{') => scope.resource(app.resource()),
                _ => scope.error(format_args!("a page has to be at a ui:// URI, not at {:?}", app.uri)),
            };
        }
        scope.visible_if(|item, context| !is_for_hosts(item) || context.supports_apps())
    }
}

/// Returns `true` if an item is useful only to hosts that display pages.
fn is_for_hosts(item: Component<'_>) -> bool {
    match item {
        Component::Tool(tool) => !tool.definition().visible_to_model(),
        Component::Resource(resource) => resource.uri().starts_with("ui://"),
        Component::Prompt(_) => false,
    }
}

/// Returns an error for each tool that is linked to a missing page.
pub(crate) fn problems(catalog: &Catalog) -> Vec<ComponentError> {
    let check = |tool: &Tool| {
        let uri = tool.definition().app_meta()?.ok()?.resource_uri?;
        let is_there = catalog.resource_at(&uri).is_some();
        let problem = match is_there {
            _ if !uri.starts_with("ui://") => format!("a page has to be at a ui:// URI, not at {uri:?}"),
            false => format!("there is no page at {uri:?}"),
            true => return None,
        };
        Some(ComponentError::new("tool", tool.name(), problem))
    };
    catalog.tools.iter().filter_map(check).collect()
}

impl Context {
    /// Returns `true` if the client can display pages: it declares the extension, and its revision lets tools link to
    /// pages.
    #[must_use]
    pub fn supports_apps(&self) -> bool {
        if !self.protocol_version().has(Ability::ItemMeta) {
            return false;
        }
        let settings = self.client_extension(APPS_EXTENSION);
        let capability = settings.and_then(|settings| settings.decode::<AppsCapability>().ok());
        capability.is_some_and(|capability| capability.supports_html())
    }
}

impl ToolBuilder {
    /// Links the tool to the page that displays its result: see [`Apps`]. Building the server fails if there is no such
    /// page.
    pub fn app(self, uri: impl Into<String>) -> Self {
        self.with_app_meta(|meta| meta.resource_uri = Some(uri.into()))
    }

    /// Hides the tool from the model; only pages can call it: see [`Apps`].
    pub fn app_only(self) -> Self {
        self.with_app_meta(|meta| meta.visibility = Some(vec![ToolAudience::App]))
    }

    /// Hides the tool from pages; only the model can call it: see [`Apps`].
    pub fn model_only(self) -> Self {
        self.with_app_meta(|meta| meta.visibility = Some(vec![ToolAudience::Model]))
    }

    fn with_app_meta(mut self, change: impl FnOnce(&mut ToolAppMeta)) -> Self {
        let mut app = self.definition.app_meta().and_then(Result::ok).unwrap_or_default();
        change(&mut app);
        self.definition.meta.get_or_insert_default().set_tool_app(&app);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = App::new("ui://a", "").meta;
        let code = [
            ("App::csp", when(it.csp.is_none(), "none")),
            ("App::permissions", when(it.permissions.is_none(), "none")),
            ("App::prefers_border", when(it.prefers_border.is_none(), "the host decides")),
        ];
        assert_documented(include_str!("app.rs"), &code);
    }
}
