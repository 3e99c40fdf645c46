//! What tests of servers need: every revision, a caller, input, events.

use serde::Deserialize;
use serde_json::json;
use turms_client::Event;
use turms_proto::ProtocolVersion;
use turms_proto::types::{ElicitResult, LoggingLevel};
use turms_server::{Context, Elicited, Principal, Server, Tool};
use turms_testing::TestClient;

#[derive(Deserialize, schemars::JsonSchema)]
struct Confirm {
    sure: bool,
}

fn server() -> Server {
    let whoami = Tool::builder("whoami").handler(|caller: Principal| async move { caller.subject().to_owned() });
    let confirm = Tool::builder("confirm").handler(|context: Context| async move {
        match context.elicit::<Confirm>("Sure?").await? {
            Elicited::Accepted(Confirm { sure }) => Ok::<_, turms_server::InputError>(sure.to_string()),
            _ => Ok("no answer".to_owned()),
        }
    });
    let log = Tool::builder("log").handler(|context: Context| async move {
        context.log(LoggingLevel::Warning, "careful").await;
    });
    Server::new("test", "1").tool(whoami).tool(confirm).tool(log)
}

#[tokio::test]
async fn a_client_of_every_revision_has_a_principal_and_handlers() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::builder(server())
            .protocol_version(version)
            .principal("ann")
            .client(|client| client.on_form(|_, _| async { Ok(ElicitResult::accept(json!({ "sure": true }))?) }))
            .connect()
            .await
            .unwrap();
        assert_eq!(client.protocol_version(), Some(version));
        assert_eq!(client.call_tool("whoami", ()).await.unwrap().text(), "ann");
        let confirmed = client.call_tool("confirm", ()).await.unwrap().text();
        // Elicitation came with 2025-06-18.
        assert_eq!(confirmed == "true", version >= ProtocolVersion::V2025_06_18, "{version}: {confirmed}");
    }
}

#[tokio::test]
async fn events_are_waited_for() {
    let client =
        TestClient::builder(server()).client(|client| client.log_level(LoggingLevel::Info)).connect().await.unwrap();
    client.call_tool("log", ()).await.unwrap();
    let data = client.expect_event(|event| match event {
        Event::Log(message) => Some(message.data.as_str().to_owned()),
        _ => None,
    });
    assert_eq!(data.await, "\"careful\"");
}

#[tokio::test]
async fn a_server_that_cannot_be_built_is_an_error() {
    let error = TestClient::connect(server().tool(Tool::builder("log").handler_sync(|| "twice"))).await.unwrap_err();
    assert!(format!("{error:?}").contains("log"), "{error:?}");
}
