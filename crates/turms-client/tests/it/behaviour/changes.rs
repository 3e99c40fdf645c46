//! Notifications of changed resources and lists, in every revision.

use serde_json::json;
use turms_client::{Change, Event, Events};
use turms_proto::types::SubscriptionFilter;
use turms_proto::{Ability, ProtocolVersion};

use crate::behaviour::peer::Peer;
use crate::behaviour::reach::{Reached, everywhere, nobody};

async fn updated(events: &mut Events) -> String {
    let updated = events.find(|event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    });
    updated.await.unwrap()
}

async fn touch(client: &Reached, uri: &str) {
    client.text("touch", json!({ "uri": uri })).await;
}

/// Waits until the server has processed dropped subscriptions, by the number of its open streams (the events use one of
/// them) or of unsubscribe requests.
async fn unsubscribed(client: &Reached, streams: i64, requests: i64) {
    if client.version.has(Ability::ListenStreams) {
        client.reaches("listening", streams + 1).await;
    } else {
        client.reaches("resources/unsubscribe", requests).await;
    }
}

fn updates_of(uri: &str) -> SubscriptionFilter {
    SubscriptionFilter::new().resource_subscriptions([uri.to_owned()])
}

#[tokio::test]
async fn updates_of_a_subscribed_resource_arrive() {
    everywhere(async |client| {
        let mut events = client.events();
        let _subscription = client.subscribe("config://app").await.unwrap();
        touch(&client, "data://blob").await;
        touch(&client, "config://app").await;
        assert_eq!(updated(&mut events).await, "config://app");
    })
    .await;
}

#[tokio::test]
async fn a_dropped_subscription_receives_no_updates() {
    everywhere(async |client| {
        let mut events = client.events();
        let blob = client.subscribe("data://blob").await.unwrap();
        let _app = client.subscribe("config://app").await.unwrap();
        drop(blob);
        unsubscribed(&client, 1, 1).await;
        touch(&client, "data://blob").await;
        touch(&client, "config://app").await;
        assert_eq!(updated(&mut events).await, "config://app");
    })
    .await;
}

#[tokio::test]
async fn a_resource_is_unsubscribed_after_its_last_subscription() {
    everywhere(async |client| {
        let mut events = client.events();
        let one = client.subscribe("data://blob".to_owned()).await.unwrap();
        let mut other = client.subscribe("data://blob").await.unwrap();
        let _app = client.subscribe("config://app").await.unwrap();
        drop(one);
        if client.version.has(Ability::ListenStreams) {
            unsubscribed(&client, 2, 0).await;
        }
        touch(&client, "data://blob").await;
        assert_eq!(other.next().await, Some(Change::Resource { uri: "data://blob".into() }));
        assert_eq!(updated(&mut events).await, "data://blob");
        drop(other);
        unsubscribed(&client, 1, 1).await;
        touch(&client, "data://blob").await;
        touch(&client, "config://app").await;
        assert_eq!(updated(&mut events).await, "config://app");
    })
    .await;
}

