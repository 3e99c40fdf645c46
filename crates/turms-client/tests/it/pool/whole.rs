//! A pool as one client: pages, batches, statistics and close.

use super::*;

#[tokio::test]
async fn all_pages_of_a_list_come_from_one_member() {
    let paged = |name: &'static str| {
        Site::with(name, move |server| {
            (0..5).fold(server.page_size(2), |server, number| {
                server.tool(Tool::builder(format!("{name}-{number}")).handler_sync(|| ""))
            })
        })
    };
    let (one, two) = (paged("one"), paged("two"));
    for strategy in [PoolStrategy::RoundRobin, PoolStrategy::Random, PoolStrategy::LeastLoaded] {
        let pool = pool_of(strategy, [one.local().await, two.local().await]).await;
        for _ in 0..4 {
            let listed = pool.as_client().list_tools().await.unwrap();
            let mut streamed = Vec::new();
            let mut items = pool.as_client().stream_tools();
            while let Some(tool) = items.next().await {
                streamed.push(tool.unwrap());
            }
            for tools in [listed, streamed] {
                assert_eq!(tools.len(), 7);
                let ones = tools.iter().filter(|tool| tool.name.starts_with("one-")).count();
                assert!(ones == 0 || ones == 5, "{ones}");
            }
        }
    }
}

#[tokio::test]
async fn a_batch_is_sent_to_one_member_and_its_lost_calls_to_others() {
    let version = ProtocolVersion::V2025_03_26;
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let clients = [
        one.remote_with(app().protocol_version(version)).await,
        two.remote_with(app().protocol_version(version)).await,
    ];
    let pool = pool_of(PoolStrategy::RoundRobin, clients).await;
    let mut batch = pool.as_client().batch();
    let slots = [batch.call_tool("whoami", ()), batch.call_tool("whoami", ())];
    let mut outcomes = batch.send().await;
    for slot in slots {
        assert_eq!(outcomes.take(slot).unwrap().text(), "one");
    }
    two.hang_up().await;
    let mut batch = pool.as_client().batch();
    let slots = [batch.call_tool("whoami", ()), batch.call_tool("whoami", ())];
    let mut outcomes = batch.send().await;
    for slot in slots {
        assert_eq!(outcomes.take(slot).unwrap().text(), "one");
    }
}

#[tokio::test]
async fn pending_calls_of_all_members_have_distinct_ids() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = pool.as_client();
    let first = wait_call(&client);
    one.asked("tools/call").await;
    let second = wait_call(&client);
    two.asked("tools/call").await;
    let pending = client.pending_calls();
    assert_eq!(pending.len(), 2);
    assert_ne!(pending[0].id, pending[1].id);
    assert_eq!(client.pending_calls()[1].id, pending[1].id, "the id does not change");
    assert!(client.cancel(pending[0].id));
    assert!(first.await.unwrap().unwrap_err().is_cancelled());
    let rest: Vec<_> = client.pending_calls().iter().map(|call| call.id).collect();
    assert_eq!(rest, [pending[1].id]);
    assert!(!client.cancel(pending[0].id));
    assert_eq!(client.cancel_all(), 1);
    assert!(second.await.unwrap().unwrap_err().is_cancelled());
}

#[tokio::test]
async fn a_pool_is_a_service() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = app().connect_service(pool.clone()).await.unwrap();
    let names = [whoami(&client).await, whoami(&client).await, whoami(&client).await, whoami(&client).await];
    assert_eq!(names.iter().filter(|name| *name == "one").count(), 2, "{names:?}");
    one.hang_up().await;
    for _ in 0..3 {
        assert_eq!(whoami(&client).await, "two");
    }
    assert_eq!(client.read_resource(URI).await.unwrap().contents.len(), 1);
    let error = client.call_tool("nothing", ()).await.unwrap_err();
    assert!(error.error_response().is_some(), "{error}");
    assert!(pool.stats().members[1].calls >= 6);
}

#[tokio::test]
async fn statistics_have_each_member_and_totals() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let before = pool.as_client().stats().connection.requests_sent;
    landings(&pool, 4).await;
    assert_eq!(pool.as_client().stats().connection.requests_sent - before, 4);
    assert!(pool.as_client().call_tool("nothing", ()).await.is_err());
    let stats = pool.stats();
    let by_member: BTreeMap<_, _> =
        stats.members.iter().map(|member| (member.id, (member.calls, member.failures, member.busy))).collect();
    // An error response counts as a response.
    assert_eq!(by_member.into_values().collect::<Vec<_>>(), [(3, 0, 0), (2, 0, 0)]);
    assert_eq!((stats.unconnected, stats.failovers, stats.last_failure.is_none()), (0, 0, true));
    assert_eq!(pool.as_client().server_info().unwrap().name, "one");
    assert!(format!("{pool:?}").contains("healthy: true"));
}

