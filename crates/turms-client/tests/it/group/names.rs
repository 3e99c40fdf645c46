//! Merged lists, and the server that a name belongs to.

use super::*;

#[tokio::test]
async fn servers_of_several_revisions_have_one_list_with_prefixes() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").protocol_versions([OLDEST])))
        .server("work", over_pipes("work", notes("work").protocol_versions([ProtocolVersion::V2025_03_26])))
        .connect()
        .await;
    assert!(group.failures().is_empty(), "{:?}", group.failures());
    let client = group.as_client();
    let names = ["math_add", "math_wait", "home_read", "home_greet", "work_read", "work_greet"];
    assert_eq!(tools_of(&client).await, names);
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert_eq!(client.call_tool("work_read", ()).await.unwrap().text(), "notes of work");
    let sum = client.call_tool("math_add", json!({ "a": 1, "b": 2 })).await.unwrap();
    assert_eq!(sum.structured::<Sum>().unwrap(), Sum { sum: 3.0 });
    assert!(group.collisions().is_empty());

    let versions: Vec<_> = group.servers().into_iter().map(|server| (server.name, server.version.unwrap())).collect();
    let expected =
        [("math".to_owned(), NEWEST), ("home".to_owned(), OLDEST), ("work".to_owned(), ProtocolVersion::V2025_03_26)];
    assert_eq!(versions, expected);
    assert_eq!(group.servers()[1].prefix.as_deref(), Some("home_"));
    assert_eq!(group.servers()[1].info.as_ref().unwrap().name, "notes");
}

#[tokio::test]
async fn a_tool_is_called_without_having_been_listed() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home")))
        .separator("__")
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(client.call_tool("home__read", ()).await.unwrap().text(), "notes of home");
    let prompt = client.get_prompt("home__summary", json!({ "name": "Ann" })).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_text(), Some("Summarise the notes of home for Ann."));
}

#[tokio::test]
async fn errors_name_the_requested_target() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home")))
        .connect()
        .await;
    let client = group.as_client();
    let error = client.call_tool("sums_add", ()).await.unwrap_err();
    assert_eq!(error.to_string(), "tools/call \"sums_add\": no server offers it");
    assert!(error.is_not_found() && !error.may_have_run());
    let error = client.call_tool("math_subtract", ()).await.unwrap_err();
    assert_eq!(error.target(), "tools/call \"math_subtract\"");
    assert!(error.error_response().unwrap().message.contains("unknown tool: \"subtract\""));
    let error = client.call_tool("math_wait", ()).timeout(Duration::from_millis(20)).await.unwrap_err();
    assert_eq!(error.target(), "tools/call \"math_wait\"");
    assert!(error.is_timeout());
    let error = client.request_raw("custom/method", json!({})).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoServer(NoServerCause::Several)));
    assert!(error.to_string().contains("ClientGroup::client"), "{error}");
}

#[tokio::test]
async fn a_group_is_a_server_of_the_newest_revision() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").protocol_versions([OLDEST])))
        .info(Implementation::new("both", "2"))
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(client.protocol_version(), Some(NEWEST));
    assert_eq!(client.server_info().unwrap().name, "both");
    assert_eq!(client.instructions().unwrap(), "# math\n\nAdd with add.\n\n# home\n\nThe notes of home.");
    let capabilities = client.server_capabilities().unwrap();
    assert!(capabilities.supports(ServerCapability::Tools));
    assert!(capabilities.supports(ServerCapability::ResourceSubscriptions));
    assert_eq!(client.status(), ConnectionStatus::Ready);
    client.list_tools().await.unwrap();
    let sent: u64 =
        ["math", "home"].into_iter().map(|name| group.client(name).unwrap().stats().connection.requests_sent).sum();
    assert_eq!(client.stats().connection.requests_sent, sent);
    let nameless = ClientGroup::builder(app()).server("math", local(math())).connect().await;
    assert_eq!(nameless.as_client().server_info().unwrap().name, "app");
}

