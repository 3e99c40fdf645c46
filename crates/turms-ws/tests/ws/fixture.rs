//! The server of the tests, and clients that connect to it.

use std::net::SocketAddr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::task::JoinHandle;
use turms_client::{Client, ClientBuilder, VersionCache};
use turms_core::Error;
use turms_core::Limits;
use turms_http::Listener;
use turms_proto::types::{CreateMessageResult, ElicitResult};
use turms_server::{Args, Extension, Router, Tool};
use turms_testkit::behaviour_server::server_with;
use turms_testkit::{CallCounters, TIMEOUT, tools, within};
use turms_ws::{ServeWs as _, WsConnector, WsService};

/// A value that middleware of the application adds to a request.
#[derive(Debug, Clone)]
pub(crate) struct UserLabel(pub(crate) &'static str);

#[derive(Deserialize, JsonSchema)]
struct RepeatArguments {
    tens: usize,
}

/// The behaviour server, with tools for tests of this transport.
pub(crate) fn server(counters: &Arc<CallCounters>) -> Router {
    limited_server(counters, Limits::default())
}

fn limited_server(counters: &Arc<CallCounters>, limits: Limits) -> Router {
    let server = server_with(counters)
        .limits(limits)
        .tool(tools::echo())
        .tool(
            Tool::builder("repeat")
                .handler_sync(|Args(arguments): Args<RepeatArguments>| "0123456789".repeat(arguments.tens)),
        )
        .tool(Tool::builder("header").handler_sync(|headers: http::HeaderMap| {
            headers.get("x-test").map_or("none", |value| value.to_str().unwrap_or("unreadable")).to_owned()
        }))
        .tool(Tool::builder("uri").handler_sync(|Extension(uri): Extension<http::Uri>| uri.to_string()))
        .tool(Tool::builder("label").handler_sync(|Extension(UserLabel(label)): Extension<UserLabel>| label));
    server.build().unwrap()
}

/// A server that listens on a port.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) router: Router,
    pub(crate) counters: Arc<CallCounters>,
    pub(crate) serving: JoinHandle<Result<(), Error>>,
}

impl TestServer {
    pub(crate) async fn new() -> Self {
        Self::with(|service| service).await
    }

    pub(crate) async fn with(settings: impl FnOnce(WsService) -> WsService) -> Self {
        Self::start(Limits::default(), settings).await
    }

    pub(crate) async fn limited(limits: Limits) -> Self {
        Self::start(limits, |service| service).await
    }

    async fn start(limits: Limits, settings: impl FnOnce(WsService) -> WsService) -> Self {
        let counters = Arc::default();
        let router = limited_server(&counters, limits);
        let listener = Listener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(listener.serve(settings(router.clone().into_ws_service().unwrap())));
        Self { address, router, counters, serving }
    }

    pub(crate) fn connector(&self) -> WsConnector {
        WsConnector::new(format!("ws://{}/some/where?x=1", self.address)).unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        connect(self.connector(), builder()).await
    }

    /// Waits until a counter of the server has this value.
    pub(crate) async fn reaches(&self, counter: &str, value: i64) {
        within(&format!("the counter {counter:?} to be {value}"), self.counters.reaches(counter, value)).await;
    }
}

/// A builder of clients that respond "Ann" to forms and "Hello" to sampling.
pub(crate) fn builder() -> ClientBuilder {
    Client::builder("test", "1.0.0")
        .version_cache(VersionCache::new())
        .probe_timeout(TIMEOUT)
        .on_elicitation(|_, _| async { Ok(ElicitResult::accept(json!({ "name": "Ann" }))?) })
        .on_sampling(|_, _| async { Ok(CreateMessageResult::assistant("Hello", "test-model")) })
}

pub(crate) async fn connect(connector: WsConnector, builder: ClientBuilder) -> Client {
    within("a connection", builder.connect(connector)).await.unwrap()
}
