//! One test suite, run for every revision over memory, pipes and sockets.

mod arguments;
mod asking;
mod backlog;
mod changes;
mod errors;
mod forms;
mod registration;
mod text_arguments;
mod validation;
mod visibility;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use turms_core::layer::{RateLimitLayer, TimeoutLayer, TraceLayer};
use turms_proto::types::*;
use turms_proto::{Ability, Object, ProtocolVersion, RawJson};
use turms_server::{Args, CompletionRequest, Context, Extension, InputError, Prompt, Resource, Router, Server, Tool};
use turms_testkit::behaviour_server::{Sum, server_with};
use turms_testkit::test_client::{Script, TestClient};
use turms_testkit::tools::{Add, Name};
use turms_testkit::{CallCounters, within};

/// The test server, for tests that do not read its counters.
fn router() -> Router {
    server_with(&Arc::default()).build().unwrap()
}

fn person() -> Script {
    Script::new()
        .elicit(|params| match params {
            ElicitParams::Url(_) => ElicitResult::accept_url(),
            _ => ElicitResult::accept(json!({ "name": "Ann" })).unwrap(),
        })
        .sample(|_| CreateMessageResult::new(Role::Assistant, "Paris", "test-model"))
        .roots([Root::new("file:///home")])
}

/// A transport to the test server.
#[derive(Debug, Clone, Copy)]
enum Way {
    Memory,
    Pipes,
    Sockets,
}

async fn connect(way: Way, router: &Router, version: ProtocolVersion, script: Script) -> TestClient {
    match way {
        Way::Memory => TestClient::connect_with(router, version, script).await,
        Way::Pipes => {
            let (to_server, server_reads) = tokio::net::unix::pipe::pipe().unwrap();
            let (to_client, client_reads) = tokio::net::unix::pipe::pipe().unwrap();
            let router = router.clone();
            tokio::spawn(async move { router.serve(server_reads, to_client).await });
            TestClient::over(client_reads, to_server, version, script).await.unwrap()
        }
        Way::Sockets => {
            let (near, far) = tokio::net::UnixStream::pair().unwrap();
            let router = router.clone();
            tokio::spawn(async move {
                let (reader, writer) = far.into_split();
                router.serve(reader, writer).await
            });
            let (reader, writer) = near.into_split();
            TestClient::over(reader, writer, version, script).await.unwrap()
        }
    }
}

/// Runs a test for every revision and transport.
async fn everywhere<F>(test: impl Fn(TestClient, Router, Arc<CallCounters>) -> F)
where
    F: Future<Output = ()>,
{
    for way in [Way::Memory, Way::Pipes, Way::Sockets] {
        for version in ProtocolVersion::ALL {
            let counters = Arc::default();
            let router = server_with(&counters).build().unwrap();
            let client = connect(way, &router, version, person()).await;
            test(client, router, counters).await;
        }
    }
}

fn text_of(result: &CallToolResult) -> String {
    result.text()
}

#[tokio::test]
async fn a_server_sends_its_info_and_capabilities() {
    everywhere(|client, _, _| async move {
        let server = client.opened().server.clone().unwrap();
        assert_eq!(server.instructions.as_deref(), Some("Be gentle."));
        let info = server.meta.unwrap().server_info().unwrap().unwrap();
        assert_eq!((info.name.as_str(), info.version.as_str()), ("fixture", "1.0.0"));
        assert_eq!(info.title.is_some(), client.version() >= ProtocolVersion::V2025_06_18);
        let capabilities = server.capabilities;
        assert!(capabilities.supports(ServerCapability::ToolsListChanged));
        assert!(capabilities.supports(ServerCapability::ResourceSubscriptions));
        assert!(capabilities.supports(ServerCapability::Prompts));
        assert_eq!(
            capabilities.supports(ServerCapability::Completions),
            client.version().has(Ability::CompletionsCapability)
        );
    })
    .await;
}

#[tokio::test]
async fn tools_are_listed_in_order_and_in_the_format_of_the_revision() {
    everywhere(|client, _, _| async move {
        let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
        assert_eq!(list.tools[0].name, "add");
        assert_eq!(list.tools[1].name, "sum");
        let version = client.version();
        assert_eq!(list.tools[0].annotations.is_some(), version.has(Ability::ToolAnnotations));
        assert_eq!(list.tools[1].output_schema.is_some(), version.has(Ability::StructuredOutput));
        assert_eq!(list.tools[2].output_schema.is_some(), version.has(Ability::AnyStructuredOutput));
        assert_eq!(list.result_type.is_some(), version.has(Ability::ResultType));
        assert_eq!(list.ttl_ms.is_some(), version.has(Ability::Caching));
        assert_eq!(list.meta.is_some(), version.has(Ability::Stateless));
        let schema: serde_json::Value = list.tools[0].input_schema.decode().unwrap();
        assert_eq!(schema["properties"]["a"]["description"], "the first number");
        assert_eq!(schema["required"], json!(["a", "b"]));
    })
    .await;
}

