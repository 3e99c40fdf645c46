//! State that is restored on a new connection.

use serde_json::json;
use tokio::time::timeout;
use turms_client::{Backoff, Change, ConnectionStatus, Event};
use turms_proto::types::{LoggingLevel, SubscriptionFilter};

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn resources_are_subscribed_again_in_older_revisions() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    let _subscription = client.subscribe("a://one").await.unwrap();
    let _subscription = client.subscribe("a://two").await.unwrap();
    drop(client.subscribe("a://gone").await.unwrap());
    settle().await;
    scripted.kill();
    until(&mut events, "connected 2").await;

    let again: Vec<_> =
        scripted.heard("resources/subscribe").into_iter().filter(|heard| heard.connection == 2).collect();
    let uris: Vec<_> = again.iter().map(|heard| heard.params["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["a://one", "a://two"]);
    scripted.tell("notifications/resources/updated", &json!({ "uri": "a://one" }));
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    assert_eq!(timeout(SECOND, updated).await.unwrap().unwrap(), "a://one");
}

#[tokio::test(start_paused = true)]
async fn resources_are_subscribed_again_in_the_newest_revision() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    let _subscription = client.subscribe("a://one").await.unwrap();
    let watching = || {
        let mut heard = scripted.heard("subscriptions/listen").into_iter();
        heard.rfind(|heard| heard.params["notifications"]["resourceSubscriptions"].is_array()).unwrap()
    };
    let before = watching();
    scripted.kill();
    until(&mut events, "connected 2").await;
    tokio::time::sleep(SECOND).await;

    let again = watching();
    assert_eq!((before.connection, again.connection), (1, 2));
    assert_eq!(again.params["notifications"], before.params["notifications"]);
    assert_eq!(again.params["notifications"]["resourceSubscriptions"], json!(["a://one"]));
    scripted.tell_listeners("notifications/resources/updated", json!({ "uri": "a://one" }));
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    assert_eq!(timeout(SECOND, updated).await.unwrap().unwrap(), "a://one");
}

#[tokio::test(start_paused = true)]
async fn a_listen_stream_of_the_caller_continues() {
    for version in [OLD, NEW] {
        let scripted = ScriptedServer::well(version);
        let client = scripted.connect_with(reconnecting()).await;
        let mut events = client.events();
        settle().await;
        let filter =
            SubscriptionFilter::new().tools_list_changed(true).resource_subscriptions(vec!["a://one".to_owned()]);
        let mut changes = client.subscribe(filter).await.unwrap();
        for generation in 2..5 {
            scripted.kill();
            until(&mut events, &format!("connected {generation}")).await;
            tokio::time::sleep(30 * SECOND).await;
            assert!(changes.is_open());
            match version.has(turms_proto::Ability::ListenStreams) {
                true => scripted.tell_listeners("notifications/resources/updated", json!({ "uri": "a://one" })),
                false => scripted.tell("notifications/resources/updated", &json!({ "uri": "a://one" })),
            }
            let change = timeout(SECOND, changes.next()).await.unwrap();
            assert_eq!(change, Some(Change::Resource { uri: "a://one".to_owned() }));
        }
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_listen_stream_survives_more_losses_than_max_attempts() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(builder().reconnect(Backoff::new().initial_delay(SECOND).max_attempts(2))).await;
    let mut events = client.events();
    let mut changes = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    for generation in 2..8 {
        tokio::time::sleep(60 * SECOND).await;
        scripted.kill();
        until(&mut events, &format!("connected {generation}")).await;
    }
    tokio::time::sleep(60 * SECOND).await;
    scripted.tell_listeners("notifications/tools/list_changed", json!({}));
    assert_eq!(timeout(SECOND, changes.next()).await.unwrap(), Some(Change::ToolList));
}

#[tokio::test(start_paused = true)]
async fn an_event_stream_without_a_connection_gets_changes_later() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(reconnecting()).await;
    scripted.refuse(3);
    scripted.kill();
    settle().await;
    assert_eq!(client.status(), ConnectionStatus::Disconnected);

    let mut events = client.events();
    until(&mut events, "connected 2").await;
    settle().await;
    scripted.tell_listeners("notifications/tools/list_changed", json!({}));
    until(&mut events, "ToolsChanged").await;
}

#[tokio::test(start_paused = true)]
async fn changes_arrive_although_the_first_listen_request_was_lost() {
    let scripted = ScriptedServer::new(NEW, |connection, method| match (connection, method) {
        (1, "subscriptions/listen") => Die,
        _ => Well,
    });
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    until(&mut events, "connected 2").await;
    settle().await;
    assert_eq!(scripted.connections_of("subscriptions/listen"), [1, 2]);
    scripted.tell_listeners("notifications/tools/list_changed", json!({}));
    until(&mut events, "ToolsChanged").await;
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_set_again() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    scripted.kill();
    until(&mut events, "connected 2").await;

    let levels: Vec<_> = scripted.heard("logging/setLevel").iter().map(|it| it.params["level"].clone()).collect();
    assert_eq!(levels, ["warning", "warning"]);
    assert_eq!(scripted.connections_of("logging/setLevel"), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn the_log_level_is_in_every_request_of_the_newest_revision() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    scripted.kill();
    until(&mut events, "connected 2").await;

    client.call_tool("look", ()).await.unwrap();
    let call = scripted.heard("tools/call").pop().unwrap();
    assert_eq!(call.connection, 2);
    assert_eq!(call.params["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
    assert!(scripted.heard("logging/setLevel").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_restored_state_is_used() {
    let scripted = ScriptedServer::new(OLD, |connection, method| match (connection, method) {
        (2, "logging/setLevel" | "resources/subscribe") => Error,
        _ => Well,
    });
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    let _subscription = client.subscribe("a://one").await.unwrap();
    scripted.kill();
    until(&mut events, "connected 2").await;
    assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 2");
}

#[tokio::test(start_paused = true)]
async fn the_cache_is_cleared_on_reconnect() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    for _ in 0..3 {
        client.list_tools().await.unwrap();
        client.read_resource("a://one").await.unwrap();
    }
    assert_eq!(scripted.connections_of("tools/list"), [1]);
    assert_eq!(scripted.connections_of("resources/read"), [1]);
    scripted.kill();
    until(&mut events, "lost").await;

    client.list_tools().await.unwrap();
    let read = client.read_resource("a://one").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("from 2"));
    assert_eq!(scripted.connections_of("tools/list"), [1, 2]);
    assert_eq!(scripted.connections_of("resources/read"), [1, 2]);
}
