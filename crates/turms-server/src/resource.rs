//! Resources and resource templates: their descriptions and handlers.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use turms_core::layer::Layer;
use turms_core::{BoxFuture, Payload, Request, Service, ServiceError};
use turms_proto::ErrorObject;
use turms_proto::types::{
    Annotations, CacheScope, Completion, Icon, Meta, ReadResource, ReadResourceParams, ReadResourceResult,
    Resource as ResourceDefinition, ResourceTemplate as TemplateDefinition,
};
use turms_proto::uri_template::{UriTemplate, Value};

use crate::completion::{Completer, complete, completer};
use crate::context::Context;
use crate::handler::{CallParts, FromCall, Handler, Input, Rejection, SyncHandler};
use crate::layered::{Innermost, LayerStack, call_layered};
use crate::respond::{IntoCompletion, IntoReadResourceResult};
use crate::sealed::Seal;
use crate::text_arguments::TextArguments;
use crate::uri_spelling::normalized;

/// A resource or a resource template: its description and its handler.
///
/// If the URI has variables in braces, it is a template, and the variables are the arguments of the handler.
///
/// ```
/// # use turms_server as turms;
/// use turms::Resource;
///
/// let config = Resource::builder("config://app").mime_type("text/plain").handler_sync(|| "debug = true");
/// assert!(!config.is_template());
/// ```
#[derive(Clone)]
pub struct Resource {
    core: Arc<ResourceCore>,
    /// The resource wrapped in its layers, if it has any.
    layered: Option<Arc<dyn Service>>,
}

/// A resource without its layers.
struct ResourceCore {
    definition: ResourceEntry,
    constraints: Option<TextArguments>,
    handler: ResourceHandler,
    completers: HashMap<String, Completer>,
    cache: Option<(i64, CacheScope)>,
    shown_if: Option<ShownIf>,
    scopes: Vec<String>,
    /// The error of an invalid definition. It is reported when the server is built.
    fault: Option<String>,
}

/// A type-erased handler. It receives the URI that is read.
type ResourceHandler =
    Box<dyn Fn(CallParts, String) -> BoxFuture<'static, Result<ReadResourceResult, Rejection>> + Send + Sync>;

/// The description that clients receive.
#[derive(Debug, Clone)]
pub(crate) enum ResourceEntry {
    Resource(ResourceDefinition),
    Template(TemplateDefinition, UriTemplate),
}

type ShownIf = Box<dyn Fn(&str, &Context) -> bool + Send + Sync>;

impl Resource {
    /// Creates a builder for a resource at a URI, or for a resource template if the URI has variables in braces.
    pub fn builder(uri: impl Into<String>) -> ResourceBuilder {
        let uri = uri.into();
        let mut fault = None;
        let definition = if uri.contains('{') {
            match UriTemplate::parse(uri.clone()) {
                Ok(template) => {
                    // URIs are normalized before they are matched, so the literals must be, too. Names are left as they are.
                    let normal = UriTemplate::parse(normalized(&uri)).ok();
                    let normal = normal.filter(|normal| normal.variables().eq(template.variables()));
                    ResourceEntry::Template(TemplateDefinition::new(uri.clone(), uri), normal.unwrap_or(template))
                }
                Err(error) => {
                    fault = Some(error.to_string());
                    ResourceEntry::Resource(ResourceDefinition::new(uri.clone(), uri))
                }
            }
        } else {
            ResourceEntry::Resource(ResourceDefinition::new(uri.clone(), uri))
        };
        ResourceBuilder {
            definition,
            completers: HashMap::new(),
            cache: None,
            shown_if: None,
            layers: LayerStack::default(),
            scopes: Vec::new(),
            fault,
        }
    }

    /// Returns the URI or the URI template.
    #[must_use]
    pub fn uri(&self) -> &str {
        match &self.core.definition {
            ResourceEntry::Resource(definition) => &definition.uri,
            ResourceEntry::Template(definition, _) => &definition.uri_template,
        }
    }

    /// Returns `true` if this is a resource template.
    #[must_use]
    pub fn is_template(&self) -> bool {
        matches!(self.core.definition, ResourceEntry::Template(..))
    }

    /// Returns the scopes that callers need.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.core.scopes
    }

    pub(crate) fn fault(&self) -> Option<&str> {
        self.core.fault.as_deref()
    }

    pub(crate) fn definition(&self) -> &ResourceEntry {
        &self.core.definition
    }

    /// Returns the variables of a URI, if it matches this template.
    pub(crate) fn variables(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        self.core.variables(uri)
    }

    /// Returns `true` if the caller may see the resource at a URI of this template.
    pub(crate) fn is_shown(&self, uri: &str, context: &Context) -> bool {
        self.core.shown_if.as_ref().is_none_or(|shown_if| shown_if(uri, context))
    }

    /// Reads the resource at a URI, through its layers if it has any.
    pub(crate) async fn read(
        &self,
        params: ReadResourceParams,
        context: Context,
    ) -> Result<ReadResourceResult, ServiceError> {
        match &self.layered {
            None => self.core.run(params, context).await,
            Some(layered) => call_layered(layered.clone(), Request::new::<ReadResource>(params), context).await,
        }
    }

    pub(crate) fn complete(
        &self,
        variable: &str,
        call: CallParts,
    ) -> BoxFuture<'static, Result<Completion, ServiceError>> {
        complete(&self.core.completers, variable, call)
    }

    pub(crate) fn completes(&self) -> bool {
        !self.core.completers.is_empty()
    }
}

