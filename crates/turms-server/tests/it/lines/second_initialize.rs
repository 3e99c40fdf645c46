//! A second `initialize` on one connection, as sent by bridges that connect several clients to one server process.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use turms_core::PeerError;
use turms_proto::session::RequestOptions;
use turms_proto::types::LoggingLevel;
use turms_proto::{ErrorObject, Notification};
use turms_server::{Context, ServerHandle, Session, Tool};
use turms_testkit::behaviour_server::server_with;
use turms_testkit::{CallCounters, within};

use super::Wire;

/// The sessions and calls of a server, recorded by its hooks and tools.
#[derive(Default)]
struct Seen {
    opened: Mutex<Vec<Session>>,
    closed: Mutex<Vec<String>>,
    counters: Arc<CallCounters>,
}

fn client_name(session: &Session) -> String {
    session.client_info().map(|client| client.name.clone()).unwrap_or_default()
}

fn connect(seen: &Arc<Seen>) -> (Wire, ServerHandle) {
    let (opened, closed) = (seen.clone(), seen.clone());
    let server = server_with(&seen.counters)
        .on_session_start(move |session, _| {
            let refused = client_name(&session) == "refused";
            opened.opened.lock().unwrap().push(session);
            async move { if refused { Err(ErrorObject::invalid_request("not you")) } else { Ok(()) } }
        })
        .on_session_end(move |session, reason| {
            closed.closed.lock().unwrap().push(format!("{} {reason:?}", client_name(&session)));
        })
        .tool(Tool::builder("session_client").handler(|session: Session, context: Context| async move {
            context.log(LoggingLevel::Info, "asked who").await;
            client_name(&session)
        }));
    let handle = server.handle();
    (Wire::of(server), handle)
}

fn initialize(id: impl Into<Value>, name: &str, version: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "id": id.into(), "method": "initialize",
        "params": {
            "protocolVersion": version, "capabilities": { "sampling": {} }, "clientInfo": { "name": name, "version": "1" }
        }
    })
}

fn call(id: impl Into<Value>, tool: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": { "name": tool } })
}

#[tokio::test]
async fn a_second_initialize_ends_the_first_session() {
    let seen = Arc::<Seen>::default();
    let (mut wire, handle) = connect(&seen);
    assert_eq!(wire.ask(initialize(0, "one", "2025-06-18")).await["result"]["protocolVersion"], "2025-06-18");
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let subscribe =
        json!({ "jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": { "uri": "config://app" } });
    assert_eq!(wire.ask(subscribe).await["result"], json!({}));
    let level = json!({ "jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": { "level": "error" } });
    assert_eq!(wire.ask(level).await["result"], json!({}));
    wire.say(&call(0, "slow").to_string()).await;
    let question = wire.ask(call(3, "think")).await;
    assert_eq!(question["method"], "sampling/createMessage");
    within("the call to start", seen.counters.reaches("started", 1)).await;
    assert_eq!(seen.counters.count("stopped"), 0);

    wire.say(&initialize(0, "two", "2025-11-25").to_string()).await;
    let ended = wire.hear().await;
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(3), &json!(-32603)));
    let answer = wire.hear().await;
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!("2025-11-25")));
    within("the end of the call", seen.counters.reaches("stopped", 1)).await;
    assert_eq!(*seen.closed.lock().unwrap(), ["one Client"]);
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    wire.still_serves().await;
    let sessions = seen.opened.lock().unwrap().clone();
    assert_eq!(sessions.iter().map(client_name).collect::<Vec<_>>(), ["one", "two"]);

    // The second client receives nothing of the first session: no subscription, no log level, no stored peer.
    handle.notify_resource_updated("config://app");
    let stale = sessions[0].peer();
    let _ = stale.try_notify_raw(Notification::raw("notifications/stale", None));
    let asked = within("a refusal", stale.request_raw("ping", None, RequestOptions::default())).await;
    assert!(matches!(asked, Err(PeerError::Closed)), "{asked:?}");
    let late = json!({ "jsonrpc": "2.0", "id": question["id"], "result": {} });
    wire.say(&late.to_string()).await;
    let logged = wire.ask(call(1, "session_client")).await;
    assert_eq!((&logged["method"], &logged["params"]["data"]), (&json!("notifications/message"), &json!("asked who")));
    assert_eq!(wire.hear().await["result"]["content"][0]["text"], "two");
}

#[tokio::test]
async fn an_initialize_that_is_refused_leaves_the_session_as_it_is() {
    let seen = Arc::<Seen>::default();
    let (mut wire, _) = connect(&seen);
    wire.ask(initialize(0, "one", "2025-06-18")).await;
    wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
    let refused = wire.ask(json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} })).await;
    assert_eq!(refused["error"]["code"], -32602);
    assert_eq!(seen.closed.lock().unwrap().len(), 0);
    assert_eq!(wire.ask(call(2, "session_client")).await["method"], "notifications/message");
    assert_eq!(wire.hear().await["result"]["content"][0]["text"], "one");
}

#[tokio::test]
async fn a_session_that_is_refused_serves_nothing_and_has_no_end() {
    for version in super::LEGACY {
        let seen = Arc::<Seen>::default();
        let (mut wire, handle) = connect(&seen);
        let refused = wire.ask(initialize(0, "refused", version)).await;
        assert_eq!((&refused["error"]["code"], &refused["error"]["message"]), (&json!(-32600), &json!("not you")));
        wire.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        let rejected = wire.ask(call(1, "session_client")).await;
        assert_eq!(rejected["error"]["code"], -32600, "{version}: {rejected}");
        assert!(handle.sessions().is_empty(), "{version}");
        assert_eq!(wire.ask(initialize(2, "two", version)).await["error"]["code"], -32600, "{version}");
        assert_eq!(wire.ask(call(3, "session_client")).await["error"]["code"], -32600, "{version}");
        drop(wire);
        tokio::task::yield_now().await;
        assert_eq!(*seen.closed.lock().unwrap(), [""; 0], "{version}");
        assert_eq!(seen.opened.lock().unwrap().len(), 1, "{version}");
    }
}

#[tokio::test]
async fn a_callback_that_panics_refuses_the_session() {
    let server = server_with(&Arc::default()).on_session_start(|session, _| async move {
        assert_ne!(client_name(&session), "one", "as asked");
        Ok(())
    });
    let mut wire = Wire::of(server);
    assert_eq!(wire.ask(initialize(0, "one", "2025-06-18")).await["error"]["code"], -32603);
    assert_eq!(wire.ask(call(1, "add")).await["error"]["code"], -32600);
}

#[tokio::test]
async fn on_session_end_runs_without_a_callback_for_the_start() {
    let closed = Arc::new(tokio::sync::Notify::new());
    let hook = closed.clone();
    let mut wire = Wire::of(server_with(&Arc::default()).on_session_end(move |_, _| hook.notify_one()));
    wire.ask(initialize(0, "one", "2025-06-18")).await;
    drop(wire);
    within("the hook", closed.notified()).await;
}
