//! Servers that acknowledge or send more than a subscription requests.

use serde_json::{Value, json};
use turms_client::{CallErrorKind, Change, DecodeCause, Event};
use turms_proto::ProtocolVersion;
use turms_proto::types::SubscriptionFilter;
use turms_testkit::within;

use crate::behaviour::peer::Peer;
use crate::behaviour::reach::nobody;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

/// A filter for tools, one resource and one task.
fn filter() -> SubscriptionFilter {
    SubscriptionFilter::new()
        .tools_list_changed(true)
        .resource_subscriptions(["file:///a".to_owned()])
        .task_ids(["t".to_owned()])
}

async fn acknowledge(peer: &mut Peer, request: &Value, notifications: &Value) {
    tell(peer, request, "notifications/subscriptions/acknowledged", json!({ "notifications": notifications })).await;
}

async fn tell(peer: &mut Peer, request: &Value, method: &str, mut params: Value) {
    params["_meta"] = json!({ SUBSCRIPTION_ID: request["id"] });
    peer.notify(method, params).await;
}

#[tokio::test]
async fn an_acknowledgement_wider_than_the_filter_is_refused() {
    for (wider, named) in [
        (json!({ "toolsListChanged": true, "promptsListChanged": true }), "promptsListChanged"),
        (json!({ "resourcesListChanged": true }), "resourcesListChanged"),
        (json!({ "resourceSubscriptions": ["file:///a", "file:///b"] }), "the resource \"file:///b\""),
        (json!({ "resourceSubscriptions": ["file:///"] }), "the resource \"file:///\""),
        (json!({ "taskIds": ["t", "u"] }), "the task \"u\""),
    ] {
        let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
        let listening = tokio::spawn(client.subscribe(filter()).into_future());
        let request = peer.expect("subscriptions/listen").await;
        acknowledge(&mut peer, &request, &wider).await;
        let error = within("the refusal", listening).await.unwrap().unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_))), "{error}");
        assert!(error.to_string().contains(named), "{error}");
        let cancelled = peer.expect("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], request["id"]);
    }
}

#[tokio::test]
async fn an_acknowledgement_within_the_filter_is_accepted() {
    for honoured in [
        json!({ "toolsListChanged": true, "resourceSubscriptions": ["file:///a"], "taskIds": ["t"] }),
        json!({ "toolsListChanged": true, "promptsListChanged": false }),
        json!({ "resourceSubscriptions": ["file:///a/b"] }),
        json!({}),
    ] {
        let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
        let listening = tokio::spawn(client.subscribe(filter()).into_future());
        let request = peer.expect("subscriptions/listen").await;
        acknowledge(&mut peer, &request, &honoured).await;
        within("the subscription", listening).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_change_on_two_subscriptions_is_one_event() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let mut events = client.events();
    // The stream of changed lists, which are delivered as events.
    let lists = peer.expect("subscriptions/listen").await;
    acknowledge(&mut peer, &lists, &json!({ "toolsListChanged": true })).await;
    let mut subscriptions = Vec::new();
    for _ in 0..2 {
        let listening = tokio::spawn(client.subscribe("file:///a").into_future());
        let request = peer.expect("subscriptions/listen").await;
        acknowledge(&mut peer, &request, &json!({ "resourceSubscriptions": ["file:///a"] })).await;
        subscriptions.push((within("the subscription", listening).await.unwrap().unwrap(), request));
    }
    let updated = async |peer: &mut Peer, request: &Value, uri: &str| {
        tell(peer, request, "notifications/resources/updated", json!({ "uri": uri })).await;
    };
    for (_, request) in &subscriptions {
        updated(&mut peer, request, "file:///a").await;
    }
    for (changes, _) in &mut subscriptions {
        assert_eq!(within("a change", changes.next()).await, Some(Change::Resource { uri: "file:///a".to_owned() }));
    }
    // The second subscription continues after the first is dropped.
    let (mut second, request) = subscriptions.pop().unwrap();
    drop(subscriptions);
    peer.expect("notifications/cancelled").await;
    updated(&mut peer, &request, "file:///a/b").await;
    within("a change", second.next()).await;
    let uri = |event| match event {
        Event::ResourceUpdated { uri } => Some(uri),
        _ => None,
    };
    assert_eq!(within("an event", events.find(uri)).await.unwrap(), "file:///a");
    assert_eq!(within("an event", events.find(uri)).await.unwrap(), "file:///a/b");
}

#[tokio::test]
async fn events_outside_the_filter_are_dropped() {
    let (client, mut peer) = Peer::connected(ProtocolVersion::LATEST, nobody()).await;
    let listening = tokio::spawn(client.subscribe(filter()).into_future());
    let request = peer.expect("subscriptions/listen").await;
    acknowledge(&mut peer, &request, &json!({ "toolsListChanged": true, "resourceSubscriptions": ["file:///a"] }))
        .await;
    let mut changes = within("the subscription", listening).await.unwrap().unwrap();
    tell(&mut peer, &request, "notifications/prompts/list_changed", json!({})).await;
    tell(&mut peer, &request, "notifications/resources/list_changed", json!({})).await;
    for uri in ["file:///b", "file:///ab", "file:///"] {
        tell(&mut peer, &request, "notifications/resources/updated", json!({ "uri": uri })).await;
    }
    tell(&mut peer, &request, "notifications/resources/updated", json!({})).await;
    let other = json!({ "taskId": "u", "status": "working", "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z", "ttlMs": 1 });
    tell(&mut peer, &request, "notifications/tasks", other).await;
    tell(&mut peer, &request, "notifications/resources/updated", json!({ "uri": "file:///a/b" })).await;
    tell(&mut peer, &request, "notifications/tools/list_changed", json!({})).await;
    assert_eq!(within("a change", changes.next()).await, Some(Change::Resource { uri: "file:///a/b".to_owned() }));
    assert_eq!(within("a change", changes.next()).await, Some(Change::ToolList));
}
