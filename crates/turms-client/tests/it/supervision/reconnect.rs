//! Attempts to reconnect.

use std::collections::VecDeque;
use std::error::Error as _;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use turms_client::{Backoff, ConnectionEvent, ConnectionStatus, Delivery, Event};

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn reconnect_attempts_have_exponential_backoff_with_jitter() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let scripted = ScriptedServer::well(OLD);
        let client = scripted.connect_with(reconnecting()).await;
        let mut events = client.events();
        scripted.refuse(7);
        scripted.kill();

        let mut delays = VecDeque::new();
        let before = Instant::now();
        for number in 1..=8 {
            let Event::Connection(ConnectionEvent::Reconnecting { delay, .. }) =
                until(&mut events, &format!("reconnecting {number}")).await
            else {
                panic!("{number}")
            };
            delays.push_back(delay);
        }
        until(&mut events, "connected 2").await;
        let waited = before.elapsed();
        let announced: Duration = delays.iter().sum();
        // The paused clock has a resolution of one millisecond.
        assert!(waited >= announced && waited < announced + 8 * Duration::from_millis(2), "{waited:?} {announced:?}");
        assert_eq!(delays.pop_front(), Some(Duration::ZERO));
        for (delay, seconds) in delays.iter().zip([1, 2, 4, 8, 16, 20, 20]) {
            assert!(*delay >= seconds * SECOND / 2 && *delay <= seconds * SECOND, "{delays:?}");
        }
        all.push(delays);
        client.close().await;
    }
    assert_ne!(all[0], all[1]);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_reconnect_attempts_is_limited() {
    let scripted = ScriptedServer::well(OLD);
    let backoff = Backoff::new().initial_delay(SECOND).max_attempts(3);
    let client = scripted.connect_with(builder().reconnect(backoff)).await;
    let mut events = client.events();
    scripted.refuse(usize::MAX);
    scripted.kill();

    until(&mut events, "lost").await;
    assert_eq!(client.status(), ConnectionStatus::Disconnected);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "gave up") {
        seen.push(word(&events.next().await.unwrap()));
    }
    let attempts = ["reconnecting 1", "failed", "reconnecting 2", "failed", "reconnecting 3", "failed", "gave up"];
    assert_eq!(seen, attempts);
    assert_eq!(client.status(), ConnectionStatus::Closed);

    let error = client.ping().await.unwrap_err();
    assert_eq!(error.to_string(), "ping: not connected to the server");
    assert_eq!(error.source().unwrap().to_string(), "cannot reach the scripted");
    assert_eq!(error.delivery(), Delivery::NotSent);
    drop(client);
    assert_no_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn short_connections_do_not_reset_the_backoff() {
    for version in [OLD, NEW] {
        // The server connects and then closes the connection.
        let scripted = ScriptedServer::new(version, move |connection, method| match method {
            "open" if connection > 1 && version == NEW => Die,
            "notifications/initialized" => Die,
            _ => Well,
        });
        let client = scripted.connect_with(reconnecting()).await;
        let mut events = client.events();
        if version == NEW {
            settle().await;
            scripted.kill();
        }

        let mut attempts = Vec::new();
        let before = Instant::now();
        while before.elapsed() < 300 * SECOND {
            let event = timeout(60 * SECOND, events.next()).await.unwrap().unwrap();
            if let Event::Connection(ConnectionEvent::Reconnecting { attempt, delay }) = event {
                attempts.push((attempt, delay));
            }
        }
        // The delays: at most 1 + 2 + 4 + 8 + 16 seconds and at least half of that, then 10 to 20 seconds each.
        assert!(attempts.len() >= 15 && attempts.len() <= 5 + 300 / 10 + 2, "{}", attempts.len());
        // A server that closes during the probe is started once more without a probe.
        assert!(scripted.opened() <= 2 * attempts.len() + 1, "{}", scripted.opened());
        assert!(attempts.iter().map(|(attempt, _)| *attempt).eq(1..=attempts.len() as u32), "{attempts:?}");
        assert!(attempts[6..].iter().all(|(_, delay)| *delay >= 10 * SECOND), "{attempts:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_connection_resets_the_backoff() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    for generation in 2..6 {
        tokio::time::advance(11 * SECOND).await;
        scripted.kill();
        until(&mut events, "reconnecting 1").await;
        until(&mut events, &format!("connected {generation}")).await;
    }
    scripted.kill();
    until(&mut events, "reconnecting 2").await;
}

#[tokio::test(start_paused = true)]
async fn the_first_connection_is_retried_until_the_connect_timeout() {
    let scripted = ScriptedServer::well(OLD);
    scripted.refuse(3);
    let client = scripted.connect_with(reconnecting()).await;
    assert_eq!(client.status(), ConnectionStatus::Ready);

    scripted.refuse(usize::MAX);
    let before = Instant::now();
    let error = reconnecting().connect_timeout(10 * SECOND).connect(scripted.connector()).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(before.elapsed() <= 10 * SECOND && before.elapsed() > SECOND, "{:?}", before.elapsed());

    let before = Instant::now();
    reconnecting().connect_timeout(Duration::ZERO).connect(scripted.connector()).await.unwrap_err();
    builder().connect(scripted.connector()).await.unwrap_err();
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_started_connects_while_its_calls_wait() {
    let scripted = ScriptedServer::well(OLD);
    scripted.refuse(5);
    let client = reconnecting().start(scripted.connector()).unwrap();
    assert_eq!(client.status(), ConnectionStatus::Connecting);
    client.call_tool("read", ()).timeout(60 * SECOND).await.unwrap();
    assert_eq!(client.status(), ConnectionStatus::Ready);

    let hopeless = ScriptedServer::well(OLD);
    hopeless.refuse(1);
    let client = builder().start(hopeless.connector()).unwrap();
    let error = client.call_tool("read", ()).await.unwrap_err();
    assert_eq!((error.delivery(), client.status()), (Delivery::NotSent, ConnectionStatus::Closed));
}

#[tokio::test(start_paused = true)]
async fn the_counters_of_the_lifetime_include_connections_that_were_lost() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    for _ in 0..3 {
        client.call_tool("read", ()).await.unwrap();
    }
    let first = client.stats();
    assert_eq!(first.connection, first.lifetime);
    scripted.kill();
    until(&mut events, "connected 2").await;
    client.call_tool("read", ()).await.unwrap();
    let second = client.stats();
    assert!(second.connection.requests_sent < first.connection.requests_sent);
    assert_eq!(second.lifetime.requests_sent, first.lifetime.requests_sent + second.connection.requests_sent);
    client.close().await;
    assert_eq!(client.stats().lifetime.requests_sent, second.lifetime.requests_sent);
}
