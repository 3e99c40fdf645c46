//! The errors that handlers return: their causes, and protocol errors among the causes.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use serde_json::json;
use turms_client::{ClientBuilder, HandlerError};
use turms_proto::types::*;
use turms_proto::{Ability, ErrorCode, ErrorObject, ProtocolVersion};
use turms_server::{Context, InputError, Prompt, Resource, Router, Server, Session, Tool, ToolError};
use turms_testkit::test_client::TestClient;

type BoxError = Box<dyn Error + Send + Sync>;

/// An error with a cause.
#[derive(Debug)]
struct Step(&'static str, BoxError);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Step {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.1)
    }
}

fn number() -> Result<u8, std::num::ParseIntError> {
    "x".parse()
}

fn failing() -> Step {
    Step("cannot start", Step("cannot read the index", number().unwrap_err().into()).into())
}

const FAILING: &str = "cannot start: cannot read the index: invalid digit found in string";

fn refusing() -> Step {
    Step("cannot start", ErrorObject::invalid_params("never").into())
}

async fn clients(router: &Router) -> Vec<TestClient> {
    let mut clients = Vec::new();
    for version in ProtocolVersion::ALL {
        clients.push(TestClient::connect(router, version).await);
    }
    clients
}

#[tokio::test]
async fn a_tool_that_fails_names_all_causes() {
    let router = Server::new("fixture", "1")
        .tool(Tool::builder("typed").handler_sync(|| Err::<String, _>(failing())))
        .tool(Tool::builder("boxed").handler_sync(|| Err::<String, _>(BoxError::from(failing()))))
        .tool(Tool::builder("mixed").handler(|| async { Err::<String, _>(ToolError::from(failing())) }))
        .build()
        .unwrap();
    for client in clients(&router).await {
        for tool in ["typed", "boxed", "mixed"] {
            let result = client.call_tool(tool, json!({})).await.unwrap();
            assert!(result.is_error());
            assert_eq!(result.text(), FAILING, "{tool}");
        }
    }
}

#[tokio::test]
async fn prompts_and_resources_name_all_causes() {
    let router = Server::new("fixture", "1")
        .prompt(Prompt::builder("typed").handler_sync(|| Err::<String, _>(failing())))
        .resource(Resource::builder("a://b").handler_sync(|| Err::<String, _>(BoxError::from(failing()))))
        .build()
        .unwrap();
    for client in clients(&router).await {
        let prompt = client.request_rounds::<GetPrompt, _>(&GetPromptParams::new("typed")).await.unwrap_err();
        let resource = client.request_rounds::<ReadResource, _>(&ReadResourceParams::new("a://b")).await.unwrap_err();
        for error in [prompt, resource] {
            let error = error.server_error();
            assert_eq!((error.code, error.message.as_str()), (ErrorCode::INTERNAL_ERROR, FAILING));
        }
    }
}

#[tokio::test]
async fn an_error_object_among_the_causes_is_the_error_of_the_request() {
    let mixed = async || -> Result<String, ToolError> {
        number().map_err(|_| refusing())?;
        Ok(String::new())
    };
    let router = Server::new("fixture", "1")
        .tool(Tool::builder("typed").handler_sync(|| Err::<String, _>(refusing())))
        .tool(
            Tool::builder("boxed")
                .handler_sync(|| Err::<String, BoxError>(ErrorObject::invalid_params("never").into())),
        )
        .tool(Tool::builder("mixed").handler(mixed))
        .tool(Tool::builder("io").handler_sync(|| Err::<String, _>(std::io::Error::other(refusing()))))
        .prompt(Prompt::builder("typed").handler_sync(|| Err::<String, _>(refusing())))
        .build()
        .unwrap();
    for client in clients(&router).await {
        for tool in ["typed", "boxed", "mixed", "io"] {
            let error = client.call_tool(tool, json!({})).await.unwrap_err();
            assert_eq!(error.server_error(), &ErrorObject::invalid_params("never"), "{tool}");
        }
        let error = client.request_rounds::<GetPrompt, _>(&GetPromptParams::new("typed")).await.unwrap_err();
        assert_eq!(error.server_error(), &ErrorObject::invalid_params("never"));
    }
}

