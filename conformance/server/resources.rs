//! Resources of every kind.

use turms::prelude::*;

use crate::PNG;

pub(crate) fn add(server: Server) -> Server {
    server.resource(static_text).resource(static_binary()).resource(template_data).resource(watched)
}

/// A text that does not change.
#[resource("test://static-text", name = "Static Text Resource", mime_type = "text/plain")]
async fn static_text() -> &'static str {
    "This is the content of the static text resource."
}

fn static_binary() -> Resource {
    Resource::builder("test://static-binary")
        .name("Static Binary Resource")
        .description("A picture that stays as it is.")
        .mime_type("image/png")
        .handler_sync(|| ResourceContents::from_bytes("test://static-binary", PNG).mime_type("image/png".to_owned()))
}

/// Data about the id of the URI.
#[resource("test://template/{id}/data", name = "Template Resource", mime_type = "application/json")]
async fn template_data(id: String) -> String {
    serde_json::json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") }).to_string()
}

/// A resource to subscribe to.
#[resource("test://watched-resource", name = "Watched Resource", mime_type = "text/plain")]
async fn watched() -> &'static str {
    "This is a watched resource."
}
