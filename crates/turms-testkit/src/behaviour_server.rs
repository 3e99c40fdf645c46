//! The server of the behaviour tests of servers and clients, over every transport.
//!
//! Tests that create the server read its [`CallCounters`]. Tests that only connect to it, such as in another process, read them with the
//! tool `effects` and wait for them with the tool `reached`.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use turms_core::layer::Layer;
use turms_core::{CallContext, NotifyFuture, Request, ResponseFuture, Service};
use turms_proto::types::*;
use turms_proto::{ErrorObject, Notification, RawJson};
use turms_server::{
    Args, CancellationToken, CompletionRequest, Context, Elicited, InputError, Json, Progress, Prompt, Resource,
    Server, Session, State, TaskOptions, Tool,
};

use crate::tools::{self, Add, Name, text_of};
use crate::{CallCounters, CountOnDrop};

/// The structured result of `sum`.
#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
pub struct Sum {
    /// The sum.
    pub sum: f64,
}

#[derive(Deserialize, JsonSchema)]
struct RateArguments {
    #[schemars(range(min = 1, max = 5))]
    stars: u8,
}

#[derive(Deserialize, JsonSchema)]
struct UserIdArguments {
    id: u32,
}

#[derive(Deserialize, JsonSchema)]
struct GreetingArguments {
    /// Name to greet
    name: String,
    /// how often
    times: Option<u8>,
}

#[derive(Deserialize, JsonSchema)]
struct ReachedArguments {
    counter: String,
    count: i64,
}

#[derive(Deserialize, JsonSchema)]
struct TouchArguments {
    uri: String,
}

#[derive(Deserialize, JsonSchema)]
struct EmitLogArguments {
    level: String,
    text: String,
}

#[derive(Deserialize, JsonSchema)]
struct WalkArguments {
    steps: u32,
    pause_ms: u64,
}

/// A layer that counts requests by method, and open streams of `subscriptions/listen` as `listening`.
struct CountRequests(Arc<CallCounters>);

struct RequestCounter(Arc<dyn Service>, Arc<CallCounters>);

impl Layer<Arc<dyn Service>> for CountRequests {
    type Service = RequestCounter;

    fn layer(&self, inner: Arc<dyn Service>) -> RequestCounter {
        RequestCounter(inner, self.0.clone())
    }
}

impl Service for RequestCounter {
    fn call(&self, request: Request, cx: CallContext) -> ResponseFuture {
        self.1.add(&request.method, 1);
        if request.method != "subscriptions/listen" {
            return self.0.call(request, cx);
        }
        self.1.add("listening", 1);
        let listening = CountOnDrop::new(&self.1, "listening", -1);
        let call = self.0.call(request, cx);
        Box::pin(async move {
            let _listening = listening;
            call.await
        })
    }

    fn notify(&self, notification: Notification, cx: CallContext) -> NotifyFuture {
        self.0.notify(notification, cx)
    }
}

/// Creates the server for tests of clients: as [`server_with`], but it counts its requests, and its lists have pages of three and may be
/// cached for a minute.
pub fn server() -> Server {
    let counters = Arc::default();
    server_with(&counters)
        .page_size(3)
        .cache(Duration::from_secs(60), CacheScope::Private)
        .layer(CountRequests(counters))
}

/// Creates the server with default settings and without layers. Its handlers count in `counters`.
pub fn server_with(counters: &Arc<CallCounters>) -> Server {
    let (rung, changed) = (counters.clone(), counters.clone());
    let server = Server::new("fixture", "1.0.0")
        .title("Fixture")
        .instructions("Be gentle.")
        .shared_state(counters.clone())
        .method("fixture/twice", |n: TwiceParams, _: Context| async move { Ok(json!({ "n": 2 * n.n })) })
        .notification("fixture/ring", move |_: Value, _: Context| {
            rung.add("rung", 1);
            std::future::ready(())
        })
        .notification("notifications/roots/list_changed", move |_: Value, _: Context| {
            changed.add("roots changed", 1);
            std::future::ready(())
        });
    let server = with_tasks(with_controls(with_input_tools(with_tools(server))));
    with_prompts(with_resources(server))
}

#[derive(Deserialize)]
struct TwiceParams {
    n: i64,
}

