use turms_proto::types::{
    Cursor, EmptyResult, ListResourceTemplates, ListResourceTemplatesResult, ListResources, ListResourcesResult,
    ReadResource, ReadResourceParams, ReadResourceResult, Resource, ResourceTemplate, SubscriptionFilter,
};

use crate::call::{Call, CallRequest, SessionCall};
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

    /// Watches a resource: its changes are [events](Client::events), also after a reconnection.
    pub fn subscribe(&self, uri: impl Into<String>) -> Call<()> {
        Call::new(self, Ok(SessionCall::Subscribe(uri.into()).request()), |call, output| {
            output.take::<EmptyResult>(call).map(drop)
        })
    }

    /// Stops watching a resource.
    pub fn unsubscribe(&self, uri: impl Into<String>) -> Call<()> {
        Call::new(self, Ok(SessionCall::Unsubscribe(uri.into()).request()), |call, output| {
            output.take::<EmptyResult>(call).map(drop)
        })
    }

    /// Opens a stream of changes of its own. Works in every revision.
    pub fn listen(&self, filter: SubscriptionFilter) -> Call<Subscription> {
        Call::new(self, Ok(SessionCall::Listen(filter).request()), |_, output| output.into_subscription())
    }
}
