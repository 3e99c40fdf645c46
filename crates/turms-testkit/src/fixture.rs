//! The server that is tested: what the clients in `peers/` ask for, and some more.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use turms_core::Principal;
use turms_http::{HttpService, Listener, ServeHttp as _};
use turms_proto::Object;
use turms_proto::types::{CreateMessageParams, LoggingLevel, PromptResult, SamplingMessage};
use turms_server::{Args, AskError, Context, Elicited, Progress, Prompt, Resource, Server, ServerHandle, State, Tool};

use crate::raw_http::{Connection, Request, Response, Stream};
use crate::tools::{self, Add, Name, text_of};
use crate::within;

/// What handlers leave for tests to look at, and wait for.
#[derive(Debug)]
pub struct Traces {
    /// How many calls of `wait` and `flood` have begun.
    pub begun: AtomicUsize,
    /// How many calls of `wait` and `flood` have ended, however they did.
    pub ended: AtomicUsize,
    /// How many calls of `steps` have begun.
    pub stepping: AtomicUsize,
    /// How many calls of `steps` and `count` have returned.
    pub returned: AtomicUsize,
    /// How often `flood` has said something.
    pub said: AtomicUsize,
    grown: AtomicUsize,
    /// Each step of `steps` takes one.
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

/// A server of ours that listens.
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
    /// Starts the fixture as it is.
    pub async fn start() -> Self {
        Self::with(|service| service).await
    }

    /// A server whose service is set up differently.
    pub async fn with(configure: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self::of(|server| server, configure).await
    }

    /// A server that is different before it is one for HTTP, too.
    pub async fn of(change: impl FnOnce(Server) -> Server, configure: impl FnOnce(HttpService) -> HttpService) -> Self {
        Self::listening(change, configure, |listener| listener).await
    }

    /// A server that listens differently.
    pub async fn at(listen: impl FnOnce(Listener) -> Listener) -> Self {
        Self::listening(|server| server, |service| service, listen).await
    }

    /// A server that is different in every way.
    pub async fn listening(
        change: impl FnOnce(Server) -> Server,
        configure: impl FnOnce(HttpService) -> HttpService,
        listen: impl FnOnce(Listener) -> Listener,
    ) -> Self {
        let traces = Arc::<Traces>::default();
        let server = change(server(&traces));
        let handle = server.handle();
        let service = configure(server.http());
        let listener = listen(Listener::bind("127.0.0.1:0").await.unwrap());
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move { listener.serve(service).await.unwrap() });
        Self { address, handle, traces, serving }
    }

    /// Opens a connection.
    pub async fn connect(&self) -> Connection {
        Connection::open(self.address).await
    }

    /// Sends a request over a connection of its own, and reads the whole answer.
    pub async fn send(&self, request: Request) -> Response {
        let mut connection = self.connect().await;
        connection.send(&request).await;
        within("an answer", connection.response()).await
    }

    /// Sends a request whose answer is a stream.
    pub async fn stream(&self, request: Request) -> Stream {
        let mut connection = self.connect().await;
        connection.send(&request).await;
        within("a stream", connection.into_stream()).await
    }

    /// Ends the server as its owner would, and waits until it is gone.
    pub async fn shut_down(self) {
        self.handle.shutdown();
        self.gone().await;
    }

    /// Waits until the server is gone.
    pub async fn gone(self) {
        within("the end of the server", self.serving).await.unwrap();
    }
}

#[derive(Deserialize, JsonSchema)]
struct Count {
    n: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Flood {
    n: u64,
    bytes: usize,
}

#[derive(Deserialize, JsonSchema)]
struct Log {
    text: String,
    #[schemars(with = "String")]
    level: LoggingLevel,
}

#[derive(Deserialize, JsonSchema)]
struct Question {
    question: String,
}

#[derive(Deserialize, JsonSchema)]
struct Review {
    code: String,
    style: Option<String>,
}

/// The arguments of `headed`, of which some are repeated in headers.
const HEADED: &str = r#"{"type":"object","properties":{
    "region":{"type":"string","x-mcp-header":"Region"},
    "level":{"type":"integer","x-mcp-header":"Level"},
    "deep":{"type":"object","properties":{"flag":{"type":"boolean","x-mcp-header":"Flag"}}},
    "plain":{"type":"string"}
}}"#;

