//! Options of messages to the client: the key and the timeout of input requests, the logger, the total and the message.

use std::time::Duration;

use serde_json::{Value, json};
use turms_proto::types::LoggingLevel;
use turms_server::{Context, InputError, Progress, Server, Tool};

use super::{LEGACY, Wire};

fn server() -> Server {
    let roots = |context: Context| async move {
        let roots = context.list_roots().key("places").timeout(Duration::from_millis(20)).await?;
        Ok::<_, InputError>(roots.len().to_string())
    };
    let report = |context: Context, progress: Progress| async move {
        context.log(LoggingLevel::Error, "text").logger("mine").await;
        context.log(LoggingLevel::Error, "text").await;
        progress.report(1).total(2).message("half").await;
        progress.report(2).await;
    };
    Server::new("s", "1").tool(Tool::builder("roots").handler(roots)).tool(Tool::builder("report").handler(report))
}

async fn initialized(version: &str) -> Wire {
    let mut wire = Wire::of(server());
    let params = json!({
        "protocolVersion": version, "capabilities": { "roots": {} }, "clientInfo": { "name": "raw", "version": "1" }
    });
    wire.ask(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    wire
}

fn call(tool: &str, meta: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "_meta": meta } })
}

fn newest_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "raw", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": { "roots": {} },
        "io.modelcontextprotocol/logLevel": "error",
        "progressToken": 7,
    })
}

#[tokio::test]
async fn an_input_request_has_a_timeout_of_its_own() {
    for version in LEGACY {
        let mut wire = initialized(version).await;
        assert_eq!(wire.ask(call("roots", &json!({}))).await["method"], "roots/list", "{version}");
        // It is not answered.
        let mut heard = wire.hear().await;
        if heard["method"] == "notifications/cancelled" {
            heard = wire.hear().await;
        }
        let text = heard["result"]["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.starts_with("no response within 2") && text.ends_with("(timeout)"), "{version}: {heard}");
    }
}

#[tokio::test]
async fn an_input_request_has_the_given_key() {
    let result = Wire::of(server()).ask(call("roots", &newest_meta())).await["result"].take();
    assert_eq!(result["inputRequests"]["places"]["method"], "roots/list", "{result}");
}

#[tokio::test]
async fn logs_and_progress_have_their_options() {
    for version in LEGACY.into_iter().chain(["2026-07-28"]) {
        let is_newest = version == "2026-07-28";
        let (mut wire, meta) = match is_newest {
            true => (Wire::of(server()), newest_meta()),
            false => (initialized(version).await, json!({ "progressToken": 7 })),
        };
        let first = wire.ask(call("report", &meta)).await["params"].take();
        assert_eq!((&first["logger"], &first["data"]), (&json!("mine"), &json!("text")), "{version}");
        assert_eq!(wire.hear().await["params"]["logger"], Value::Null, "{version}");
        let half = wire.hear().await["params"].take();
        assert_eq!((half["progress"].as_f64(), half["total"].as_f64()), (Some(1.0), Some(2.0)), "{version}: {half}");
        let message = if version == "2024-11-05" { Value::Null } else { "half".into() };
        assert_eq!(half["message"], message, "{version}");
        let full = wire.hear().await["params"].take();
        assert_eq!(
            (full["progress"].as_f64(), &full["total"], &full["message"]),
            (Some(2.0), &Value::Null, &Value::Null)
        );
    }
}

#[tokio::test]
async fn an_error_response_of_the_client_keeps_its_code_and_message() {
    let roots = |context: Context| async move {
        let error = context.list_roots().await.unwrap_err();
        let response = error.error_response().unwrap();
        let is_protocol = std::error::Error::source(&error).is_some() || error.is_timeout();
        format!("{} {} {is_protocol} / {error}", response.code.0, response.message)
    };
    for version in LEGACY {
        let mut wire = Wire::of(Server::new("s", "1").tool(Tool::builder("roots").handler(roots)));
        let params = json!({
            "protocolVersion": version, "capabilities": { "roots": {} }, "clientInfo": { "name": "raw", "version": "1" }
        });
        wire.ask(json!({ "jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params })).await;
        wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let request = wire.ask(call("roots", &json!({}))).await;
        let error = json!({ "code": -1, "message": "no roots today" });
        let result = wire.ask(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
        let text = result["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(
            text.starts_with("-1 no roots today false / the client responded with an error: "),
            "{version}: {text}"
        );
    }
}
