//! Subscriptions, events and notifications of a pool.

use turms_core::{Payload, ServiceError};
use turms_proto::types::{ResourceParams, Subscribe, Unsubscribe};

use super::*;

/// Subscribes to a resource through the service of the pool.
fn watch(client: &Client, uri: &str) -> impl Future<Output = Result<Payload, ServiceError>> + use<> {
    let request = Request::new::<Subscribe>(ResourceParams::new(uri));
    Service::call(client, request, CallContext::in_process())
}

fn unwatch(client: &Client, uri: &str) -> impl Future<Output = Result<Payload, ServiceError>> + use<> {
    let request = Request::new::<Unsubscribe>(ResourceParams::new(uri));
    Service::call(client, request, CallContext::in_process())
}

#[tokio::test]
async fn a_subscription_moves_when_its_member_closes() {
    for version in ProtocolVersion::ALL {
        for removed in [false, true] {
            let (mut one, mut two) = (Site::new("one"), Site::new("two"));
            let asks = asks(version);
            let clients = [
                one.remote_with(app().protocol_version(version)).await,
                two.remote_with(app().protocol_version(version)).await,
            ];
            let pool = pool_of(PoolStrategy::RoundRobin, clients).await;
            let client = pool.as_client();
            watch(&client, URI).await.unwrap();
            watch(&client, URI).await.unwrap();
            one.asked(asks).await;
            let mut events = client.events();
            let updated = |event: &Event| matches!(event, Event::ResourceUpdated { uri } if uri == URI);
            one.router.handle().notify_resource_updated(URI);
            hear(&mut events, updated).await;
            let kept = match removed {
                true => pool.remove(ids(&pool)[0]),
                false => {
                    one.hang_up().await;
                    None
                }
            };
            two.until_watched(asks, &mut events).await;
            unwatch(&client, URI).await.unwrap();
            if version != ProtocolVersion::LATEST {
                two.asked("resources/unsubscribe").await;
            }
            drop(kept);
        }
    }
}

impl Site {
    /// Waits until a resource is subscribed to and its updates arrive.
    async fn until_watched(&mut self, asks: &str, events: &mut Events) {
        // A server of 2026-07-28 may receive a listen request for lists first.
        loop {
            let updated = events.find(|event| matches!(event, Event::ResourceUpdated { .. }).then_some(()));
            tokio::select! {
                found = updated => return found.unwrap(),
                () = self.asked(asks) => self.router.handle().notify_resource_updated(URI),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_moves_when_its_member_hangs() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).max_failures(1);
    let pool =
        Pool::builder().clients([one.remote().await, two.remote().await]).health_check(check).build().await.unwrap();
    let client = pool.as_client();
    watch(&client, URI).await.unwrap();
    let mut events = client.events();
    one.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { .. })).await;
    two.until_watched("subscriptions/listen", &mut events).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_subscribe_request_does_not_affect_others() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::LATEST] {
        let mut one = Site::new("one");
        let client = one.remote_with(app().protocol_version(version)).await;
        let pool = Pool::builder().client(client).without_health_check().build().await.unwrap();
        let client = pool.as_client();
        one.set_silent(true);
        let first = tokio::spawn(watch(&client, URI));
        one.asked(asks(version)).await;
        let second = tokio::spawn(watch(&client, URI));
        one.set_silent(false);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        second.await.unwrap().unwrap();
        let mut events = client.events();
        one.router.handle().notify_resource_updated(URI);
        hear(&mut events, |event| matches!(event, Event::ResourceUpdated { .. })).await;

        unwatch(&client, URI).await.unwrap();
        one.set_silent(true);
        assert!(client.subscribe(URI).timeout(SECOND).await.unwrap_err().is_timeout());
        one.set_silent(false);
        watch(&client, URI).await.unwrap();
        if version != ProtocolVersion::LATEST {
            let unknown = client.subscribe("memo://unknown").await.unwrap_err();
            assert!(unknown.error_response().is_some(), "{unknown}");
            assert!(watch(&client, "memo://unknown").await.is_err());
        }
    }
}

#[tokio::test]
async fn a_listen_stream_continues_on_another_member() {
    for version in ProtocolVersion::ALL {
        let (mut one, mut two) = (Site::new("one"), Site::new("two"));
        let clients = [
            one.remote_with(app().protocol_version(version)).await,
            two.remote_with(app().protocol_version(version)).await,
        ];
        let pool = pool_of(PoolStrategy::RoundRobin, clients).await;
        let asks = asks(version);
        let filter = SubscriptionFilter::new().resource_subscriptions([URI.to_owned()]);
        let mut changes = pool.as_client().subscribe(filter).await.unwrap();
        assert!(changes.acknowledged().resource_subscriptions.is_some());
        one.router.handle().notify_resource_updated(URI);
        assert_eq!(changes.next().await, Some(Change::Resource { uri: URI.to_owned() }));
        one.hang_up().await;
        two.asked(asks).await;
        two.router.handle().notify_resource_updated(URI);
        assert_eq!(changes.next().await, Some(Change::Resource { uri: URI.to_owned() }));
        assert!(changes.is_open());
        pool.close().await;
        assert_eq!(changes.next().await, None);
    }
}

#[tokio::test]
async fn a_log_level_applies_to_all_members_and_later_ones() {
    let version = ProtocolVersion::V2025_06_18;
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let (mut later, mut none) = (Site::new("later"), Site::new("none"));
    let log = app().protocol_version(version);
    let pool =
        pool_of(PoolStrategy::RoundRobin, [one.remote_with(log.clone()).await, two.remote_with(log.clone()).await])
            .await;
    pool.as_client().set_log_level(LoggingLevel::Warning).await.unwrap();
    one.asked("logging/setLevel").await;
    two.asked("logging/setLevel").await;
    pool.add(later.remote_with(log.clone()).await);
    later.asked("logging/setLevel").await;

    let empty = Pool::builder().build().await.unwrap();
    assert!(empty.as_client().set_log_level(LoggingLevel::Error).await.unwrap_err().is_disconnected());
    empty.add(none.remote_with(log).await);
    none.asked("logging/setLevel").await;
}

#[tokio::test]
async fn events_of_all_members_and_later_ones_arrive() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await]).await;
    let mut events = pool.as_client().events();
    one.asked("subscriptions/listen").await;
    pool.add(two.remote().await);
    two.asked("subscriptions/listen").await;
    for site in [&one, &two] {
        site.router.handle().add_tool(Tool::builder("more").handler_sync(|| "more")).unwrap();
        hear(&mut events, |event| matches!(event, Event::ToolsChanged)).await;
    }
    pool.close().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn notifications_are_sent_to_all_members() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    pool.as_client().notify_raw("notifications/mine", None).await.unwrap();
    one.asked("notifications/mine").await;
    two.asked("notifications/mine").await;
}
