//! Cached responses, and the time to live that the server sets.

use std::time::Duration;

use serde_json::json;
use turms_client::{Change, Event};
use turms_proto::types::SubscriptionFilter;
use turms_proto::{Ability, ProtocolVersion};

use crate::behaviour::reach::{Reached, Way, along, everywhere, everywhere_as, person};

async fn read(client: &Reached, uri: &str) -> String {
    client.read_resource(uri).await.unwrap().contents[0].text.clone().unwrap()
}

#[tokio::test]
async fn a_cacheable_resource_is_read_once() {
    everywhere(async |client| {
        assert_eq!(read(&client, "reads://kept").await, "1");
        let kept = client.version.has(Ability::Caching);
        assert_eq!(read(&client, "reads://kept").await, if kept { "1" } else { "2" });
        let before = client.count("reads").await;
        assert_eq!(read(&client, "reads://fresh").await, (before + 1).to_string());
        assert_eq!(read(&client, "reads://fresh").await, (before + 2).to_string());
    })
    .await;
}

#[tokio::test]
async fn lists_are_reused_page_by_page() {
    everywhere(async |client| {
        client.list_prompts_page(None).await.unwrap();
        client.list_prompts().await.unwrap();
        client.list_prompts().await.unwrap();
        let requests = if client.version.has(Ability::Caching) { 2 } else { 5 };
        assert_eq!(client.count("prompts/list").await, requests);
    })
    .await;
}

#[tokio::test]
async fn a_call_can_insist_on_a_fresh_answer() {
    everywhere(async |client| {
        assert_eq!(read(&client, "reads://kept").await, "1");
        let fresh = client.read_resource("reads://kept").bypass_cache().await.unwrap();
        assert_eq!(fresh.contents[0].text.as_deref(), Some("2"));
        let kept = client.version.has(Ability::Caching);
        assert_eq!(read(&client, "reads://kept").await, if kept { "2" } else { "3" }, "the fresh one is kept");
        client.list_prompts_page(None).await.unwrap();
        client.list_prompts_page(None).bypass_cache().await.unwrap();
        assert_eq!(client.count("prompts/list").await, 2);
    })
    .await;
}

#[tokio::test]
async fn a_client_can_disable_its_cache() {
    everywhere_as(
        || person().without_cache(),
        async |client| {
            assert_eq!(read(&client, "reads://kept").await, "1");
            assert_eq!(read(&client, "reads://kept").await, "2");
            client.list_prompts_page(None).await.unwrap();
            client.list_prompts_page(None).await.unwrap();
            assert_eq!(client.count("prompts/list").await, 2);
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_is_cached_for_its_ttl() {
    for way in Way::IN_PROCESS {
        let client = Reached::new(way, ProtocolVersion::LATEST, person()).await;
        assert_eq!(read(&client, "reads://kept").await, "1");
        client.list_prompts_page(None).await.unwrap();
        tokio::time::advance(Duration::from_millis(59_999)).await;
        assert_eq!(read(&client, "reads://kept").await, "1");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(read(&client, "reads://kept").await, "2");
        client.list_prompts_page(None).await.unwrap();
        assert_eq!(client.count("prompts/list").await, 2);
    }
}

#[tokio::test]
async fn an_update_notification_makes_the_cached_response_stale() {
    everywhere(async |client| {
        let mut events = client.events();
        let _subscription = client.subscribe("reads://kept").await.unwrap();
        assert_eq!(read(&client, "reads://kept").await, "1");
        client.text("touch", json!({ "uri": "reads://kept" })).await;
        events.find(|event| matches!(event, Event::ResourceUpdated { .. }).then_some(())).await.unwrap();
        assert_eq!(read(&client, "reads://kept").await, "2");
    })
    .await;
}

#[tokio::test]
async fn a_change_of_a_list_makes_the_list_stale() {
    everywhere(async |client| {
        let filter = SubscriptionFilter::new().prompts_list_changed(true).resources_list_changed(true);
        let mut changes = client.subscribe(filter).await.unwrap();
        assert_eq!((client.list_prompts().await.unwrap().len(), client.list_resources().await.unwrap().len()), (4, 5));
        client.text("add_late_prompt", ()).await;
        assert_eq!(changes.next().await, Some(Change::PromptList));
        client.text("add_late_resource", ()).await;
        assert_eq!(changes.next().await, Some(Change::ResourceList));
        assert_eq!((client.list_prompts().await.unwrap().len(), client.list_resources().await.unwrap().len()), (5, 6));
    })
    .await;
}

#[tokio::test]
async fn responses_after_input_rounds_are_not_cached() {
    let versions: Vec<_> =
        ProtocolVersion::ALL.into_iter().filter(|version| version.has(Ability::FormElicitation)).collect();
    along(&Way::ALL, &versions, person, async |client| {
        assert_eq!(read(&client, "asked://name").await, "Ann");
        assert_eq!(read(&client, "asked://name").await, "Ann");
        let rounds = if client.version.has(Ability::InputRequired) { 2 } else { 1 };
        assert_eq!(client.count("resources/read").await, 2 * rounds);
    })
    .await;
}