#[tokio::test]
async fn a_closed_pool_accepts_no_members() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await]).await;
    let mut events = pool.as_client().events();
    pool.close().await;
    one.deserted().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(events.next().await.is_none());
    assert_eq!(pool.as_client().status(), ConnectionStatus::Closed);
    assert!(pool.acquire().await.unwrap_err().is_closed());
    assert!(pool.as_client().ping().await.unwrap_err().is_disconnected());
    assert!(pool.as_client().subscribe(URI).await.unwrap_err().is_disconnected());
    pool.add(two.remote().await);
    assert!(pool.is_empty());
    two.deserted().await;
}

#[tokio::test]
async fn every_caller_that_closes_a_pool_waits_for_its_members() {
    let mut one = Site::new("one");
    let member = one.remote().await;
    let pool = pool_of(PoolStrategy::RoundRobin, [member.clone()]).await;
    tokio::select! {
        biased;
        () = pool.close() => {}
        () = pool.close() => {}
    }
    assert_eq!(member.status(), ConnectionStatus::Closed);
    one.deserted().await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_pool() {
    let (mut one, mut two, made) = (Site::new("one"), Site::new("two"), Site::new("made"));
    let factory = Factory::new(&made);
    let making = factory.clone();
    let pool = Pool::builder()
        .clients([one.remote().await, two.remote().await])
        .size(2, move || making.clone().connect())
        .build()
        .await
        .unwrap();
    let client = pool.as_client();
    let mut events = client.events();
    let _subscription = client.subscribe(URI).await.unwrap();
    let mut listening = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
    let lease = pool.acquire().await.unwrap();
    drop(pool);
    assert_eq!(whoami(&client).await.len(), 4);
    drop(client);
    let name = whoami(&lease).await;
    assert_eq!(lease.status(), ConnectionStatus::Ready);
    drop(lease);
    assert!([one.name, two.name, made.name].contains(&name.as_str()));
    one.deserted().await;
    two.deserted().await;
    factory.deserted().await;
    while events.next().await.is_some() {}
    assert_eq!(listening.next().await, None);
}

#[tokio::test]
async fn a_pool_waits_for_supervised_clients_without_another_member() {
    let site = Site::new("one");
    let front = site.front.clone();
    let connections = Arc::new(Mutex::new(Vec::new()));
    let opened = connections.clone();
    let connector = StreamConnector::from_fn("one", move || {
        let (near, far) = memory();
        opened.lock().unwrap().push(serve(front.clone(), far));
        std::future::ready(Ok(near))
    });
    let client = app().reconnect(Backoff::new()).connect(connector).await.unwrap();
    let pool = pool_of(PoolStrategy::LeastLoaded, [client]).await;
    let first: JoinHandle<()> = connections.lock().unwrap().remove(0);
    first.abort();
    let _ = first.await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test]
async fn a_pool_may_have_pools_as_members() {
    let sites: Vec<_> = ["a1", "a2", "b1", "b2"].into_iter().map(Site::new).collect();
    let mut clients = Vec::new();
    for site in &sites {
        clients.push(site.local().await);
    }
    let right = pool_of(PoolStrategy::RoundRobin, clients.split_off(2)).await;
    let left = pool_of(PoolStrategy::RoundRobin, clients).await;
    let pool = pool_of(PoolStrategy::RoundRobin, [left.as_client(), right.as_client()]).await;
    assert_eq!(landings(&pool, 4).await, ["a1", "b1", "a2", "b2"]);
    let (one, two) = (wait_call(&pool.as_client()), wait_call(&pool.as_client()));
    while pool.as_client().pending_calls().len() < 2 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.as_client().cancel_all(), 2);
    assert!(one.await.unwrap().is_err() && two.await.unwrap().is_err());
    left.close().await;
    let names = landings(&pool, 2).await;
    assert!(names.iter().all(|name| name.starts_with('b')), "{names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_idempotent_call_fails_while_members_are_added_and_removed() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder()
        .strategy(PoolStrategy::LeastLoaded)
        .size(3, move || making.clone().connect())
        .client(site.local().await)
        .build()
        .await
        .unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let (client, done) = (pool.as_client(), done.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while !done.load(Ordering::SeqCst) {
                    let called = client.call_tool("whoami", ()).idempotent().await;
                    assert_eq!(called.unwrap().text(), "one");
                    calls += 1;
                    tokio::task::yield_now().await;
                }
                calls
            })
        })
        .collect();
    let mut events = pool.as_client().events();
    for _ in 0..6 {
        let added = pool.add(site.local().await);
        factory.hang_up().await;
        hear(&mut events, connected).await;
        pool.remove(added).unwrap();
    }
    done.store(true, Ordering::SeqCst);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
    assert!(pool.stats().members.iter().all(|member| member.busy == 0));
}

#[tokio::test]
async fn pools_and_leases_are_send_and_sync() {
    fn sent<T: Send + Sync + 'static>(it: T) -> T {
        it
    }
    let client = Site::new("one").local().await;
    let pool = sent(tokio::spawn(sent(Pool::builder().client(client)).build()).await.unwrap().unwrap());
    let lease = sent(pool.acquire().await.unwrap());
    assert_eq!(sent(pool.stats()).members[0].id, lease.member());
}
