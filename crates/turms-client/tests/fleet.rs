//! Many servers behind one face: real servers in this process and over pipes, servers that lie, and servers that are dead.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::collections::HashMap;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::AbortHandle;
use turms_client::{
    Backoff, CallErrorKind, Cancel, Change, Client, ClientBuilder, Collision, CollisionKind, Config, ConnectionEvent,
    Event, Fleet, MemberError, Status, Supervision, Target, VersionMemory,
};
use turms_core::transport::{LocalConnector, MemoryEnd, StreamConnector, memory};
use turms_core::{CallFuture, ConnectError, Connector, Context as CallContext, Payload, Request, Service};
use turms_proto::types::*;
use turms_proto::{ErrorObject, Object, ProtocolVersion, RawJson};
use turms_server::{
    Args, AskError, Completing, Context, Elicited, Json, Prompt as ServerPrompt, Resource as ServerResource, Router,
    Server, Tool as ServerTool,
};

const OLDEST: ProtocolVersion = ProtocolVersion::V2024_11_05;
const NEWEST: ProtocolVersion = ProtocolVersion::LATEST;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: f64,
    b: f64,
}

#[derive(Serialize, Deserialize, JsonSchema, Debug, PartialEq)]
struct Sum {
    sum: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[derive(Deserialize, JsonSchema)]
struct Id {
    id: String,
}

fn math() -> Server {
    Server::new("math", "1")
        .instructions("Add with add.\n")
        .tool(ServerTool::builder("add").handler_sync(|Args(add): Args<Add>| Json(Sum { sum: add.a + add.b })))
        .tool(ServerTool::builder("wait").handler(|| async {
            std::future::pending::<()>().await;
            "never"
        }))
}

fn notes(of: &'static str) -> Server {
    Server::new("notes", "1")
        .instructions(format!("The notes of {of}."))
        .tool(ServerTool::builder("read").handler_sync(move || format!("notes of {of}")))
        .tool(ServerTool::builder("greet").handler(|context: Context| async move {
            match context.elicit::<Name>("Who are you?").await? {
                Elicited::Accepted(name) => Ok::<_, AskError>(format!("Hello, {}!", name.name)),
                _ => Ok("Hello, stranger!".to_owned()),
            }
        }))
        .resource(ServerResource::builder(format!("{of}://index")).handler_sync(move || format!("index of {of}")))
        .resource(
            ServerResource::builder(format!("{of}://note/{{id}}"))
                .completion(
                    "id",
                    move |completing: Completing| async move { vec![format!("{}-{of}", completing.value)] },
                )
                .handler_sync(move |Args(note): Args<Id>| format!("note {} of {of}", note.id)),
        )
        .prompt(
            ServerPrompt::builder("summary")
                .completion("name", move |completing: Completing| async move {
                    vec![format!("{}-for-{of}", completing.value)]
                })
                .handler_sync(move |Args(who): Args<Name>| format!("Summarise the notes of {of} for {}.", who.name)),
        )
}

fn local(server: Server) -> LocalConnector {
    LocalConnector::new(server.build().unwrap())
}

/// A client of its own memory, so that what one test finds out about a server is not known to another.
fn app() -> ClientBuilder {
    Client::builder("app", "1").version_memory(VersionMemory::new())
}

/// A server over pipes that can be pulled out and put back.
#[derive(Clone, Default)]
struct Plug {
    pulled: Arc<AtomicBool>,
    serving: Arc<Mutex<Vec<AbortHandle>>>,
}

impl Plug {
    fn connector(&self, name: &str, router: Router) -> StreamConnector {
        let plug = self.clone();
        StreamConnector::each(name, move || {
            let (near, far): (MemoryEnd, MemoryEnd) = memory();
            let pulled = plug.pulled.load(Ordering::SeqCst);
            if !pulled {
                let router = router.clone();
                let serving = tokio::spawn(async move { drop(router.serve(far.0, far.1).await) });
                plug.serving.lock().unwrap().push(serving.abort_handle());
            }
            async move { if pulled { Err(std::io::ErrorKind::ConnectionRefused.into()) } else { Ok(near) } }
        })
    }

    fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.serving.lock().unwrap().drain(..).for_each(|serving| serving.abort());
    }

    fn put_back(&self) {
        self.pulled.store(false, Ordering::SeqCst);
    }

    fn is_in_use(&self) -> bool {
        self.serving.lock().unwrap().iter().any(|serving| !serving.is_finished())
    }
}

fn over_pipes(name: &str, server: Server) -> StreamConnector {
    Plug::default().connector(name, server.build().unwrap())
}

fn dead(name: &str) -> StreamConnector {
    let plug = Plug::default();
    plug.pull();
    plug.connector(name, math().build().unwrap())
}

