//! Messages of clients: of revisions with a handshake, and of the newest revision.

use serde_json::{Map, Value, json};

use crate::fixture::Fixture;
use crate::raw_http::{Request, Response, Stream};

/// The revisions of Streamable HTTP with sessions.
pub const SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
/// The newest revision with sessions.
pub const NEWEST_OLDER: &str = "2025-11-25";
/// The newest revision.
pub const NEWEST: &str = "2026-07-28";

/// The key of the protocol version in `_meta`.
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// The key of the client capabilities in `_meta`.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The key of the log level in `_meta`.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The key of the subscription id in `_meta`.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// The key of the server info in `_meta`.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Creates a request.
pub fn request(id: impl Into<Value>, method: &str, params: impl Into<Option<Value>>) -> Value {
    let mut request = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method });
    if let Some(params) = params.into() {
        request["params"] = params;
    }
    request
}

/// Creates a notification without parameters.
pub fn notification(method: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": method })
}

/// Creates the notification that cancels a request.
pub fn cancelled(id: impl Into<Value>) -> Value {
    let mut body = notification("notifications/cancelled");
    body["params"] = json!({ "requestId": id.into(), "reason": "enough" });
    body
}

/// Creates the `initialize` request of a client with all capabilities.
pub fn initialize(version: &str) -> Value {
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    let client = json!({ "name": "raw", "version": "1" });
    request(1, "initialize", json!({ "protocolVersion": version, "capabilities": capabilities, "clientInfo": client }))
}

/// Creates a call of a tool.
pub fn call(id: impl Into<Value>, name: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({ "name": name, "arguments": arguments }))
}

/// Adds a progress token to a request.
pub fn with_progress(mut request: Value, token: impl Into<Value>) -> Value {
    request["params"]["_meta"]["progressToken"] = token.into();
    request
}

/// Returns the values of the progress notifications among messages.
pub fn progress(messages: &[Value]) -> Vec<u64> {
    let reports = messages.iter().filter(|message| message["method"] == "notifications/progress");
    reports.map(|message| message["params"]["progress"].as_f64().unwrap() as u64).collect()
}

/// A session over Streamable HTTP, in a revision with a handshake.
#[derive(Debug, Clone)]
pub struct Session {
    /// The session id.
    pub id: String,
    /// The negotiated revision.
    pub version: &'static str,
}

impl Session {
    /// Begins a session with `initialize`.
    pub async fn begin(fixture: &Fixture, version: &'static str) -> Self {
        let response = fixture.send(Request::post(initialize(version))).await;
        assert_eq!(response.result()["protocolVersion"], version, "{response}");
        let id = response.header("mcp-session-id").expect("a session id").to_owned();
        let session = Self { id, version };
        fixture.send(session.post(notification("notifications/initialized"))).await.assert_accepted();
        session
    }

    fn with_session_headers(&self, request: Request) -> Request {
        let request = request.session(&self.id);
        // The version header was introduced in 2025-06-18.
        if self.version < "2025-06-18" { request } else { request.version(self.version) }
    }

    /// Creates a POST in this session.
    pub fn post(&self, body: impl ToString) -> Request {
        self.with_session_headers(Request::post(body))
    }

    /// Creates a GET in this session.
    pub fn get(&self) -> Request {
        self.with_session_headers(Request::get())
    }

    /// Creates a GET that resumes a stream after an event.
    pub fn resume(&self, event: &str) -> Request {
        self.get().header("Last-Event-ID", event)
    }

    /// Creates the DELETE that ends this session.
    pub fn delete(&self) -> Request {
        self.with_session_headers(Request::delete())
    }

    /// Calls a tool and reads the whole response.
    pub async fn call(&self, fixture: &Fixture, name: &str, arguments: Value) -> Response {
        fixture.send(self.post(call(7, name, arguments))).await
    }

    /// Calls a tool with a progress token and returns the stream of its response.
    pub async fn stream(&self, fixture: &Fixture, id: impl Into<Value>, name: &str, arguments: Value) -> Stream {
        let id = id.into();
        fixture.stream(self.post(with_progress(call(id.clone(), name, arguments), id))).await
    }
}

/// Creates the `_meta` of a request of the newest revision.
pub fn meta() -> Value {
    let mut meta = Map::new();
    meta.insert(VERSION.to_owned(), NEWEST.into());
    meta.insert(CAPABILITIES.to_owned(), json!({ "elicitation": { "form": {} }, "sampling": {} }));
    meta.into()
}

/// Creates the body of a request of the newest revision.
pub fn modern_body(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let mut params = params;
    let own = params["_meta"].take();
    params["_meta"] = meta();
    for (key, value) in own.as_object().into_iter().flatten() {
        params["_meta"][key] = value.clone();
    }
    request(id, method, params)
}

/// Creates a POST of the newest revision, with the headers that mirror the body.
pub fn mirrored(body: &Value) -> Request {
    let mut request = Request::post(body)
        .version(body["params"]["_meta"][VERSION].as_str().unwrap_or(NEWEST))
        .header("Mcp-Method", body["method"].as_str().unwrap());
    let name = match body["method"].as_str().unwrap() {
        "tools/call" | "prompts/get" => body["params"]["name"].as_str(),
        "resources/read" => body["params"]["uri"].as_str(),
        "tasks/get" | "tasks/update" | "tasks/cancel" => body["params"]["taskId"].as_str(),
        _ => None,
    };
    if let Some(name) = name {
        request = request.header("Mcp-Name", name);
    }
    request
}

/// Creates a request of the newest revision.
pub fn modern(id: impl Into<Value>, method: &str, params: Value) -> Request {
    mirrored(&modern_body(id, method, params))
}

/// Creates a call of a tool in the newest revision.
pub fn modern_call(id: impl Into<Value>, name: &str, arguments: Value) -> Request {
    modern(id, "tools/call", json!({ "name": name, "arguments": arguments }))
}

/// Creates a call of a tool in the newest revision, with a progress token.
pub fn modern_stream(id: impl Into<Value>, name: &str, arguments: Value) -> Request {
    let id = id.into();
    mirrored(&with_progress(modern_body(id.clone(), "tools/call", json!({ "name": name, "arguments": arguments })), id))
}
