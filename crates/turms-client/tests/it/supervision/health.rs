//! Health checks.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;
use turms_client::{ConnectionEvent, Event, HealthCheck};
use turms_proto::ProtocolVersion;

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_its_health_checks_is_replaced() {
    for (version, method) in [(OLD, "ping"), (NEW, "server/discover")] {
        let first = AtomicUsize::new(0);
        let scripted = ScriptedServer::new(version, move |connection, asked| match asked {
            // The first `server/discover` is the probe of a client of the newest revision.
            "server/discover" if version == OLD || first.fetch_add(1, Ordering::Relaxed) == 0 => Well,
            "ping" | "server/discover" | "tools/call" if connection == 1 => Never,
            _ => Well,
        });
        let check = HealthCheck::every(30 * SECOND).timeout(2 * SECOND).max_failures(3);
        let client = scripted.connect_with(reconnecting().health_check(check)).await;
        let mut events = client.events();
        let before = Instant::now();
        let call = client.call_tool("pay", ()).without_timeout();
        let call = tokio::spawn(call.into_future());

        until(&mut events, "unhealthy 1").await;
        until(&mut events, "unhealthy 2").await;
        until(&mut events, "unhealthy 3").await;
        assert_eq!(before.elapsed().as_secs(), 3 * 32);
        let Event::Connection(ConnectionEvent::Lost(ended)) = until(&mut events, "lost").await else { panic!() };
        assert_eq!(ended.to_string(), "the server did not respond to health checks");
        until(&mut events, "connected 2").await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "tools/call \"pay\": the server did not respond to health checks before the response; the call may have run"
        );
        assert_eq!(
            scripted.heard(method).iter().filter(|heard| heard.connection == 1).count() % 3,
            usize::from(version == NEW)
        );
        assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 2");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_a_batch_that_was_not_sent_are_made_on_the_next_connection() {
    let scripted =
        ScriptedServer::new(ProtocolVersion::V2025_03_26, |_, method| if method == "ping" { Never } else { Well });
    let builder = builder().protocol_version(ProtocolVersion::V2025_03_26);
    let check = HealthCheck::every(SECOND).max_failures(1);
    let client = scripted.connect_with(builder.reconnect(backoff()).health_check(check)).await;
    let mut batch = client.batch();
    let (one, two) = (batch.call_tool("pay", ()), batch.call_tool("look", ()));

    // The scripted server ignores arrays.
    let mut outcomes = batch.send().await;
    assert_eq!(outcomes.take(one).unwrap().text(), "from 2");
    assert_eq!(outcomes.take(two).unwrap().text(), "from 2");
}

#[tokio::test(start_paused = true)]
async fn slow_health_check_responses_keep_the_connection() {
    for version in [OLD, NEW] {
        let scripted = ScriptedServer::new(version, |_, method| match method {
            "ping" => WellAfter(4 * SECOND),
            "server/discover" => WellAfter(2 * SECOND),
            _ => Well,
        });
        let client = scripted.connect_with(reconnecting().health_check(HealthCheck::every(SECOND))).await;
        let mut events = client.events();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(so_far(&mut events).await, [""; 0]);
        assert_eq!(scripted.opened(), 1);
        let checks = scripted.heard("ping").len() + scripted.heard("server/discover").len();
        assert!(checks >= 100, "{checks}");
        assert_eq!(client.call_tool("pay", ()).await.unwrap().text(), "from 1");
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn occasional_missed_health_checks_keep_the_connection() {
    let asked = AtomicUsize::new(0);
    let scripted = ScriptedServer::new(OLD, move |_, method| match method {
        // An error response counts as a response.
        "ping" => [Never, Well, Never, Error][asked.fetch_add(1, Ordering::Relaxed) % 4].clone(),
        _ => Well,
    });
    let client = scripted.connect_with(reconnecting().health_check(HealthCheck::every(SECOND).max_failures(2))).await;
    let mut events = client.events();
    tokio::time::sleep(600 * SECOND).await;
    let seen = so_far(&mut events).await;
    assert!(
        seen.len() > 50 && seen.chunks(2).all(|pair| pair == ["unhealthy 1", "healthy"] || pair == ["unhealthy 1"]),
        "{seen:?}"
    );
    assert_eq!(scripted.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_during_a_health_check_is_reported_as_lost() {
    let scripted =
        ScriptedServer::new(OLD, |connection, method| if connection == 1 && method == "ping" { Die } else { Well });
    let client = scripted.connect_with(reconnecting().health_check(HealthCheck::every(SECOND).max_failures(1))).await;
    let mut events = client.events();
    let Some(Event::Connection(ConnectionEvent::Lost(ended))) = events.next().await else { panic!() };
    assert_eq!(ended.to_string(), "the server closed the connection");
    until(&mut events, "connected 2").await;
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(so_far(&mut events).await, [""; 0]);
}