#[tokio::test]
async fn a_tool_is_called() {
    everywhere(|client, _, _| async move {
        let result = client.call_tool("add", json!({ "a": 1.5, "b": 2 })).await.unwrap();
        assert_eq!(text_of(&result), "3.5");
        assert_eq!(result.result_type.is_some(), client.version().has(Ability::ResultType));
        assert_eq!(result.meta.is_some(), client.version().has(Ability::Stateless));
        assert_eq!(text_of(&client.call_tool("who", json!({})).await.unwrap()), "test-client");
    })
    .await;
}

#[tokio::test]
async fn structured_content_is_sent_in_revisions_that_define_it() {
    everywhere(|client, _, _| async move {
        let version = client.version();
        let result = client.call_tool("sum", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(text_of(&result), r#"{"sum":3.0}"#);
        let sum = result.structured::<Sum>().ok();
        assert_eq!(sum, version.has(Ability::StructuredOutput).then_some(Sum { sum: 3.0 }));
        let result = client.call_tool("list", json!({})).await.unwrap();
        assert_eq!(text_of(&result), "[1,2,3]");
        assert_eq!(result.structured_content.is_some(), version.has(Ability::AnyStructuredOutput));
    })
    .await;
}

#[tokio::test]
async fn content_that_a_revision_does_not_know_becomes_text() {
    everywhere(|client, _, _| async move {
        let result = client.call_tool("content", json!({})).await.unwrap();
        let kinds: Vec<_> = result.content.iter().map(|content| content.kind().unwrap()).collect();
        let audio = if client.version().has(Ability::Audio) { "audio" } else { "text" };
        let link = if client.version().has(Ability::ResourceLinks) { "resource_link" } else { "text" };
        assert_eq!(kinds, ["text", "image", audio, link]);
    })
    .await;
}

#[tokio::test]
async fn invalid_arguments_have_the_error_of_the_revision() {
    everywhere(|client, _, _| async move {
        for (tool, arguments, complaint) in [
            ("add", json!({ "a": 1 }), "arguments: missing field \"b\""),
            ("add", json!({ "a": "x", "b": 1 }), "arguments.a: invalid type: string \"x\", expected f64"),
            ("rate", json!({ "stars": 9 }), "arguments.stars: 9 is greater than the maximum of 5"),
            ("list", json!({ "surprise": 1 }), "arguments: unexpected field \"surprise\", nothing is taken here"),
        ] {
            let answer = client.call_tool(tool, arguments).await;
            if client.version().has(Ability::ArgumentErrorsAsResults) {
                let result = answer.unwrap();
                assert!(result.is_error());
                assert_eq!(text_of(&result), complaint);
            } else {
                let error = answer.unwrap_err();
                assert_eq!((error.server_error().code.0, error.server_error().message.as_str()), (-32602, complaint));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn failures_are_results_and_refusals_are_errors() {
    everywhere(|client, _, _| async move {
        let result = client.call_tool("fail", json!({})).await.unwrap();
        assert!(result.is_error() && text_of(&result) == "it broke");
        let refused = client.call_tool("refuse", json!({})).await.unwrap_err();
        assert_eq!(refused.server_error().message, "never");
        let panicked = client.call_tool("panic", json!({})).await.unwrap_err();
        assert_eq!(panicked.server_error().code.0, -32603);
        let unknown = client.call_tool("nothing", json!({})).await.unwrap_err();
        assert_eq!(unknown.server_error().message, "unknown tool: \"nothing\"");
        assert_eq!(unknown.server_error().code.0, -32602);
        assert!(client.call_tool("list", json!({})).await.is_ok());
        let method = client.request_raw("tools/shout", Object::new()).await.unwrap_err();
        assert_eq!(method.server_error().code.0, -32601);
    })
    .await;
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    everywhere(|client, _, _| async move {
        let list = client.request::<ListResources>(&PaginatedParams::new()).await.unwrap();
        assert_eq!(
            list.resources.iter().map(|one| one.uri.as_str()).collect::<Vec<_>>(),
            ["config://app", "data://blob", "reads://kept", "reads://fresh", "asked://name"]
        );
        let list = client.request::<ListResourceTemplates>(&PaginatedParams::new()).await.unwrap();
        assert_eq!(list.resource_templates[0].uri_template, "users://{id}/profile");
        let read = async |uri: &str| client.request_rounds::<ReadResource, _>(&ReadResourceParams::new(uri)).await;
        let contents = read("config://app").await.unwrap().contents;
        assert_eq!(contents[0].text.as_deref(), Some("debug = true"));
        assert_eq!(contents[0].mime_type.as_deref(), Some("text/plain"));
        assert_eq!(read("data://blob").await.unwrap().contents[0].bytes().unwrap(), [0, 255]);
        let contents = read("users://7/profile").await.unwrap().contents;
        assert_eq!((contents[0].uri.as_str(), contents[0].text.as_deref()), ("users://7/profile", Some(r#"{"id":7}"#)));
        let code = if client.version().has(Ability::ResourceErrorsAsInvalidParams) { -32602 } else { -32002 };
        for missing in ["users://8/profile", "config://other"] {
            let error = read(missing).await.unwrap_err();
            assert_eq!(error.server_error().code.0, code);
            assert!(error.server_error().is_resource_not_found());
        }
        assert_eq!(read("users://x/profile").await.unwrap_err().server_error().code.0, -32602);
    })
    .await;
}

#[tokio::test]
async fn prompts_are_listed_and_returned() {
    everywhere(|client, _, _| async move {
        let list = client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap();
        let arguments = list.prompts[0].arguments.as_ref().unwrap();
        assert_eq!(arguments[0].name, "name");
        assert_eq!((arguments[0].required, arguments[1].required), (Some(true), Some(false)));
        assert_eq!(arguments[0].description.as_deref(), Some("Name to greet"));
        let get = async |arguments: &[(&str, &str)]| {
            let arguments = arguments.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let params =
                GetPromptParams::new("greeting").arguments(arguments.collect::<std::collections::BTreeMap<_, _>>());
            client.request_rounds::<GetPrompt, _>(&params).await
        };
        let result = get(&[("name", "Ann"), ("times", "2")]).await.unwrap();
        assert_eq!(result.messages, [PromptMessage::user("Hello AnnHello Ann")]);
        let error = get(&[]).await.unwrap_err();
        assert_eq!(
            (error.server_error().code.0, error.server_error().message.as_str()),
            (-32602, "arguments: missing field \"name\"")
        );
        let error = get(&[("name", "Ann"), ("times", "many")]).await.unwrap_err();
        assert_eq!(error.server_error().code.0, -32602);
    })
    .await;
}

#[tokio::test]
async fn arguments_and_variables_are_completed() {
    everywhere(|client, _, _| async move {
        let params = CompleteParams::new(Reference::prompt("greeting"), CompletionArgument::new("name", "A")).context(
            CompletionContext::new()
                .arguments(std::collections::BTreeMap::from([("times".to_owned(), "2".to_owned())])),
        );
        let result = client.request::<Complete>(&params).await.unwrap();
        assert_eq!(result.completion.values, ["Ann2"]);
        let params =
            CompleteParams::new(Reference::resource("users://{id}/profile"), CompletionArgument::new("id", "7"));
        assert_eq!(client.request::<Complete>(&params).await.unwrap().completion.values, ["71"]);
        let params = CompleteParams::new(Reference::prompt("nothing"), CompletionArgument::new("x", ""));
        assert_eq!(client.request::<Complete>(&params).await.unwrap_err().server_error().code.0, -32602);
    })
    .await;
}

#[tokio::test]
async fn progress_and_logs_are_sent_on_request() {
    everywhere(|client, _, _| async move {
        client.request_with_progress::<CallTool>(&CallToolParams::new("steps")).await.unwrap();
        for step in 1..=3 {
            let report = client.expect_notification::<ProgressNotification>().await;
            assert_eq!((report.progress.as_f64(), report.total.unwrap().as_f64()), (f64::from(step), 3.0));
            assert_eq!(report.message.is_some(), client.version().has(Ability::ProgressMessages));
        }
        if client.version().has(Ability::SessionLogLevel) {
            let message = client.expect_notification::<LoggingMessageNotification>().await;
            assert_eq!((message.level, message.data.as_str()), (LoggingLevel::Info, r#"{"step":1}"#));
            client.request::<SetLevel>(&SetLevelParams::new(LoggingLevel::Error)).await.unwrap();
            let before = client.notifications().len();
            client.call_tool("steps", json!({})).await.unwrap();
            assert_eq!(client.notifications().len(), before);
            let bad =
                client.request_raw("logging/setLevel", Object::encode(&json!({ "level": "loud" })).unwrap()).await;
            assert_eq!(bad.unwrap_err().server_error().code.0, -32602);
        } else {
            assert_eq!(client.notifications(), Vec::<String>::new());
        }
    })
    .await;
}

#[tokio::test]
async fn a_stateless_request_gets_the_logs_it_asked_for() {
    let script = person().log_level(LoggingLevel::Debug);
    let client = TestClient::connect_with(&router(), ProtocolVersion::LATEST, script).await;
    client.call_tool("steps", json!({})).await.unwrap();
    assert_eq!(client.notifications().len(), 6);
}

#[tokio::test]
async fn cancelling_stops_the_handler() {
    everywhere(|client, _, counters| async move {
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", json!({})).await }
        });
        within("the call to start", counters.reaches("started", 1)).await;
        call.abort();
        within("the handler to stop", counters.reaches("stopped", 1)).await;
        within("the token to be cancelled", counters.reaches("cancelled", 1)).await;
        assert!(client.call_tool("list", json!({})).await.is_ok());
    })
    .await;
}
