//! Configurations, and servers that are added and removed.

use super::*;
use crate::behaviour::peer::Peer;

fn hook(
    routers: HashMap<String, Router>,
) -> impl Fn(&str, &turms_client::ServerEntry) -> Result<Arc<dyn Connector>, ConnectError> {
    move |name, entry| {
        let ServerTarget::Command { program, .. } = &entry.target else {
            return Err(ConnectError::unreachable(name, "only programs here"));
        };
        match routers.get(program) {
            Some(router) => Ok(Arc::new(LocalConnector::new(router.clone()))),
            None => Err(ConnectError::unreachable(name, format!("no program {program:?}"))),
        }
    }
}

#[tokio::test]
async fn a_configuration_with_bad_entries_gives_the_good_servers() {
    let config = McpConfig::parse(
        r#"{ "mcpServers": {
            "math": { "command": "math-server" },
            "my notes": { "command": "${NOTES}" },
            "unset": { "command": "x", "env": { "TOKEN": "${NOT_SET}" } },
            "absent": { "command": "no-such-program" },
            "far": { "url": "https://example.com/mcp" },
            "off": { "command": "x", "disabled": true },
            "off and wrong": { "command": 7, "disabled": true },
        } }"#,
    )
    .unwrap()
    .variables(|name| (name == "NOTES").then(|| "notes-server".to_owned()));
    let routers = HashMap::from([
        ("math-server".to_owned(), math().build().unwrap()),
        ("notes-server".to_owned(), notes("home").build().unwrap()),
    ]);
    let group = ClientGroup::builder(app()).config(&config).connectors(hook(routers)).connect().await;
    let names: Vec<_> = group.servers().into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["math", "my notes", "unset", "absent", "far"]);
    assert_eq!(tools_of(&group.as_client()).await, ["math_add", "math_wait", "my-notes_read", "my-notes_greet"]);
    assert_eq!(failure_names(&group), ["unset", "absent", "far"]);
    let (_, error) = &group.failures()[0];
    assert!(error.is_misconfigured());
    assert_eq!(error.to_string(), r#"server "unset": env.TOKEN: the environment has no variable "NOT_SET""#);
    let error = group.as_client().call_tool("unset_x", ()).await.unwrap_err();
    assert!(error.source().unwrap().source().unwrap().to_string().contains("NOT_SET"));
    assert!(group.reconnect("unset").await.unwrap_err().is_misconfigured());
}

#[tokio::test]
async fn the_error_of_a_url_names_the_missing_transport() {
    let config = McpConfig::parse(r#"{ "mcpServers": { "far": { "url": "https://example.com/mcp" } } }"#).unwrap();
    let group = ClientGroup::builder(app()).config(&config).server("math", local(math())).connect().await;
    let failures = group.failures();
    let [(_, GroupError::Connect(error))] = failures.as_slice() else { panic!("{failures:?}") };
    assert!(error.source().unwrap().to_string().contains("Streamable HTTP"), "{error:?}");
    assert_eq!(tools_of(&group.as_client()).await.len(), 2);
}

#[tokio::test]
async fn a_later_entry_replaces_one_of_the_same_name() {
    let group = ClientGroup::builder(app())
        .server("math", dead("not this one"))
        .server("home", local(notes("home")))
        .server("math", local(math()))
        .connect()
        .await;
    assert!(group.failures().is_empty());
    let names: Vec<_> = group.servers().into_iter().map(|server| server.name).collect();
    assert_eq!(names, ["math", "home"]);
}

#[tokio::test]
async fn a_log_level_that_is_set_while_a_server_connects_reaches_it() {
    let group = ClientGroup::builder(app().protocol_version(ProtocolVersion::V2025_11_25));
    let group = group.server("math", local(math())).connect().await;
    let client = group.as_client();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    let (near, far) = memory();
    let adding = group.clone();
    let adding = tokio::spawn(async move { adding.add("hand", StreamConnector::new(near.0, near.1)).await });
    let mut peer = Peer::new(far);
    peer.open(ProtocolVersion::V2025_11_25).await;
    let first = peer.expect("logging/setLevel").await;
    assert_eq!(first["params"]["level"], "warning");
    client.set_log_level(LoggingLevel::Error).await.unwrap();
    peer.answer(&first, json!({})).await;
    let second = peer.expect("logging/setLevel").await;
    assert_eq!(second["params"]["level"], "error");
    peer.answer(&second, json!({})).await;
    within("the server", adding).await.unwrap().unwrap();
}

#[tokio::test]
async fn servers_are_added_and_removed() {
    let elsewhere = app().connect_service(notes("home").build().unwrap()).await.unwrap();
    let group = ClientGroup::builder(app()).client("home", elsewhere).connect().await;
    let client = group.as_client();
    assert_eq!(tools_of(&client).await, ["home_read", "home_greet"]);
    group.add("math", local(math())).await.unwrap();
    assert!(matches!(group.add("math", local(math())).await, Err(GroupError::NameTaken)));
    assert!(group.add("gone", dead("gone")).await.is_err());
    assert_eq!(failure_names(&group), ["gone"]);
    assert!(group.remove("gone").is_none());
    assert!(group.failures().is_empty());
    assert_eq!(tools_of(&client).await, ["home_read", "home_greet", "math_add", "math_wait"]);

    let mut events = group.events();
    let home = group.remove("home").unwrap();
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
    assert!(client.call_tool("home_read", ()).await.is_err());
    assert_eq!(home.call_tool("read", ()).await.unwrap().text(), "notes of home");
    let changed = |server: &str, event| matches!(event, Event::ToolsChanged).then(|| server.to_owned());
    assert_eq!(within("an event", events.find(changed)).await.unwrap(), "home");
    home.close().await;

    let closed = app().connect_service(math().build().unwrap()).await.unwrap();
    closed.close().await;
    let group = ClientGroup::builder(app()).client("closed", closed).connect().await;
    assert!(matches!(group.reconnect("closed").await, Err(GroupError::ConnectedElsewhere)));
}

#[tokio::test]
async fn batches_run_concurrently_and_calls_can_be_cancelled() {
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", over_pipes("home", notes("home").protocol_versions([ProtocolVersion::V2025_03_26])))
        .connect()
        .await;
    let client = group.as_client();
    let mut batch = client.batch();
    let read = batch.call_tool("home_read", ());
    let sum = batch.call_tool("math_add", json!({ "a": 1, "b": 2 }));
    let tools = batch.list_tools();
    let nobody = batch.call_tool("nobody_x", ());
    let mut outcomes = batch.send().await;
    assert_eq!(outcomes.take(read).unwrap().text(), "notes of home");
    assert!(!outcomes.take(sum).unwrap().is_error());
    assert_eq!(outcomes.take(tools).unwrap().tools.len(), 4);
    assert!(outcomes.take(nobody).unwrap_err().is_not_found());

    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("math_wait", ()).without_timeout().await }
    });
    eventually("pending calls", async || client.pending_calls().len() == 1).await;
    assert_eq!(client.pending_calls()[0].target, "tools/call \"math_wait\"");
    assert!(client.cancel(client.pending_calls()[0].id));
    assert!(within("an answer", waiting).await.unwrap().unwrap_err().is_cancelled());
    eventually("pending calls", async || {
        client.pending_calls().is_empty() && group.client("math").unwrap().pending_calls().is_empty()
    })
    .await;
    assert!(!client.cancel(1));

    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = client.call_tool("home_read", ()).cancellation_token(&cancel).await.unwrap_err();
    assert!(error.is_cancelled());
}

