//! The HTTP server of the tests, with the tools, prompts and resources that the clients in `peers/` use.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use turms_core::Principal;
use turms_http::{HttpService, Listener, ServeHttp as _};
use turms_proto::types::{CreateMessageParams, GetPromptResult, LoggingLevel, SamplingMessage};
use turms_proto::{Object, RawJson};
use turms_server::{
    Args, Context, Elicited, InputError, Progress, Prompt, Resource, Server, ServerHandle, State, Tool,
};

use crate::raw_http::{Connection, Request, Response, Stream};
use crate::tools::{self, Add, Name, text_of};
use crate::within;

/// Counters of the handlers, which tests read and wait for.
#[derive(Debug)]
pub struct Traces {
    /// Number of started calls of `wait` and `flood`.
    pub begun: AtomicUsize,
    /// Number of finished or cancelled calls of `wait` and `flood`.
    pub ended: AtomicUsize,
    /// Number of started calls of `steps`.
    pub stepping: AtomicUsize,
    /// Number of finished calls of `steps` and `count`.
    pub returned: AtomicUsize,
    /// Number of progress reports of `flood`.
    pub said: AtomicUsize,
    grown: AtomicUsize,
    /// Permits for the steps of `steps`: each step takes one.
    pub steps: Semaphore,
}

impl Default for Traces {
    fn default() -> Self {
        Self {
            begun: AtomicUsize::new(0),
            ended: AtomicUsize::new(0),
            stepping: AtomicUsize::new(0),
            returned: AtomicUsize::new(0),
            said: AtomicUsize::new(0),
            grown: AtomicUsize::new(0),
            steps: Semaphore::new(0),
        }
    }
}

/// A server that listens on a port.
#[derive(Debug)]
pub struct Fixture {
    /// The address it listens on.
    pub address: SocketAddr,
    /// The handle of the server.
    pub handle: ServerHandle,
    /// Counters of the handlers.
    pub traces: Arc<Traces>,
    serving: JoinHandle<()>,
}

impl Fixture {
    /// Starts the server with default options.
    pub async fn start() -> Self {
        Self::with(|service| service).await
    }

    /// Starts the server with other options of the HTTP service.
    pub async fn with(configure: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self::of(|server| server, configure).await
    }

    /// Starts the server with changes to the server and other options of the HTTP service.
    pub async fn of(change: impl FnOnce(Server) -> Server, configure: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self::listening(change, configure, |listener| listener).await
    }

    /// Starts the server with other options of the listener.
    pub async fn at(listen: impl FnOnce(Listener) -> Listener) -> Self {
        Self::listening(|server| server, |service| service, listen).await
    }

    /// Starts the server with changes to the server, the HTTP service and the listener.
    pub async fn listening(
        change: impl FnOnce(Server) -> Server,
        configure: impl FnOnce(HttpService) -> HttpService,
        listen: impl FnOnce(Listener) -> Listener,
    ) -> Self {
        let traces = Arc::<Traces>::default();
        let server = change(server(&traces));
        let handle = server.handle();
        let service = configure(server.into_http_service().unwrap());
        let listener = listen(Listener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { listener.serve(service).await.unwrap() });
        Self { address, handle, traces, serving }
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Sends a request over a new connection, and reads the whole response.
    pub async fn send(&self, request: Request) -> Response {
        let mut connection = self.connect().await;
        connection.send(&request).await;
        within("a response", connection.response()).await
    }

    /// Sends a request and returns its response, which must be an event stream.
    pub async fn stream(&self, request: Request) -> Stream {
        let mut connection = self.connect().await;
        connection.send(&request).await;
        within("a stream", connection.into_stream()).await
    }

    /// Shuts the server down, and waits until it has stopped.
    pub async fn shut_down(self) {
        self.handle.shutdown();
        self.gone().await;
    }

    /// Waits until the server has stopped.
    pub async fn gone(self) {
        within("the end of the server", self.serving).await.unwrap();
    }
}

#[derive(Deserialize, JsonSchema)]
struct CountArguments {
    n: u64,
}

#[derive(Deserialize, JsonSchema)]
struct FloodArguments {
    n: u64,
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct LogArguments {
    text: String,
    #[schemars(with = "String")]
    level: LoggingLevel,
}

#[derive(Deserialize, JsonSchema)]
struct ThinkArguments {
    question: String,
}

#[derive(Deserialize, JsonSchema)]
struct ReviewArguments {
    code: String,
    style: Option<String>,
}

/// The input schema of `headed`, with arguments that are mirrored in headers.
const HEADED_SCHEMA: &str = r#"{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "level":{"type":"integer","x-mcp-header":"Level"},
    "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
    "plain":{"type":"string"}
}}"#;

