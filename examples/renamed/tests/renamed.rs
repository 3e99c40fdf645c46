//! A server that imports `turms` under another name.

use mcp::testing::TestClient;
use serde_json::json;

#[tokio::test]
async fn attributes_work_in_a_crate_that_renames_turms() {
    let client = TestClient::connect(turms_renamed::server()).await.unwrap();
    assert_eq!(client.call_tool("add", json!({ "a": 2 })).await.unwrap().text(), "3");
    assert_eq!(client.call_tool("all", ()).await.unwrap().text(), "milk for 2026-07-28");
    assert_eq!(client.read_resource("note://todo").await.unwrap().text(), Some("milk"));
    for (prompt, arguments) in [("review", json!({ "code": "1" })), ("greet", json!({ "name": "Ann" }))] {
        assert_eq!(client.get_prompt(prompt, arguments).await.unwrap().messages.len(), 1, "{prompt}");
    }
}