#[tokio::test]
async fn a_group_can_be_served_and_be_a_server_of_another() {
    let inner = ClientGroup::builder(app())
        .server("home", over_pipes("home", notes("home").protocol_versions([OLDEST])))
        .server("work", local(notes("work")))
        .connect()
        .await;
    // As a client of the outer group, and as a service that it connects to.
    let outer = ClientGroup::builder(app())
        .client("nested", inner.as_client())
        .server("served", LocalConnector::new(inner.as_client()))
        .server("math", local(math()))
        .connect()
        .await;
    assert!(outer.failures().is_empty(), "{:?}", outer.failures());
    let client = outer.as_client();
    assert_eq!(client.list_tools().await.unwrap().len(), 10);
    for tool in ["nested_home_read", "served_home_read"] {
        assert_eq!(client.call_tool(tool, ()).await.unwrap().text(), "notes of home");
    }
    let error = client.call_tool("served_nobody_read", ()).await.unwrap_err();
    assert_eq!(error.error_response().unwrap().code, turms_proto::ErrorCode::INVALID_PARAMS);
    assert_eq!(text(&client.read_resource("work://note/3").await.unwrap()), "note 3 of work");
    client.ping().await.unwrap();
    let error = client.list_tools_page(Cursor::from("x")).await.unwrap_err();
    assert_eq!(error.error_response().unwrap().code, turms_proto::ErrorCode::INVALID_PARAMS);
}

#[tokio::test]
async fn closing_ends_all_connections_permanently() {
    let plug = Plug::default();
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = group.as_client();
    let (mut events, mut named) = (client.events(), group.events());
    group.close().await;
    eventually("the end of a connection", async || !plug.is_in_use()).await;
    assert_eq!(client.status(), ConnectionStatus::Closed);
    assert!(client.list_tools().await.unwrap_err().is_disconnected());
    assert!(client.ping().await.unwrap_err().is_disconnected());
    let mut closed = Vec::new();
    while let Some((server, event)) = within("an event", named.next()).await {
        if matches!(event, Event::Connection(ConnectionEvent::Closed)) {
            closed.push(server.to_string());
        }
    }
    closed.sort();
    assert_eq!(closed, ["home", "math"]);
    while within("an event", events.next()).await.is_some() {}
    assert!(within("an event", group.events().next()).await.is_none());
    assert!(matches!(group.add("new", local(math())).await, Err(GroupError::Closed)));
    assert!(matches!(group.reconnect("home").await, Err(GroupError::Closed)));
}

#[tokio::test]
async fn dropping_the_last_handle_ends_everything() {
    let plug = Plug::default();
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = group.as_client();
    let (mut events, mut named) = (client.events(), group.events());
    let mut listening = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    drop(group);
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert!(plug.is_in_use());
    drop(client);
    eventually("the end of a connection", async || !plug.is_in_use()).await;
    while within("an event", events.next()).await.is_some() {}
    while within("an event", named.next()).await.is_some() {}
    assert_eq!(within("a change", listening.next()).await, None);
}

#[test]
fn public_types_are_send_and_sync() {
    fn sent<T: Send + Sync + 'static>() {}
    sent::<ClientGroup>();
    sent::<turms_client::GroupEvents>();
    sent::<turms_client::ClientGroupBuilder>();
    sent::<GroupError>();
}
