//! Heap memory of an idle session, measured with 10 000 sessions.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and fails loudly")]

use std::time::Duration;

use http::{Method, Request, StatusCode};
use turms_http::{HttpService, ServeHttp as _, SessionOptions};
use turms_server::{Args, Server, Tool};

const SESSIONS: usize = 10_000;
/// Maximum heap memory of a session, in bytes.
const BOUND: usize = 1100;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let sessions = SessionOptions::new().idle_timeout(Duration::from_secs(600));
    let service = runtime.block_on(async { server().into_http_service().unwrap().sessions(sessions) });
    // The first session is not counted: it allocates memory that all sessions share.
    runtime.block_on(begin(&service));
    let begun = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 0..SESSIONS {
                begin(&service).await;
            }
            // Wait until the sessions have released the memory of the handshake.
            tokio::time::sleep(Duration::from_secs(90)).await;
        });
    });
    assert_eq!(service.session_count(), SESSIONS + 1);
    let each = usize::try_from(begun.bytes_current).unwrap() / SESSIONS;
    println!("idle sessions: {SESSIONS}, heap of each: {each} bytes (bound: {BOUND})");
    let ended = allocation_counter::measure(|| {
        runtime.block_on(async {
            while service.session_count() > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
    });
    let left = begun.bytes_current + ended.bytes_current;
    println!("after they have expired: {left} bytes left in all");
    assert!(each <= BOUND, "a session costs more than it may");
    assert!(left < 64 * 1024, "expired sessions leave something behind");
}

fn server() -> Server {
    Server::new("bench", "1.0.0")
        .tool(Tool::builder("add").handler(|Args([a, b]): Args<[f64; 2]>| async move { a + b }))
}

/// Opens a session with the `initialize` handshake.
async fn begin(service: &HttpService) {
    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true},"sampling":{},"elicitation":{}},"clientInfo":{"name":"example-client","title":"Example Client","version":"1.0.0"}}}"#;
    let answer = service.handle(post(initialize, None)).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let id = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(service.handle(post(initialized, Some(&id))).await.status(), StatusCode::ACCEPTED);
}

fn post(body: &str, session: Option<&str>) -> Request<String> {
    let request = Request::builder()
        .method(Method::POST)
        .uri("http://localhost/mcp")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    match session {
        Some(session) => request.header("mcp-session-id", session),
        None => request,
    }
    .body(body.to_owned())
    .unwrap()
}
