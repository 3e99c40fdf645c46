//! Apps: UIs that a host displays in a conversation, the extension `io.modelcontextprotocol/ui`.

use turms_proto::Object;
use turms_proto::types::{APP_MIME_TYPE, APPS_EXTENSION, AppsCapability};

use crate::builder::ClientBuilder;

impl ClientBuilder {
    /// Declares that this client is a host that displays apps ([`APP_MIME_TYPE`]), so that servers offer them.
    ///
    /// The host must run apps in a sandbox. It must hide tools from the model that are not [visible to
    /// it](turms_proto::types::Tool::visible_to_model). An app may call only tools of its own server, and only if they
    /// are [callable by apps](turms_proto::types::Tool::callable_by_app).
    ///
    /// ```
    /// # use turms_client as turms;
    /// use turms::Client;
    /// # use turms_server::{App, Apps, Server, Tool};
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// # let view = App::new("ui://weather", "<!doctype html>");
    /// # let weather = Tool::builder("weather").app("ui://weather").handler_sync(|| "Sunny.");
    /// # let server = Server::new("weather", "1.0.0").extension(Apps::new().app(view)).tool(weather).build()?;
    /// let client = Client::builder("my-host", "1.0.0").enable_apps().connect_service(server).await?;
    /// for tool in client.list_tools().await?.iter().filter(|tool| tool.visible_to_model()) {
    ///     if let Some(uri) = tool.app_uri() {
    ///         let page = client.read_resource(uri).await?;
    ///         assert!(page.contents[0].is_app());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    pub fn enable_apps(self) -> Self {
        let capability = AppsCapability::new().mime_types(vec![APP_MIME_TYPE.to_owned()]);
        self.declare_extension(APPS_EXTENSION, Object::encode(&capability).unwrap_or_default())
    }
}
