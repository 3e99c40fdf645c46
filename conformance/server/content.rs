//! Tools that return every kind of content.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use turms::prelude::*;

use crate::{PNG, WAV};

pub(crate) struct Contents;

#[handlers]
impl Contents {
    /// Returns text.
    #[tool(read_only)]
    fn test_simple_text(&self) -> &'static str {
        "This is a simple text response for testing."
    }

    /// Returns an image.
    #[tool(read_only)]
    fn test_image_content(&self) -> Content {
        Content::image(PNG, "image/png")
    }

    /// Returns audio.
    #[tool(read_only)]
    fn test_audio_content(&self) -> Content {
        Content::audio(WAV, "audio/wav")
    }

    /// Returns a resource.
    #[tool(read_only)]
    fn test_embedded_resource(&self) -> Content {
        let contents = ResourceContents::from_text("test://embedded-resource", "This is an embedded resource content.");
        Content::resource(contents.mime_type("text/plain".to_owned()))
    }

    /// Returns text, an image and a resource.
    #[tool(read_only)]
    fn test_multiple_content_types(&self) -> CallToolResult {
        let data = ResourceContents::from_text("test://mixed-content-resource", r#"{"test":"data","value":123}"#);
        CallToolResult::from_text("Multiple content types test:")
            .with_image(PNG, "image/png")
            .with_resource(data.mime_type("application/json".to_owned()))
    }

    /// Returns an error.
    #[tool(read_only)]
    fn test_error_handling(&self) -> Result<String, String> {
        Err("This tool intentionally returns an error for testing".to_owned())
    }

    /// Returns an array as structured content.
    #[tool(read_only)]
    fn sep_2106_array_output_tool(&self) -> Json<Vec<Forecast>> {
        Json(vec![
            Forecast { day: "Monday".to_owned(), celsius: 21.5 },
            Forecast { day: "Tuesday".to_owned(), celsius: 19.0 },
        ])
    }

    /// Returns a number as structured content.
    #[tool(read_only)]
    fn sep_2106_primitive_output_tool(&self) -> Json<f64> {
        Json(42.0)
    }

    /// Returns the extensions that the client declares, with their settings.
    #[tool(read_only)]
    fn test_extension_echo(&self, context: Context) -> Json<Extensions> {
        let extensions = context.client_capabilities().extensions.and_then(|extensions| extensions.decode().ok());
        Json(Extensions { extensions: extensions.unwrap_or_default() })
    }

    /// Takes an argument that is mirrored in a header.
    #[tool(read_only)]
    fn test_header(&self, Args(place): Args<Place>) -> String {
        format!("region: {}", place.region)
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Forecast {
    day: String,
    celsius: f64,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Extensions {
    /// Settings by extension id.
    extensions: BTreeMap<String, Value>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Place {
    /// the region
    #[serde(default)]
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}
