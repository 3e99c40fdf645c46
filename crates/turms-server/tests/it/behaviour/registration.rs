//! Registration: names are unique, and invalid items are rejected.

use turms_server::RegistrationError;

use super::*;

fn tool(name: &str) -> Tool {
    Tool::builder(name).handler_sync(|| "")
}

fn prompt(name: &str) -> Prompt {
    Prompt::builder(name).handler_sync(|| "")
}

fn resource(uri: &str) -> Resource {
    Resource::builder(uri).handler_sync(|| "")
}

/// Returns the start of the error message for an item that is registered at two lines of this file.
fn twice(what: &str, lines: [u32; 2]) -> [String; 2] {
    let file = file!();
    [format!("{what}: registered twice: at {file}:{}:", lines[0]), format!(" and at {file}:{}:", lines[1])]
}

#[test]
fn duplicate_names_are_a_build_error() {
    let server = Server::new("s", "1");
    let first = line!() + 1;
    let server = server.tool(tool("a")).tool(tool("b")).prompt(prompt("a")).resource(resource("a://b"));
    let server = server.resource(resource("a://{b}"));
    let second = line!() + 1;
    let server = server.tool(tool("a")).prompt(prompt("a")).resource(resource("a://b"));
    let third = line!() + 1;
    let server = server.resource(resource("a://{b}"));
    let error = server.build().unwrap_err().to_string();
    for (what, lines) in [
        ("tool \"a\"", [first, second]),
        ("prompt \"a\"", [first, second]),
        ("resource \"a://b\"", [first, second]),
        ("resource \"a://{b}\"", [first + 1, third]),
    ] {
        for part in twice(what, lines) {
            assert!(error.contains(&part), "{part:?} is not in {error:?}");
        }
    }
    assert!(!error.contains("tool \"b\""), "{error}");
}

#[test]
fn a_duplicate_of_an_item_added_through_a_handle_is_a_build_error() {
    let server = Server::new("s", "1");
    server.handle().add_tool(tool("a")).unwrap();
    let error = server.tool(tool("a")).build().unwrap_err().to_string();
    assert!(error.contains("tool \"a\": registered twice: through a handle and at "), "{error}");
}

#[test]
fn a_tool_a_prompt_and_a_resource_may_have_the_same_name() {
    let server = Server::new("s", "1").tool(tool("a")).prompt(prompt("a")).resource(resource("a"));
    assert!(server.build().is_ok());
}

#[tokio::test]
async fn adding_an_existing_item_fails_and_replacing_it_does_not() {
    let router = Server::new("s", "1").tool(tool("a")).prompt(prompt("a")).resource(resource("a://b")).build().unwrap();
    let client = TestClient::connect(&router, ProtocolVersion::V2025_06_18).await;
    let (handle, session) = (router.handle(), router.handle().sessions().remove(0));
    let message = |result: Result<(), RegistrationError>| result.unwrap_err().to_string();
    let exists = |what: &str| format!("{what} exists already; use a replace method to replace it");
    assert_eq!(message(handle.add_tool(tool("a"))), exists("tool \"a\""));
    assert_eq!(message(handle.add_prompt(prompt("a"))), exists("prompt \"a\""));
    assert_eq!(message(handle.add_resource(resource("a://b"))), exists("resource \"a://b\""));
    // A session's own item takes precedence over the server's, but its own names are unique.
    for is_new in [true, false] {
        assert_eq!(session.add_tool(tool("a")).is_ok(), is_new);
        assert_eq!(session.add_prompt(prompt("a")).is_ok(), is_new);
        assert_eq!(session.add_resource(resource("a://b")).is_ok(), is_new);
    }
    assert!(session.replace_tool(tool("a")).is_ok());
    assert!(session.replace_prompt(prompt("a")).is_ok());
    assert!(session.replace_resource(resource("a://b")).is_ok());
    assert!(session.remove_tool("a"));

    handle.replace_tool(Tool::builder("a").handler_sync(|| "replaced")).unwrap();
    handle.replace_tool(Tool::builder("new").handler_sync(|| "added")).unwrap();
    handle.replace_prompt(prompt("a")).unwrap();
    handle.replace_resource(resource("a://b")).unwrap();
    assert_eq!(client.call_tool("a", json!({})).await.unwrap().text(), "replaced");
    assert_eq!(client.call_tool("new", json!({})).await.unwrap().text(), "added");
}

