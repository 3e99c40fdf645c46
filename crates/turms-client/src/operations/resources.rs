use turms_proto::ErrorObject;
use turms_proto::types::{
    Cursor, ListResourceTemplates, ListResourceTemplatesResult, ListResources, ListResourcesResult, ListenParams,
    ReadResource, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SubscriptionFilter,
};

use crate::call::{Call, CallError, CallRequest, SessionCall};
use crate::client::Client;
use crate::page::{self, Items};
use crate::subscription::Subscription;

impl Client {
    /// Lists all resources.
    pub fn list_resources(&self) -> Call<Vec<Resource>> {
        page::list::<ListResources>(self)
    }

    /// Lists one page of resources.
    pub fn list_resources_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListResourcesResult> {
        page::page::<ListResources>(self, cursor.into())
    }

    /// Returns a stream of all resources, which reads page by page.
    #[must_use]
    pub fn stream_resources(&self) -> Items<Resource> {
        Items::new::<ListResources>(self)
    }

    /// Lists all resource templates.
    pub fn list_resource_templates(&self) -> Call<Vec<ResourceTemplate>> {
        page::list::<ListResourceTemplates>(self)
    }

    /// Lists one page of resource templates.
    pub fn list_resource_templates_page(&self, cursor: impl Into<Option<Cursor>>) -> Call<ListResourceTemplatesResult> {
        page::page::<ListResourceTemplates>(self, cursor.into())
    }

    /// Returns a stream of all resource templates, which reads page by page.
    #[must_use]
    pub fn stream_resource_templates(&self) -> Items<ResourceTemplate> {
        Items::new::<ListResourceTemplates>(self)
    }

    /// Reads a resource.
    pub fn read_resource(&self, uri: impl Into<String>) -> Call<ReadResourceResult> {
        let call = CallRequest::multi_round::<ReadResource, _>(ReadResourceParams::new(uri));
        Call::new(self, Ok(call), |call, output| output.take(call))
    }

    /// Subscribes to changes: of one resource by its URI, or of all that a [`SubscriptionFilter`] names. Works in every
    /// revision.
    ///
    /// ```
    /// # mod turms { pub use turms_client::{self as client, Client}; }
    /// use turms::Client;
    /// use turms::client::Change;
    /// # use turms_server::{Resource, Server};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = Server::new("notes", "1").resource(Resource::builder("note://todo").handler_sync(|| "milk"));
    /// # let handle = server.handle();
    /// # let client = Client::builder("my-app", "1.0.0").connect_service(server.build()?).await?;
    /// let mut changes = client.subscribe("note://todo").await?;
    /// # handle.notify_resource_updated("note://todo");
    /// while let Some(change) = changes.next().await {
    ///     if let Change::Resource { uri } = change {
    ///         println!("{uri} has changed");
    /// #       break;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// Changes of resources are also [events](Client::events). The call fails if the filter has only resources and the
    /// server accepts none of them.
    pub fn subscribe(&self, filter: impl Into<SubscriptionFilter>) -> Call<Subscription> {
        let filter = filter.into();
        Call::new(self, Ok(SessionCall::Listen(filter).request()), |call, output| {
            let stream = output.subscription.ok_or_else(|| CallError::not_connected(call.target(), None))?;
            let filter = call.params_as::<ListenParams>()?.notifications;
            if stream.offers_none_of(&filter) {
                let uris = filter.resource_subscriptions.unwrap_or_default().join(", ");
                let error = ErrorObject::invalid_params(format!("the server offers no changes of {uris}"));
                return Err(CallError::server(call.target(), error));
            }
            Ok(*stream)
        })
    }
}