#[tokio::test]
async fn a_missing_capability_is_reported_through_a_boxed_error() {
    async fn ask(context: Context) -> Result<String, BoxError> {
        number().or(Ok::<_, InputError>(1))?;
        Ok(context.list_roots().await.map_err(|error| Step("cannot look around", error.into()))?.len().to_string())
    }
    async fn mixed(context: Context) -> Result<String, ToolError> {
        Ok(context.list_roots().await?.len().to_string())
    }
    let router = Server::new("fixture", "1")
        .tool(Tool::builder("boxed").handler(ask))
        .tool(Tool::builder("mixed").handler(mixed))
        .build()
        .unwrap();
    for client in clients(&router).await {
        for tool in ["boxed", "mixed"] {
            let answer = client.call_tool(tool, json!({})).await;
            if client.version().has(Ability::Stateless) {
                assert_eq!(answer.unwrap_err().server_error().code, ErrorCode::MISSING_CLIENT_CAPABILITY, "{tool}");
            } else {
                assert!(answer.unwrap().is_error(), "{tool}");
            }
        }
    }
}

/// A missing capability is a protocol error for the host; any other failure of an input request is a tool error for the
/// model.
#[tokio::test(start_paused = true)]
async fn an_input_request_without_a_response_is_a_tool_error_that_the_model_sees() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Size {
        size: u32,
    }
    async fn order(context: Context) -> Result<String, ToolError> {
        let size = context.elicit::<Size>("Which size?").timeout(Duration::from_secs(5)).await;
        let size = size.map_err(|error| Step("cannot order", error.into()))?;
        Ok(size.accepted().map_or(0, |answer| answer.size).to_string())
    }
    let server = || Server::new("fixture", "1").tool(Tool::builder("order").handler(order));
    let client = |configure: fn(ClientBuilder) -> ClientBuilder| {
        let client = turms_testing::TestClient::builder(server()).protocol_version(ProtocolVersion::V2025_11_25);
        client.client(configure).connect()
    };
    let silent = client(|client| client.on_form(|_, _| std::future::pending())).await.unwrap();
    let refusing = client(|client| client.on_form(|_, _| async { Err(HandlerError::new("no screen")) }));
    let refusing = refusing.await.unwrap();
    for (client, message) in [
        (silent, "cannot order: no response within 5 s (timeout)"),
        (refusing, "cannot order: the client responded with an error: no screen (-32603 internal error)"),
    ] {
        let result = client.call_tool("order", ()).await.unwrap();
        assert!(result.is_error() && result.text() == message, "{}", result.text());
    }
}

#[cfg(feature = "anyhow")]
#[tokio::test]
async fn the_causes_of_anyhow_errors_are_found() {
    use anyhow::Context as _;

    fn plain() -> anyhow::Result<String> {
        Err(ErrorObject::invalid_params("never"))?
    }
    fn mixed() -> Result<String, ToolError> {
        Ok(plain().context("cannot start")?)
    }
    fn failed() -> anyhow::Result<String> {
        number().context("cannot read the index").context("cannot start")?;
        Ok(String::new())
    }
    let router = Server::new("fixture", "1")
        .tool(Tool::builder("plain").handler_sync(plain))
        .tool(Tool::builder("mixed").handler_sync(mixed))
        .tool(Tool::builder("failed").handler_sync(failed))
        .build()
        .unwrap();
    for client in clients(&router).await {
        for tool in ["plain", "mixed"] {
            let error = client.call_tool(tool, json!({})).await.unwrap_err();
            assert_eq!(error.server_error(), &ErrorObject::invalid_params("never"), "{tool}");
        }
        assert_eq!(client.call_tool("failed", json!({})).await.unwrap().text(), FAILING);
    }
}

#[tokio::test]
async fn the_error_without_a_session_names_the_alternative() {
    let router = Server::new("fixture", "1")
        .tool(Tool::builder("needs").handler_sync(|_: Session| "here"))
        .tool(Tool::builder("wants").handler_sync(|session: Option<Session>| session.is_some().to_string()))
        .build()
        .unwrap();
    for client in clients(&router).await {
        let has_session = !client.version().has(Ability::Stateless);
        assert_eq!(client.call_tool("wants", json!({})).await.unwrap().text(), has_session.to_string());
        let answer = client.call_tool("needs", json!({})).await;
        if has_session {
            assert_eq!(answer.unwrap().text(), "here");
        } else {
            let error = answer.unwrap_err();
            let message = &error.server_error().message;
            assert!(message.contains("requests of 2026-07-28 have no session"), "{message}");
            assert!(message.contains("take `Option<Session>`"), "{message}");
        }
    }
}
