//! Extensions of the protocol for clients.

use std::sync::Arc;

use turms_core::{BoxFuture, ConnectError, Payload, Request, ResponseFuture};
use turms_proto::method::Method;
use turms_proto::types::is_extension_id;
use turms_proto::{ErrorObject, Notification, Object, RawJson};

use crate::call::{Call, CallRequest, decode};
use crate::client::Client;

/// An extension of the protocol: its id and settings, and its handlers for notifications and requests.
///
/// An extension that is only declared needs no type of its own: see
/// [`ClientBuilder::declare_extension`](crate::ClientBuilder::declare_extension). Its methods are called with
/// [`Client::request`].
///
/// ```
/// use std::sync::Mutex;
///
/// # mod turms {
/// #     pub use turms_client::{Client, ClientExtension};
/// #     pub use turms_proto as jsonrpc;
/// #     pub mod types { pub use turms_proto::{Object, method::Method, types::EmptyParams}; }
/// # }
/// use turms::jsonrpc::Notification;
/// use turms::types::{EmptyParams, Method, Object};
/// use turms::{Client, ClientExtension};
/// # use std::sync::Arc;
/// # use turms_server::{Context, ExtensionBuilder, Server, ServerExtension};
/// # struct Shop;
/// # impl ServerExtension for Shop {
/// #     fn id(&self) -> &str { "com.example/prices" }
/// #     fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
/// #         scope.method("com.example/prices/get", |_: Object, context: Context| async move {
/// #             context.peer().notify_raw(Notification::raw("com.example/prices/changed", None)).await.unwrap();
/// #             Ok(Object::parse(r#"{"tea":250}"#).unwrap())
/// #         })
/// #     }
/// # }
///
/// /// Counts the changes of prices.
/// #[derive(Default)]
/// struct Prices {
///     changes: Mutex<u32>,
/// }
///
/// impl ClientExtension for Prices {
///     fn id(&self) -> &str {
///         "com.example/prices"
///     }
///
///     fn on_notification(&self, notification: &Notification) {
///         if &*notification.method == "com.example/prices/changed" {
///             *self.changes.lock().unwrap() += 1;
///         }
///     }
/// }
///
/// /// The method, as a type. Its params and its result may be types of your own, too.
/// struct GetPrices;
///
/// impl Method for GetPrices {
///     const NAME: &'static str = "com.example/prices/get";
///     type Params = EmptyParams;
///     type Result = Object;
/// }
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = Server::new("shop", "1.0.0").extension(Shop).build()?;
/// let prices = Arc::new(Prices::default());
/// let client = Client::builder("my-app", "1.0.0").extension(prices.clone()).connect_service(server).await?;
/// if client.server_extension("com.example/prices").is_some() {
///     let all = client.request::<GetPrices>(EmptyParams::new()).await?;
///     assert_eq!(all.get("tea").unwrap().as_str(), "250");
///     assert_eq!(*prices.changes.lock().unwrap(), 1);
/// }
/// # else { panic!("the server declares it") }
/// # Ok(())
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extension of the protocol",
    note = "implement `ClientExtension` for it, or declare one by its id with `.declare_extension(id, settings)`"
)]
pub trait ClientExtension: Send + Sync + 'static {
    /// Returns the id, such as `com.example/prices`: your reversed domain name, and a name.
    fn id(&self) -> &str;

    /// Returns the settings that are declared with the id. Called once, when the client connects. Default: none.
    fn settings(&self) -> Object {
        Object::new()
    }

    /// Handles every notification that the protocol itself does not define. It runs on the task of the connection: it
    /// must be quick and must not block.
    fn on_notification(&self, notification: &Notification) {
        let _ = notification;
    }

    /// Handles a request of a server; `None` if the method is not one of this extension. Servers of
    /// 2026-07-28 make no requests.
    fn on_request(&self, method: &str, params: &RawJson) -> Option<BoxFuture<'static, Result<RawJson, ErrorObject>>> {
        let _ = (method, params);
        None
    }
}

/// Forwards to the inner extension.
impl<T: ClientExtension> ClientExtension for Arc<T> {
    fn id(&self) -> &str {
        T::id(self)
    }

    fn settings(&self) -> Object {
        T::settings(self)
    }

    fn on_notification(&self, notification: &Notification) {
        T::on_notification(self, notification);
    }

    fn on_request(&self, method: &str, params: &RawJson) -> Option<BoxFuture<'static, Result<RawJson, ErrorObject>>> {
        T::on_request(self, method, params)
    }
}

impl Client {
    /// Returns the settings that the server declared for an extension; `None` if it did not declare the extension.
    #[must_use]
    pub fn server_extension(&self, id: &str) -> Option<Object> {
        let settings = self.server_capabilities()?.extensions?.get(id)?;
        Some(settings.as_object().unwrap_or_default())
    }

    /// Sends a request of a typed [`Method`], such as one of an extension. Input requests of the server go to the
    /// handlers of the client.
    pub fn request<M: Method>(&self, params: M::Params) -> Call<M::Result>
    where
        M::Params: Clone,
    {
        let call = CallRequest::typed::<M>(params, decode::extension::<M::Result>);
        Call::new(self, Ok(call), |call, output| output.take(call))
    }
}

/// Returns all declared extensions.
pub(crate) fn declared(
    named: Option<Object>,
    extensions: &[Arc<dyn ClientExtension>],
) -> Result<Option<Object>, ConnectError> {
    let undeclarable = |id: &str, problem| ConnectError::InvalidExtension { id: id.to_owned(), problem };
    let mut all = named.unwrap_or_default();
    for extension in extensions {
        if all.contains(extension.id()) {
            return Err(undeclarable(extension.id(), "an extension with this id is already declared"));
        }
        all.insert_raw(extension.id(), &extension.settings().into());
    }
    if let Some((id, _)) = all.iter().find(|(id, _)| !is_extension_id(id)) {
        return Err(undeclarable(&id, "the id must be a prefix, a slash and a name, such as com.example/prices"));
    }
    Ok(Some(all).filter(|all| !all.is_empty()))
}

/// Passes a request to the first extension that handles it.
pub(crate) fn call(extensions: &[Arc<dyn ClientExtension>], request: Request) -> ResponseFuture {
    let Request { method, params, .. } = request;
    if extensions.is_empty() {
        return Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&method).into())));
    }
    let params = match params.into_raw() {
        Ok(params) => params,
        Err(error) => return Box::pin(std::future::ready(Err(ErrorObject::internal(error.to_string()).into()))),
    };
    match extensions.iter().find_map(|extension| extension.on_request(&method, &params)) {
        Some(answer) => Box::pin(async move { Ok(Payload::json(answer.await?)) }),
        None => Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&method).into()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        struct Prices;
        impl ClientExtension for Prices {
            fn id(&self) -> &str {
                "com.example/prices"
            }
        }
        let code = [("ClientExtension::settings", when(Prices.settings().is_empty(), "none"))];
        assert_documented(include_str!("extension.rs"), &code);
    }
}