#[test]
fn an_invalid_item_is_not_added() {
    let router = Server::new("s", "1").build().unwrap();
    let (handle, message) = (router.handle(), |result: Result<(), RegistrationError>| result.unwrap_err().to_string());
    let schema = Object::encode(&json!({ "type": "object", "properties": { "a": { "type": 7 } } })).unwrap();
    let invalid = || Tool::builder("t").input_schema(schema.clone()).handler_sync(|| "");
    for refused in [message(handle.add_tool(invalid())), message(handle.replace_tool(invalid()))] {
        assert!(refused.starts_with("tool \"t\": invalid input schema: "), "{refused}");
    }
    let refused = message(handle.add_resource(resource("x://{")));
    assert!(refused.starts_with("resource \"x://{\": "), "{refused}");
    assert!(matches!(handle.add_tool(invalid()), Err(RegistrationError::Invalid { kind: "tool", .. })));
}

#[tokio::test]
async fn the_first_item_of_a_kind_that_a_handler_adds_reaches_subscribed_clients() {
    for version in ProtocolVersion::ALL {
        let learn = Tool::builder("learn").handler_sync(|context: Context| context.server().add_prompt(prompt("new")));
        let router = Server::new("s", "1").tool(learn).build().unwrap();
        let client = TestClient::connect(&router, version).await;
        let unknown = client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap_err();
        assert_eq!(unknown.server_error().code.0, -32601, "{version}");
        if version.has(Ability::ListenStreams) {
            let filter = SubscriptionFilter::new().prompts_list_changed(true);
            let listener = client.clone();
            tokio::spawn(async move { listener.request::<Listen>(&ListenParams::new(filter)).await });
            let acknowledged = client.expect_notification::<SubscriptionsAcknowledgedNotification>().await;
            assert_eq!(acknowledged.notifications.prompts_list_changed, Some(true));
        }
        client.call_tool("learn", json!({})).await.unwrap();
        client.expect_notification::<PromptListChangedNotification>().await;
        assert_eq!(client.request::<ListPrompts>(&PaginatedParams::new()).await.unwrap().prompts.len(), 1, "{version}");
    }
}

#[tokio::test]
async fn a_server_whose_handle_is_taken_declares_all_kinds_of_items() {
    for version in ProtocolVersion::ALL {
        let router = Server::new("s", "1").build().unwrap();
        let client = TestClient::connect(&router, version).await;
        let before = client.opened().server.clone().unwrap().capabilities;
        assert!(before.tools.is_none() && before.prompts.is_none() && before.resources.is_none(), "{version}");
        let _ = router.handle();
        let client = TestClient::connect(&router, version).await;
        let capabilities = client.opened().server.clone().unwrap().capabilities;
        assert!(capabilities.supports(ServerCapability::ToolsListChanged), "{version}");
        assert!(capabilities.supports(ServerCapability::Prompts), "{version}");
        assert!(capabilities.supports(ServerCapability::Resources), "{version}");
        let error = client.call_tool("none", json!({})).await.unwrap_err();
        assert_eq!(error.server_error().code.0, -32602, "{version}");
    }
}

#[test]
fn every_problem_is_an_entry_with_component_name_and_reason() {
    let server =
        Server::new("shop", "1").tool(tool("two words")).resource(resource("x://{")).tool(tool("a")).tool(tool("a"));
    let error = server.method("ping", |_: Object, _| async { Ok(Object::new()) }).build().unwrap_err();
    let of = |index: usize| (error.problems()[index].component(), error.problems()[index].name());
    assert_eq!(error.problems().len(), 4, "{error}");
    assert_eq!(
        [of(0), of(1), of(2), of(3)],
        [("tool", "two words"), ("resource", "x://{"), ("tool", "a"), ("method", "ping")]
    );
    assert_eq!(error.problems()[3].reason(), "the method is reserved: the server implements it");
    let messages: Vec<String> = error.problems().iter().map(ToString::to_string).collect();
    let message = format!("cannot build server \"shop\": {}", messages.join("; "));
    assert_eq!((error.to_string(), format!("{error:?}")), (message.clone(), message.clone()));
    let serve_error: turms_core::Error = error.into();
    assert_eq!(serve_error.to_string(), message);
}
