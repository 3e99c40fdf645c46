//! The choice of the member for a call.

use super::*;

#[tokio::test]
async fn round_robin_cycles_through_the_members() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await, one.local().await]).await;
    assert_eq!(landings(&pool, 7).await, ["one", "two", "one", "one", "two", "one", "one"]);
    let calls: Vec<_> = pool.stats().members.iter().map(|member| member.calls).collect();
    assert_eq!(calls, [3, 2, 2]);
}

#[tokio::test]
async fn random_reaches_every_member_in_no_fixed_order() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::Random, [one.local().await, two.local().await]).await;
    let names = landings(&pool, 400).await;
    let ones = names.iter().filter(|name| *name == "one").count();
    assert!((100..300).contains(&ones), "{ones}");
    let repeated = names.windows(2).filter(|pair| pair[0] == pair[1]).count();
    assert!((100..300).contains(&repeated), "{repeated}");
}

#[tokio::test]
async fn the_least_busy_member_gets_the_next_call() {
    let (mut one, mut two, mut three) = (Site::new("one"), Site::new("two"), Site::new("three"));
    let clients = [one.remote().await, two.remote().await, three.remote().await];
    let pool = pool_of(PoolStrategy::LeastLoaded, clients).await;
    let client = pool.as_client();
    let slow = wait_call(&client);
    one.asked("tools/call").await;
    assert_eq!(landings(&pool, 4).await, ["three", "two", "three", "two"]);
    two.overlook();
    three.overlook();
    let other = wait_call(&client);
    let idle = tokio::select! {
        () = two.asked("tools/call") => three.name,
        () = three.asked("tools/call") => two.name,
    };
    let mut busy: Vec<_> = pool.stats().members.iter().map(|member| member.busy).collect();
    busy.sort_unstable();
    assert_eq!(busy, [0, 1, 1]);
    assert_eq!(landings(&pool, 3).await, [idle, idle, idle]);
    one.gate.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap(), "one");
    let names = landings(&pool, 4).await;
    assert_eq!(names.iter().filter(|name| *name == "one").count(), 2, "{names:?}");
    assert_eq!(names.iter().filter(|name| *name == idle).count(), 2, "{names:?}");
    two.gate.add_permits(1);
    three.gate.add_permits(1);
    assert_ne!(other.await.unwrap().unwrap(), idle);
}

#[tokio::test]
async fn calls_that_start_together_go_to_different_members() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::LeastLoaded, [one.local().await, two.local().await]).await;
    let mut batch = pool.as_client().batch();
    let slots: Vec<_> = (0..4).map(|_| batch.call_tool("wait", ())).collect();
    one.gate.add_permits(2);
    two.gate.add_permits(2);
    let mut outcomes = batch.send().await;
    let names: Vec<_> = slots.into_iter().map(|slot| outcomes.take(slot).unwrap().text()).collect();
    assert_eq!(names, ["one", "two", "one", "two"]);
}

#[tokio::test]
async fn a_lease_uses_one_member_and_makes_it_busy() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::LeastLoaded, [one.remote().await, two.local().await]).await;
    let lease = pool.acquire().await.unwrap();
    let first = whoami(&lease).await;
    assert_eq!((first.as_str(), whoami(&lease).await.as_str()), ("one", "one"));
    assert_eq!(lease.member(), ids(&pool)[0]);
    assert_eq!(landings(&pool, 3).await, ["two", "two", "two"]);
    assert_eq!(pool.stats().members[0].busy, 1);
    drop(lease);
    assert_eq!(pool.stats().members[0].busy, 0);
    assert!(landings(&pool, 2).await.contains(&"one".to_owned()));
}

#[tokio::test]
async fn work_with_one_member_makes_it_busy_until_it_ends() {
    let (one, two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::LeastLoaded, [one.local().await, two.local().await]).await;
    let outside = pool.clone();
    let names = pool.with(|client| async move {
        let within = (whoami(&client).await, whoami(&client).await);
        assert_eq!(within, ("one".to_owned(), "one".to_owned()));
        landings(&outside, 2).await
    });
    assert_eq!(names.await.unwrap(), ["two", "two"]);
    assert!(pool.stats().members.iter().all(|member| member.busy == 0));
}