/// Adds tools that need no input from the client.
fn with_tools(server: Server) -> Server {
    server
        .tool(
            Tool::builder("add")
                .description("Adds two numbers.")
                .read_only()
                .handler(|Args(add): Args<Add>| async move { add.a + add.b }),
        )
        .tool(Tool::builder("sum").handler_sync(|Args(add): Args<Add>| Json(Sum { sum: add.a + add.b })))
        .tool(Tool::builder("list").handler_sync(|| Json(vec![1, 2, 3])))
        .tool(Tool::builder("rate").handler_sync(|Args(rated): Args<RateArguments>| rated.stars.to_string()))
        .tool(Tool::builder("fail").handler_sync(|| Err::<String, _>("it broke".to_owned())))
        .tool(Tool::builder("refuse").handler_sync(|| Err::<String, _>(ErrorObject::invalid_params("never"))))
        .tool(tools::panic())
        .tool(Tool::builder("content").handler_sync(|| {
            CallToolResult::new()
                .with("text")
                .with(Content::image([1, 2], "image/png"))
                .with(Content::audio([3], "audio/wav"))
                .with(Content::resource_link(ResourceLink::new("config://app", "config")))
        }))
        .tool(Tool::builder("slow").handler(slow))
        .tool(Tool::builder("steps").handler(|progress: Progress, context: Context| async move {
            for step in 1..=3 {
                progress.report(step).total(3).message("on it").await;
                context.log(LoggingLevel::Info, json!({ "step": step })).await;
                context.log(LoggingLevel::Debug, "detail").await;
            }
            "done"
        }))
        .tool(Tool::builder("walk").handler(|Args(walk): Args<WalkArguments>, progress: Progress| async move {
            for step in 1..=walk.steps {
                tokio::time::sleep(Duration::from_millis(walk.pause_ms)).await;
                progress.report(step).await;
            }
            "there"
        }))
        .tool(Tool::builder("who").handler(|context: Context| async move {
            context.client_info().map(|client| client.name).unwrap_or_default()
        }))
        .tool(Tool::builder("meta").handler_sync(|meta: Meta| {
            let progress = meta.contains(key::PROGRESS_TOKEN);
            let mine = meta.get("example.com/mine").unwrap_or_default();
            format!("{mine} {progress}")
        }))
        .tool(Tool::builder("counter").handler(|session: Session| async move {
            let count = session.get::<usize>().map_or(1, |count| *count + 1);
            session.insert(count);
            count as u64
        }))
}

/// Runs until it is cancelled. Counts `stopped` when the handler is dropped, and `cancelled` when the token is: the
/// token is for work outside the handler.
async fn slow(State(counters): State<CallCounters>, token: CancellationToken) {
    let outside = counters.clone();
    tokio::spawn(async move {
        token.cancelled().await;
        outside.add("cancelled", 1);
    });
    counters.add("started", 1);
    let _stopped = CountOnDrop::new(&counters, "stopped", 1);
    std::future::pending().await
}

/// Adds tools that request input from the client.
fn with_input_tools(server: Server) -> Server {
    server
        .tool(Tool::builder("greet").handler(greet))
        .tool(Tool::builder("register").handler(register))
        .tool(Tool::builder("visit").handler(|context: Context| async move {
            let action = context.elicit_url("Please log in", "https://login.example").await?;
            Ok::<_, InputError>(action.to_string())
        }))
        .tool(Tool::builder("think").handler(|context: Context| async move {
            let params = CreateMessageParams::new([SamplingMessage::user("Capital of France?")], 50);
            Ok::<_, InputError>(text_of(&context.sample(params).await?))
        }))
        .tool(Tool::builder("think_with_tools").handler(|context: Context| async move {
            let params = CreateMessageParams::new([SamplingMessage::user("What is 1 + 2?")], 50);
            let params = params.tools([turms_proto::types::Tool::new("add")]);
            Ok::<_, InputError>(text_of(&context.sample(params).await?))
        }))
        .tool(Tool::builder("roots").handler(|context: Context| async move {
            let roots = context.list_roots().await?;
            Ok::<_, InputError>(roots.into_iter().map(|root| root.uri).collect::<Vec<_>>().join(","))
        }))
        .tool(Tool::builder("all_at_once").handler(|context: Context| async move {
            let name = context.elicit::<Name>("Your name?");
            let model = context.sample(CreateMessageParams::new([SamplingMessage::user("a greeting")], 10));
            let roots = context.list_roots().key("places");
            let (name, model, roots) = tokio::join!(name, model, roots);
            let name = name?.accepted().map(|name| name.name).unwrap_or_default();
            Ok::<_, InputError>(format!("{} {name} {}", text_of(&model?), roots?.len()))
        }))
        .tool(Tool::builder("pester").handler(pester))
}

/// Adds tools that run as tasks.
fn with_tasks(server: Server) -> Server {
    server
        .tool(Tool::builder("greet_job").task().handler(greet))
        .tool(Tool::builder("slow_job").task().handler(|State(counters): State<CallCounters>| async move {
            counters.add("job started", 1);
            let _stopped = CountOnDrop::new(&counters, "job stopped", 1);
            std::future::pending::<()>().await;
            ""
        }))
        .tool(Tool::builder("sum_job").task_required().handler(|Args(add): Args<Add>| async move {
            tokio::task::yield_now().await;
            Json(Sum { sum: add.a + add.b })
        }))
        .tool(Tool::builder("asking_job").task_deferred().handler(|context: Context| async move {
            let name = context.elicit::<Name>("What is your name?").await?.accepted();
            context.continue_as_task().await;
            tokio::task::yield_now().await;
            Ok::<_, InputError>(format!("{} {}", name.expect("the form is accepted").name, context.task_id().is_some()))
        }))
        .tasks(TaskOptions::new().poll_interval(Duration::from_millis(20)))
}

