//! `subscriptions/listen` over HTTP (basic/utilities/subscriptions, 2026-07-28).

use serde_json::{Value, json};

use crate::dialog::{SUBSCRIPTION, modern, modern_call};
use crate::fixture::Fixture;
use crate::wire::Stream;

/// Listens, and reads that it was heard.
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
async fn a_change_is_told_to_all_who_listen_each_by_its_own_id() {
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
    assert!(rest.iter().all(|message| message.get("result").is_some()), "nobody asked for these: {rest:?}");
}

#[tokio::test]
async fn resources_are_watched_by_name() {
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
async fn what_is_not_known_is_left_out_of_what_is_honoured() {
    let fixture = Fixture::start().await;
    let (_stream, honoured) = listen(&fixture, 1, json!({ "toolsListChanged": true, "weatherChanged": true })).await;
    assert_eq!(honoured["toolsListChanged"], true);
    assert!(honoured.get("weatherChanged").is_none(), "{honoured}");
    let (_stream, honoured) = listen(&fixture, 1, json!({})).await;
    assert!(honoured.get("toolsListChanged").is_none_or(|honoured| honoured == false), "{honoured}");
}

#[tokio::test]
async fn a_server_that_ends_answers_those_who_listen() {
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

/// Every stream that is closed makes room, or else somebody who comes and goes could fill the server.
#[tokio::test]
async fn who_closes_the_stream_listens_no_more() {
    let fixture = Fixture::start().await;
    for _ in 0..200 {
        listen(&fixture, 1, json!({ "toolsListChanged": true })).await;
    }
    let (mut stream, _) = listen(&fixture, 2, json!({ "toolsListChanged": true })).await;
    fixture.send(modern_call(9, "grow", json!({}))).await;
    assert_eq!(stream.message().await["params"]["_meta"][SUBSCRIPTION], 2);
}