#[tokio::test]
async fn subscriptions_use_the_method_of_the_revision() {
    everywhere(async |client| {
        let subscription = client.subscribe("config://app").await.unwrap();
        if client.version.has(Ability::ListenStreams) {
            client.reaches("listening", 1).await;
            drop(subscription);
            client.reaches("listening", 0).await;
        } else {
            assert_eq!(client.count("resources/subscribe").await, 1);
            drop(subscription);
            client.reaches("resources/unsubscribe", 1).await;
            assert_eq!(client.count("resources/subscribe").await, 1);
        }
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_list_is_an_event() {
    everywhere(async |client| {
        let mut events = client.events();
        if client.version.has(Ability::ListenStreams) {
            client.reaches("listening", 1).await;
        }
        for (lever, wanted) in [
            ("add_late_tool", "tools"),
            ("add_late_prompt", "prompts"),
            ("add_late_resource", "resources"),
            ("remove_late_tool", "tools"),
        ] {
            client.text(lever, ()).await;
            let changed = events.find(|event| match event {
                Event::ToolsChanged => Some("tools"),
                Event::PromptsChanged => Some("prompts"),
                Event::ResourcesChanged => Some("resources"),
                _ => None,
            });
            assert_eq!(changed.await, Some(wanted));
        }
    })
    .await;
}

#[tokio::test]
async fn what_has_changed_can_be_used_at_once() {
    everywhere(async |client| {
        let filter = SubscriptionFilter::new().tools_list_changed(true);
        let mut changes = client.subscribe(filter).await.unwrap();
        assert!(client.call_tool("late", ()).await.is_err());
        client.text("add_late_tool", ()).await;
        assert_eq!(changes.next().await, Some(Change::ToolList));
        assert!(client.list_tools().await.unwrap().iter().any(|tool| tool.name == "late"));
        assert_eq!(client.text("late", ()).await, "here");
        assert_eq!(client.text("remove_late_tool", ()).await, "true");
        assert_eq!(changes.next().await, Some(Change::ToolList));
        assert!(!client.list_tools().await.unwrap().iter().any(|tool| tool.name == "late"));
        assert!(client.call_tool("late", ()).await.is_err());
    })
    .await;
}

#[tokio::test]
async fn a_subscription_receives_only_what_its_filter_names() {
    everywhere(async |client| {
        let filter = updates_of("config://app").tools_list_changed(true);
        let mut changes = client.subscribe(filter.clone()).await.unwrap();
        assert_eq!(*changes.acknowledged(), filter);
        assert!(changes.is_open());
        touch(&client, "data://blob").await;
        client.text("add_late_prompt", ()).await;
        client.text("add_late_tool", ()).await;
        assert_eq!(changes.next().await, Some(Change::ToolList));
        touch(&client, "config://app").await;
        assert_eq!(changes.next().await, Some(Change::Resource { uri: "config://app".into() }));
        client.text("add_late_resource", ()).await;
        touch(&client, "config://app").await;
        assert_eq!(changes.next().await, Some(Change::Resource { uri: "config://app".into() }));
    })
    .await;
}

#[tokio::test]
async fn dropping_a_subscription_unsubscribes_at_the_server() {
    everywhere(async |client| {
        let changes = client.subscribe(updates_of("config://app")).await.unwrap();
        if client.version.has(Ability::ListenStreams) {
            client.reaches("listening", 1).await;
            drop(changes);
            client.reaches("listening", 0).await;
        } else {
            drop(changes);
            client.reaches("resources/unsubscribe", 1).await;
        }
    })
    .await;
}

#[tokio::test]
async fn dropping_a_subscription_does_not_affect_others() {
    everywhere(async |client| {
        let mut events = client.events();
        let _subscription = client.subscribe("config://app").await.unwrap();
        let filter =
            SubscriptionFilter::new().resource_subscriptions(["config://app".to_owned(), "data://blob".to_owned()]);
        let mut changes = client.subscribe(filter).await.unwrap();
        touch(&client, "config://app").await;
        assert_eq!(changes.next().await, Some(Change::Resource { uri: "config://app".into() }));
        assert_eq!(updated(&mut events).await, "config://app");
        drop(changes);
        unsubscribed(&client, 1, 1).await;
        touch(&client, "data://blob").await;
        touch(&client, "config://app").await;
        assert_eq!(updated(&mut events).await, "config://app");
    })
    .await;
}

#[tokio::test]
async fn a_subscription_ends_with_the_client() {
    everywhere(async |client| {
        let mut changes = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        client.close().await;
        assert_eq!(changes.next().await, None);
    })
    .await;
}

#[tokio::test]
async fn older_clients_cannot_subscribe_to_a_missing_resource() {
    everywhere(async |client| {
        if client.version.has(Ability::ListenStreams) {
            return;
        }
        let error = client.subscribe("config://other").await.unwrap_err();
        assert!(error.error_response().unwrap().is_resource_not_found());
        assert_eq!(error.target(), "resources/subscribe \"config://other\"");
        let filter = updates_of("config://app").resource_subscriptions(["config://other".to_owned()]);
        assert!(client.subscribe(filter).await.unwrap_err().error_response().unwrap().is_resource_not_found());
    })
    .await;
}

#[tokio::test]
async fn an_unacknowledged_resource_is_an_error() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let subscribing = tokio::spawn(client.subscribe("config://app").into_future());
    let listen = peer.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"], json!({ "resourceSubscriptions": ["config://app"] }));
    peer.notify(
        "notifications/subscriptions/acknowledged",
        json!({ "notifications": {}, "_meta": { "io.modelcontextprotocol/subscriptionId": listen["id"] } }),
    )
    .await;
    let error = subscribing.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "subscriptions/listen: error response from server: the server offers no changes of config://app (-32602 invalid params)"
    );
}

#[tokio::test]
async fn the_error_of_a_refused_listen_request_reaches_the_caller() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let listening = tokio::spawn(client.subscribe(updates_of("config://app")).into_future());
    let listen = peer.expect("subscriptions/listen").await;
    peer.refuse(&listen, json!({ "code": -32601, "message": "not here" })).await;
    assert_eq!(listening.await.unwrap().unwrap_err().error_response().unwrap().message, "not here");
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_is_over() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let listening = tokio::spawn(client.subscribe(updates_of("a://b")).into_future());
    let listen = peer.expect("subscriptions/listen").await;
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": listen["id"] });
    let acknowledged = json!({ "notifications": listen["params"]["notifications"], "_meta": meta });
    peer.notify("notifications/subscriptions/acknowledged", acknowledged).await;
    let mut changes = listening.await.unwrap().unwrap();
    peer.notify("notifications/resources/updated", json!({ "uri": "a://b/c", "_meta": meta })).await;
    assert_eq!(changes.next().await, Some(Change::Resource { uri: "a://b/c".into() }));
    peer.answer(&listen, json!({ "resultType": "complete", "_meta": meta })).await;
    assert_eq!(changes.next().await, None);
    assert!(!changes.is_open());
}

#[tokio::test]
async fn a_cancelled_subscribe_request_can_be_repeated() {
    for version in [ProtocolVersion::LATEST_WITH_HANDSHAKE, ProtocolVersion::LATEST] {
        let (client, mut peer) = Peer::connected(version, nobody()).await;
        let method = if version.has(Ability::ListenStreams) { "subscriptions/listen" } else { "resources/subscribe" };
        for _ in 0..2 {
            let subscribing = tokio::spawn(client.subscribe("config://app").into_future());
            let asked = peer.expect(method).await;
            subscribing.abort();
            let cancelled = peer.expect("notifications/cancelled").await;
            assert_eq!(cancelled["params"]["requestId"], asked["id"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_acknowledgement_is_a_timeout() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let second = std::time::Duration::from_secs(1);
    let error = client.subscribe(updates_of("a://b")).timeout(second).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(client.subscribe("a://b").timeout(second).await.unwrap_err().is_timeout());
    for _ in 0..2 {
        let asked = peer.expect("subscriptions/listen").await;
        assert_eq!(peer.expect("notifications/cancelled").await["params"]["requestId"], asked["id"]);
    }
}