fn echo(tools: &[(&str, &'static str)]) -> Server {
    tools.iter().fold(Server::new("echo", "1"), |server, (name, says)| {
        let says = *says;
        server.tool(ServerTool::builder(*name).handler_sync(move || says))
    })
}

#[tokio::test]
async fn names_that_become_equal_when_sanitized_are_reported() {
    let group = ClientGroup::builder(app())
        .server("my notes", local(echo(&[("read", "first"), ("only", "here")])))
        .server("my-notes", local(echo(&[("read", "second"), ("other", "there")])))
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(tools_of(&client).await, ["my-notes_read", "my-notes_only", "my-notes_other"]);
    let servers = ["my notes", "my-notes"];
    let expected = [
        collision(CollisionKind::Prefix, "my-notes_", servers),
        collision(CollisionKind::Tool, "my-notes_read", servers),
    ];
    assert_eq!(told(group.collisions()), expected);
    assert_eq!(
        group.collisions()[1].to_string(),
        r#"the tool "my-notes_read" is claimed by the servers "my notes", "my-notes""#
    );
    assert_eq!(client.call_tool("my-notes_read", ()).await.unwrap().text(), "first");
    assert_eq!(client.call_tool("my-notes_other", ()).await.unwrap().text(), "there");
}

#[tokio::test]
async fn an_ambiguous_name_belongs_to_the_server_that_lists_it() {
    let group = ClientGroup::builder(app())
        .server("a", local(echo(&[("b_c", "a has b_c"), ("b_d", "a has b_d")])))
        .server("a_b", local(echo(&[("c", "a_b has c"), ("e", "a_b has e")])))
        .connect()
        .await;
    let client = group.as_client();
    // No list has been read yet: the calls read them.
    assert_eq!(client.call_tool("a_b_d", ()).await.unwrap().text(), "a has b_d");
    assert_eq!(client.call_tool("a_b_e", ()).await.unwrap().text(), "a_b has e");
    assert_eq!(client.call_tool("a_b_c", ()).await.unwrap().text(), "a has b_c");
    assert_eq!(told(group.collisions()), [collision(CollisionKind::Tool, "a_b_c", ["a", "a_b"])]);
    let error = client.call_tool("a_b_x", ()).await.unwrap_err();
    assert!(error.error_response().unwrap().message.contains("unknown tool: \"x\""), "{error}");
}

#[tokio::test]
async fn without_prefixes_the_first_server_with_a_name_is_used() {
    let first = echo(&[("read", "first"), ("one", "1")]).build().unwrap();
    let group = ClientGroup::builder(app())
        .server("first", LocalConnector::new(first.clone()))
        .server("second", over_pipes("second", echo(&[("read", "second"), ("two", "2")])))
        .without_prefixes()
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(client.call_tool("two", ()).await.unwrap().text(), "2");
    assert_eq!(tools_of(&client).await, ["read", "one", "two"]);
    assert_eq!(client.call_tool("read", ()).await.unwrap().text(), "first");
    assert_eq!(told(group.collisions()), [collision(CollisionKind::Tool, "read", ["first", "second"])]);
    assert_eq!(group.servers()[0].prefix, None);
    // An unknown name makes the group read the lists once more.
    first.handle().add_tool(ServerTool::builder("new").handler_sync(|| "brand new")).unwrap();
    assert_eq!(client.call_tool("new", ()).await.unwrap().text(), "brand new");
    assert!(client.call_tool("never", ()).await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_name_that_an_unreachable_server_may_have_is_not_unknown() {
    let group = ClientGroup::builder(app())
        .server("alive", local(math()))
        .server("other", local(notes("x")))
        .server("dead", dead("a dead one without prefix"))
        .without_prefixes()
        .connect()
        .await;
    let error = group.as_client().call_tool("subtract", ()).await.unwrap_err();
    assert!(error.to_string().starts_with("tools/call \"subtract\": server \"dead\": not connected"), "{error}");
    assert!(error.is_disconnected());
}
