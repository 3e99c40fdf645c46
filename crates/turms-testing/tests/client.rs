//! What tests of servers need: every revision, a caller, input, events.

use serde::Deserialize;
use serde_json::json;
use turms_client::{CallError, Event};
use turms_core::Remote;
use turms_proto::ProtocolVersion;
use turms_proto::types::{ElicitResult, LoggingLevel};
use turms_proto::{ErrorCode, Object};
use turms_server::{Context, Elicited, InsufficientScopeError, Principal, Server, Tool};
use turms_testing::{TestClient, TestClientBuilder};

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

/// A server with a tool that needs a scope, and one that checks another scope itself and returns a claim.
fn guarded_server() -> Server {
    let erase = Tool::builder("erase").scopes(["notes:write"]).handler_sync(|| "erased");
    let tenant = Tool::builder("tenant").handler(|caller: Principal| async move {
        caller.require(["notes:read"])?;
        Ok::<_, InsufficientScopeError>(caller.claim::<String>("tenant").unwrap_or_default())
    });
    Server::new("notes", "1").tool(erase).tool(tenant)
}

async fn call(builder: TestClientBuilder, tool: &str) -> Result<String, CallError> {
    let client = builder.connect().await.expect("the server accepts each client");
    client.call_tool(tool, ()).await.map(|result| result.text())
}

fn assert_needs(outcome: Result<String, CallError>, scope: &str) {
    let error = outcome.expect_err("the scope is missing");
    let error = error.error_response().unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!(error.code, ErrorCode::INVALID_REQUEST);
    let data: serde_json::Value = error.data.as_ref().expect("the scopes are there").decode().expect("they are JSON");
    assert_eq!(data, json!({ "error": "insufficient_scope", "scope": scope }));
}

#[tokio::test]
async fn a_tool_is_called_by_a_principal_with_its_scope_and_refused_to_others() {
    for version in ProtocolVersion::ALL {
        let client = || TestClient::builder(guarded_server()).protocol_version(version);
        let ann = Principal::new("ann").with_scopes(["notes:read"]);
        assert_needs(call(client().principal(ann), "erase").await, "notes:write");
        let ann = Principal::new("ann").with_scopes(["notes:read", "notes:write"]);
        assert_eq!(call(client().principal(ann), "erase").await.unwrap(), "erased");
    }
}

#[tokio::test]
async fn a_handler_sees_the_scopes_and_claims_of_the_principal() {
    let client = || TestClient::builder(guarded_server());
    let claims = Object::parse(r#"{"tenant":"north"}"#).unwrap();
    let ann = Principal::new("ann").with_claims(claims);
    assert_needs(call(client().principal(ann.clone()), "tenant").await, "notes:read");
    let ann = ann.with_scopes(["notes:read"]);
    assert_eq!(call(client().principal(ann), "tenant").await.unwrap(), "north");
}

#[tokio::test]
async fn without_a_principal_scopes_are_checked_only_for_callers_over_a_network() {
    let client = || TestClient::builder(guarded_server());
    assert_eq!(call(client(), "erase").await.unwrap(), "erased");
    assert_needs(call(client().extension(Remote), "erase").await, "notes:write");
}
