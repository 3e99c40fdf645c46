//! A unit test of a server, in every revision, with a person who fills in a form.

use schemars::JsonSchema;
use serde::Deserialize;
use turms::ProtocolVersion;
use turms::prelude::*;
use turms::testing::TestClient;
use turms::types::ElicitResult;

#[derive(Deserialize, JsonSchema)]
struct Size {
    size: u32,
}

/// Orders a shirt.
#[tool]
async fn order(context: Context) -> Result<String, ToolError> {
    match context.elicit::<Size>("Which size?").await? {
        Elicited::Accepted(Size { size }) => Ok(format!("size {size}")),
        _ => Ok("nothing".into()),
    }
}

#[tokio::test]
async fn a_shirt_is_ordered_by_its_size() -> turms::Result {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28] {
        let form = serde_json::json!({ "size": 42 });
        let client = TestClient::builder(Server::new("shop", "1.0.0").tool(order))
            .protocol_version(version)
            .client(|client| {
                client.on_form(move |_, _| {
                    let form = form.clone();
                    async move { Ok(ElicitResult::accept(form)?) }
                })
            })
            .connect()
            .await?;
        assert_eq!(client.call_tool("order", ()).await?.text(), "size 42");
    }
    Ok(())
}
