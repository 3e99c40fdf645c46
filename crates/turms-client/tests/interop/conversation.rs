//! The requests that every server on an official SDK gets, in every revision: all features that it has.

use std::sync::mpsc;

use serde_json::{Value, json};
use turms_client::{CancellationToken, Change, Client, Event, Events};
use turms_proto::types::{LoggingLevel, Reference, Root, SubscriptionFilter};
use turms_proto::{Ability, ErrorCode, ProtocolVersion};
use turms_testkit::{eventually, within};

use crate::peer::{self, NODE_STATELESS, PYTHON_STATELESS, Peer};

const COUNTER: &str = "memo://counter";

/// A client that is connected to a server on an official SDK.
pub(crate) struct Conversation {
    peer: &'static Peer,
    client: Client,
    version: ProtocolVersion,
}

impl Conversation {
    pub(crate) fn new(peer: &'static Peer, client: Client) -> Self {
        let version = client.protocol_version().unwrap();
        Self { peer, client, version }
    }

    /// Uses every feature, and closes the client.
    pub(crate) async fn hold(self) {
        self.introduces_itself();
        self.lists().await;
        self.calls().await;
        self.refuses().await;
        self.reads().await;
        self.completes().await;
        self.reports_progress().await;
        self.gives_up().await;
        self.asks().await;
        self.logs().await;
        self.tells_of_changes().await;
        self.takes_several_at_once().await;
        self.client.ping().await.unwrap();
        within("the end of the server", self.client.close()).await;
    }

    fn has(&self, ability: Ability) -> bool {
        self.version.has(ability)
    }

    fn introduces_itself(&self) {
        let server = self.client.server_info().unwrap();
        assert_eq!((server.name.as_str(), server.version.as_str()), (self.peer.name, "1.0.0"));
        assert_eq!(self.client.instructions().unwrap(), "A peer for the tests of Turms.");
        let capabilities = self.client.server_capabilities().unwrap();
        assert!(capabilities.tools.is_some() && capabilities.resources.is_some() && capabilities.prompts.is_some());
    }

    async fn lists(&self) {
        let mut tools: Vec<_> = self.client.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
        tools.sort_unstable();
        assert_eq!(tools, ["add", "echo", "fail", "greet", "log", "roots", "slow", "think", "touch"]);

        let resources = self.client.list_resources().await.unwrap();
        let mut resources: Vec<_> = resources.into_iter().map(|resource| resource.uri).collect();
        resources.sort_unstable();
        assert_eq!(resources, ["memo://blob", COUNTER, "memo://hello"]);

        let templates = self.client.list_resource_templates().await.unwrap();
        let templates: Vec<_> = templates.into_iter().map(|template| template.uri_template).collect();
        assert_eq!(templates, ["memo://note/{id}"]);

        let prompts = self.client.list_prompts().await.unwrap();
        let [review] = &*prompts else { panic!("{prompts:?}") };
        let wanted =
            review.arguments.iter().flatten().map(|argument| (&*argument.name, argument.required == Some(true)));
        assert_eq!(wanted.collect::<Vec<_>>(), [("code", true), ("style", false)]);
    }