/// The server of the fixture, before it listens.
pub fn server(traces: &Arc<Traces>) -> Server {
    let server = Server::new("fixture", "1.0.0").shared_state(traces.clone());
    talking(server)
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
        .tool(
            Tool::builder("who")
                .handler_sync(|who: Option<Principal>| who.map_or_else(|| "nobody".to_owned(), |who| who.subject)),
        )
        .tool(
            Tool::builder("headed")
                .input_schema(Object::parse(HEADED).unwrap())
                .handler_sync(|Args(_): Args<serde_json::Value>| "seen"),
        )
        .resource(Resource::builder("memo://hello").name("hello").handler_sync(|| "Hello from a peer."))
        .resource(Resource::builder("memo://grüße").name("greetings").handler_sync(|| "Grüße."))
        .prompt(Prompt::builder("review").handler_sync(|Args(review): Args<Review>| {
            let style = review.style.unwrap_or_else(|| "brief".to_owned());
            PromptResult::new([]).user(format!("Write a {style} review of this code:\n{}", review.code))
        }))
}

/// With a handler that asks the client for its roots when they have changed, and counts the answers.
pub fn asking(server: Server, answered: &Arc<AtomicUsize>) -> Server {
    let answered = answered.clone();
    server.on_notification(move |method, _, context| {
        if method != "notifications/roots/list_changed" {
            return Box::pin(async {});
        }
        let answered = answered.clone();
        Box::pin(async move {
            context.roots().await.unwrap();
            answered.fetch_add(1, Ordering::SeqCst);
        })
    })
}

/// With tools that say or ask something.
fn talking(server: Server) -> Server {
    server
        .tool(Tool::builder("count").handler(count))
        .tool(Tool::builder("steps").handler(steps))
        .tool(Tool::builder("flood").handler(flood))
        .tool(Tool::builder("log").handler(|Args(log): Args<Log>, context: Context| async move {
            context.log(log.level, log.text).await;
            "logged"
        }))
        .tool(Tool::builder("greet").handler(greet))
        .tool(Tool::builder("think").handler(think))
}

/// Counts aloud.
async fn count(Args(Count { n }): Args<Count>, progress: Progress, State(traces): State<Traces>) -> String {
    for step in 1..=n {
        progress.report_of(step, n as f64).await;
    }
    traces.returned.fetch_add(1, Ordering::SeqCst);
    format!("counted to {n}")
}

/// Counts aloud as far as the test lets it.
async fn steps(Args(Count { n }): Args<Count>, progress: Progress, State(traces): State<Traces>) -> String {
    traces.stepping.fetch_add(1, Ordering::SeqCst);
    for step in 1..=n {
        traces.steps.acquire().await.unwrap().forget();
        progress.report_of(step, n as f64).await;
    }
    traces.returned.fetch_add(1, Ordering::SeqCst);
    format!("counted to {n}")
}

/// Says a lot.
async fn flood(Args(flood): Args<Flood>, progress: Progress, State(traces): State<Traces>) -> &'static str {
    let _running = Running::of(&traces);
    let much = "x".repeat(flood.bytes);
    for step in 1..=flood.n {
        progress.say(step, None, &much).await;
        traces.said.fetch_add(1, Ordering::SeqCst);
    }
    "enough"
}

/// Says that it has begun, and then nothing until it is cancelled.
async fn wait(progress: Progress, State(traces): State<Traces>) -> &'static str {
    let _running = Running::of(&traces);
    progress.report(1).await;
    std::future::pending::<()>().await;
    "never"
}

/// A call that runs.
struct Running(Arc<Traces>);

impl Running {
    fn of(traces: &Arc<Traces>) -> Self {
        traces.begun.fetch_add(1, Ordering::SeqCst);
        Self(traces.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}

/// Adds a tool.
async fn grow(context: Context, State(traces): State<Traces>) -> String {
    let name = format!("grown-{}", traces.grown.fetch_add(1, Ordering::SeqCst) + 1);
    context.server().add_tool(Tool::builder(name.as_str()).handler_sync(|| "grown")).unwrap();
    name
}

async fn greet(context: Context) -> Result<String, AskError> {
    Ok(match context.elicit::<Name>("What is your name?").await? {
        Elicited::Accepted(Name { name }) => format!("Hello, {name}!"),
        _ => "Nobody to greet.".to_owned(),
    })
}

async fn think(Args(Question { question }): Args<Question>, context: Context) -> Result<String, AskError> {
    let answer = context.sample(CreateMessageParams::new([SamplingMessage::user(question)], 100)).await?;
    Ok(format!("{}: {}", answer.model, text_of(&answer)))
}