/// A service that answers from a table; what is not in it is a method that it does not have.
struct Table(HashMap<&'static str, serde_json::Value>);

impl Service for Table {
    fn call(&self, request: Request, _: CallContext) -> CallFuture {
        let uri = request.params.into_raw().ok().and_then(|params| params.member("uri"));
        let key = match uri {
            Some(uri) => format!("{} {}", request.method, uri.as_str().trim_matches('"')),
            None => request.method.to_string(),
        };
        CallFuture::now(match self.0.get(key.as_str()) {
            Some(answer) => Ok(Payload::raw(RawJson::encode(answer).unwrap())),
            None if key.contains(' ') => Err(ErrorObject::resource_not_found(key.split_once(' ').unwrap().1)),
            None => Err(ErrorObject::method_not_found(&key)),
        })
    }
}

fn table(capabilities: &serde_json::Value, answers: &[(&'static str, serde_json::Value)]) -> LocalConnector {
    let discovered = json!({ "supportedVersions": [NEWEST.as_str()], "capabilities": capabilities });
    let answers = answers.iter().cloned().chain([("server/discover", discovered)]);
    LocalConnector::new(Table(answers.collect()))
}

async fn tools_of(client: &Client) -> Vec<String> {
    client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), what).await.expect("it happens soon")
}

async fn until(mut condition: impl FnMut() -> bool) {
    soon(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

fn failure_names(fleet: &Fleet) -> Vec<String> {
    fleet.failures().into_iter().map(|(name, _)| name).collect()
}

#[tokio::test]
async fn servers_of_several_revisions_are_one_list_and_called_by_prefix() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").versions([OLDEST])))
        .server("work", over_pipes("work", notes("work").versions([ProtocolVersion::V2025_03_26])))
        .connect()
        .await;
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
    let client = fleet.client();
    let names = ["math_add", "math_wait", "home_read", "home_greet", "work_read", "work_greet"];
    assert_eq!(tools_of(&client).await, names);
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert_eq!(client.call_tool("work_read", ()).await.unwrap().text(), "notes of work");
    let sum = client.call_tool("math_add", json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(sum.structured_as::<Sum>().unwrap().unwrap(), Sum { sum: 3.0 });
    assert!(fleet.collisions().is_empty());

    let versions: Vec<_> = fleet.servers().into_iter().map(|server| (server.name, server.version.unwrap())).collect();
    let expected =
        [("math".to_owned(), NEWEST), ("home".to_owned(), OLDEST), ("work".to_owned(), ProtocolVersion::V2025_03_26)];
    assert_eq!(versions, expected);
    assert_eq!(fleet.servers()[1].prefix.as_deref(), Some("home_"));
    assert_eq!(fleet.servers()[1].info.as_ref().unwrap().name, "notes");
}

#[tokio::test]
async fn a_tool_is_called_without_having_been_listed() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home")))
        .separator("__")
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(client.call_tool("home__read", ()).await.unwrap().text(), "notes of home");
    let prompt = client.get_prompt("home__summary", json!({ "name": "Ann" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Summarise the notes of home for Ann."));
}

#[tokio::test]
async fn errors_speak_of_what_was_asked_for() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home")))
        .connect()
        .await;
    let client = fleet.client();
    let error = client.call_tool("sums_add", ()).await.unwrap_err();
    assert_eq!(error.to_string(), "tools/call \"sums_add\": no server has it");
    assert!(error.is_unknown_everywhere() && !error.may_have_run());
    let error = client.call_tool("math_subtract", ()).await.unwrap_err();
    assert_eq!(error.subject(), "tools/call \"math_subtract\"");
    assert!(error.server_error().unwrap().message.contains("unknown tool: \"subtract\""));
    let error = client.call_tool("math_wait", ()).timeout(Duration::from_millis(20)).await.unwrap_err();
    assert_eq!(error.subject(), "tools/call \"math_wait\"");
    assert!(error.is_timeout());
    let error = client.request_raw("custom/method", json!({})).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NeedsOneServer));
    assert!(error.to_string().contains("Fleet::get"), "{error}");
}

#[tokio::test]
async fn the_whole_is_a_server_of_the_newest_revision() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").versions([OLDEST])))
        .info(Implementation::new("both", "2"))
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(client.protocol_version(), Some(NEWEST));
    assert_eq!(client.server_info().unwrap().name, "both");
    assert_eq!(client.instructions().unwrap(), "# math\n\nAdd with add.\n\n# home\n\nThe notes of home.");
    let capabilities = client.server_capabilities().unwrap();
    assert!(capabilities.supports(ServerCapability::Tools));
    assert!(capabilities.supports(ServerCapability::ResourceSubscriptions));
    assert_eq!(client.status(), Status::Connected);
    client.list_tools().await.unwrap();
    let sent: u64 = ["math", "home"].into_iter().map(|name| fleet.get(name).unwrap().stats().requests_sent).sum();
    assert_eq!(client.stats().requests_sent, sent);
    let nameless = Fleet::builder(app()).server("math", local(math())).connect().await;
    assert_eq!(nameless.client().server_info().unwrap().name, "app");
}

fn collision(kind: CollisionKind, name: &str, servers: [&str; 2]) -> (CollisionKind, String, Vec<String>) {
    (kind, name.to_owned(), servers.map(str::to_owned).to_vec())
}

fn told(collisions: Vec<Collision>) -> Vec<(CollisionKind, String, Vec<String>)> {
    collisions.into_iter().map(|it| (it.kind, it.name, it.servers)).collect()
}

fn echo(tools: &[(&str, &'static str)]) -> Server {
    tools.iter().fold(Server::new("echo", "1"), |server, (name, says)| {
        let says = *says;
        server.tool(ServerTool::builder(*name).handler_sync(move || says))
    })
}

#[tokio::test]
async fn names_that_look_alike_once_cleaned_are_reported() {
    let fleet = Fleet::builder(app())
        .server("my notes", local(echo(&[("read", "first"), ("only", "here")])))
        .server("my-notes", local(echo(&[("read", "second"), ("other", "there")])))
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(tools_of(&client).await, ["my-notes_read", "my-notes_only", "my-notes_other"]);
    let servers = ["my notes", "my-notes"];
    let expected = [
        collision(CollisionKind::Prefix, "my-notes_", servers),
        collision(CollisionKind::Tool, "my-notes_read", servers),
    ];
    assert_eq!(told(fleet.collisions()), expected);
    assert_eq!(
        fleet.collisions()[1].to_string(),
        r#"the tool "my-notes_read" is claimed by the servers "my notes", "my-notes""#
    );
    assert_eq!(client.call_tool("my-notes_read", ()).await.unwrap().text(), "first");
    assert_eq!(client.call_tool("my-notes_other", ()).await.unwrap().text(), "there");
}

#[tokio::test]
async fn a_name_that_could_be_two_servers_is_whose_list_has_it() {
    let fleet = Fleet::builder(app())
        .server("a", local(echo(&[("b_c", "a has b_c"), ("b_d", "a has b_d")])))
        .server("a_b", local(echo(&[("c", "a_b has c"), ("e", "a_b has e")])))
        .connect()
        .await;
    let client = fleet.client();
    // Nothing has been listed yet: the calls see to it themselves.
    assert_eq!(client.call_tool("a_b_d", ()).await.unwrap().text(), "a has b_d");
    assert_eq!(client.call_tool("a_b_e", ()).await.unwrap().text(), "a_b has e");
    assert_eq!(client.call_tool("a_b_c", ()).await.unwrap().text(), "a has b_c");
    assert_eq!(told(fleet.collisions()), [collision(CollisionKind::Tool, "a_b_c", ["a", "a_b"])]);
    let error = client.call_tool("a_b_x", ()).await.unwrap_err();
    assert!(error.server_error().unwrap().message.contains("unknown tool: \"x\""), "{error}");
}

#[tokio::test]
async fn without_prefixes_the_first_of_a_name_wins() {
    let first = echo(&[("read", "first"), ("one", "1")]).build().unwrap();
    let fleet = Fleet::builder(app())
        .server("first", LocalConnector::new(first.clone()))
        .server("second", over_pipes("second", echo(&[("read", "second"), ("two", "2")])))
        .without_prefixes()
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(client.call_tool("two", ()).await.unwrap().text(), "2");
    assert_eq!(tools_of(&client).await, ["read", "one", "two"]);
    assert_eq!(client.call_tool("read", ()).await.unwrap().text(), "first");
    assert_eq!(told(fleet.collisions()), [collision(CollisionKind::Tool, "read", ["first", "second"])]);
    assert_eq!(fleet.servers()[0].prefix, None);
    // What is not known yet is looked for once more.
    first.handle().add_tool(ServerTool::builder("new").handler_sync(|| "brand new"));
    assert_eq!(client.call_tool("new", ()).await.unwrap().text(), "brand new");
    assert!(client.call_tool("never", ()).await.unwrap_err().is_unknown_everywhere());
}

#[tokio::test]
async fn a_name_that_a_dead_server_may_have_is_not_said_to_be_nobodys() {
    let fleet = Fleet::builder(app())
        .server("alive", local(math()))
        .server("other", local(notes("x")))
        .server("dead", dead("a dead one without prefix"))
        .without_prefixes()
        .connect()
        .await;
    let error = fleet.client().call_tool("subtract", ()).await.unwrap_err();
    assert!(
        error.to_string().starts_with("tools/call \"subtract\": server \"dead\": there is no connection"),
        "{error}"
    );
    assert!(error.is_disconnected());
}

#[tokio::test]
async fn a_dead_server_does_not_stop_the_others_and_can_be_reached_later() {
    let plug = Plug::default();
    plug.pull();
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = fleet.client();
    let failures = fleet.failures();
    let [(name, MemberError::Connect(error))] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((name.as_str(), error.to_string().as_str()), ("home", "cannot reach home"));
    assert!(fleet.get("home").is_none());
    assert_eq!(fleet.servers()[1].status, Status::Closed);
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
    let error = client.call_tool("home_read", ()).await.unwrap_err();
    assert!(error.is_disconnected() && !error.may_have_run());
    assert_eq!(error.source().unwrap().to_string(), "cannot reach home");
    let error = client.ping().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "ping: server \"home\": there is no connection to the server: cannot reach home: connection refused"
    );
    assert!(fleet.reconnect("home").await.is_err());

    plug.put_back();
    let mut events = client.events();
    let mut named = fleet.events();
    let mut listening = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    fleet.reconnect("home").await.unwrap();
    fleet.reconnect("home").await.unwrap();
    assert!(fleet.failures().is_empty());
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait", "home_read", "home_greet"]);
    client.ping().await.unwrap();
    // Whoever watches learns that there is more now.
    let joined = named.find(|server, event| match event {
        Event::Connection(ConnectionEvent::Connected { version, .. }) => Some((server.to_owned(), version)),
        _ => None,
    });
    assert_eq!(soon(joined).await.unwrap(), ("home".to_owned(), NEWEST));
    let changed = |event| matches!(event, Event::ToolsChanged).then_some(());
    soon(events.find(changed)).await.unwrap();
    assert_eq!(soon(listening.next()).await, Some(Change::Tools));
    assert!(matches!(fleet.reconnect("nobody").await, Err(MemberError::Unknown)));
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let hanging = StreamConnector::each("a hanging one", || async {
        std::future::pending::<()>().await;
        Ok::<MemoryEnd, _>(memory().0)
    });
    let fleet = Fleet::builder(app())
        .server("hanging", hanging)
        .server("math", local(math()))
        .connect_timeout(Duration::from_millis(50))
        .concurrency(1)
        .connect()
        .await;
    let failures = fleet.failures();
    assert!(matches!(failures.as_slice(), [(name, error)] if name == "hanging" && error.is_timeout()), "{failures:?}");
    assert_eq!(tools_of(&fleet.client()).await, ["math_add", "math_wait"]);
}

#[tokio::test]
async fn all_dead_is_an_error_and_none_at_all_is_not() {
    let fleet = Fleet::builder(app()).server("one", dead("dead one")).server("two", dead("dead two")).connect().await;
    let client = fleet.client();
    assert_eq!((client.status(), client.protocol_version()), (Status::Closed, None));
    let error = client.list_tools().await.unwrap_err();
    let CallErrorKind::Servers(failures) = error.kind() else { panic!("{error}") };
    assert_eq!(failures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert!(error.is_disconnected());
    assert!(client.read_resource("a://b").await.unwrap_err().is_disconnected());
    assert!(client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.is_ok());

    let empty = Fleet::builder(app()).connect().await;
    assert!(empty.client().list_tools().await.unwrap().is_empty());
    assert!(empty.client().call_tool("a_b", ()).await.unwrap_err().is_unknown_everywhere());
    assert!(empty.client().read_resource("a://b").await.unwrap_err().is_unknown_everywhere());
    empty.client().ping().await.unwrap();
    empty.add("math", local(math())).await.unwrap();
    assert_eq!(tools_of(&empty.client()).await, ["math_add", "math_wait"]);
}

#[tokio::test]
async fn a_server_that_dies_later_is_left_out_and_gets_back_what_it_had() {
    for version in [OLDEST, NEWEST] {
        let plug = Plug::default();
        let router = notes("home").versions([version]).build().unwrap();
        let fleet = Fleet::builder(app())
            .server("math", local(math()))
            .server("home", plug.connector("home", router.clone()))
            .connect()
            .await;
        let client = fleet.client();
        let mut events = fleet.events();
        assert_eq!(tools_of(&client).await.len(), 4);
        client.subscribe("home://index").await.unwrap();
        plug.pull();
        until(|| fleet.servers()[1].status == Status::Closed).await;
        assert!(matches!(fleet.failures().as_slice(), [(name, MemberError::Ended)] if name == "home"));
        assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
        let error = client.call_tool("home_read", ()).await.unwrap_err();
        assert!(error.is_disconnected() && !error.is_unknown_everywhere());
        let sum = client.call_tool("math_add", json!({ "a": 1, "b": 1 })).await.unwrap();
        assert!(!sum.failed());
        assert_eq!(client.status(), Status::Connected);

        plug.put_back();
        fleet.reconnect("home").await.unwrap();
        assert_eq!(tools_of(&client).await.len(), 4);
        let updated = |server: &str, event| match event {
            Event::ResourceUpdated { uri } => Some((server.to_owned(), uri)),
            _ => None,
        };
        router.handle().resource_updated("home://index");
        let updated = soon(events.find(updated)).await.unwrap();
        assert_eq!(updated, ("home".to_owned(), "home://index".to_owned()), "{version}");
    }
}

#[tokio::test]
async fn a_server_that_is_being_reconnected_is_not_waited_for_unless_it_is_called() {
    let plug = Plug::default();
    let supervision = Supervision::new().backoff(Backoff::new().first(Duration::from_millis(5)));
    let fleet = Fleet::builder(app().supervise(supervision))
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(client.list_resources().await.unwrap().len(), 1);
    plug.pull();
    until(|| fleet.servers()[1].status == Status::Reconnecting).await;
    assert_eq!(soon(tools_of(&client)).await, ["math_add", "math_wait"]);
    assert!(matches!(fleet.failures().as_slice(), [(_, MemberError::Lost)]));
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("home_read", ()).await }
    });
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.read_resource("home://index").await }
    });
    until(|| client.pending().len() == 2).await;
    assert!(!calling.is_finished() && !reading.is_finished());
    plug.put_back();
    assert_eq!(soon(calling).await.unwrap().unwrap().text(), "notes of home");
    assert!(soon(reading).await.unwrap().is_ok());
    assert!(fleet.failures().is_empty());
}

