//! Attempts to reconnect.

use std::collections::VecDeque;
use std::error::Error as _;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use turms_client::{Backoff, ConnectionEvent, Delivery, Event, Status, Supervision};

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn attempts_to_reconnect_come_after_longer_and_longer_delays_that_are_never_quite_the_same() {
    let mut all = Vec::new();
    for _ in 0..2 {
        let scripted = ScriptedServer::well(OLD);
        let client = scripted.connect(supervision()).await;
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
        // The clock of the tests goes in milliseconds.
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
async fn a_client_gives_up_after_as_many_attempts_as_it_was_told() {
    let scripted = ScriptedServer::well(OLD);
    let backoff = Backoff::new().first(SECOND).attempts(3);
    let client = scripted.connect(Supervision::new().backoff(backoff)).await;
    let mut events = client.events();
    scripted.refuse(usize::MAX);
    scripted.kill();

    until(&mut events, "lost").await;
    assert_eq!(client.status(), Status::Reconnecting);
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != "gave up") {
        seen.push(word(&events.next().await.unwrap()));
    }
    let attempts = ["reconnecting 1", "failed", "reconnecting 2", "failed", "reconnecting 3", "failed", "gave up"];
    assert_eq!(seen, attempts);
    assert_eq!(client.status(), Status::Closed);

    let error = client.ping().await.unwrap_err();
    assert_eq!(error.to_string(), "ping: there is no connection to the server");
    assert_eq!(error.source().unwrap().to_string(), "cannot reach the scripted");
    assert_eq!(error.delivery(), Delivery::NotSent);
    drop(client);
    assert_no_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_at_once_again_and_again_is_not_hammered() {
    for version in [OLD, NEW] {
        // It gets as far as being connected, and no further.
        let scripted = ScriptedServer::new(version, move |connection, method| match method {
            "open" if connection > 1 && version == NEW => Die,
            "notifications/initialized" => Die,
            _ => Well,
        });
        let client = scripted.connect(supervision()).await;
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
        // 1 + 2 + 4 + 8 + 16 seconds at most, and half of that at least; from then on one in 10 to 20 seconds.
        assert!(attempts.len() >= 15 && attempts.len() <= 5 + 300 / 10 + 2, "{}", attempts.len());
        // One that ends when it is probed is started once more and not probed.
        assert!(scripted.opened() <= 2 * attempts.len() + 1, "{}", scripted.opened());
        assert!(attempts.iter().map(|(attempt, _)| *attempt).eq(1..=attempts.len() as u32), "{attempts:?}");
        assert!(attempts[6..].iter().all(|(_, delay)| *delay >= 10 * SECOND), "{attempts:?}");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_has_lasted_begins_the_count_anew() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect(supervision()).await;
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
