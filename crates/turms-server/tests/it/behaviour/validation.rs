//! Validation against the schemas of tools, and its limits.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turms_proto::{Ability, ProtocolVersion};
use turms_server::{Args, Json, Server, Tool};
use turms_testkit::test_client::TestClient;

use super::text_of;

#[derive(Deserialize, JsonSchema)]
struct Code {
    #[schemars(regex(pattern = "(?:a?b?){500}[^ab]{3}x|^[ab]*$"))]
    code: String,
}

fn server() -> Server {
    Server::new("validation", "1")
        .tool(Tool::builder("check").handler_sync(|Args(it): Args<Code>| it.code.len().to_string()))
        .tool(
            Tool::builder("codes").output_schema(codes()).handler_sync(|| Json(json!({ "codes": "ab".repeat(1000) }))),
        )
}

fn codes() -> turms_proto::Object {
    let schema =
        r#"{"type":"object","properties":{"codes":{"type":"string","pattern":"(?:a?b?){500}[^ab]{3}x|^[ab]*$"}}}"#;
    turms_proto::Object::parse(schema).unwrap()
}

#[tokio::test]
async fn arguments_that_are_too_expensive_to_validate_are_refused() {
    let complaint = "arguments.code: is too expensive to validate with \"pattern\", see `max_validation_steps`";
    let (ample, scarce) = (server().build().unwrap(), server().max_validation_steps(100_000).build().unwrap());
    for version in ProtocolVersion::ALL {
        for (router, short, long) in [(&ample, 100, 2_000_000), (&scarce, 1, 2000)] {
            let client = TestClient::connect(router, version).await;
            let result = client.call_tool("check", json!({ "code": "ab".repeat(short) })).await.unwrap();
            assert_eq!((result.is_error(), text_of(&result)), (false, (2 * short).to_string()));
            let answer = client.call_tool("check", json!({ "code": "ab".repeat(long) })).await;
            if version.has(Ability::ArgumentErrorsAsResults) {
                let result = answer.unwrap();
                assert_eq!((result.is_error(), text_of(&result)), (true, complaint.to_owned()));
            } else {
                let error = answer.unwrap_err();
                let error = error.server_error();
                assert_eq!((error.code.0, error.message.as_str()), (-32602, complaint));
            }
        }
    }
}

#[tokio::test]
async fn output_that_is_too_expensive_to_validate_is_an_error() {
    let client = TestClient::connect(&server().build().unwrap(), ProtocolVersion::LATEST).await;
    assert!(!client.call_tool("codes", json!({})).await.unwrap().is_error());
    let scarce = server().max_validation_steps(100_000).build().unwrap();
    let client = TestClient::connect(&scarce, ProtocolVersion::LATEST).await;
    let error = client.call_tool("codes", json!({})).await.unwrap_err();
    let words = "structuredContent.codes: is too expensive to validate with \"pattern\", see `max_validation_steps`";
    assert!(error.server_error().message.ends_with(words), "{}", error.server_error().message);
}
