//! What is watched, heard and told.

use super::*;

#[tokio::test]
async fn a_watched_resource_is_watched_by_another_when_its_member_goes() {
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
            client.subscribe(URI).await.unwrap();
            client.subscribe(URI).await.unwrap();
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
            client.unsubscribe(URI).await.unwrap();
            if version != ProtocolVersion::LATEST {
                two.asked("resources/unsubscribe").await;
            }
            drop(kept);
        }
    }
}

impl Site {
    /// Waits until a resource is watched, and sees that changes to it are heard.
    async fn until_watched(&mut self, asks: &str, events: &mut Events) {
        // A server of 2026-07-28 may be asked for lists first.
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
async fn a_watched_resource_is_watched_by_another_when_its_member_hangs() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).max_failures(1);
    let pool =
        Pool::builder().clients([one.remote().await, two.remote().await]).health_check(check).build().await.unwrap();
    let client = pool.as_client();
    client.subscribe(URI).await.unwrap();
    let mut events = client.events();
    one.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { .. })).await;
    two.until_watched("subscriptions/listen", &mut events).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_watching_does_not_take_it_from_others() {
    for version in [ProtocolVersion::V2025_06_18, ProtocolVersion::LATEST] {
        let mut one = Site::new("one");
        let client = one.remote_with(app().protocol_version(version)).await;
        let pool = Pool::builder().client(client).without_health_check().build().await.unwrap();
        let client = pool.as_client();
        one.set_silent(true);
        let first = tokio::spawn(client.subscribe(URI).into_future());
        one.asked(asks(version)).await;
        let second = tokio::spawn(client.subscribe(URI).into_future());
        one.set_silent(false);
        first.abort();
        assert!(first.await.unwrap_err().is_cancelled());
        second.await.unwrap().unwrap();
        let mut events = client.events();
        one.router.handle().notify_resource_updated(URI);
        hear(&mut events, |event| matches!(event, Event::ResourceUpdated { .. })).await;

        client.unsubscribe(URI).await.unwrap();
        one.set_silent(true);
        assert!(client.subscribe(URI).timeout(SECOND).await.unwrap_err().is_timeout());
        one.set_silent(false);
        client.subscribe(URI).await.unwrap();
        if version != ProtocolVersion::LATEST {
            let unknown = client.subscribe("memo://unknown").await.unwrap_err();
            assert!(unknown.error_response().is_some(), "{unknown}");
        }
    }
}

#[tokio::test]
async fn listening_goes_on_with_another_member() {
    for version in ProtocolVersion::ALL {
        let (mut one, mut two) = (Site::new("one"), Site::new("two"));
        let clients = [
            one.remote_with(app().protocol_version(version)).await,
            two.remote_with(app().protocol_version(version)).await,
        ];
        let pool = pool_of(PoolStrategy::RoundRobin, clients).await;
        let asks = asks(version);
        let filter = SubscriptionFilter::new().resource_subscriptions([URI.to_owned()]);
        let mut changes = pool.as_client().listen(filter).await.unwrap();
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
async fn a_log_level_is_for_all_and_for_those_that_come_later() {
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
async fn events_are_those_of_all_members_also_of_later_ones() {
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
async fn what_is_told_is_told_to_all() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    pool.as_client().notify_raw("notifications/mine", None).await.unwrap();
    one.asked("notifications/mine").await;
    two.asked("notifications/mine").await;
}
