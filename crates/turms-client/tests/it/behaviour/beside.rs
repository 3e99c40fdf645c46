//! Several clients of one server do not affect each other.

use std::sync::{Arc, Mutex};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Notify;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use turms_client::{Change, Client, ClientBuilder, Event, VersionCache};
use turms_core::TransportKind;
use turms_core::transport::memory;
use turms_http::{HttpConnector, Listener, ServeHttp as _};
use turms_proto::types::{LoggingLevel, SubscriptionFilter};
use turms_proto::{Ability, ProtocolVersion, RawJson, RequestId};
use turms_server::{Args, Context, ForwardTracing, Prompt, Router, Server, Tool};
use turms_testkit::{TIMEOUT, within};
use turms_ws::{ServeWs as _, WsConnector};

use super::reach::{Way, nobody};

/// A server that accepts any number of clients over one transport.
struct Shared {
    way: Way,
    router: Router,
    address: String,
}

impl Shared {
    const WAYS: [Way; 4] = [Way::Pair, Way::Ws, Way::Http, Way::Sse];

    async fn new(way: Way, router: Router) -> Self {
        let mut address = String::new();
        if way != Way::Pair {
            let listener = Listener::bind("127.0.0.1:0").await.unwrap();
            address = listener.address().to_owned();
            match way {
                Way::Ws => drop(tokio::spawn(listener.serve(router.clone().into_ws_service().unwrap()))),
                _ => drop(tokio::spawn(listener.serve(router.clone().into_http_service().unwrap()))),
            }
        }
        Self { way, router, address }
    }

    async fn connect(&self, version: ProtocolVersion, builder: ClientBuilder) -> Client {
        let builder = builder.protocol_version(version).probe_timeout(TIMEOUT).version_cache(VersionCache::new());
        let http = |path, transport| {
            let connector = HttpConnector::new(format!("http://{}/{path}", self.address)).unwrap();
            connector.transport(transport).no_proxy()
        };
        let connected = match self.way {
            Way::Ws => builder.connect(WsConnector::new(format!("ws://{}/", self.address)).unwrap()).await,
            Way::Http => builder.connect(http("mcp", TransportKind::StreamableHttp)).await,
            Way::Sse => builder.connect(http("sse", TransportKind::HttpSse)).await,
            _ => {
                let (near, far) = memory();
                let router = self.router.clone();
                tokio::spawn(async move { router.serve(far.0, far.1).await });
                builder.connect_stream(near.0, near.1).await
            }
        };
        connected.unwrap()
    }
}

/// Runs a test for every transport and revision, each with its own server.
async fn everywhere_shared(server: impl Fn() -> Router, test: impl AsyncFn(&Shared, ProtocolVersion)) {
    for way in Shared::WAYS {
        for version in ProtocolVersion::ALL.into_iter().filter(|version| way.carries(*version)) {
            let shared = Shared::new(way, server()).await;
            within(&format!("{way:?} {version}"), test(&shared, version)).await;
        }
    }
}

#[tokio::test]
async fn the_first_tool_reaches_clients_that_connected_before_it() {
    let empty = || {
        let server = Server::new("s", "1");
        // Taking the handle declares that lists may change.
        let _ = server.handle();
        server.build().unwrap()
    };
    everywhere_shared(empty, async |shared, version| {
        let client = shared.connect(version, nobody()).await;
        assert!(client.list_tools().await.unwrap().is_empty());
        assert!(client.list_prompts().await.unwrap().is_empty());
        assert!(client.list_resources().await.unwrap().is_empty());
        let filter = SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true);
        let mut changes = client.subscribe(filter).await.unwrap();
        shared.router.handle().add_tool(Tool::builder("first").handler_sync(|| "here")).unwrap();
        assert_eq!(changes.next().await, Some(Change::ToolList), "{:?} {version}", shared.way);
        assert_eq!(client.list_tools().await.unwrap()[0].name, "first");
        assert_eq!(client.call_tool("first", ()).await.unwrap().text(), "here");
        // The capability stays declared after the tool is removed.
        assert!(shared.router.handle().remove_tool("first"));
        assert_eq!(changes.next().await, Some(Change::ToolList), "{:?} {version}", shared.way);
        assert!(client.list_tools().await.unwrap().is_empty());
    })
    .await;
}

/// A server without a handle declares only the items it has, but its handlers can still add tools.
#[tokio::test]
async fn the_first_tool_that_a_handler_adds_reaches_clients() {
    let growing = || {
        let grow = Prompt::builder("grow").handler_sync(|context: Context| {
            context.server().replace_tool(Tool::builder("first").handler_sync(|| "here")).unwrap();
            "grown"
        });
        Server::new("s", "1").prompt(grow).build().unwrap()
    };
    everywhere_shared(growing, async |shared, version| {
        let client = shared.connect(version, nobody()).await;
        let mut events = client.events();
        let changed = events.find(|event| matches!(event, Event::ToolsChanged).then_some(()));
        // Repeated, because a client of the newest revision receives changes only once it listens.
        let growing = async {
            loop {
                client.get_prompt("grow", ()).await.unwrap();
            }
        };
        let changed = async {
            tokio::select! {
                changed = changed => changed,
                () = growing => None,
            }
        };
        assert_eq!(within("the change", changed).await, Some(()), "{:?} {version}", shared.way);
        assert_eq!(client.list_tools().await.unwrap()[0].name, "first");
    })
    .await;
}

