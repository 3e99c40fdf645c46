//! Servers that are unreachable, hang, or end later.

use super::*;

#[tokio::test]
async fn an_unreachable_server_does_not_stop_the_others_and_can_connect_later() {
    let plug = Plug::default();
    plug.pull();
    let group = ClientGroup::builder(app())
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = group.as_client();
    let failures = group.failures();
    let [(name, GroupError::Connect(error))] = failures.as_slice() else { panic!("{failures:?}") };
    assert_eq!((name.as_str(), error.to_string().as_str()), ("home", "cannot reach home"));
    assert!(group.client("home").is_none());
    assert_eq!(group.servers()[1].status, ConnectionStatus::Closed);
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
    let error = client.call_tool("home_read", ()).await.unwrap_err();
    assert!(error.is_disconnected() && !error.may_have_run());
    assert_eq!(error.source().unwrap().to_string(), "cannot reach home");
    let error = client.ping().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "ping: server \"home\": not connected to the server: cannot reach home: connection refused"
    );
    assert!(group.reconnect("home").await.is_err());

    plug.put_back();
    let mut events = client.events();
    let mut named = group.events();
    let mut listening = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    group.reconnect("home").await.unwrap();
    group.reconnect("home").await.unwrap();
    assert!(group.failures().is_empty());
    assert_eq!(client.call_tool("home_read", ()).await.unwrap().text(), "notes of home");
    assert_eq!(tools_of(&client).await, ["math_add", "math_wait", "home_read", "home_greet"]);
    client.ping().await.unwrap();
    // The event streams report the new server and its lists.
    let joined = named.find(|server, event| match event {
        Event::Connection(ConnectionEvent::Connected { version, .. }) => Some((server.to_owned(), version)),
        _ => None,
    });
    assert_eq!(within("an event", joined).await.unwrap(), ("home".to_owned(), NEWEST));
    let changed = |event| matches!(event, Event::ToolsChanged).then_some(());
    within("an event", events.find(changed)).await.unwrap();
    assert_eq!(within("a change", listening.next()).await, Some(Change::ToolList));
    assert!(matches!(group.reconnect("nobody").await, Err(GroupError::Unknown)));
}

#[tokio::test]
async fn a_server_that_hangs_times_out() {
    let hanging = StreamConnector::from_fn("a hanging one", || async {
        std::future::pending::<()>().await;
        Ok::<MemoryEnd, _>(memory().0)
    });
    let group = ClientGroup::builder(app())
        .server("hanging", hanging)
        .server("math", local(math()))
        .connect_timeout(Duration::from_millis(50))
        .max_concurrent_connects(1)
        .connect()
        .await;
    let failures = group.failures();
    assert!(matches!(failures.as_slice(), [(name, error)] if name == "hanging" && error.is_timeout()), "{failures:?}");
    assert_eq!(tools_of(&group.as_client()).await, ["math_add", "math_wait"]);
}

#[tokio::test]
async fn only_unreachable_servers_are_an_error_and_no_servers_are_not() {
    let group =
        ClientGroup::builder(app()).server("one", dead("dead one")).server("two", dead("dead two")).connect().await;
    let client = group.as_client();
    assert_eq!((client.status(), client.protocol_version()), (ConnectionStatus::Closed, None));
    let error = client.list_tools().await.unwrap_err();
    let CallErrorKind::NoServer(NoServerCause::Failed(failures)) = error.kind() else { panic!("{error}") };
    assert_eq!(failures.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert!(error.is_disconnected());
    assert!(client.read_resource("a://b").await.unwrap_err().is_disconnected());
    assert!(client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.is_ok());

    let empty = ClientGroup::builder(app()).connect().await;
    assert!(empty.as_client().list_tools().await.unwrap().is_empty());
    assert!(empty.as_client().call_tool("a_b", ()).await.unwrap_err().is_not_found());
    assert!(empty.as_client().read_resource("a://b").await.unwrap_err().is_not_found());
    empty.as_client().ping().await.unwrap();
    empty.add("math", local(math())).await.unwrap();
    assert_eq!(tools_of(&empty.as_client()).await, ["math_add", "math_wait"]);
}

#[tokio::test]
async fn a_server_that_ends_is_left_out_and_restored_on_reconnect() {
    for version in [OLDEST, NEWEST] {
        let plug = Plug::default();
        let router = notes("home").protocol_versions([version]).build().unwrap();
        let group = ClientGroup::builder(app())
            .server("math", local(math()))
            .server("home", plug.connector("home", router.clone()))
            .connect()
            .await;
        let client = group.as_client();
        let mut events = group.events();
        assert_eq!(tools_of(&client).await.len(), 4);
        let _subscription = client.subscribe("home://index").await.unwrap();
        plug.pull();
        eventually("a status", async || group.servers()[1].status == ConnectionStatus::Closed).await;
        assert!(matches!(group.failures().as_slice(), [(name, GroupError::Disconnected)] if name == "home"));
        assert_eq!(tools_of(&client).await, ["math_add", "math_wait"]);
        let error = client.call_tool("home_read", ()).await.unwrap_err();
        assert!(error.is_disconnected() && !error.is_not_found());
        let sum = client.call_tool("math_add", json!({ "a": 1, "b": 1 })).await.unwrap();
        assert!(!sum.is_error());
        assert_eq!(client.status(), ConnectionStatus::Ready);

        plug.put_back();
        group.reconnect("home").await.unwrap();
        assert_eq!(tools_of(&client).await.len(), 4);
        let updated = |server: &str, event| match event {
            Event::ResourceUpdated { uri } => Some((server.to_owned(), uri)),
            _ => None,
        };
        router.handle().notify_resource_updated("home://index");
        let updated = within("an event", events.find(updated)).await.unwrap();
        assert_eq!(updated, ("home".to_owned(), "home://index".to_owned()), "{version}");
    }
}

#[tokio::test]
async fn a_server_that_reconnects_delays_only_its_own_calls() {
    let plug = Plug::default();
    let backoff = Backoff::new().initial_delay(Duration::from_millis(5));
    let group = ClientGroup::builder(app().reconnect(backoff))
        .server("math", local(math()))
        .server("home", plug.connector("home", notes("home").build().unwrap()))
        .connect()
        .await;
    let client = group.as_client();
    assert_eq!(client.list_resources().await.unwrap().len(), 1);
    plug.pull();
    eventually("a status", async || group.servers()[1].status == ConnectionStatus::Disconnected).await;
    assert_eq!(within("an answer", tools_of(&client)).await, ["math_add", "math_wait"]);
    assert!(matches!(group.failures().as_slice(), [(_, GroupError::Reconnecting)]));
    let calling = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("home_read", ()).await }
    });
    let reading = tokio::spawn({
        let client = client.clone();
        async move { client.read_resource("home://index").await }
    });
    eventually("pending calls", async || client.pending_calls().len() == 2).await;
    assert!(!calling.is_finished() && !reading.is_finished());
    plug.put_back();
    assert_eq!(within("an answer", calling).await.unwrap().unwrap().text(), "notes of home");
    assert!(within("an answer", reading).await.unwrap().is_ok());
    assert!(group.failures().is_empty());
}
