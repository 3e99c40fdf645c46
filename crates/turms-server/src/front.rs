//! Layers in front of one tool, one prompt or one resource.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::layer::Layer;
use turms_core::{CallContext, Payload, Ready, Request, ResponseFuture, Service};
use turms_proto::revision::Translate;
use turms_proto::{ErrorObject, Object, RawJson};

use crate::handler::{Call, Input};
use crate::resource::Uri;

/// A service that layers can be put in front of.
pub type SharedService = Arc<dyn Service>;

/// Layers, the outermost last.
#[derive(Default)]
pub(crate) struct Layers(Vec<Box<dyn Fn(SharedService) -> SharedService + Send + Sync>>);

impl Layers {
    pub(crate) fn push<L>(&mut self, layer: L)
    where
        L: Layer<SharedService> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.0.push(Box::new(move |inner| Arc::new(layer.layer(inner))));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn wrap(&self, service: SharedService) -> SharedService {
        self.0.iter().fold(service, |inner, layer| layer(inner))
    }
}

impl fmt::Debug for Layers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Layers({})", self.0.len())
    }
}

/// What runs when something is called.
pub(crate) type Run<R> = Box<dyn Fn(Call) -> Ready<Result<R, ErrorObject>> + Send + Sync>;

/// Puts layers in front of what a method calls by a name.
type Put<R> = fn(&Layers, &'static str, &str, Run<R>) -> Run<R>;

/// The layers in front of something that gives `R`. How a call gets through them is noted with the first one, so that programs
/// without layers have nothing of it in them.
pub(crate) struct Front<R> {
    layers: Layers,
    put: Option<Put<R>>,
}

impl<R> Default for Front<R> {
    fn default() -> Self {
        Self { layers: Layers::default(), put: None }
    }
}

impl<R: Serialize + DeserializeOwned + Translate + Send + Sync + Unpin + 'static> Front<R> {
    pub(crate) fn push<L>(&mut self, layer: L)
    where
        L: Layer<SharedService> + Send + Sync + 'static,
        L::Service: Service,
    {
        self.layers.push(layer);
        self.put = Some(Layered::put);
    }
}

impl<R> Front<R> {
    /// Puts the layers in front of what `method` calls by this name.
    pub(crate) fn before(&self, method: &'static str, name: &str, run: Run<R>) -> Run<R> {
        match self.put {
            Some(put) => put(&self.layers, method, name, run),
            None => run,
        }
    }
}

impl<R> fmt::Debug for Front<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.layers.fmt(f)
    }
}

/// A handler behind layers.
struct Layered<R> {
    service: SharedService,
    method: &'static str,
    name: String,
    gives: PhantomData<fn() -> R>,
}

impl<R: Serialize + DeserializeOwned + Translate + Send + Sync + Unpin + 'static> Layered<R> {
    fn put(layers: &Layers, method: &'static str, name: &str, run: Run<R>) -> Run<R> {
        let service = layers.wrap(Arc::new(Leaf(run)));
        let layered = Self { service, method, name: name.to_owned(), gives: PhantomData };
        Box::new(move |call| layered.call(call))
    }

    fn call(&self, call: Call) -> Ready<Result<R, ErrorObject>> {
        let mut cx = call.context.call().clone();
        let params = Payload::json(self.params_of(&call).into());
        cx.insert_extension(Slot(call));
        let request = Request::raw(ByteString::from_static(self.method), params);
        self.service.call(request, cx).map(|outcome| {
            outcome?.take().map_err(|error| ErrorObject::internal(format!("a layer changed the answer: {error}")))
        })
    }
}

impl<R> Layered<R> {
    /// The request as the layers are to see it.
    fn params_of(&self, call: &Call) -> Object {
        let mut params = Object::new();
        let (member, subject) = match call.context.extension::<Uri>() {
            Some(uri) => ("uri", uri.0.as_str()),
            None => ("name", self.name.as_str()),
        };
        params.insert_raw(member, &RawJson::string(subject));
        let arguments = match &call.input {
            Input::Texts(_) if member == "uri" => None,
            input => Some(input.arguments().into_owned()),
        };
        if let Some(arguments) = arguments {
            params.insert_raw("arguments", &arguments.into());
        }
        params
    }
}

/// What a handler behind layers is called with. The layers see an ordinary request; the call itself travels in its context.
#[derive(Clone)]
struct Slot(Call);

struct Leaf<R>(Run<R>);

impl<R: Serialize + Translate + Send + Sync + Unpin + 'static> Service for Leaf<R> {
    fn call(&self, _: Request, cx: CallContext) -> ResponseFuture {
        match cx.extension::<Slot>() {
            Some(Slot(call)) => {
                // What the layers put into the context is there for the handler.
                let mut call = call.clone();
                call.context = call.context.within(cx);
                (self.0)(call).map(|result| result.map(Payload::new)).map(|result| result.map_err(Into::into))
            }
            None => Ready::now(Err(ErrorObject::internal("a layer has taken the call out of its context").into())),
        }
    }
}