    async fn calls(&self) {
        let sum = self.client.call_tool("add", json!({ "a": 2, "b": 3.5 })).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&sum.text()).unwrap(), json!({ "sum": 5.5 }));
        // The older revisions allow structured content too.
        assert_eq!(sum.structured::<Value>().unwrap(), json!({ "sum": 5.5 }));

        let text = "Grüße,\n\"Welt\" \u{1F30D}\u{2028}\\";
        assert_eq!(self.say("echo", json!({ "text": text })).await, text);
        let much = "x".repeat(1_000_000);
        assert_eq!(self.say("echo", json!({ "text": much })).await, much);

        let failed = self.client.call_tool("fail", ()).await.unwrap();
        assert!(failed.is_error() && failed.text().ends_with("it failed, as asked"), "{failed:?}");
    }

    /// Sends requests for items that do not exist: each is refused, and the connection stays open.
    async fn refuses(&self) {
        let unknown = self.client.call_tool("no-such-tool", ()).await;
        if *self.peer == NODE_STATELESS {
            assert_eq!(unknown.unwrap_err().error_response().unwrap().code, ErrorCode::INVALID_PARAMS);
        } else {
            assert!(unknown.unwrap().is_error());
        }
        assert!(self.client.read_resource("memo://nowhere").await.unwrap_err().error_response().is_some());
        assert!(self.client.get_prompt("no-such-prompt", ()).await.unwrap_err().error_response().is_some());
        let error = self.client.request_raw("memo/no-such-method", ()).await.unwrap_err();
        assert_eq!(error.target(), "memo/no-such-method");
        assert!(error.error_response().is_some(), "{error}");
    }

    async fn reads(&self) {
        assert_eq!(self.read("memo://hello").await, b"Hello from a peer.");
        assert_eq!(self.read("memo://blob").await, [0, 1, 2, 254, 255]);
        assert_eq!(self.read("memo://note/seven").await, b"This is note seven.");

        let prompt = self.client.get_prompt("review", json!({ "code": "1 + 1" })).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text().unwrap(), "Write a brief review of this code:\n1 + 1");
        let prompt = self.client.get_prompt("review", json!({ "code": "1 + 1", "style": "bold" })).await.unwrap();
        assert_eq!(prompt.messages[0].content.as_text().unwrap(), "Write a bold review of this code:\n1 + 1");
    }

    async fn completes(&self) {
        let styles = self.client.complete(Reference::prompt("review"), "style", "b").await.unwrap();
        assert_eq!(styles.values, ["brief", "bold", "broad"]);
        let styles = self.client.complete(Reference::prompt("review"), "style", "br").await.unwrap();
        assert_eq!(styles.values, ["brief", "broad"]);
        let notes = self.client.complete(Reference::resource("memo://note/{id}"), "id", "t").await.unwrap();
        assert_eq!(notes.values, ["two", "three"]);
    }

    async fn reports_progress(&self) {
        let (sender, reports) = mpsc::channel();
        let slow = self.client.call_tool("slow", ()).on_progress(move |report| {
            let steps = (report.progress.as_f64(), report.total.as_ref().map(|total| total.as_f64()));
            sender.send((steps, report.message.clone())).unwrap();
        });
        assert_eq!(slow.await.unwrap().text(), "done");
        let reports: Vec<_> = reports.try_iter().collect();
        let expected = [1, 2, 3].map(|step| ((f64::from(step), Some(3.0)), Some(format!("step {step} of 3"))));
        assert_eq!(reports, expected);
        // Without a callback no progress is requested.
        assert_eq!(self.say("slow", json!({ "pause": 0 })).await, "done");
    }

    /// Cancels a call; the server continues with other calls.
    async fn gives_up(&self) {
        let (cancel, cancelled) = (CancellationToken::new(), self.client.stats().connection.cancelled);
        let slow =
            self.client.call_tool("slow", json!({ "pause": 3_600_000 })).cancellation_token(&cancel).into_future();
        let slow = tokio::spawn(slow);
        eventually("a call that waits", async || !self.client.pending_calls().is_empty()).await;
        assert_eq!(self.say("echo", json!({ "text": "at work" })).await, "at work");
        cancel.cancel();
        let error = within("the end of the call", slow).await.unwrap().unwrap_err();
        assert!(error.is_cancelled(), "{error}");
        assert_eq!(self.say("echo", json!({ "text": "still here" })).await, "still here");
        assert_eq!(self.client.stats().connection.cancelled, cancelled + 1);
        assert_eq!(self.client.pending_calls(), []);
    }

    /// Checks elicitation, sampling and roots.
    async fn asks(&self) {
        assert_eq!(self.say("think", json!({ "question": "Where?" })).await, "parrot: Where? Paris.");
        assert_eq!(self.say("roots", ()).await, "file:///srv/project project");
        self.client.roots().unwrap().add(Root::new("file:///srv/other"));
        assert_eq!(self.say("roots", ()).await, "file:///srv/project project\nfile:///srv/other");

        let refused = match self.client.call_tool("think", json!({ "question": "A secret?" })).await {
            Ok(result) if result.is_error() => result.text(),
            other => other.unwrap_err().to_string(),
        };
        assert!(refused.contains("it is a secret"), "{refused}");

        if self.has(Ability::FormElicitation) {
            assert_eq!(self.say("greet", ()).await, "Hello, Ann!");
            assert_eq!(self.say("greet", ()).await, "Nobody to greet: decline.");
            assert_eq!(self.say("greet", ()).await, "Nobody to greet: cancel.");
        } else {
            // The client declares only capabilities of its revision.
            let greeting = self.client.call_tool("greet", ()).await;
            assert!(greeting.as_ref().map_or(true, |greeting| greeting.is_error()), "{greeting:?}");
        }
    }

    async fn logs(&self) {
        let mut events = self.client.events();
        if self.has(Ability::Stateless) {
            // Without a level the server sends no log messages.
            assert_eq!(self.say("log", json!({ "text": "unheard", "level": "emergency" })).await, "logged");
        }
        let leveled = match (self.client.set_log_level(LoggingLevel::Warning).await, self.has(Ability::Stateless)) {
            (Ok(()), _) => true,
            (Err(error), false) if *self.peer == PYTHON_STATELESS => {
                assert_eq!(error.error_response().unwrap().code, ErrorCode::METHOD_NOT_FOUND);
                false
            }
            (Err(error), _) => panic!("{error}"),
        };
        for (text, level) in [("quiet", "info"), ("loud", "error")] {
            assert_eq!(self.say("log", json!({ "text": text, "level": level })).await, "logged");
        }
        if !leveled {
            assert_eq!(next_log(&mut events).await, ("info".into(), "peer".into(), json!("quiet")));
        }
        assert_eq!(next_log(&mut events).await, ("error".into(), "peer".into(), json!("loud")));

        if leveled {
            self.client.set_log_level(LoggingLevel::Debug).await.unwrap();
            self.say("log", json!({ "text": "whisper", "level": "debug" })).await;
            assert_eq!(next_log(&mut events).await, ("debug".into(), "peer".into(), json!("whisper")));
        }
    }

    async fn tells_of_changes(&self) {
        if self.peer.is_stateless() && !self.has(Ability::ListenStreams) {
            return self.cannot_be_watched().await;
        }
        let counter = || Change::Resource { uri: COUNTER.into() };
        let mut events = self.client.events();
        let subscription = self.client.subscribe(COUNTER).await.unwrap();
        assert_eq!(self.say("touch", ()).await, "1");
        assert_eq!(next_changes(&mut events).await, [counter(), Change::ToolList]);
        assert_eq!(self.read(COUNTER).await, b"1");

        drop(subscription);
        // The unsubscribe request is sent before the next call.
        tokio::task::yield_now().await;
        assert_eq!(self.say("touch", ()).await, "2");
        assert_eq!(next_changes(&mut events).await, [Change::ToolList]);
        assert_eq!(self.read(COUNTER).await, b"2");

        let filter = SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions([COUNTER.to_owned()]);
        let mut subscription = self.client.subscribe(filter.clone()).await.unwrap();
        assert_eq!(*subscription.acknowledged(), filter);
        assert_eq!(self.say("touch", ()).await, "3");
        assert_eq!(within("a change", subscription.next()).await, Some(counter()));
        assert_eq!(within("a change", subscription.next()).await, Some(Change::ToolList));
    }

    /// Checks servers on the newer SDKs, which have no subscriptions after a handshake; one of them sends no
    /// notifications.
    async fn cannot_be_watched(&self) {
        let mut events = self.client.events();
        let error = self.client.subscribe(COUNTER).await.unwrap_err();
        assert_eq!(error.error_response().unwrap().code, ErrorCode::METHOD_NOT_FOUND);
        assert_eq!(self.say("touch", ()).await, "1");
        if !self.peer.is_python() {
            assert_eq!(next_changes(&mut events).await, [Change::ToolList]);
        }
        assert_eq!(self.read(COUNTER).await, b"1");
    }

    /// Sends a batch, which is one message only if revision and server support it; none of the SDKs does.
    async fn takes_several_at_once(&self) {
        let mut batch = self.client.batch();
        let slow = batch.call_tool("slow", json!({ "pause": 20 }));
        let echo = batch.call_tool("echo", json!({ "text": "here" }));
        let nowhere = batch.read_resource("memo://nowhere");
        let tools = batch.list_tools();
        let mut outcomes = within("all the answers", batch.send()).await;
        assert_eq!(outcomes.take(slow).unwrap().text(), "done");
        assert_eq!(outcomes.take(echo).unwrap().text(), "here");
        assert!(outcomes.take(nowhere).unwrap_err().error_response().is_some());
        assert_eq!(outcomes.take(tools).unwrap().tools.len(), 9);
    }

    async fn say(&self, tool: &str, arguments: impl serde::Serialize) -> String {
        let result = self.client.call_tool(tool, arguments).await.unwrap();
        assert!(!result.is_error(), "{tool}: {result:?}");
        result.text()
    }

    async fn read(&self, uri: &str) -> Vec<u8> {
        let read = self.client.read_resource(uri).bypass_cache().await.unwrap();
        let [contents] = &*read.contents else { panic!("{uri}: {read:?}") };
        assert_eq!(contents.uri, uri);
        contents.bytes().unwrap()
    }
}

