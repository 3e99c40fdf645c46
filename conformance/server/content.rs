//! Tools that return every kind of content.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::prelude::*;

use crate::{PNG, WAV};

pub(crate) struct Contents;

#[server]
impl Contents {
    /// Returns text.
    #[tool(read_only)]
    fn test_simple_text(&self) -> &'static str {
        "This is a simple text response for testing."
    }

    /// Returns a picture.
    #[tool(read_only)]
    fn test_image_content(&self) -> Content {
        Content::image(PNG, "image/png")
    }

    /// Returns a sound.
    #[tool(read_only)]
    fn test_audio_content(&self) -> Content {
        Content::audio(WAV, "audio/wav")
    }

    /// Returns a resource.
    #[tool(read_only)]
    fn test_embedded_resource(&self) -> Content {
        let contents = ResourceContents::of_text("test://embedded-resource", "This is an embedded resource content.");
        Content::resource(contents.mime_type("text/plain".to_owned()))
    }

    /// Returns text, a picture and a resource.
    #[tool(read_only)]
    fn test_multiple_content_types(&self) -> ToolResult {
        let data = ResourceContents::of_text("test://mixed-content-resource", r#"{"test":"data","value":123}"#);
        ToolResult::of_text("Multiple content types test:")
            .with_image(PNG, "image/png")
            .with_resource(data.mime_type("application/json".to_owned()))
    }

    /// Fails.
    #[tool(read_only)]
    fn test_error_handling(&self) -> Result<String, String> {
        Err("This tool intentionally returns an error for testing".to_owned())
    }

    /// Takes a value that is repeated in a header.
    #[tool(read_only)]
    fn test_header(&self, Args(place): Args<Place>) -> String {
        format!("region: {}", place.region)
    }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Place {
    /// where
    #[serde(default)]
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}