fn text(result: &ReadResourceResult) -> &str {
    result.contents[0].text.as_deref().unwrap()
}

#[tokio::test]
async fn resources_prompts_and_completions_find_their_server() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", local(notes("home")))
        .server("work", over_pipes("work", notes("work").versions([ProtocolVersion::V2025_06_18])))
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(text(&client.read_resource("work://index").await.unwrap()), "index of work");
    assert_eq!(text(&client.read_resource("work://note/7").await.unwrap()), "note 7 of work");
    assert_eq!(text(&client.read_resource("home://note/7").await.unwrap()), "note 7 of home");
    let uris: Vec<_> = client.list_resources().await.unwrap().into_iter().map(|resource| resource.uri).collect();
    assert_eq!(uris, ["home://index", "work://index"]);
    let templates = client.list_resource_templates().await.unwrap();
    let forms: Vec<_> = templates.into_iter().map(|template| template.uri_template).collect();
    assert_eq!(forms, ["home://note/{id}", "work://note/{id}"]);
    let error = client.read_resource("nowhere://at/all").await.unwrap_err();
    assert_eq!(error.subject(), "resources/read \"nowhere://at/all\"");
    assert!(error.server_error().unwrap().is_resource_not_found());

    let prompts: Vec<_> = client.list_prompts().await.unwrap().into_iter().map(|prompt| prompt.name).collect();
    assert_eq!(prompts, ["home_summary", "work_summary"]);
    let prompt = client.get_prompt("work_summary", json!({ "name": "Ann" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Summarise the notes of work for Ann."));

    let values = client.complete(Reference::prompt("work_summary"), "name", "A").await.unwrap().values;
    assert_eq!(values, ["A-for-work"]);
    let values = client.complete(Reference::resource("home://note/{id}"), "id", "1").await.unwrap().values;
    assert_eq!(values, ["1-home"]);
    let error = client.complete(Reference::prompt("nobody_summary"), "name", "A").await.unwrap_err();
    assert!(error.is_unknown_everywhere());
}

#[tokio::test]
async fn a_resource_of_two_servers_is_the_firsts_and_reported() {
    let fleet =
        Fleet::builder(app()).server("one", local(notes("same"))).server("two", local(notes("same"))).connect().await;
    let client = fleet.client();
    assert_eq!(client.list_resources().await.unwrap().len(), 1);
    assert_eq!(client.list_resource_templates().await.unwrap().len(), 1);
    let expected = [
        collision(CollisionKind::Resource, "same://index", ["one", "two"]),
        collision(CollisionKind::ResourceTemplate, "same://note/{id}", ["one", "two"]),
    ];
    assert_eq!(told(fleet.collisions()), expected);
    let before = fleet.get("two").unwrap().stats().requests_sent;
    client.read_resource("same://index").await.unwrap();
    assert_eq!(fleet.get("two").unwrap().stats().requests_sent, before);
}

#[tokio::test]
async fn a_resource_that_nobody_lists_is_asked_for_everywhere() {
    let contents = json!({ "contents": [{ "uri": "hidden://x", "text": "found" }] });
    let fleet = Fleet::builder(app())
        .server("home", local(notes("home")))
        .server(
            "hidden",
            // No templates: the method is not even there.
            table(
                &json!({ "resources": {} }),
                &[("resources/list", json!({ "resources": [] })), ("resources/read hidden://x", contents)],
            ),
        )
        .connect()
        .await;
    let client = fleet.client();
    assert_eq!(text(&client.read_resource("hidden://x").await.unwrap()), "found");
    assert!(fleet.failures().is_empty(), "{:?}", fleet.failures());
}

#[tokio::test]
async fn what_a_server_allows_to_be_reused_is_reused() {
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = reads.clone();
    let server = Server::new("counting", "1").resource(
        ServerResource::builder("count://x").cache(Duration::from_secs(60), CacheScope::Private).handler_sync(
            move || {
                counted.fetch_add(1, Ordering::SeqCst);
                "x"
            },
        ),
    );
    let fleet =
        Fleet::builder(app()).server("counting", local(server)).server("home", local(notes("home"))).connect().await;
    let client = fleet.client();
    for _ in 0..3 {
        client.read_resource("count://x").await.unwrap();
    }
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    client.read_resource("count://x").bypass_cache().await.unwrap();
    assert_eq!(reads.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn events_of_all_servers_come_with_their_names() {
    let home = notes("home").build().unwrap();
    let work = notes("work").versions([OLDEST]).build().unwrap();
    let fleet = Fleet::builder(app())
        .server("home", LocalConnector::new(home.clone()))
        .server("work", Plug::default().connector("work", work.clone()))
        .connect()
        .await;
    let client = fleet.client();
    let mut named = fleet.events();
    let mut events = client.events();
    client.subscribe("home://index").await.unwrap();
    client.subscribe("work://index").await.unwrap();
    home.handle().resource_updated("home://index");
    work.handle().resource_updated("work://index");
    let mut heard = Vec::new();
    let mut uris = Vec::new();
    for _ in 0..2 {
        let updated = named.find(|server, event| match event {
            Event::ResourceUpdated { uri } => Some((server.to_owned(), uri)),
            _ => None,
        });
        heard.push(soon(updated).await.unwrap());
        let updated = events.find(|event| match event {
            Event::ResourceUpdated { uri } => Some(uri),
            _ => None,
        });
        uris.push(soon(updated).await.unwrap());
    }
    heard.sort();
    uris.sort();
    let pair = |server: &str| (server.to_owned(), format!("{server}://index"));
    assert_eq!(heard, [pair("home"), pair("work")]);
    assert_eq!(uris, ["home://index", "work://index"]);

    client.unsubscribe("work://index").await.unwrap();
    client.unsubscribe("work://index").await.unwrap();
    work.handle().resource_updated("work://index");
    work.handle().add_tool(ServerTool::builder("extra").handler_sync(|| ""));
    home.handle().resource_updated("home://index");
    let next = named.find(|server, event| match event {
        Event::ResourceUpdated { .. } => Some(server.to_owned()),
        _ => None,
    });
    assert_eq!(soon(next).await.unwrap(), "home");
}

#[tokio::test]
async fn listening_reaches_every_server() {
    let home = notes("home").build().unwrap();
    let work = notes("work").versions([OLDEST]).build().unwrap();
    let fleet = Fleet::builder(app())
        .server("home", LocalConnector::new(home.clone()))
        .server("work", Plug::default().connector("work", work.clone()))
        .connect()
        .await;
    let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions([
        "home://index".to_owned(),
        "work://note/1".to_owned(),
        "nowhere://x".to_owned(),
    ]);
    let mut listening = soon(fleet.client().listen(filter).into_future()).await.unwrap();
    let mut acknowledged = listening.acknowledged().clone();
    acknowledged.resource_subscriptions.as_mut().unwrap().sort();
    // A server of the newest revision agrees to tell even of what it does not have.
    let uris = ["home://index", "nowhere://x", "work://note/1"].map(str::to_owned);
    assert_eq!(acknowledged, SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(uris));
    home.handle().resource_updated("nowhere://x");
    assert_eq!(soon(listening.next()).await, Some(Change::Resource { uri: "nowhere://x".to_owned() }));
    work.handle().resource_updated("work://note/1");
    assert_eq!(soon(listening.next()).await, Some(Change::Resource { uri: "work://note/1".to_owned() }));
    home.handle().resource_updated("home://index");
    assert_eq!(soon(listening.next()).await, Some(Change::Resource { uri: "home://index".to_owned() }));
    work.handle().remove_tool("read");
    assert_eq!(soon(listening.next()).await, Some(Change::Tools));
    home.handle().remove_tool("read");
    assert_eq!(soon(listening.next()).await, Some(Change::Tools));
    fleet.add("math", local(math())).await.unwrap();
    assert_eq!(soon(listening.next()).await, Some(Change::Tools));
    fleet.remove("math").unwrap();
    assert_eq!(soon(listening.next()).await, Some(Change::Tools));
    drop(fleet);
    assert_eq!(soon(listening.next()).await, None);
}

#[tokio::test]
async fn a_log_level_reaches_those_who_log_and_those_who_come_later() {
    let logs = |version| {
        Server::new("logs", "1").versions([version]).tool(ServerTool::builder("say").handler(
            |context: Context| async move {
                context.log(LoggingLevel::Info, "info").await;
                context.log(LoggingLevel::Error, "error").await;
                "said"
            },
        ))
    };
    let fleet = Fleet::builder(app())
        .server("old", over_pipes("old", logs(ProtocolVersion::V2025_06_18)))
        .server("silent", table(&json!({ "tools": {} }), &[]))
        .server("dead", dead("dead and silent"))
        .connect()
        .await;
    let client = fleet.client();
    client.set_log_level(LoggingLevel::Error).await.unwrap();
    fleet.add("later", over_pipes("later", logs(ProtocolVersion::V2025_06_18))).await.unwrap();
    fleet.add("newest", over_pipes("newest", logs(NEWEST))).await.unwrap();
    for server in ["old", "later", "newest"] {
        let mut events = fleet.events();
        client.call_tool(format!("{server}_say"), ()).await.unwrap();
        let logged = events.find(|server, event| match event {
            Event::Log(message) => Some((server.to_owned(), message.level)),
            _ => None,
        });
        assert_eq!(soon(logged).await.unwrap(), (server.to_owned(), LoggingLevel::Error));
    }
}

#[tokio::test]
async fn servers_ask_through_the_fleet() {
    for version in [ProtocolVersion::V2025_06_18, NEWEST] {
        let app = app().on_elicitation(|_| async { ElicitResult::accept(Object::parse(r#"{"name":"Ann"}"#).unwrap()) });
        let fleet = Fleet::builder(app)
            .server("math", local(math()))
            .server("local", local(notes("home").versions([version])))
            .server("pipes", over_pipes("pipes", notes("home").versions([version])))
            .connect()
            .await;
        let client = fleet.client();
        for tool in ["local_greet", "pipes_greet"] {
            assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "Hello, Ann!", "{version}");
        }
        let raw = client.request_raw("tools/call", json!({ "name": "pipes_greet" })).await.unwrap();
        let result: ToolResult = raw.decode().unwrap();
        assert_eq!(result.text(), "Hello, Ann!");
        // Whatever the server speaks, the fleet speaks the newest revision.
        assert_eq!(result.result_type, Some(ResultType::Complete));
    }
}

#[tokio::test]
async fn output_is_held_against_what_the_tool_declares() {
    let listed = json!({ "tools": [{
        "name": "lie",
        "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object", "required": ["truth"] }
    }]});
    let lie = json!({ "content": [], "structuredContent": { "lie": true }, "resultType": "complete" });
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("liar", table(&json!({ "tools": {} }), &[("tools/list", listed), ("tools/call", lie)]))
        .connect()
        .await;
    let client = fleet.client();
    let error = client.call_tool("liar_lie", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Output(_)), "{error}");
    assert_eq!(error.subject(), "tools/call \"liar_lie\"");
}

#[tokio::test]
async fn a_server_that_cannot_be_listed_is_left_out_and_told_of() {
    let broken = table(&json!({ "tools": {} }), &[("tools/list", json!({ "tools": "none" }))]);
    let fleet = Fleet::builder(app()).server("broken", broken).server("math", local(math())).connect().await;
    assert!(fleet.failures().is_empty());
    assert_eq!(tools_of(&fleet.client()).await, ["math_add", "math_wait"]);
    let failures = fleet.failures();
    assert!(matches!(failures.as_slice(), [(name, MemberError::List(_))] if name == "broken"), "{failures:?}");
    assert_eq!(fleet.servers()[0].status, Status::Connected);
}

fn hook(
    routers: HashMap<String, Router>,
) -> impl Fn(&str, &turms_client::ServerEntry) -> Result<Arc<dyn Connector>, ConnectError> {
    move |name, entry| {
        let Target::Command { program, .. } = &entry.target else {
            return Err(ConnectError::unreachable(name, "only programs here"));
        };
        match routers.get(program) {
            Some(router) => Ok(Arc::new(LocalConnector::new(router.clone()))),
            None => Err(ConnectError::unreachable(name, format!("no program {program:?}"))),
        }
    }
}

#[tokio::test]
async fn a_configuration_with_bad_entries_gives_the_good_servers() {
    let config = Config::parse(
        r#"{ "mcpServers": {
            "math": { "command": "math-server" },
            "my notes": { "command": "${NOTES}" },
            "unset": { "command": "x", "env": { "TOKEN": "${NOT_SET}" } },
            "absent": { "command": "no-such-program" },
            "far": { "url": "https://example.com/mcp" },
            "off": { "command": "x", "disabled": true },
            "off and wrong": { "command": 7, "disabled": true },
        } }"#,
    )
    .unwrap()
    .with_variables(|name| (name == "NOTES").then(|| "notes-server".to_owned()));
    let routers = HashMap::from([
        ("math-server".to_owned(), math().build().unwrap()),
        ("notes-server".to_owned(), notes("home").build().unwrap()),
    ]);
    let fleet = Fleet::builder(app()).config(&config).connectors(hook(routers)).connect().await;
    let names: Vec<_> = fleet.servers().into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["math", "my notes", "unset", "absent", "far"]);
    assert_eq!(tools_of(&fleet.client()).await, ["math_add", "math_wait", "my-notes_read", "my-notes_greet"]);
    assert_eq!(failure_names(&fleet), ["unset", "absent", "far"]);
    let (_, error) = &fleet.failures()[0];
    assert!(error.is_misconfigured());
    assert_eq!(error.to_string(), r#"server "unset": env.TOKEN: the environment has no variable "NOT_SET""#);
    let error = fleet.client().call_tool("unset_x", ()).await.unwrap_err();
    assert!(error.source().unwrap().source().unwrap().to_string().contains("NOT_SET"));
    assert!(fleet.reconnect("unset").await.unwrap_err().is_misconfigured());
}

#[tokio::test]
async fn an_address_says_which_transport_is_missing() {
    let config = Config::parse(r#"{ "mcpServers": { "far": { "url": "https://example.com/mcp" } } }"#).unwrap();
    let fleet = Fleet::builder(app()).config(&config).server("math", local(math())).connect().await;
    let failures = fleet.failures();
    let [(_, MemberError::Connect(error))] = failures.as_slice() else { panic!("{failures:?}") };
    assert!(error.source().unwrap().to_string().contains("Streamable HTTP"), "{error:?}");
    assert_eq!(tools_of(&fleet.client()).await.len(), 2);
}

#[tokio::test]
async fn a_later_entry_takes_the_place_of_one_of_the_same_name() {
    let fleet = Fleet::builder(app())
        .server("math", dead("not this one"))
        .server("home", local(notes("home")))
        .server("math", local(math()))
        .connect()
        .await;
    assert!(fleet.failures().is_empty());
    let names: Vec<_> = fleet.servers().into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["math", "home"]);
}

#[tokio::test]
async fn servers_come_and_go() {
    let elsewhere = app().connect_service(notes("home").build().unwrap()).await.unwrap();
    let fleet = Fleet::builder(app()).client("home", elsewhere).connect().await;
    let client = fleet.client();
    assert_eq!(tools_of(&client).await, ["home_read", "home_greet"]);
    fleet.add("math", local(math())).await.unwrap();
    assert!(matches!(fleet.add("math", local(math())).await, Err(MemberError::NameTaken)));
    assert!(fleet.add("gone", dead("gone")).await.is_err());
    assert_eq!(failure_names(&fleet), ["gone"]);
    assert!(fleet.remove("gone").is_none());
    assert!(fleet.failures().is_empty());
    assert_eq!(tools_of(&client).await, ["home_read", "home_greet", "math_add", "math_wait"]);

    let mut events = fleet.events();
    let home = fleet.remove("home").unwrap();
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
    assert!(client.call_tool("home_read", ()).await.is_err());
    assert_eq!(home.call_tool("read", ()).await.unwrap().text(), "notes of home");
    let changed = |server: &str, event| matches!(event, Event::ToolsChanged).then(|| server.to_owned());
    assert_eq!(soon(events.find(changed)).await.unwrap(), "home");
    home.close().await;

    let closed = app().connect_service(math().build().unwrap()).await.unwrap();
    closed.close().await;
    let fleet = Fleet::builder(app()).client("closed", closed).connect().await;
    assert!(matches!(fleet.reconnect("closed").await, Err(MemberError::ConnectedElsewhere)));
}

#[tokio::test]
async fn batches_go_side_by_side_and_calls_can_be_given_up() {
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").versions([ProtocolVersion::V2025_03_26])))
        .connect()
        .await;
    let client = fleet.client();
    let mut batch = client.batch();
    let read = batch.call_tool("home_read", ());
    let sum = batch.call_tool("math_add", json!({ "a": 1, "b": 2 }));
    let tools = batch.list_tools();
    let nobody = batch.call_tool("nobody_x", ());
    let mut outcomes = batch.send().await;
    assert_eq!(outcomes.take(read).unwrap().text(), "notes of home");
    assert!(!outcomes.take(sum).unwrap().failed());
    assert_eq!(outcomes.take(tools).unwrap().tools.len(), 4);
    assert!(outcomes.take(nobody).unwrap_err().is_unknown_everywhere());

    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("math_wait", ()).without_timeout().await }
    });
    until(|| client.pending().len() == 1).await;
    assert_eq!(client.pending()[0].subject, "tools/call \"math_wait\"");
    assert!(client.cancel(client.pending()[0].key));
    assert!(soon(waiting).await.unwrap().unwrap_err().is_cancelled());
    until(|| client.pending().is_empty() && fleet.get("math").unwrap().pending().is_empty()).await;
    assert!(!client.cancel(1));

    let cancel = Cancel::new();
    cancel.cancel();
    let error = client.call_tool("home_read", ()).cancel_with(&cancel).await.unwrap_err();
    assert!(error.is_cancelled());
}

