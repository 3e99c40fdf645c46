//! The `tracing` events of failed calls.

use std::sync::Arc;
use turms_proto::Notification;

use serde_json::{Value, json};
use tracing::Level;
use turms_core::transport::LocalConnector;
use turms_core::{
    CallContext, ConnectContext, Connector as _, NotifyFuture, OutgoingRequest, Payload, Request, ResponseFuture,
    Service,
};
use turms_proto::session::{ClientOptions, VersionChoice};
use turms_proto::types::{CallToolParams, ClientCapabilities, Implementation};
use turms_proto::{ErrorObject, RawJson};
use turms_server::{Args, Server, Tool};
use turms_testkit::{TraceEvent, TraceEvents, eventually, within};

use super::Wire;

const SECRET: &str = "what nobody may see in a log";

fn server() -> Server {
    Server::new("s", "1")
        .tool(Tool::builder("works").handler_sync(|_: Args<Value>| SECRET))
        .tool(Tool::builder("fails").handler_sync(|_: Args<Value>| Err::<String, _>(SECRET.to_owned())))
        .tool(Tool::builder("errs").handler_sync(|_: Args<Value>| Err::<String, _>(ErrorObject::new(-32050, SECRET))))
        .tool(Tool::builder("panics").handler_sync(|_: Args<Value>| -> String { panic!("as asked") }))
        .tool(Tool::builder("panics_later").handler(|_: Args<Value>| async {
            tokio::task::yield_now().await;
            assert!(SECRET.is_empty(), "as asked");
            ""
        }))
        .notification_fallback(|method, _: RawJson, _| async move {
            assert!(method != "notifications/own", "as asked");
        })
}

fn assert_event(event: &TraceEvent, level: Level, tool: Option<&str>, code: Option<&str>) {
    assert_eq!((event.level, event.field("tool"), event.field("code")), (level, tool, code), "{event:?}");
    assert!(event.fields.values().all(|value| !value.contains(SECRET)), "{event:?}");
}

/// The expected events for each call of [`server`].
const CALLS: [(&str, Level, Option<&str>); 5] = [
    ("fails", Level::INFO, None),
    ("errs", Level::INFO, Some("-32050")),
    ("panics", Level::ERROR, Some("-32603")),
    ("panics_later", Level::ERROR, Some("-32603")),
    ("unknown", Level::DEBUG, Some("-32602")),
];

#[tokio::test]
async fn failures_over_a_byte_stream_are_logged_once_and_without_arguments() {
    let (events, _guard) = TraceEvents::record("turms::server");
    let mut wire = Wire::of(server());
    wire.ask(json!({
        "jsonrpc": "2.0", "id": "init", "method": "initialize",
        "params": { "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } }
    }))
    .await;
    let call = |tool: &str, id: Value| {
        let params = json!({ "name": tool, "arguments": { "text": SECRET } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    wire.ask(call("works", json!(0))).await;
    assert!(events.take().is_empty(), "a successful call is not logged");
    for (id, (tool, level, code)) in CALLS.into_iter().enumerate() {
        wire.ask(call(tool, json!(id))).await;
        let logged = events.take();
        let [event] = logged.as_slice() else { panic!("{tool}: {logged:?}") };
        assert_event(event, level, Some(tool), code);
        assert_eq!((event.field("method"), event.field("id")), (Some("tools/call"), Some(id.to_string().as_str())));
        assert!(event.field("session").is_some(), "{event:?}");
    }
    wire.ask(json!({ "jsonrpc": "2.0", "id": "no", "method": "no/such" })).await;
    assert_event(&events.take()[0], Level::DEBUG, None, Some("-32601"));
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/own"}"#).await;
    let mut logged = Vec::new();
    eventually("an event", async || {
        logged.extend(events.take());
        !logged.is_empty()
    })
    .await;
    assert_event(&logged[0], Level::ERROR, None, Some("-32603"));
    assert_eq!(logged[0].field("method"), Some("notifications/own"));
}

#[tokio::test]
async fn requests_that_the_connection_refuses_are_logged() {
    let (events, _guard) = TraceEvents::record("turms_core::connection::calls");
    let mut wire = Wire::of(server());
    wire.ask(json!({ "jsonrpc": "2.0", "id": "early", "method": "tools/list" })).await;
    let logged = events.take();
    assert_eq!((logged[0].level, logged[0].field("id")), (Level::DEBUG, Some(r#"early"#)), "{logged:?}");
    assert_eq!(logged[0].field("code"), Some("-32600"));
}

/// The client side, which rejects every request.
struct Nothing;

impl Service for Nothing {
    fn call(&self, request: Request, _: CallContext) -> ResponseFuture {
        Box::pin(std::future::ready(Err(ErrorObject::method_not_found(&request.method).into())))
    }

    fn notify(&self, _: Notification, _: CallContext) -> NotifyFuture {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn failures_in_process_are_logged() {
    for choice in [VersionChoice::Stateless, VersionChoice::Handshake] {
        let (events, _guard) = TraceEvents::record("turms::server");
        let connector = LocalConnector::new(server().build().unwrap());
        let client = ClientOptions::new(Implementation::new("c", "1"), ClientCapabilities::new()).choice(choice);
        let connected =
            within("a connection", connector.connect(ConnectContext::new(client, Arc::new(Nothing)))).await.unwrap();
        for (tool, level, code) in CALLS {
            let call = OutgoingRequest::new("tools/call", Payload::new(CallToolParams::new(tool)));
            let _ = within("an answer", connected.channel.call(call)).await;
            let logged = events.take();
            let [event] = logged.as_slice() else { panic!("{tool}: {logged:?}") };
            assert_event(event, level, Some(tool), code);
            assert_eq!(event.field("session").is_some(), choice == VersionChoice::Handshake, "{event:?}");
        }
    }
}