async fn next_log(events: &mut Events) -> (String, String, Value) {
    let log = events.find(|event| match event {
        Event::Log(message) => Some(message),
        _ => None,
    });
    let message = within("a log message", log).await.unwrap();
    (message.level.as_str().to_owned(), message.logger.clone().unwrap_or_default(), message.data.decode().unwrap())
}

/// Returns the next changes, up to that of the tools, which every server sends last.
async fn next_changes(events: &mut Events) -> Vec<Change> {
    let mut changes = Vec::new();
    while changes.last() != Some(&Change::ToolList) {
        let change = events.find(|event| match event {
            Event::ToolsChanged => Some(Change::ToolList),
            Event::ResourceUpdated { uri } => Some(Change::Resource { uri }),
            _ => None,
        });
        changes.push(within("a change", change).await.unwrap());
    }
    changes
}

/// Connects in one revision, and uses every feature.
pub(crate) async fn in_revision(peer: &'static Peer, version: ProtocolVersion) {
    let client = peer::connect(peer::answering().protocol_version(version), peer.command()).await;
    assert_eq!(client.protocol_version(), Some(version));
    Conversation::new(peer, client).hold().await;
}

/// Connects in the newest revision of the server, and uses every feature.
pub(crate) async fn in_whatever_it_speaks(peer: &'static Peer) {
    let client = peer::connect(peer::answering(), peer.command()).await;
    assert_eq!(client.protocol_version(), Some(peer.newest));
    Conversation::new(peer, client).hold().await;
}
