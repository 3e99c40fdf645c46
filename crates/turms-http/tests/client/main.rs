//! Tests of the HTTP client with scripted servers.
#![allow(clippy::unwrap_used, reason = "test helpers panic on failure")]

mod allocation;
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
    CallContext, CallObserver, ConnectContext, ConnectError, Connector as _, NotifyFuture, OpenChannel,
    OutgoingRequest, Payload, PeerError, Request, ResponseFuture, Service,
};
use turms_http::HttpConnector;
use turms_proto::session::{ClientOptions, Dialect};
use turms_proto::types::{ClientCapabilities, Implementation, Meta, ProgressParams, RequestMeta};
use turms_proto::{Notification, ProtocolVersion, RawJson};

use turms_testkit::fake_http_server::{FakeHttpServer, Received, Reply};
use turms_testkit::within;

const SESSION: &str = "session-1";

/// Records what the server sends for a call.
struct Recorder(std::sync::mpsc::Sender<String>);

impl CallObserver for Recorder {
    fn progress(&self, params: &ProgressParams) {
        self.0.send(format!("progress {}", params.progress.as_f64())).unwrap();
    }

    fn notification(&self, notification: Notification) -> Result<(), Notification> {
        self.0.send(notification.method.to_string()).unwrap();
        Ok(())
    }
}

/// The service of a client: records notifications, and responds to every request with an empty list of roots.
#[derive(Clone, Default)]
struct RecordingService(Arc<std::sync::Mutex<Vec<String>>>, Arc<tokio::sync::Notify>);

impl RecordingService {
    fn received(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Waits until it has received this number of notifications.
    async fn wait(&self, count: usize) -> Vec<String> {
        let received = async {
            loop {
                let more = self.1.notified();
                if self.received().len() >= count {
                    return self.received();
                }
                more.await;
            }
        };
        within("notifications", received).await
    }
}

impl Service for RecordingService {
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
    connector(server).connect(ConnectContext::new(options, Arc::new(RecordingService::default()))).await
}

/// Connects without a probe, in the newest revision.
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

async fn send_request(client: &OpenChannel, method: &'static str, params: &Value) -> Result<Value, PeerError> {
    let response = within("a response", client.channel.call_in_time(outgoing(method, params))).await;
    response.map(|payload| payload.take().unwrap())
}

/// Returns the response to a request.
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

/// A server of 2026-07-28 that responds to all other requests with an empty result.
fn modern(request: &Received) -> Reply {
    Reply::json(200, &result(request, &discovered(request)))
}

fn discovered(request: &Received) -> Value {
    match request.what() {
        "server/discover" => json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "scripted", "version": "1" } }
        }),
        _ => json!({ "resultType": "complete" }),
    }
}

/// A server with sessions that responds to all requests with an empty result. It has no standalone stream.
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
        "serverInfo": { "name": "scripted", "version": "1" }
    })
}

/// Returns the messages of an error and its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