impl ResourceCore {
    async fn run(&self, params: ReadResourceParams, mut context: Context) -> Result<ReadResourceResult, ServiceError> {
        let uri = params.uri;
        let variables = match &self.definition {
            ResourceEntry::Resource(_) => BTreeMap::new(),
            ResourceEntry::Template(..) => self.variables(&uri).ok_or_else(|| ErrorObject::resource_not_found(&uri))?,
        };
        context.insert_extension(ResourceUri(uri.clone()));
        let call = CallParts::new(context, Input::Texts(variables));
        let checked = match &self.constraints {
            Some(constraints) => constraints.check(&call).await,
            None => Ok(()),
        };
        let result = match checked {
            Ok(()) => (self.handler)(call, uri.clone()).await,
            Err(rejection) => Err(rejection),
        };
        let result = result.map_err(|rejection| rejection.into_error())?;
        Ok(self.complete_result(result, &uri))
    }

    /// Returns the variables of a URI, if it matches this template.
    fn variables(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        match &self.definition {
            ResourceEntry::Resource(_) => None,
            ResourceEntry::Template(_, template) => {
                // The URI may percent-encode the literals of the template differently.
                let captures = match normalized(uri) {
                    Cow::Borrowed(uri) => template.matches(uri)?,
                    Cow::Owned(normal) => template.matches(&normal).or_else(|| template.matches(uri))?,
                };
                let text = |value: &Value| value.items().join(",");
                Some(captures.iter().map(|(name, value)| (name.to_owned(), text(value))).collect())
            }
        }
    }

    /// Fills in the URI, the MIME type and the cache settings.
    fn complete_result(&self, mut result: ReadResourceResult, uri: &str) -> ReadResourceResult {
        let mime_type = match &self.definition {
            ResourceEntry::Resource(definition) => definition.mime_type.as_ref(),
            ResourceEntry::Template(definition, _) => definition.mime_type.as_ref(),
        };
        for contents in &mut result.contents {
            if contents.uri.is_empty() {
                uri.clone_into(&mut contents.uri);
            }
            if contents.mime_type.is_none() {
                contents.mime_type = mime_type.cloned();
            }
        }
        if let Some((ttl, scope)) = &self.cache {
            (result.ttl_ms, result.cache_scope) = (Some(*ttl), Some(scope.clone()));
        }
        result
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resource").field("definition", &self.core.definition).finish_non_exhaustive()
    }
}

/// A builder for resources and resource templates.
#[must_use = "a resource needs a handler"]
pub struct ResourceBuilder {
    definition: ResourceEntry,
    completers: HashMap<String, Completer>,
    cache: Option<(i64, CacheScope)>,
    shown_if: Option<ShownIf>,
    layers: LayerStack,
    scopes: Vec<String>,
    fault: Option<String>,
}

