//! The client side of HTTP, against servers that are played by hand.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod authorize;
mod dial;
mod era;
mod headers;
mod limit;
mod redirect;
mod responses;
mod session;
mod stateless;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use turms_core::{
    CallContext, ConnectError, Connector as _, NotifyFuture, OpenChannel, OutgoingRequest, Payload, PeerError, Request,
    ResponseFuture, Service,
};
use turms_http::HttpConnector;
use turms_proto::session::{ClientOptions, Dialect, RequestError};
use turms_proto::types::{ClientCapabilities, Implementation, Meta, RequestMeta};
use turms_proto::{Notification, ProtocolVersion, RawJson};

use turms_testkit::fake_http_server::{FakeHttpServer, Received, Reply};
use turms_testkit::within;

const SESSION: &str = "session-1";

/// A client: it notes what it is told, has no roots, and is asked for nothing else.
#[derive(Clone, Default)]
struct Ear(Arc<std::sync::Mutex<Vec<String>>>, Arc<tokio::sync::Notify>);

impl Ear {
    fn heard(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until it was told so many things.
    async fn wait(&self, count: usize) -> Vec<String> {
        let told = async {
            loop {
                let more = self.1.notified();
                if self.heard().len() >= count {
                    return self.heard();
                }
                more.await;
            }
        };
        within("notifications", told).await
    }
}

impl Service for Ear {
    fn call(&self, _: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Ok(Payload::json(raw(&json!({ "roots": [] }))))))
    }

    fn notify(&self, notification: Notification, _: CallContext) -> NotifyFuture {
        self.0.lock().unwrap().push(notification.method.to_string());
        self.1.notify_one();
        Box::pin(async {})
    }
}

fn options() -> ClientOptions {
    ClientOptions::new(Implementation::new("test", "1"), ClientCapabilities::new())
}

fn connector(server: &FakeHttpServer) -> HttpConnector {
    HttpConnector::new(server.url()).unwrap().no_proxy()
}

async fn connect(server: &FakeHttpServer) -> OpenChannel {
    open(server, options()).await.unwrap()
}

async fn open(server: &FakeHttpServer, options: ClientOptions) -> Result<OpenChannel, ConnectError> {
    connector(server).connect(options, Arc::new(Ear::default())).await
}

/// Connects without asking anything, as to a server that is known to speak so.
async fn connect_stateless(server: &FakeHttpServer) -> OpenChannel {
    open(server, options().known(Dialect::Stateless(ProtocolVersion::LATEST))).await.unwrap()
}

async fn connect_in(server: &FakeHttpServer, version: ProtocolVersion) -> OpenChannel {
    open(server, options().known(Dialect::Handshake(version))).await.unwrap()
}

fn raw(value: &Value) -> RawJson {
    RawJson::parse(value.to_string()).unwrap()
}

fn meta() -> Meta {
    let meta = RequestMeta::new()
        .protocol_version(ProtocolVersion::LATEST.as_str())
        .client_capabilities(ClientCapabilities::new());
    Meta::from(&meta)
}

fn outgoing(method: &'static str, params: &Value) -> OutgoingRequest {
    OutgoingRequest::new(method, raw(params)).meta(meta())
}

async fn ask(client: &OpenChannel, method: &'static str, params: &Value) -> Result<Value, PeerError> {
    let answer = within("an answer", client.channel.call_in_time(outgoing(method, params))).await;
    answer.map(|payload| payload.take().unwrap())
}

/// The answer to a request.
fn result(request: &Received, result: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": result })
}

fn failure(request: &Received, code: i64, data: Option<Value>) -> Value {
    let mut error = json!({ "code": code, "message": "no" });
    if let Some(data) = data {
        error["data"] = data;
    }
    json!({ "jsonrpc": "2.0", "id": request.body["id"], "error": error })
}

fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// How a server of 2026-07-28 answers `server/discover`, and everything else with an empty result.
fn modern(request: &Received) -> Reply {
    Reply::json(200, &result(request, &discovered(request)))
}

fn discovered(request: &Received) -> Value {
    match request.what() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "played", "version": "1" } }
        }),
        _ => json!({ "resultType": "complete" }),
    }
}

/// How a server with sessions answers: any question with an empty result. It speaks unasked to nobody.
fn legacy(request: &Received) -> Reply {
    match (request.method.as_str(), request.what()) {
        ("GET", _) => Reply::status(405),
        ("DELETE", _) => Reply::status(200),
        (_, "server/discover") => Reply::json(400, &failure(request, -32000, None)),
        (_, "initialize") => Reply::json(200, &result(request, &initialized(request))).with("Mcp-Session-Id", SESSION),
        _ if request.body.get("id").is_none() || request.body.get("method").is_none() => Reply::status(202),
        _ => Reply::json(200, &result(request, &json!({}))),
    }
}

fn initialized(request: &Received) -> Value {
    json!({
        "protocolVersion": request.body["params"]["protocolVersion"], "capabilities": {},
        "serverInfo": { "name": "played", "version": "1" }
    })
}

/// An error and its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
