//! Protocol extensions of a server, with clients of every revision.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::sync::mpsc;
use turms_proto::method::NotificationMethod;
use turms_proto::types::{EmptyParams, ListTools, PaginatedParams, key};
use turms_proto::{Ability, ErrorCode, Object, ProtocolVersion};
use turms_server::{Component, Context, ExtensionBuilder, Router, Server, ServerExtension, Tool};
use turms_testkit::test_client::{Script, TestClient};

const ID: &str = "com.example/echo";

/// An extension with an echo method, a count of sessions, and a tool that is hidden from clients that do not declare
/// it.
struct Echo {
    id: &'static str,
    opened: Arc<AtomicUsize>,
    rung: mpsc::UnboundedSender<()>,
}

impl Echo {
    fn new(id: &'static str) -> (Self, mpsc::UnboundedReceiver<()>) {
        let (rung, rings) = mpsc::unbounded_channel();
        (Self { id, opened: Arc::default(), rung }, rings)
    }
}

impl ServerExtension for Echo {
    fn id(&self) -> &str {
        self.id
    }

    fn settings(&self) -> Object {
        Object::parse(r#"{"loud":true}"#).unwrap()
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        let (opened, rung) = (self.opened.clone(), self.rung.clone());
        scope
            .method("echo/say", |params: Object, context: Context| async move {
                let mut said = Object::new();
                said.insert_raw("said", &params.get("text").unwrap_or_default());
                said.insert_raw("as", &context.client_extension(ID).unwrap().into());
                Ok(said)
            })
            .method_for_any_client("echo/open", |_: EmptyParams, context: Context| async move {
                Ok(json!({ "declared": context.client_extension(ID).is_some() }))
            })
            .notification("notifications/echo/ring", move |_: EmptyParams, _| {
                rung.send(()).unwrap();
                std::future::ready(())
            })
            .tool(Tool::builder("shout").handler_sync(|| "HEY"))
            .visible_if(|item, context| item.name() != "shout" || context.client_extension(ID).is_some())
            .on_session_start(move |_, _| {
                opened.fetch_add(1, Ordering::Relaxed);
                async { Ok(()) }
            })
    }
}

struct Ring;

impl NotificationMethod for Ring {
    const NAME: &'static str = "notifications/echo/ring";
    type Params = EmptyParams;
}

fn server() -> Router {
    Server::new("echo", "1")
        .tool(Tool::builder("plain").handler_sync(|| ""))
        .extension(Echo::new(ID).0)
        .build()
        .unwrap()
}

fn declaring() -> Script {
    Script::new().extension(ID, Object::parse(r#"{"who":"me"}"#).unwrap())
}

fn text() -> Object {
    Object::parse(r#"{"text":"hi"}"#).unwrap()
}

#[tokio::test]
async fn a_client_that_declares_the_extension_can_call_its_method() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect_with(&server(), version, declaring()).await;
        let answer = client.request_raw("echo/say", text()).await.unwrap();
        assert_eq!(answer.member("said").unwrap().as_str(), r#""hi""#, "{version}");
        assert_eq!(answer.member("as").unwrap().as_str(), r#"{"who":"me"}"#, "{version}");
    }
}

#[tokio::test]
async fn a_missing_declaration_is_reported_before_other_errors() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&server(), version).await;
        for params in [text(), Object::parse(r#"{"text":[]}"#).unwrap()] {
            let error = client.request_raw("echo/say", params).await.unwrap_err();
            let error = error.server_error();
            let stateless = version.has(Ability::Stateless);
            let code = if stateless { ErrorCode::MISSING_CLIENT_CAPABILITY } else { ErrorCode::INVALID_REQUEST };
            assert_eq!(error.code, code, "{version}");
            let data = error.data.as_ref().unwrap().as_str();
            assert_eq!(data, r#"{"requiredCapabilities":{"extensions":{"com.example/echo":{}}}}"#, "{version}");
        }
    }
}

#[tokio::test]
async fn a_method_for_all_clients_needs_no_declaration() {
    for version in ProtocolVersion::ALL {
        for (script, declared) in [(Script::new(), "false"), (declaring(), "true")] {
            let client = TestClient::connect_with(&server(), version, script).await;
            let answer = client.request_raw("echo/open", Object::new()).await.unwrap();
            assert_eq!(answer.member("declared").unwrap().as_str(), declared, "{version}");
        }
    }
}

#[tokio::test]
async fn the_extension_and_its_settings_are_declared_to_every_client() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect(&server(), version).await;
        let extensions = client.opened().server.as_ref().unwrap().capabilities.extensions.clone().unwrap();
        assert_eq!(extensions.as_str(), r#"{"com.example/echo":{"loud":true}}"#, "{version}");
    }
}

#[tokio::test]
async fn results_have_the_type_and_metadata_of_the_revision() {
    for version in ProtocolVersion::ALL {
        let client = TestClient::connect_with(&server(), version, declaring()).await;
        let answer = client.request_raw("echo/say", text()).await.unwrap();
        let kind = answer.member("resultType").map(|kind| kind.as_str().to_owned());
        assert_eq!(kind.as_deref(), version.has(Ability::ResultType).then_some(r#""complete""#), "{version}");
        let named = answer.member("_meta").and_then(|meta| meta.member(key::SERVER_INFO)).is_some();
        assert_eq!(named, version.has(Ability::Stateless), "{version}");
    }
}

#[tokio::test]
async fn the_visibility_rules_of_extension_and_server_both_apply() {
    for version in ProtocolVersion::ALL {
        let server = Server::new("echo", "1")
            .tool(Tool::builder("plain").handler_sync(|| ""))
            .tool(Tool::builder("secret").handler_sync(|| ""))
            .extension(Echo::new(ID).0)
            .visible_if(|item, _| !matches!(item, Component::Tool(tool) if tool.name() == "secret"))
            .build()
            .unwrap();
        for (script, seen) in [(Script::new(), vec!["plain"]), (declaring(), vec!["plain", "shout"])] {
            let client = TestClient::connect_with(&server, version, script).await;
            let list = client.request::<ListTools>(&PaginatedParams::new()).await.unwrap();
            let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
            assert_eq!(names, seen, "{version}");
            assert_eq!(client.call_tool("shout", json!({})).await.is_ok(), seen.contains(&"shout"), "{version}");
        }
    }
}

#[tokio::test]
async fn the_hooks_of_an_extension_do_not_replace_others() {
    let (before, after) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = |counter: &Arc<AtomicUsize>| {
        let counter = counter.clone();
        move |_, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(()))
        }
    };
    let echo = Echo::new(ID).0;
    let opened = echo.opened.clone();
    let server = Server::new("echo", "1")
        .on_session_start(count(&before))
        .extension(echo)
        .on_session_start(count(&after))
        .build()
        .unwrap();
    let client = TestClient::connect(&server, ProtocolVersion::LATEST_WITH_HANDSHAKE).await;
    client.request_raw("echo/open", Object::new()).await.unwrap();
    assert_eq!([&before, &opened, &after].map(|counter| counter.load(Ordering::Relaxed)), [1, 1, 1]);
}

#[tokio::test]
async fn a_notification_of_a_client_that_declares_the_extension_is_handled() {
    for version in ProtocolVersion::ALL {
        let (echo, mut rings) = Echo::new(ID);
        let server = Server::new("echo", "1").extension(echo).build().unwrap();
        let client = TestClient::connect_with(&server, version, declaring()).await;
        client.notify::<Ring>(&EmptyParams::new()).await.unwrap();
        rings.recv().await.unwrap();
        if version.has(Ability::Stateless) {
            continue;
        }
        let stranger = TestClient::connect(&server, version).await;
        stranger.notify::<Ring>(&EmptyParams::new()).await.unwrap();
        stranger.request_raw("echo/open", Object::new()).await.unwrap();
        assert!(rings.try_recv().is_err(), "{version}");
    }
}

/// An extension that registers a method of the protocol.
struct Usurper(&'static str);

impl ServerExtension for Usurper {
    fn id(&self) -> &str {
        "com.example/usurper"
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        scope.method(self.0, |_: Object, _| async { Ok(Object::new()) })
    }
}

#[test]
fn a_method_of_the_protocol_is_a_build_error() {
    for name in ["tools/call", "tools/list", "ping", "initialize", "server/discover", "subscriptions/listen"] {
        let fault = Server::new("s", "1").extension(Usurper(name)).build().unwrap_err().to_string();
        let reason = "the method is reserved: the server implements it";
        assert_eq!(
            fault,
            format!(r#"cannot build server "s": extension "com.example/usurper": method {name:?}: {reason}"#)
        );
        let server = Server::new("s", "1").method(name, |_: Object, _| async { Ok(Object::new()) });
        assert_eq!(
            server.build().unwrap_err().to_string(),
            format!(r#"cannot build server "s": method {name:?}: {reason}"#)
        );
    }
}

#[tokio::test]
async fn an_invalid_or_duplicate_extension_is_a_build_error() {
    let fault = |server: Server| server.build().unwrap_err().to_string();
    assert_eq!(
        fault(Server::new("echo", "1").extension(Echo::new("echo").0)),
        r#"cannot build server "echo": extension "echo": its id has to be a prefix, a slash and a name, such as com.example/prices"#
    );
    let twice = fault(Server::new("echo", "1").extension(Echo::new(ID).0).extension(Echo::new(ID).0));
    assert!(
        twice.starts_with(r#"cannot build server "echo": extension "com.example/echo": registered twice: at "#),
        "{twice}"
    );
    assert_eq!(twice.matches("extension.rs:").count(), 2, "{twice}");
    let twice = fault(Server::new("echo", "1").extension(Echo::new(ID).0).extension(Echo::new("com.example/other").0));
    let both = r#"registered twice: by extension "com.example/echo" and by extension "com.example/other""#;
    assert!(twice.contains(&format!(r#"method "echo/say": {both}"#)), "{twice}");
    assert!(twice.contains(&format!(r#"notification "notifications/echo/ring": {both}"#)), "{twice}");
}

#[test]
fn a_method_of_one_name_is_registered_once() {
    let answer = |_: Object, _| async { Ok(Object::new()) };
    let fault = |server: Server| server.build().unwrap_err().to_string();
    let twice = fault(Server::new("s", "1").method("own/method", answer).method("own/method", answer));
    assert!(twice.contains(r#"method "own/method": registered twice: at "#), "{twice}");
    assert_eq!(twice.matches("extension.rs:").count(), 2, "{twice}");
    let twice = fault(Server::new("s", "1").method("echo/say", answer).extension(Echo::new(ID).0));
    assert!(twice.contains(r#"and by extension "com.example/echo""#), "{twice}");
}

/// An extension that requires another one.
struct Dependent;

impl ServerExtension for Dependent {
    fn id(&self) -> &str {
        "com.example/dependent"
    }

    fn register(self: Arc<Self>, scope: ExtensionBuilder) -> ExtensionBuilder {
        scope.requires(ID)
    }
}

#[test]
fn a_missing_required_extension_is_a_build_error_and_the_order_does_not_matter() {
    let fault = Server::new("s", "1").extension(Dependent).build().unwrap_err().to_string();
    let problem =
        r#"extension "com.example/dependent": requires extension "com.example/echo", which the server does not have"#;
    assert_eq!(fault, format!(r#"cannot build server "s": {problem}"#));
    Server::new("s", "1").extension(Dependent).extension(Echo::new(ID).0).build().unwrap();
    Server::new("s", "1").extension(Echo::new(ID).0).extension(Dependent).build().unwrap();
}