#[tokio::test]
async fn a_fleet_can_be_served_and_be_a_server_of_another() {
    let inner = Fleet::builder(app())
        .server("home", over_pipes("home", notes("home").versions([OLDEST])))
        .server("work", local(notes("work")))
        .connect()
        .await;
    // As a client among others, and as a service that is connected to.
    let outer = Fleet::builder(app())
        .client("nested", inner.client())
        .server("served", LocalConnector::new(inner.client()))
        .server("math", local(math()))
        .connect()
        .await;
    assert!(outer.failures().is_empty(), "{:?}", outer.failures());
    let client = outer.client();
    assert_eq!(client.list_tools().await.unwrap().len(), 10);
    for tool in ["nested_home_read", "served_home_read"] {
        assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "notes of home");
    }
    let error = client.call_tool("served_nobody_read", ()).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, turms_proto::ErrorCode::INVALID_PARAMS);
    assert_eq!(text(&client.read_resource("work://note/3").await.unwrap()), "note 3 of work");
    client.ping().await.unwrap();
    let error = client.list_tools_page(Cursor::from("x")).await.unwrap_err();
    assert_eq!(error.server_error().unwrap().code, turms_proto::ErrorCode::INVALID_PARAMS);
}

#[tokio::test]
async fn closing_ends_all_and_for_good() {
    let plug = Plug::default();
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = fleet.client();
    let (mut events, mut named) = (client.events(), fleet.events());
    fleet.close().await;
    until(|| !plug.is_in_use()).await;
    assert_eq!(client.status(), Status::Closed);
    assert!(client.list_tools().await.unwrap_err().is_disconnected());
    assert!(client.ping().await.unwrap_err().is_disconnected());
    let mut closed = Vec::new();
    while let Some((server, event)) = soon(named.next()).await {
        if matches!(event, Event::Connection(ConnectionEvent::Closed)) {
            closed.push(server.to_string());
        }
    }
    closed.sort();
    assert_eq!(closed, ["home", "math"]);
    while soon(events.next()).await.is_some() {}
    assert!(soon(fleet.events().next()).await.is_none());
    assert!(matches!(fleet.add("new", local(math())).await, Err(MemberError::FleetClosed)));
    assert!(matches!(fleet.reconnect("home").await, Err(MemberError::FleetClosed)));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_everything() {
    let plug = Plug::default();
    let fleet = Fleet::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = fleet.client();
    let (mut events, mut named) = (client.events(), fleet.events());
    let mut listening = client.listen(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    drop(fleet);
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert!(plug.is_in_use());
    drop(client);
    until(|| !plug.is_in_use()).await;
    while soon(events.next()).await.is_some() {}
    while soon(named.next()).await.is_some() {}
    assert_eq!(soon(listening.next()).await, None);
}

#[test]
fn what_is_handed_around_can_be() {
    fn sent<T: Send + Sync + 'static>() {}
    sent::<Fleet>();
    sent::<turms_client::FleetEvents>();
    sent::<turms_client::FleetBuilder>();
    sent::<MemberError>();
}