#[tokio::test]
async fn members_are_added_and_removed_while_calls_complete() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let pool = Pool::builder().acquire_timeout(Duration::ZERO).build().await.unwrap();
    assert!(pool.is_empty());
    assert!(pool.acquire().await.unwrap_err().is_timeout());
    let first = pool.add(one.remote().await);
    assert_eq!(landings(&pool, 2).await, ["one", "one"]);
    let second = pool.add(two.local().await);
    assert_ne!(first, second);
    assert_eq!(pool.len(), 2);
    one.overlook();
    let slow = wait_call(&pool.as_client());
    one.asked("tools/call").await;
    let removed = pool.remove(first).unwrap();
    assert!(pool.remove(first).is_none());
    assert_eq!(ids(&pool), [second]);
    assert_eq!(landings(&pool, 2).await, ["two", "two"]);
    assert_eq!(removed.status(), ConnectionStatus::Ready);
    drop(removed);
    one.gate.add_permits(1);
    assert_eq!(slow.await.unwrap().unwrap(), "one");
    one.deserted().await;
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_member_is_skipped_until_it_recovers() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = Pool::builder()
        .clients([one.remote().await, two.remote().await])
        .health_check(HealthCheck::every(10 * SECOND).timeout(SECOND).max_failures(2))
        .build()
        .await
        .unwrap();
    let mut events = pool.as_client().events();
    one.set_silent(true);
    let unhealthy = |wanted| move |event: &Event| matches!(event, Event::Unhealthy { failures } if *failures == wanted);
    hear(&mut events, unhealthy(1)).await;
    assert!(pool.stats().members[0].healthy, "one failure is below the limit");
    hear(&mut events, unhealthy(2)).await;
    let stats = pool.stats();
    assert_eq!((stats.members[0].healthy, stats.members[0].status), (false, ConnectionStatus::Ready));
    assert!(stats.members[1].healthy);
    assert_eq!(landings(&pool, 3).await, ["two", "two", "two"]);
    one.set_silent(false);
    hear(&mut events, |event| matches!(event, Event::Healthy)).await;
    assert!(pool.stats().members[0].healthy);
    let mut names = landings(&pool, 2).await;
    names.sort_unstable();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_member_is_used_when_there_is_no_other() {
    let mut one = Site::new("one");
    let check = HealthCheck::every(10 * SECOND).timeout(SECOND).max_failures(1);
    let pool = Pool::builder().client(one.remote().await).health_check(check).build().await.unwrap();
    let mut events = pool.as_client().events();
    one.set_silent(true);
    hear(&mut events, |event| matches!(event, Event::Unhealthy { .. })).await;
    one.set_silent(false);
    assert!(!pool.stats().members[0].healthy);
    assert_eq!(landings(&pool, 1).await, ["one"]);
    one.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    let error = pool.as_client().call_tool("whoami", ()).await.unwrap_err();
    assert!(
        matches!(error.kind(), CallErrorKind::NoServer(NoServerCause::NoneAvailable)) && error.is_disconnected(),
        "{error}"
    );
    assert_eq!(error.to_string(), "tools/call \"whoami\": no connection of the pool is available");
    assert!(!error.may_have_run());
    assert_eq!(pool.as_client().status(), ConnectionStatus::Closed);
}

#[tokio::test]
async fn calls_go_to_other_members_when_a_connection_is_lost() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    one.hang_up().await;
    // Independent of whether the pool has noticed the closed connection.
    assert_eq!(landings(&pool, 4).await, ["two", "two", "two", "two"]);
    let mut events = pool.as_client().events();
    two.hang_up().await;
    hear(&mut events, |event| matches!(event, Event::Connection(ConnectionEvent::Closed))).await;
    assert!(pool.as_client().ping().await.unwrap_err().is_disconnected());
}