async fn greet(context: Context, State(counters): State<CallCounters>) -> Result<String, InputError> {
    counters.add("runs", 1);
    let effect = context.once("effect", async { counters.add("effects", 1) }).await?;
    let name = match context.elicit::<Name>("What is your name?").await? {
        Elicited::Accepted(name) => name.name,
        _ => return Ok("nobody".to_owned()),
    };
    let model = context.sample(CreateMessageParams::new([SamplingMessage::user("a greeting")], 10)).await?;
    Ok(format!("{}, {name}! ({effect})", text_of(&model)))
}

async fn register(context: Context) -> Result<String, InputError> {
    let form = FormSchema::new()
        .required_field("name", StringField::new().min_length(2))
        .field("colour", StringField::new().default("red"))
        .field("active", BooleanField::new().default(true));
    let result = context.elicit_with(ElicitParams::form("Please register", form)).await?;
    Ok(result.content.map(|content| content.to_string()).unwrap_or_default())
}

async fn pester(context: Context) -> Result<String, InputError> {
    loop {
        context.elicit::<Name>("And your name?").await?;
    }
}

/// Adds tools that show and change the state of the server.
fn with_controls(server: Server) -> Server {
    server
        .tool(Tool::builder("effects").handler_sync(|State(counters): State<CallCounters>| {
            CallToolResult::from_text(json!(counters.all()).to_string())
        }))
        .tool(Tool::builder("reached").handler(
            |Args(reading): Args<ReachedArguments>, State(counters): State<CallCounters>| async move {
                counters.reaches(&reading.counter, reading.count).await;
            },
        ))
        .tool(Tool::builder("add_late_tool").handler_sync(|context: Context| {
            context.server().replace_tool(Tool::builder("late").handler_sync(|| "here"))
        }))
        .tool(Tool::builder("remove_late_tool").handler_sync(|context: Context| context.server().remove_tool("late")))
        .tool(Tool::builder("add_late_prompt").handler_sync(|context: Context| {
            context.server().replace_prompt(Prompt::builder("late").handler_sync(|| "here"))
        }))
        .tool(Tool::builder("add_late_resource").handler_sync(|context: Context| {
            context.server().replace_resource(Resource::builder("late://here").handler_sync(|| "here"))
        }))
        .tool(Tool::builder("touch").handler_sync(|Args(touched): Args<TouchArguments>, context: Context| {
            context.server().notify_resource_updated(touched.uri);
        }))
        .tool(Tool::builder("emit_log").handler(|Args(saying): Args<EmitLogArguments>, context: Context| async move {
            let level: LoggingLevel = RawJson::string(&saying.level).decode().map_err(|error| error.to_string())?;
            context.log(level, saying.text).logger("fixture").await;
            Ok::<_, String>(())
        }))
        .tool(Tool::builder("end").handler_sync(|context: Context| context.server().shutdown()))
}

fn with_resources(server: Server) -> Server {
    let minute = Duration::from_secs(60);
    server
        .resource(Resource::builder("config://app").mime_type("text/plain").handler_sync(|| "debug = true"))
        .resource(Resource::builder("data://blob").handler_sync(|| vec![0_u8, 255]))
        .resource(Resource::builder("reads://kept").cache(minute, CacheScope::Private).handler_sync(count_read))
        .resource(Resource::builder("reads://fresh").handler_sync(count_read))
        .resource(Resource::builder("asked://name").cache(minute, CacheScope::Private).handler(ask_name))
        .resource(
            Resource::builder("users://{id}/profile")
                .name("profile")
                .completion("id", |completing: CompletionRequest| async move { vec![format!("{}1", completing.value)] })
                .handler(|Args(user): Args<UserIdArguments>| async move {
                    (user.id == 7).then(|| Json(json!({ "id": user.id })))
                }),
        )
        .resource(Resource::builder("notes://{id}").handler_sync(|| "a note"))
        .resource(Resource::builder("files://{name}").handler_sync(|| "a file"))
        .resource(Resource::builder("days://{day}").handler_sync(|| "a day"))
}

fn count_read(State(counters): State<CallCounters>) -> String {
    counters.add("reads", 1).to_string()
}

async fn ask_name(context: Context) -> Result<String, InputError> {
    let name = context.elicit::<Name>("Whose?").await?;
    Ok(name.accepted().map_or_else(|| "nobody".to_owned(), |name| name.name))
}

fn with_prompts(server: Server) -> Server {
    server
        .prompt(
            Prompt::builder("greeting")
                .description("Greets somebody.")
                .completion("name", |completing: CompletionRequest| async move {
                    let known = completing.arguments.get("times").cloned().unwrap_or_default();
                    vec![format!("{}nn{known}", completing.value)]
                })
                .handler_sync(|Args(greeting): Args<GreetingArguments>| {
                    format!("Hello {}", greeting.name).repeat(greeting.times.unwrap_or(1).into())
                }),
        )
        .prompt(Prompt::builder("conversation").handler_sync(|| {
            GetPromptResult::new(Vec::new())
                .user("Look at this:")
                .user(Content::image([1, 2], "image/png"))
                .assistant("I see.")
        }))
        .prompt(Prompt::builder("personal").handler(ask_name))
        .prompt(Prompt::builder("plain").handler_sync(|| "plain"))
}
