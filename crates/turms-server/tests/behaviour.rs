//! One suite of behaviour, run for every revision over memory, pipes and sockets.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "helpers of tests fail as tests do")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;
use turms_core::layer::{RateLimit, Timeout, Trace};
use turms_proto::types::*;
use turms_proto::{Ability, Object, ProtocolVersion, RawJson};
use turms_server::testing::{Script, TestClient};
use turms_server::{
    Args, AskError, Cancellation, Completing, Context, Elicited, Extension, Json, Progress, Prompt, Resource, Router,
    Server, Session, SharedService, State, Tool,
};

#[derive(Deserialize, JsonSchema)]
struct Add {
    /// the first number
    a: f64,
    /// the second number
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Bounded {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Sum {
    sum: f64,
}

#[derive(Deserialize, JsonSchema)]
struct UserId {
    id: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// whom to greet
    name: String,
    /// how often
    times: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// What handlers leave for tests to look at.
#[derive(Default)]
struct Traces {
    runs: AtomicUsize,
    effects: AtomicUsize,
    started: Notify,
    stopped: Notify,
}

struct Stopped(Arc<Traces>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stopped.notify_one();
    }
}

fn server(traces: &Arc<Traces>) -> Server {
    Server::new("fixture", "1.0.0")
        .title("Fixture")
        .instructions("Be gentle.")
        .shared_state(traces.clone())
        .tool(
            Tool::builder("add")
                .description("Adds two numbers.")
                .read_only()
                .handler(|Args(add): Args<Add>| async move { add.a + add.b }),
        )
        .tool(Tool::builder("sum").handler_sync(|Args(add): Args<Add>| Json(Sum { sum: add.a + add.b })))
        .tool(Tool::builder("list").handler_sync(|| Json(vec![1, 2, 3])))
        .tool(Tool::builder("rate").handler_sync(|Args(rated): Args<Bounded>| rated.stars.to_string()))
        .tool(Tool::builder("fail").handler_sync(|| Err::<String, _>("it broke".to_owned())))
        .tool(
            Tool::builder("refuse")
                .handler_sync(|| Err::<String, _>(turms_proto::ErrorObject::invalid_params("never"))),
        )
        .tool(Tool::builder("panic").handler_sync(|| -> String { panic!("as asked") }))
        .tool(Tool::builder("content").handler_sync(|| {
            ToolResult::new()
                .with("text")
                .with(Content::image([1, 2], "image/png"))
                .with(Content::audio([3], "audio/wav"))
                .with(Content::resource_link(ResourceLink::new("config://app", "config")))
        }))
        .tool(Tool::builder("slow").handler(|State(traces): State<Traces>, cancellation: Cancellation| async move {
            let _stopped = Stopped(traces.clone());
            let token = cancellation.token();
            traces.started.notify_one();
            std::future::pending::<()>().await;
            token.is_cancelled().to_string()
        }))
        .tool(Tool::builder("steps").handler(|progress: Progress, context: Context| async move {
            for step in 1..=3 {
                progress.say(step, Some(3.0), "on it").await;
                context.log(LoggingLevel::Info, json!({ "step": step })).await;
                context.log(LoggingLevel::Debug, "detail").await;
            }
            "done"
        }))
        .tool(Tool::builder("who").handler(|context: Context| async move {
            context.client_info().map(|client| client.name).unwrap_or_default()
        }))
        .tool(Tool::builder("greet").handler(greet))
        .tool(Tool::builder("interview").handler(interview))
        .tool(Tool::builder("think").handler(|context: Context| async move {
            let answer =
                context.sample(CreateMessageParams::new([SamplingMessage::user("Capital of France?")], 50)).await?;
            let text: Vec<_> = answer.content.as_slice().iter().filter_map(Content::as_text).collect();
            Ok::<_, AskError>(text.join(" "))
        }))
        .tool(Tool::builder("roots").handler(|context: Context| async move {
            let roots = context.roots().await?;
            Ok::<_, AskError>(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(","))
        }))
        .tool(Tool::builder("counter").handler(|session: Arc<Session>| async move {
            let count = session.assigned::<usize>().map_or(1, |count| *count + 1);
            session.assign(count);
            count as u64
        }))
        .resource(Resource::builder("config://app").mime_type("text/plain").handler_sync(|| "debug = true"))
        .resource(Resource::builder("data://blob").handler_sync(|| vec![0_u8, 255]))
        .resource(
            Resource::builder("users://{id}/profile")
                .name("profile")
                .completion("id", |completing: Completing| async move { vec![format!("{}1", completing.value)] })
                .handler(
                    |Args(user): Args<UserId>| async move { (user.id == 7).then(|| Json(json!({ "id": user.id }))) },
                ),
        )
        .prompt(
            Prompt::builder("greeting")
                .description("Greets somebody.")
                .completion("name", |completing: Completing| async move {
                    let known = completing.known.get("times").cloned().unwrap_or_default();
                    vec![format!("{}nn{known}", completing.value)]
                })
                .handler_sync(|Args(greeting): Args<Greeting>| {
                    format!("Hello {}", greeting.name).repeat(greeting.times.unwrap_or(1).into())
                }),
        )
}

async fn greet(context: Context, State(traces): State<Traces>) -> Result<String, AskError> {
    traces.runs.fetch_add(1, Ordering::SeqCst);
    let effect = context.once("effect", async { traces.effects.fetch_add(1, Ordering::SeqCst) }).await?;
    let name = match context.elicit::<Name>("What is your name?").await? {
        Elicited::Accepted(name) => name.name,
        _ => return Ok("nobody".to_owned()),
    };
    let model = context.sample(CreateMessageParams::new([SamplingMessage::user("a greeting")], 10)).await?;
    let word = model.content.as_slice().first().and_then(Content::as_text).unwrap_or_default().to_owned();
    Ok(format!("{word}, {name}! ({effect})"))
}

async fn interview(context: Context) -> Result<String, AskError> {
    let name = context.elicit_url("Please log in", "https://login.example").await?;
    Ok(name.to_string())
}

fn person() -> Script {
    Script::new()
        .elicit(|params| match params {
            ElicitParams::Url(_) => ElicitResult::accept_url(),
            _ => ElicitResult::accept(Object::encode(&json!({ "name": "Ann" })).unwrap()),
        })
        .sample(|_| CreateMessageResult::new(Role::Assistant, "Paris", "test-model"))
        .roots([Root::new("file:///home")])
}

/// A way to reach the fixture.
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

/// Runs a test for every revision, every way.
async fn everywhere<F>(test: impl Fn(TestClient, Router, Arc<Traces>) -> F)
where
    F: Future<Output = ()>,
{
    for way in [Way::Memory, Way::Pipes, Way::Sockets] {
        for version in ProtocolVersion::ALL {
            let traces = Arc::new(Traces::default());
            let router = server(&traces).build().unwrap();
            let client = connect(way, &router, version, person()).await;
            test(client, router, traces).await;
        }
    }
}

fn text_of(result: &ToolResult) -> String {
    result.text()
}

#[tokio::test]
async fn a_server_says_who_it_is_and_what_it_can_do() {
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
async fn tools_are_listed_in_order_as_the_revision_has_them() {
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
async fn structured_content_goes_where_it_is_understood() {
    everywhere(|client, _, _| async move {
        let version = client.version();
        let result = client.call_tool("sum", json!({ "a": 1, "b": 2 })).await.unwrap();
        assert_eq!(text_of(&result), r#"{"sum":3.0}"#);
        let sum = result.structured_as::<Sum>().map(Result::unwrap);
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
async fn wrong_arguments_are_explained_as_the_revision_wants_it() {
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
                assert!(result.failed());
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
        assert!(result.failed() && text_of(&result) == "it broke");
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
            ["config://app", "data://blob"]
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
async fn prompts_are_listed_and_made() {
    everywhere(|client, _, _| async move {
        let list = client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap();
        let arguments = list.prompts[0].arguments.as_ref().unwrap();
        assert_eq!(arguments[0].name, "name");
        assert_eq!((arguments[0].required, arguments[1].required), (Some(true), Some(false)));
        assert_eq!(arguments[0].description.as_deref(), Some("whom to greet"));
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
async fn progress_and_logs_go_out_where_they_are_wanted() {
    everywhere(|client, _, _| async move {
        client.request_with_progress::<CallTool>(&CallToolParams::new("steps")).await.unwrap();
        for step in 1..=3 {
            let report = client.expect_notification::<turms_proto::types::Progress>().await;
            assert_eq!((report.progress.as_f64(), report.total.unwrap().as_f64()), (f64::from(step), 3.0));
            assert_eq!(report.message.is_some(), client.version().has(Ability::ProgressMessages));
        }
        if client.version().has(Ability::SessionLogLevel) {
            let message = client.expect_notification::<Log>().await;
            assert_eq!((message.level, message.data.as_str()), (LoggingLevel::Info, r#"{"step":1}"#));
            client.request::<SetLevel>(&SetLevelParams::new(LoggingLevel::Error)).await.unwrap();
            let before = client.heard().len();
            client.call_tool("steps", json!({})).await.unwrap();
            assert_eq!(client.heard().len(), before);
            let bad =
                client.request_raw("logging/setLevel", Object::encode(&json!({ "level": "loud" })).unwrap()).await;
            assert_eq!(bad.unwrap_err().server_error().code.0, -32602);
        } else {
            assert_eq!(client.heard(), Vec::<String>::new());
        }
    })
    .await;
}

#[tokio::test]
async fn a_stateless_request_gets_the_logs_it_asked_for() {
    let traces = Arc::new(Traces::default());
    let router = server(&traces).build().unwrap();
    let script = person().log_level(LoggingLevel::Debug);
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, script).await;
    client.call_tool("steps", json!({})).await.unwrap();
    assert_eq!(client.heard().len(), 6);
}

#[tokio::test]
async fn cancelling_stops_the_handler() {
    everywhere(|client, _, traces| async move {
        let call = tokio::spawn({
            let client = client.clone();
            async move { client.call_tool("slow", json!({})).await }
        });
        traces.started.notified().await;
        call.abort();
        traces.stopped.notified().await;
        assert!(client.call_tool("list", json!({})).await.is_ok());
    })
    .await;
}

#[tokio::test]
async fn the_client_is_asked_in_one_way_for_all_revisions() {
    everywhere(|client, _, traces| async move {
        let version = client.version();
        if version.has(Ability::FormElicitation) {
            let result = client.call_tool("greet", json!({})).await.unwrap();
            assert_eq!(text_of(&result), "Paris, Ann! (0)");
            // Two questions make three rounds, but the side effect happens once.
            let runs = if version.has(Ability::InputRequired) { 3 } else { 1 };
            assert_eq!(traces.runs.load(Ordering::SeqCst), runs);
            assert_eq!(traces.effects.load(Ordering::SeqCst), 1);
        } else {
            let result = client.call_tool("greet", json!({})).await.unwrap();
            assert!(result.failed());
            assert_eq!(text_of(&result), "the client did not declare the capability elicitation.form");
        }
        assert_eq!(text_of(&client.call_tool("think", json!({})).await.unwrap()), "Paris");
        assert_eq!(text_of(&client.call_tool("roots", json!({})).await.unwrap()), "file:///home");
        let result = client.call_tool("interview", json!({})).await.unwrap();
        assert_eq!(result.failed(), !version.has(Ability::UrlElicitation));
    })
    .await;
}

#[tokio::test]
async fn several_questions_are_asked_at_once() {
    let router = Server::new("s", "1")
        .tool(Tool::builder("both").handler(|context: Context| async move {
            let name = context.elicit::<Name>("Your name?");
            let roots = context.roots_as("places");
            let (name, roots) = tokio::join!(name, roots);
            Ok::<_, AskError>(format!(
                "{} {}",
                name?.accepted().map(|name| name.name).unwrap_or_default(),
                roots?.len()
            ))
        }))
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::FormElicitation)) {
        let client = TestClient::connect_with(&router, version, person()).await;
        assert_eq!(client.call_tool("both", json!({})).await.unwrap().text(), "Ann 1");
    }
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    let Outcome::InputRequired(round) = client.request::<CallTool>(&CallToolParams::new("both")).await.unwrap() else {
        panic!()
    };
    let questions = round.input_requests.unwrap();
    assert_eq!(questions.keys().collect::<Vec<_>>(), ["elicit-1", "places"]);
}

#[tokio::test]
async fn a_client_that_cannot_be_asked_is_told_so() {
    for version in ProtocolVersion::ALL {
        let traces = Arc::new(Traces::default());
        let router = server(&traces).build().unwrap();
        let client = TestClient::connect(&router, version).await;
        let complaint = "the client did not declare the capability sampling";
        if version.has(Ability::Stateless) {
            let error = client.call_tool("think", json!({})).await.unwrap_err();
            assert_eq!((error.server_error().code.0, error.server_error().message.as_str()), (-32021, complaint));
            let data = error.server_error().data.clone().unwrap();
            assert_eq!(data.as_str(), r#"{"requiredCapabilities":{"sampling":{}}}"#);
        } else {
            let result = client.call_tool("think", json!({})).await.unwrap();
            assert_eq!((result.failed(), text_of(&result)), (true, complaint.into()));
        }
    }
}

#[tokio::test]
async fn a_foreign_or_tampered_state_is_refused() {
    let traces = Arc::new(Traces::default());
    let router = server(&traces).build().unwrap();
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    let Outcome::InputRequired(round) = client.request::<CallTool>(&CallToolParams::new("greet")).await.unwrap() else {
        panic!()
    };
    let state = round.request_state.unwrap();
    let answers: Object = [("elicit-1", RawJson::encode(&ElicitResult::decline()).unwrap())].into_iter().collect();
    let retry = |state: String| CallToolParams::new("greet").request_state(state).input_responses(answers.clone());
    let declined = client.request::<CallTool>(&retry(state.clone())).await.unwrap().complete().unwrap();
    assert_eq!(text_of(&declined), "nobody");
    for bad in [format!("{state}x"), String::new(), "AAAA".into()] {
        assert_eq!(client.request::<CallTool>(&retry(bad)).await.unwrap_err().server_error().code.0, -32602);
    }
    let mut other = retry(state);
    other.name = "think".into();
    assert_eq!(client.request::<CallTool>(&other).await.unwrap_err().server_error().code.0, -32602);
}

#[tokio::test]
async fn a_state_is_only_good_for_the_arguments_it_was_given_for() {
    #[derive(Deserialize, JsonSchema)]
    struct Salute {
        formally: bool,
    }
    let salute =
        Tool::builder("salute").handler(|Args(Salute { formally }): Args<Salute>, context: Context| async move {
            context.elicit::<Name>("What is your name?").await.map(|_| formally.to_string())
        });
    let router = Server::new("fixture", "1.0.0").tool(salute).build().unwrap();
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    let call = |formally: bool| {
        let arguments = Object::encode(&json!({ "formally": formally })).unwrap();
        CallToolParams::new("salute").arguments(arguments)
    };
    let Outcome::InputRequired(round) = client.request::<CallTool>(&call(true)).await.unwrap() else { panic!() };
    let answers: Object = [("elicit-1", RawJson::encode(&ElicitResult::decline()).unwrap())].into_iter().collect();
    let retry = |params: CallToolParams| {
        params.request_state(round.request_state.clone().unwrap()).input_responses(answers.clone())
    };
    let answered = client.request::<CallTool>(&retry(call(true))).await.unwrap().complete().unwrap();
    assert_eq!(text_of(&answered), "true");
    let error = client.request::<CallTool>(&retry(call(false))).await.unwrap_err();
    assert_eq!(error.server_error().code.0, -32602);
}

#[tokio::test]
async fn what_takes_the_context_by_itself_may_ask_too() {
    struct Asker(Context);

    impl turms_server::FromCall for Asker {
        fn from_call(call: &mut turms_server::Call) -> Result<Self, turms_server::Rejection> {
            Ok(Self(call.context().clone()))
        }
    }

    let name = Tool::builder("name").handler(|Asker(context): Asker| async move {
        context.elicit::<Name>("What is your name?").await.map(|_| "asked")
    });
    let router = Server::new("fixture", "1.0.0").tool(name).build().unwrap();
    let client = TestClient::connect_with(&router, ProtocolVersion::LATEST, person()).await;
    assert_eq!(text_of(&client.call_tool("name", json!({})).await.unwrap()), "asked");
    let forged = CallToolParams::new("name").request_state("AAAA");
    assert_eq!(client.request::<CallTool>(&forged).await.unwrap_err().server_error().code.0, -32602);
}

#[tokio::test]
async fn sessions_remember_and_stateless_requests_do_not() {
    everywhere(|client, router, _| async move {
        if client.version().has(Ability::Handshake) {
            assert_eq!(text_of(&client.call_tool("counter", json!({})).await.unwrap()), "1");
            assert_eq!(text_of(&client.call_tool("counter", json!({})).await.unwrap()), "2");
            assert_eq!(router.handle().sessions().len(), 1);
        } else {
            assert_eq!(client.call_tool("counter", json!({})).await.unwrap_err().server_error().code.0, -32603);
        }
    })
    .await;
}

#[tokio::test]
async fn changes_are_announced_to_whoever_listens() {
    everywhere(|client, router, _| async move {
        let handle = router.handle();
        let stateless = client.version().has(Ability::ListenStreams);
        if stateless {
            let filter = SubscriptionFilter::new()
                .tools_list_changed(true)
                .resource_subscriptions(vec!["config://app".to_owned()]);
            let listener = client.clone();
            tokio::spawn(async move { listener.request::<Listen>(&ListenParams::new(filter)).await });
            let acknowledged = client.expect_notification::<Acknowledged>().await;
            assert_eq!(acknowledged.notifications.tools_list_changed, Some(true));
            assert!(acknowledged.meta.unwrap().subscription_id().unwrap().is_some());
        } else {
            client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap();
        }
        handle.add_tool(Tool::builder("late").handler_sync(|| "here"));
        let changed = client.expect_notification::<ToolListChanged>().await;
        assert_eq!(changed.meta.is_some(), stateless);
        assert_eq!(text_of(&client.call_tool("late", json!({})).await.unwrap()), "here");
        assert!(handle.remove_tool("late") && !handle.remove_tool("late"));
        client.expect_notification::<ToolListChanged>().await;
        assert!(client.call_tool("late", json!({})).await.is_err());

        handle.resource_updated("data://blob");
        handle.resource_updated("config://app");
        assert_eq!(client.expect_notification::<ResourceUpdated>().await.uri, "config://app");
        handle.add_prompt(Prompt::builder("p").handler_sync(|| "hi"));
        if stateless {
            handle.resource_updated("config://app");
            client.expect_notification::<ResourceUpdated>().await;
            assert_eq!(client.heard(), Vec::<String>::new(), "nothing outside the filter");
        } else {
            client.expect_notification::<PromptListChanged>().await;
            client.request::<Unsubscribe>(&ResourceParams::new("config://app")).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn a_tool_for_one_session_is_seen_by_that_one_alone() {
    let traces = Arc::new(Traces::default());
    let router = server(&traces).build().unwrap();
    let one = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let session = router.handle().sessions().remove(0);
    let other = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    router.handle().add_session_tool(&session, Tool::builder("mine").handler_sync(|| "yours"));
    one.expect_notification::<ToolListChanged>().await;
    assert_eq!(text_of(&one.call_tool("mine", json!({})).await.unwrap()), "yours");
    let names = |list: ListToolsResult| list.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert!(names(one.request::<ListTools>(&PaginatedParams::new()).await.unwrap()).contains(&"mine".to_owned()));
    assert!(!names(other.request::<ListTools>(&PaginatedParams::new()).await.unwrap()).contains(&"mine".to_owned()));
    assert!(other.call_tool("mine", json!({})).await.is_err());
    assert!(
        router.handle().remove_session_tool(&session, "mine") && !router.handle().remove_session_tool(&session, "mine")
    );
    one.expect_notification::<ToolListChanged>().await;
    assert!(one.call_tool("mine", json!({})).await.is_err());
}

#[tokio::test]
async fn a_layer_in_front_of_one_tool_sees_its_call_and_can_add_to_it() {
    #[derive(Clone)]
    struct Stamp(String);
    #[derive(Clone)]
    struct StampLayer;
    struct Stamping(SharedService);
    impl turms_core::layer::Layer<SharedService> for StampLayer {
        type Service = Stamping;
        fn layer(&self, inner: SharedService) -> Stamping {
            Stamping(inner)
        }
    }
    impl turms_core::Service for Stamping {
        fn call(&self, request: turms_core::Request, mut cx: turms_core::Context) -> turms_core::CallFuture {
            let seen = request.params.as_raw().map(ToString::to_string).unwrap_or_default();
            cx.insert_extension(Stamp(seen));
            self.0.call(request, cx)
        }
    }
    let router = Server::new("s", "1")
        .tool(Tool::builder("stamped").layer(StampLayer).handler(
            |Extension(Stamp(seen)): Extension<Stamp>, Args(add): Args<Add>| async move { format!("{seen} {}", add.a) },
        ))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let result = client.call_tool("stamped", json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(result.text(), r#"{"name":"stamped","arguments":{"a":1,"b":2}} 1"#);
}

#[tokio::test]
async fn every_change_is_heard_even_by_a_client_with_a_full_queue() {
    let traces = Arc::new(Traces::default());
    let router = server(&traces).build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    client.request::<Subscribe>(&ResourceParams::new("data://blob")).await.unwrap();
    client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap();
    // Nothing is sent while this does not yield, so the queue is full long before the last of these.
    for _ in 0..2000 {
        router.handle().resource_updated("data://blob");
    }
    router.handle().resource_updated("config://app");
    while client.expect_notification::<ResourceUpdated>().await.uri != "config://app" {}
}

#[tokio::test]
async fn a_tool_that_blocks_keeps_nobody_waiting() {
    let (release, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let router = Server::new("s", "1")
        .tool(Tool::builder("block").blocking().handler_sync(move |Args(add): Args<Add>| {
            gate.lock().unwrap().recv().unwrap();
            add.a
        }))
        .tool(Tool::builder("quick").handler_sync(|| "done"))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let blocked = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("block", json!({ "a": 1, "b": 2 })).await }
    });
    tokio::task::yield_now().await;
    assert_eq!(client.call_tool("quick", json!({})).await.unwrap().text(), "done");
    release.send(()).unwrap();
    assert_eq!(blocked.await.unwrap().unwrap().text(), "1");
    assert!(client.call_tool("block", json!({ "a": "x" })).await.unwrap().failed());
}

#[tokio::test]
async fn a_client_watches_only_so_many_resources() {
    let traces = Arc::new(Traces::default());
    let router = server(&traces).build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    for id in 0..1024 {
        client.request::<Subscribe>(&ResourceParams::new(format!("users://{id}/profile"))).await.unwrap();
    }
    let error = client.request::<Subscribe>(&ResourceParams::new("config://app")).await.unwrap_err();
    assert_eq!(error.server_error().message, "at most 1024 resources can be watched at once");
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let uris: Vec<_> = (0..1025).map(|id| format!("users://{id}/profile")).collect();
    let filter = SubscriptionFilter::new().resource_subscriptions(uris);
    assert_eq!(client.request::<Listen>(&ListenParams::new(filter)).await.unwrap_err().server_error().code.0, -32602);
}

#[tokio::test]
async fn a_hidden_tool_is_neither_seen_nor_called() {
    let router = Server::new("s", "1")
        .tool(Tool::builder("open").handler_sync(|| ""))
        .tool(Tool::builder("secret").handler_sync(|| ""))
        .prompt(Prompt::builder("secret").handler_sync(|| ""))
        .resource(Resource::builder("secret://x").handler_sync(|| ""))
        .visible(|item, _| !item.name().starts_with("secret"))
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::LATEST).await;
    let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
    assert_eq!(list.tools.len(), 1);
    assert_eq!(client.call_tool("secret", json!({})).await.unwrap_err().server_error().code.0, -32602);
    assert!(client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap().prompts.is_empty());
    assert!(client.request::<GetPrompt>(&GetPromptParams::new("secret")).await.is_err());
    assert!(client.request::<ListResources>(&PaginatedParams::new()).await.unwrap().resources.is_empty());
    assert!(client.request::<ReadResource>(&ReadResourceParams::new("secret://x")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn layers_stand_in_front_of_everything_or_of_one_thing() {
    let once = || RateLimit::new(1, Duration::from_secs(60));
    let router = Server::new("s", "1")
        .tool(Tool::builder("limited").layer(once()).handler_sync(|| "ran"))
        .tool(Tool::builder("slow").handler(|| async {
            std::future::pending::<()>().await;
            ""
        }))
        .prompt(Prompt::builder("limited").layer(once()).handler_sync(|| "ran"))
        .resource(Resource::builder("x://limited").layer(once()).handler_sync(|| "ran"))
        .resource(Resource::builder("x://free").handler_sync(|| "ran"))
        .layer(Timeout::new(Duration::from_secs(5)))
        .layer(Trace::new())
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        tokio::time::advance(Duration::from_secs(60)).await;
        let client = TestClient::connect(&router, version).await;
        assert_eq!(client.call_tool("limited", json!({})).await.unwrap().text(), "ran");
        let refused = client.call_tool("limited", json!({})).await.unwrap_err();
        assert!(refused.server_error().message.starts_with("too many calls of tools/call"), "{refused}");
        let get = async || client.request_rounds::<GetPrompt, _>(&GetPromptParams::new("limited")).await;
        assert!(get().await.is_ok() && get().await.is_err());
        let read = async |uri: &str| client.request_rounds::<ReadResource, _>(&ReadResourceParams::new(uri)).await;
        let contents = read("x://limited").await.unwrap().contents;
        assert_eq!((contents[0].uri.as_str(), contents[0].text.as_deref()), ("x://limited", Some("ran")));
        assert!(read("x://limited").await.is_err() && read("x://free").await.is_ok());
        let slow = client.call_tool("slow", json!({})).await.unwrap_err();
        assert_eq!(slow.server_error().message, "tools/call took longer than 5s");
    }
}

#[tokio::test]
async fn what_a_handler_traces_reaches_its_caller() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let subscriber = tracing_subscriber::registry().with(turms_server::ForwardLogs::new());
    let _guard = tracing::subscriber::set_default(subscriber);
    let router = Server::new("s", "1")
        .forward_tracing()
        .tool(Tool::builder("speak").handler(|| async {
            tracing::info!(target: "speaker", answer = 42, "thinking");
            tokio::task::yield_now().await;
            tracing::warn!("late");
            tracing::trace!("whisper");
            ""
        }))
        .build()
        .unwrap();
    tracing::error!("outside any call");
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect_with(&router, version, person().log_level(LoggingLevel::Info)).await;
        client.call_tool("speak", json!({})).await.unwrap();
        let first = client.expect_notification::<Log>().await;
        assert_eq!(first.data.as_str(), r#"{"answer":42,"message":"thinking"}"#);
        assert_eq!((first.level, first.logger.as_deref()), (LoggingLevel::Info, Some("speaker")));
        assert_eq!(client.expect_notification::<Log>().await.data.as_str(), "\"late\"");
        assert_eq!(client.heard(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_server_tells_its_sessions_something_of_its_own() {
    let router = Server::new("s", "1").build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    router
        .handle()
        .notify(&turms_proto::Notification::new::<Log>(&LogMessage::new(LoggingLevel::Alert, RawJson::NULL)).unwrap());
    assert_eq!(client.expect_notification::<Log>().await.level, LoggingLevel::Alert);
    router.handle().log(LoggingLevel::Debug, "too low");
    router.handle().log(LoggingLevel::Error, "high enough");
    assert_eq!(client.expect_notification::<Log>().await.data.as_str(), "\"high enough\"");
}

#[tokio::test]
async fn notifications_of_ones_own_are_heard() {
    let heard = Arc::new(Notify::new());
    let hear = heard.clone();
    let router = Server::new("s", "1")
        .notification("mine/ring", move |_: serde_json::Value, _: Context| {
            let hear = hear.clone();
            async move { hear.notify_one() }
        })
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let ring = turms_proto::Notification::raw("mine/ring", None);
    client.connection().peer().notify_raw(ring).await.unwrap();
    heard.notified().await;
}

#[tokio::test]
async fn what_a_server_does_not_have_it_does_not_know() {
    let router = Server::new("s", "1").build().unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        for method in
            ["tools/list", "tools/call", "resources/list", "resources/read", "prompts/list", "completion/complete"]
        {
            let params = Object::encode(&json!({
                "name": "x", "uri": "x", "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "", "value": "" }
            }));
            let error = client.request_raw(method, params.unwrap()).await.unwrap_err();
            assert_eq!(error.server_error().code.0, -32601, "{method}");
        }
    }
}

#[tokio::test]
async fn methods_of_ones_own_and_a_fallback_are_called() {
    #[derive(Deserialize)]
    struct Twice {
        n: i64,
    }
    let router = Server::new("s", "1")
        .method("mine/twice", |Twice { n }, _: Context| async move { Ok(json!({ "n": 2 * n })) })
        .fallback(|method, _, _| {
            let text = RawJson::string(method);
            turms_core::CallFuture::now(Ok(turms_core::Payload::fitted(text)))
        })
        .build()
        .unwrap();
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&router, version).await;
        let twice = client.request_raw("mine/twice", Object::encode(&json!({ "n": 21 })).unwrap()).await.unwrap();
        assert_eq!(twice.member("n").unwrap().as_str(), "42");
        assert_eq!(twice.member("resultType").is_some(), version.has(Ability::ResultType));
        let error = client.request_raw("mine/twice", Object::new()).await.unwrap_err();
        assert_eq!(error.server_error().message, "params: missing field \"n\"");
        assert_eq!(client.request_raw("mine/else", Object::new()).await.unwrap().as_str(), "\"mine/else\"");
    }
}

#[tokio::test]
async fn hooks_hear_of_sessions_and_shutdown_ends_them() {
    let (opened, closed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (open, close) = (opened.clone(), closed.clone());
    let once = std::sync::Mutex::new(false);
    let router = Server::new("s", "1")
        .on_open(move |session| {
            assert!(!std::mem::replace(&mut *once.lock().unwrap(), true), "a session opens once");
            assert_eq!(session.client_info().unwrap().name, "test-client");
            open.notify_one();
        })
        .on_close(move |_| close.notify_one())
        .build()
        .unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_11_25).await;
    opened.notified().await;
    client.notify::<Initialized>(&EmptyParams::new()).await.unwrap();
    assert_eq!(router.handle().sessions().len(), 1);
    router.handle().shutdown();
    closed.notified().await;
    client.connection().closed().await;
    assert_eq!(router.handle().sessions().len(), 0);
}

#[tokio::test]
async fn a_tool_that_cannot_be_served_is_found_before_it_serves() {
    let bad_name = Tool::builder("no spaces").handler_sync(|| "");
    let error = Server::new("s", "1").tool(bad_name).build().unwrap_err();
    assert!(error.to_string().starts_with("cannot be served: tool \"no spaces\": a name is"), "{error}");
    let remote = Object::encode(&json!({ "type": "object", "$ref": "https://example.com/x.json" })).unwrap();
    let error = Server::new("s", "1").tool(Tool::builder("t").input_schema(remote).handler_sync(|| "")).build();
    assert!(error.unwrap_err().to_string().contains("not a usable JSON Schema"));
    let error = Server::new("s", "1").resource(Resource::builder("x://{").handler_sync(|| "")).build().unwrap_err();
    assert!(error.to_string().starts_with("cannot be served: resource \"x://{\":"), "{error}");
}
