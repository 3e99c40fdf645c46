//! `subscriptions/listen` over HTTP (basic/utilities/subscriptions, 2026-07-28).

use serde_json::{Value, json};

use crate::dialog::{SUBSCRIPTION, modern, modern_call};
use crate::fixture::Fixture;
use crate::wire::Stream;

/// Subscribes and returns the stream and the acknowledged filter.
async fn listen(fixture: &Fixture, id: impl Into<Value>, filter: Value) -> (Stream, Value) {
    let id = id.into();
    let mut stream =
        fixture.stream(modern(id.clone(), "subscriptions/listen", json!({ "notifications": filter }))).await;
    let first = stream.message().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    assert_eq!(first["params"]["_meta"][SUBSCRIPTION], id);
    let honoured = first["params"]["notifications"].clone();
    (stream, honoured)
}

#[tokio::test]
async fn a_change_is_sent_to_each_subscription_with_its_id() {
    let fixture = Fixture::start().await;
    let filter = json!({ "toolsListChanged": true });
    let (mut one, honoured) = listen(&fixture, 1, filter.clone()).await;
    assert_eq!(honoured["toolsListChanged"], true);
    let (mut two, _) = listen(&fixture, "1", filter).await;
    let (prompts, _) = listen(&fixture, 2, json!({ "promptsListChanged": true })).await;
    fixture.send(modern_call(9, "grow", json!({}))).await;
    for (stream, id) in [(&mut one, json!(1)), (&mut two, json!("1"))] {
        let change = stream.message().await;
        assert_eq!(change["method"], "notifications/tools/list_changed");
        assert_eq!(change["params"]["_meta"][SUBSCRIPTION], id);
    }
    fixture.handle.notify_resource_updated("memo://hello");
    fixture.handle.shutdown();
    let rest = prompts.rest().await;
    assert!(rest.iter().all(|message| message.get("result").is_some()), "the filter does not include these: {rest:?}");
}

#[tokio::test]
async fn resource_updates_are_sent_for_subscribed_uris() {
    let fixture = Fixture::start().await;
    let (mut stream, honoured) = listen(&fixture, 1, json!({ "resourceSubscriptions": ["memo://hello"] })).await;
    assert_eq!(honoured["resourceSubscriptions"], json!(["memo://hello"]));
    fixture.handle.notify_resource_updated("memo://other");
    fixture.handle.notify_resource_updated("memo://hello");
    let change = stream.message().await;
    assert_eq!(change["method"], "notifications/resources/updated");
    assert_eq!(
        (&change["params"]["uri"], &change["params"]["_meta"][SUBSCRIPTION]),
        (&json!("memo://hello"), &json!(1))
    );
}

#[tokio::test]
async fn unknown_filters_are_not_acknowledged() {
    let fixture = Fixture::start().await;
    let (_stream, honoured) = listen(&fixture, 1, json!({ "toolsListChanged": true, "weatherChanged": true })).await;
    assert_eq!(honoured["toolsListChanged"], true);
    assert!(honoured.get("weatherChanged").is_none(), "{honoured}");
    let (_stream, honoured) = listen(&fixture, 1, json!({})).await;
    assert!(honoured.get("toolsListChanged").is_none_or(|honoured| honoured == false), "{honoured}");
}

#[tokio::test]
async fn subscriptions_are_answered_on_shutdown() {
    let fixture = Fixture::start().await;
    let (stream, _) = listen(&fixture, "mine", json!({ "toolsListChanged": true })).await;
    fixture.handle.shutdown();
    let rest = stream.rest().await;
    let [answer] = &*rest else { panic!("{rest:?}") };
    assert_eq!(answer["id"], "mine");
    assert_eq!(answer["result"]["resultType"], "complete");
    assert_eq!(answer["result"]["_meta"][SUBSCRIPTION], "mine");
    fixture.shut_down().await;
}

/// A closed stream frees its subscription; otherwise a client that reconnects repeatedly would fill the server.
#[tokio::test]
async fn closing_the_stream_ends_the_subscription() {
    let fixture = Fixture::start().await;
    for _ in 0..200 {
        listen(&fixture, 1, json!({ "toolsListChanged": true })).await;
    }
    let (mut stream, _) = listen(&fixture, 2, json!({ "toolsListChanged": true })).await;
    fixture.send(modern_call(9, "grow", json!({}))).await;
    assert_eq!(stream.message().await["params"]["_meta"][SUBSCRIPTION], 2);
}