macro_rules! on_either {
    ($($(#[$meta:meta])* $name:ident: $Type:ty;)+) => {$(
        $(#[$meta])*
        pub fn $name(mut self, $name: impl Into<$Type>) -> Self {
            match &mut self.definition {
                ResourceEntry::Resource(definition) => definition.$name = Some($name.into()),
                ResourceEntry::Template(definition, _) => definition.$name = Some($name.into()),
            }
            self
        }
    )+};
}

impl ResourceBuilder {
    on_either! {
        /// Sets the human-readable title.
        title: String;
        /// Sets the description.
        description: String;
        /// Sets the MIME type.
        mime_type: String;
        /// Sets the annotations: audience, priority and modification time.
        annotations: Box<Annotations>;
        /// Sets the protocol metadata (`_meta`).
        meta: Meta;
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        let icons = match &mut self.definition {
            ResourceEntry::Resource(definition) => &mut definition.icons,
            ResourceEntry::Template(definition, _) => &mut definition.icons,
        };
        icons.get_or_insert_default().push(icon);
        self
    }

    /// Sets the programmatic name. Default: the URI.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        match &mut self.definition {
            ResourceEntry::Resource(definition) => definition.name = name.into(),
            ResourceEntry::Template(definition, _) => definition.name = name.into(),
        }
        self
    }

    /// Sets the size in bytes. Ignored for resource templates.
    pub fn size(mut self, size: u64) -> Self {
        if let ResourceEntry::Resource(definition) = &mut self.definition {
            definition.size = i64::try_from(size).ok();
        }
        self
    }

    /// Sets the time to live and the scope with which clients may cache the contents. Default: not declared.
    pub fn cache(mut self, ttl: std::time::Duration, scope: CacheScope) -> Self {
        self.cache = Some((i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX), scope));
        self
    }

    /// Sets a function that decides for each URI of a resource template whether the caller may see it.
    #[cfg(feature = "skills")]
    pub(crate) fn shown_if(mut self, shown_if: impl Fn(&str, &Context) -> bool + Send + Sync + 'static) -> Self {
        self.shown_if = Some(Box::new(shown_if));
        self
    }

    /// Sets the completion handler of a variable. It extracts [`CompletionRequest`](crate::CompletionRequest).
    pub fn completion<H: Handler<X>, X>(mut self, variable: impl Into<String>, handler: H) -> Self
    where
        H::Output: IntoCompletion,
    {
        self.completers.insert(variable.into(), completer(handler));
        self
    }

    /// Sets the scopes that callers over a network need for this resource: to read it, to subscribe to it, and to complete its
    /// variables. Default: none. A caller without them gets an error that names them, with HTTP status 403. Calls over stdio and within the process are checked only if they have a principal.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a layer around this resource. The layer added last is the outermost.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Arc<dyn Service>> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self
    }

    /// Sets the async handler and finishes the resource.
    pub fn handler<H: Handler<X>, X>(self, handler: H) -> Resource
    where
        H::Output: IntoReadResourceResult,
    {
        let boxed: ResourceHandler = Box::new(move |call, uri| {
            let handler = handler.clone();
            Box::pin(async move { Ok(handler.call(call).await?.into_read_resource_result(&uri)?) })
        });
        self.finish(boxed, H::input_schema().as_ref())
    }

    /// Sets a handler that is not async and finishes the resource. It must not block.
    pub fn handler_sync<H: SyncHandler<X>, X>(self, handler: H) -> Resource
    where
        H::Output: IntoReadResourceResult,
    {
        let boxed: ResourceHandler = Box::new(move |mut call, uri| {
            let handler = handler.clone();
            Box::pin(async move { Ok(handler.call(&mut call)?.into_read_resource_result(&uri)?) })
        });
        self.finish(boxed, H::input_schema().as_ref())
    }

    fn finish(self, handler: ResourceHandler, schema: Option<&serde_json::Value>) -> Resource {
        let (constraints, fault) = match schema.map(TextArguments::of_type).transpose() {
            Ok(constraints) => (constraints.flatten(), self.fault),
            Err(error) => {
                let reason = || format!("invalid schema of the variables: {}", error.reason());
                (None, Some(self.fault.unwrap_or_else(reason)))
            }
        };
        let Self { definition, completers, cache, shown_if, layers, scopes, .. } = self;
        let core =
            Arc::new(ResourceCore { definition, constraints, handler, completers, cache, shown_if, scopes, fault });
        let innermost = core.clone();
        let layered = layers.wrap(Innermost(move |request: Request, context| {
            let core = innermost.clone();
            async move { Ok(Payload::new(core.run(request.params.take()?, context).await?)) }
        }));
        Resource { core, layered }
    }
}

impl fmt::Debug for ResourceBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceBuilder").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Extracts the URI that is being read, for handlers of resource templates.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a newtype will not get more fields")]
pub struct ResourceUri(pub String);

impl FromCall for ResourceUri {
    fn from_call(call: &mut CallParts) -> Result<Self, Rejection> {
        let uri = call.context.extension::<Self>().cloned();
        uri.ok_or_else(|| ErrorObject::internal("`ResourceUri` is available only to handlers of resources").into())
    }
}

/// Conversion for [`Server::resource`](crate::Server::resource): from a [`Resource`], or from a function that creates
/// one, as generated by `#[resource]`. `M` only distinguishes the two implementations.
/// Other types cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resource",
    label = "not a resource",
    note = "put `#[resource(\"uri\")]` on the function, or build one with `Resource::builder(\"uri\").handler(..)`"
)]
pub trait IntoResource<M> {
    /// Converts to the resource.
    fn into_resource(self) -> Resource;

    #[doc(hidden)]
    fn sealed(_: Seal);
}

impl IntoResource<()> for Resource {
    fn into_resource(self) -> Resource {
        self
    }

    fn sealed(_: Seal) {}
}

impl<F: FnOnce() -> Resource> IntoResource<fn() -> Resource> for F {
    fn into_resource(self) -> Resource {
        self()
    }

    fn sealed(_: Seal) {}
}

/// Implemented for no type. Because of this second candidate, the compiler reports that a function is not a resource
/// instead of that it takes too many arguments.
#[doc(hidden)]
impl<T: Into<Infallible>> IntoResource<Infallible> for T {
    fn into_resource(self) -> Resource {
        unreachable!("no value becomes `Infallible`")
    }

    fn sealed(_: Seal) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = Resource::builder("note://todo");
        let name = match &it.definition {
            ResourceEntry::Resource(definition) => &definition.name,
            ResourceEntry::Template(definition, _) => &definition.name,
        };
        let code = [
            ("ResourceBuilder::name", when(name == "note://todo", "the URI")),
            ("ResourceBuilder::cache", when(it.cache.is_none(), "not declared")),
            ("ResourceBuilder::scopes", when(it.scopes.is_empty(), "none")),
        ];
        assert_documented(include_str!("resource.rs"), &code);
    }
}