/// Signals between a tool that blocks and its test.
#[derive(Default)]
struct Gate {
    id: Mutex<Option<RequestId>>,
    started: Notify,
    open: Notify,
    stopped: Notify,
}

impl Gate {
    /// Returns the parameters of a notification that cancels the call that is about to start.
    async fn cancellation(&self) -> RawJson {
        self.started.notified().await;
        let id = self.id.lock().unwrap().take().unwrap();
        RawJson::from(json!({ "requestId": id, "reason": "mischief" }))
    }
}

struct Stopped(Arc<Gate>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.stopped.notify_one();
    }
}

#[tokio::test]
async fn a_call_of_another_client_cannot_be_cancelled() {
    let gates = Mutex::new(Arc::new(Gate::default()));
    let server = || {
        let gate = Arc::new(Gate::default());
        *gates.lock().unwrap() = gate.clone();
        let wait = Tool::builder("wait").handler(move |context: Context| {
            let gate = gate.clone();
            async move {
                let stopped = Stopped(gate.clone());
                *gate.id.lock().unwrap() = context.request_id().cloned();
                gate.started.notify_one();
                gate.open.notified().await;
                std::mem::forget(stopped);
                "finished"
            }
        });
        Server::new("s", "1").tool(wait).build().unwrap()
    };
    everywhere_shared(server, async |shared, version| {
        let gate = gates.lock().unwrap().clone();
        let place = format!("{:?} {version}", shared.way);
        let victim = shared.connect(version, nobody()).await;
        let stranger = shared.connect(version, nobody()).await;
        let call = || {
            let victim = victim.clone();
            tokio::spawn(async move { victim.call_tool("wait", ()).await })
        };
        let cancelled = call();
        let params = gate.cancellation().await;
        stranger.notify_raw("notifications/cancelled", params).await.unwrap();
        // This response arrives after the cancellation has been processed.
        stranger.list_tools().await.unwrap();
        gate.open.notify_one();
        assert_eq!(cancelled.await.unwrap().unwrap().text(), "finished", "{place}");
        // Over HTTP, clients of 2026-07-28 cancel by closing the stream.
        if !(shared.way == Way::Http && version.has(Ability::Stateless)) {
            let cancelled = call();
            let params = gate.cancellation().await;
            victim.notify_raw("notifications/cancelled", params).await.unwrap();
            gate.stopped.notified().await;
            cancelled.abort();
        }
    })
    .await;
}

/// Counts the `tracing` events that the host's subscriber receives.
#[derive(Clone, Default)]
struct HostLog(Arc<Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> Layer<S> for HostLog {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if event.metadata().target() == "host" {
            self.0.lock().unwrap().push(event.metadata().level().to_string());
        }
    }
}

#[tokio::test]
async fn a_log_level_applies_to_one_client_only() {
    #[derive(Deserialize, JsonSchema)]
    struct Work {
        step: String,
    }
    let host = HostLog::default();
    let filter = tracing_subscriber::filter::LevelFilter::INFO;
    let subscriber = tracing_subscriber::registry().with(ForwardTracing::new()).with(host.clone().with_filter(filter));
    let _guard = tracing::subscriber::set_default(subscriber);
    let server = || {
        let work = Tool::builder("work").handler(|Args(work): Args<Work>, context: Context| async move {
            context.log(LoggingLevel::Debug, format!("{} debug", work.step)).await;
            context.log(LoggingLevel::Error, format!("{} error", work.step)).await;
            tracing::debug!(target: "host", "debug");
            tracing::error!(target: "host", "error");
        });
        Server::new("s", "1").tool(work).build().unwrap()
    };
    everywhere_shared(server, async |shared, version| {
        let heard = || {
            let texts = Arc::new(Mutex::new(Vec::new()));
            let log = texts.clone();
            let builder = nobody().without_log_tracing().log_level(LoggingLevel::Warning);
            let builder = builder.on_log(move |message| {
                let text: String = message.data.decode().unwrap();
                log.lock().unwrap().push(text);
            });
            (builder, texts)
        };
        let ((one_builder, one_log), (other_builder, other_log)) = (heard(), heard());
        let one = shared.connect(version, one_builder).await;
        let other = shared.connect(version, other_builder).await;
        let _ = one.call_tool("work", json!({ "step": "before" })).await.unwrap();
        one.set_log_level(LoggingLevel::Debug).await.unwrap();
        host.0.lock().unwrap().clear();
        let _ = one.call_tool("work", json!({ "step": "one" })).await.unwrap();
        let _ = other.call_tool("work", json!({ "step": "other" })).await.unwrap();
        let place = format!("{:?} {version}", shared.way);
        assert_eq!(*one_log.lock().unwrap(), ["before error", "one debug", "one error"], "{place}");
        assert_eq!(*other_log.lock().unwrap(), ["other error"], "{place}");
        assert_eq!(*host.0.lock().unwrap(), ["ERROR", "ERROR"], "{place}");
    })
    .await;
}