/// Creates the server.
pub fn server(traces: &Arc<Traces>) -> Server {
    let server = Server::new("fixture", "1.0.0").shared_state(traces.clone());
    with_message_tools(server)
        .tool(
            Tool::builder("add")
                .description("Adds two numbers")
                .handler_sync(|Args(add): Args<Add>| (add.a + add.b).to_string()),
        )
        .tool(Tool::builder("fail").handler_sync(|| Err::<String, _>("it failed, as asked".to_owned())))
        .tool(tools::panic())
        .tool(tools::echo())
        .tool(Tool::builder("wait").handler(wait))
        .tool(
            Tool::builder("ended")
                .handler_sync(|State(traces): State<Traces>| traces.ended.load(Ordering::SeqCst).to_string()),
        )
        .tool(Tool::builder("grow").handler(grow))
        .tool(Tool::builder("who").handler_sync(|who: Option<Principal>| {
            who.map_or_else(|| "nobody".to_owned(), |who| who.subject().to_owned())
        }))
        .tool(
            Tool::builder("headed")
                .input_schema(Object::parse(HEADED_SCHEMA).unwrap())
                .handler_sync(|Args(_): Args<serde_json::Value>| "seen"),
        )
        .resource(Resource::builder("memo://hello").name("hello").handler_sync(|| "Hello from a peer."))
        .resource(Resource::builder("memo://grüße").name("greetings").handler_sync(|| "Grüße."))
        .prompt(Prompt::builder("review").handler_sync(|Args(review): Args<ReviewArguments>| {
            let style = review.style.unwrap_or_else(|| "brief".to_owned());
            GetPromptResult::new([]).user(format!("Write a {style} review of this code:\n{}", review.code))
        }))
}

/// Adds a handler that lists the client's roots when they have changed, and counts the responses.
pub fn count_roots_responses(server: Server, responses: &Arc<AtomicUsize>) -> Server {
    let responses = responses.clone();
    server.notification_fallback(move |method, _: RawJson, context| {
        let responses = responses.clone();
        async move {
            if method == "notifications/roots/list_changed" {
                context.list_roots().await.unwrap();
                responses.fetch_add(1, Ordering::SeqCst);
            }
        }
    })
}

/// Adds tools that send notifications or requests to the client.
fn with_message_tools(server: Server) -> Server {
    server
        .tool(Tool::builder("count").handler(count))
        .tool(Tool::builder("steps").handler(steps))
        .tool(Tool::builder("flood").handler(flood))
        .tool(Tool::builder("log").handler(|Args(log): Args<LogArguments>, context: Context| async move {
            context.log(log.level, log.text).await;
            "logged"
        }))
        .tool(Tool::builder("greet").handler(greet))
        .tool(Tool::builder("think").handler(think))
}

/// Reports progress for each number up to `n`.
async fn count(
    Args(CountArguments { n }): Args<CountArguments>,
    progress: Progress,
    State(traces): State<Traces>,
) -> String {
    for step in 1..=n {
        progress.report(step).total(n).await;
    }
    traces.returned.fetch_add(1, Ordering::SeqCst);
    format!("counted to {n}")
}

/// Same as `count`, but each step waits for a permit of the test.
async fn steps(
    Args(CountArguments { n }): Args<CountArguments>,
    progress: Progress,
    State(traces): State<Traces>,
) -> String {
    traces.stepping.fetch_add(1, Ordering::SeqCst);
    for step in 1..=n {
        traces.steps.acquire().await.unwrap().forget();
        progress.report(step).total(n).await;
    }
    traces.returned.fetch_add(1, Ordering::SeqCst);
    format!("counted to {n}")
}

/// Reports progress with long messages.
async fn flood(Args(flood): Args<FloodArguments>, progress: Progress, State(traces): State<Traces>) -> &'static str {
    let _running = RunningCall::new(&traces);
    let message = "x".repeat(flood.bytes);
    for step in 1..=flood.n {
        progress.report(step).message(&message).await;
        traces.said.fetch_add(1, Ordering::SeqCst);
    }
    "enough"
}

/// Reports progress once, then waits until it is cancelled.
async fn wait(progress: Progress, State(traces): State<Traces>) -> &'static str {
    let _running = RunningCall::new(&traces);
    progress.report(1).await;
    std::future::pending::<()>().await;
    "never"
}

/// Counts the start and the end of a call.
struct RunningCall(Arc<Traces>);

impl RunningCall {
    fn new(traces: &Arc<Traces>) -> Self {
        traces.begun.fetch_add(1, Ordering::SeqCst);
        Self(traces.clone())
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Adds another tool to the server.
async fn grow(context: Context, State(traces): State<Traces>) -> String {
    let name = format!("grown-{}", traces.grown.fetch_add(1, Ordering::SeqCst) + 1);
    context.server().add_tool(Tool::builder(name.as_str()).handler_sync(|| "grown")).unwrap();
    name
}

async fn greet(context: Context) -> Result<String, InputError> {
    Ok(match context.elicit::<Name>("What is your name?").await? {
        Elicited::Accepted(Name { name }) => format!("Hello, {name}!"),
        _ => "Nobody to greet.".to_owned(),
    })
}

async fn think(
    Args(ThinkArguments { question }): Args<ThinkArguments>,
    context: Context,
) -> Result<String, InputError> {
    let result = context.sample(CreateMessageParams::new([SamplingMessage::user(question)], 100)).await?;
    Ok(format!("{}: {}", result.model, text_of(&result)))
}