#[tokio::test(start_paused = true)]
async fn a_member_is_waited_for_until_the_timeout() {
    let site = Site::new("one");
    let pool = Pool::builder().acquire_timeout(5 * SECOND).build().await.unwrap();
    let begun = tokio::time::Instant::now();
    let error = pool.acquire().await.unwrap_err();
    assert!(error.is_timeout() && begun.elapsed() >= 5 * SECOND);
    assert_eq!(error.to_string(), "no connection of the pool became available within 5 s");
    let client = site.local().await;
    let (member, _) = tokio::join!(pool.acquire(), async {
        tokio::time::sleep(SECOND).await;
        pool.add(client)
    });
    assert_eq!(whoami(&member.unwrap()).await, "one");
    ids(&pool).into_iter().for_each(|id| drop(pool.remove(id)));
    let (closed, ()) = tokio::join!(pool.acquire(), pool.close());
    assert!(closed.unwrap_err().is_closed());
}

#[tokio::test]
async fn a_call_that_may_have_run_is_repeated_only_if_idempotent() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let client = pool.as_client();
    let mut events = client.events();
    let (unsafe_call, other) = (wait_call(&client), wait_call(&client));
    one.asked("tools/call").await;
    two.asked("tools/call").await;
    let safe = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("wait", ()).idempotent().await.unwrap().text() }
    });
    one.asked("tools/call").await;
    one.hang_up().await;
    let error = unsafe_call.await.unwrap().unwrap_err();
    assert!(error.is_disconnected() && error.may_have_run(), "{error}");
    let retried = hear(&mut events, |event| matches!(event, Event::Retrying { .. })).await;
    assert!(matches!(retried, Event::Retrying { target, attempt: 1 } if &*target == "tools/call \"wait\""));
    two.gate.add_permits(2);
    assert_eq!(safe.await.unwrap(), "two");
    assert_eq!(other.await.unwrap().unwrap(), "two");
    let stats = pool.stats();
    assert_eq!((stats.failovers, stats.members[0].failures, stats.members[1].failures), (1, 2, 0));
}

#[tokio::test]
async fn no_member_is_tried_twice() {
    let (mut one, mut two) = (Site::new("one"), Site::new("two"));
    let pool = pool_of(PoolStrategy::RoundRobin, [one.remote().await, two.remote().await]).await;
    let call = tokio::spawn({
        let client = pool.as_client();
        async move { client.call_tool("wait", ()).idempotent().await }
    });
    one.asked("tools/call").await;
    one.hang_up().await;
    two.asked("tools/call").await;
    two.hang_up().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::Lost(_))), "{error}");
    assert_eq!(pool.stats().members.iter().map(|member| member.calls).collect::<Vec<_>>(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_member_with_an_open_circuit_breaker_is_skipped() {
    let (mut one, two) = (Site::new("one"), Site::new("two"));
    let breaker = CircuitBreaker::new().failure_threshold(1).reset_timeout(3600 * SECOND);
    let broken = one.remote_with(app().circuit_breaker(breaker)).await;
    let pool = pool_of(PoolStrategy::RoundRobin, [broken, two.local().await]).await;
    one.set_silent(true);
    assert!(pool.as_client().call_tool("whoami", ()).await.unwrap_err().is_timeout());
    assert_eq!(landings(&pool, 4).await, ["two", "two", "two", "two"]);
    assert!(pool.stats().failovers >= 1);
}

#[tokio::test]
async fn a_method_that_one_revision_lacks_goes_to_a_member_that_has_it() {
    let (mut old, mut new) = (Site::new("old"), Site::new("new"));
    let pool = Pool::builder()
        .client(old.remote_with(app().protocol_version(ProtocolVersion::V2025_06_18)).await)
        .client(new.remote().await)
        .build()
        .await
        .unwrap();
    for _ in 0..3 {
        pool.as_client().ping().await.unwrap();
    }
}
