//! Members that a pool creates, replaces and waits for.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_pool_creates_its_members_and_retries_failed_ones() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let pool = Pool::builder().size(3, move || making.clone().connect()).build().await.unwrap();
    let stats = pool.stats();
    assert_eq!((stats.members.len(), stats.unconnected), (1, 2));
    assert_eq!(stats.last_failure.unwrap().to_string(), "cannot reach the site");
    let mut events = pool.as_client().events();
    for _ in 0..2 {
        hear(&mut events, connected).await;
    }
    let stats = pool.stats();
    assert_eq!((stats.members.len(), stats.unconnected, stats.last_failure.is_none()), (3, 0, true));
    assert_eq!(landings(&pool, 3).await, ["one", "one", "one"]);
}

#[tokio::test]
async fn a_pool_without_any_member_is_an_error() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let error = Pool::builder().size(2, move || making.clone().connect()).build().await.unwrap_err();
    assert!(error.is_unreachable());
    assert_eq!(error.to_string(), "none of 2 connections could be made");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "cannot reach the site");

    factory.failures.store(2, Ordering::SeqCst);
    let making = factory.clone();
    let given = site.local().await;
    let pool = Pool::builder().size(2, move || making.clone().connect()).client(given).build().await.unwrap();
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test]
async fn a_closed_member_is_replaced_and_calls_wait_for_the_new_one() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder().size(1, move || making.clone().connect()).build().await.unwrap();
    let before = ids(&pool);
    factory.hang_up().await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
    assert_ne!(ids(&pool), before);
    assert_eq!(pool.len(), 1);
    assert_eq!(factory.attempts.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn calls_do_not_wait_for_a_member_that_has_just_failed() {
    let site = Site::new("one");
    let factory = Factory::new(&site);
    let making = factory.clone();
    let pool = Pool::builder().size(1, move || making.clone().connect()).build().await.unwrap();
    let mut events = pool.as_client().events();
    factory.failures.store(usize::MAX, Ordering::SeqCst);
    factory.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::ConnectFailed(_)))).await;
    let error = pool.as_client().call_tool("whoami", ()).await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::NoServer(NoServerCause::NoneAvailable)), "{error}");
    assert_eq!(pool.as_client().status(), ConnectionStatus::Disconnected);
    assert_eq!(pool.stats().members.iter().map(|member| member.status).collect::<Vec<_>>(), [ConnectionStatus::Closed]);
    factory.failures.store(0, Ordering::SeqCst);
    hear(&mut events, connected).await;
    assert_eq!(landings(&pool, 1).await, ["one"]);
}

#[tokio::test(start_paused = true)]
async fn a_hanging_member_is_replaced_and_a_removed_one_is_not() {
    let (hanging, well) = (Site::new("hanging"), Site::new("well"));
    let (one, two) = (Factory::new(&hanging), Factory::new(&well));
    let turn = AtomicUsize::new(0);
    let (first, later) = (one.clone(), two.clone());
    let making = move || match turn.fetch_add(1, Ordering::SeqCst) {
        0 => first.clone().connect(),
        _ => later.clone().connect(),
    };
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).max_failures(1);
    let pool = Pool::builder().size(2, making).health_check(check).build().await.unwrap();
    assert_eq!(landings(&pool, 2).await, ["hanging", "well"]);
    let before = ids(&pool);
    let mut events = pool.as_client().events();
    hanging.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { failures: 1 })).await;
    // The removed member leaves no connection.
    one.deserted().await;
    assert_eq!(pool.len(), 2);
    assert!(!ids(&pool).contains(&before[0]) && ids(&pool).contains(&before[1]));
    assert_eq!(landings(&pool, 2).await, ["well", "well"]);

    drop(pool.remove(before[1]).unwrap());
    assert_eq!(pool.stats().unconnected, 0);
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!((pool.len(), two.attempts.load(Ordering::SeqCst)), (1, 2));
}
