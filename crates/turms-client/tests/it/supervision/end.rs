//! Close and drop, and clients without supervision.

use std::error::Error as _;
use std::time::Duration;

use tokio::time::Instant;
use turms_client::{CircuitBreaker, Client, ConnectionStatus, Delivery, HealthCheck};
use turms_proto::types::{LoggingLevel, SubscriptionFilter};

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

#[tokio::test(start_paused = true)]
async fn closing_between_attempts_ends_them() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(reconnecting()).await;
    let mut events = client.events();
    scripted.refuse(4);
    scripted.kill();
    until(&mut events, "reconnecting 4").await;

    let before = Instant::now();
    client.close().await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(so_far(&mut events).await, ["closed"]);
    assert!(events.next().await.is_none());
    assert_eq!(client.status(), ConnectionStatus::Closed);
    assert_no_tasks().await;
    tokio::time::advance(3600 * SECOND).await;
    settle().await;
    assert_eq!(scripted.opened(), 1);
}

/// A scripted server that never responds to the method `stuck` on its second connection.
fn stuck_at(stuck: &'static str) -> ScriptedServer {
    ScriptedServer::new(OLD, move |connection, method| if connection == 2 && method == stuck { Never } else { Well })
}

/// Connects a client and makes it reconnect until it is stuck.
async fn stuck(scripted: &ScriptedServer) -> Client {
    let client = scripted.connect_with(reconnecting()).await;
    client.set_log_level(LoggingLevel::Warning).await.unwrap();
    scripted.kill();
    while scripted.opened() < 2 {
        settle().await;
    }
    settle().await;
    assert_eq!(client.status(), ConnectionStatus::Initializing);
    client
}

#[tokio::test(start_paused = true)]
async fn closing_during_an_attempt_ends_it() {
    for method in ["initialize", "logging/setLevel"] {
        let scripted = stuck_at(method);
        let client = stuck(&scripted).await;
        let waiting = spawn_call(&client, "pay");
        settle().await;

        let before = Instant::now();
        client.close().await;
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.delivery(), Delivery::NotSent);
        assert_no_tasks().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert_eq!(scripted.opened(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_during_an_attempt_leaves_no_task() {
    for method in ["initialize", "logging/setLevel"] {
        let scripted = stuck_at(method);
        let client = stuck(&scripted).await;

        drop(client);
        assert_no_tasks().await;
        assert_eq!(scripted.opened(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_between_attempts_leaves_no_task() {
    let scripted = ScriptedServer::well(NEW);
    let client = scripted.connect_with(reconnecting().health_check(HealthCheck::every(SECOND))).await;
    let mut events = client.events();
    scripted.refuse(4);
    scripted.kill();
    until(&mut events, "reconnecting 4").await;

    drop(client);
    assert!(events.next().await.is_none());
    assert_no_tasks().await;
    assert_eq!(scripted.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_busy_client_leaves_no_task() {
    for version in [OLD, NEW] {
        let scripted = ScriptedServer::well(version);
        let builder = reconnecting().health_check(HealthCheck::every(SECOND)).circuit_breaker(CircuitBreaker::new());
        let client = scripted.connect_with(builder.roots([])).await;
        let _events = client.events();
        let _subscription = client.subscribe("a://one").await.unwrap();
        let _changes = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap();
        assert!(tasks() > 2);

        drop(client);
        assert_no_tasks().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_a_client_leaves_no_task_without_an_acknowledgement() {
    let scripted = ScriptedServer::new(NEW, |_, method| if method == "subscriptions/listen" { Never } else { Well });
    let client = scripted.connect_with(reconnecting()).await;
    let _events = client.events();
    settle().await;
    assert_eq!(scripted.heard("subscriptions/listen").len(), 1);

    drop(client);
    assert_no_tasks().await;
}

#[tokio::test(start_paused = true)]
async fn a_listen_request_without_an_acknowledgement_times_out() {
    let scripted = ScriptedServer::new(NEW, |_, method| if method == "subscriptions/listen" { Never } else { Well });
    let client = scripted.connect_with(reconnecting()).await;

    let before = Instant::now();
    let error = client.subscribe("a://one").timeout(5 * SECOND).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(before.elapsed().as_secs(), 5);
    let error = client.subscribe(SubscriptionFilter::new().tools_list_changed(true)).await.unwrap_err();
    assert_eq!(error.to_string(), "subscriptions/listen: no response within 30 s; the call may have run");
}

#[tokio::test(start_paused = true)]
async fn without_supervision_a_lost_connection_closes_the_client() {
    for version in [OLD, NEW] {
        let scripted = ScriptedServer::new(version, |_, method| if method == "tools/list" { Die } else { Well });
        let client = scripted.connect_with(builder()).await;
        let mut events = client.events();
        settle().await;

        let error = client.list_tools().await.unwrap_err();
        assert!(error.may_have_run() && error.is_disconnected(), "{error}");
        settle().await;
        assert_eq!(so_far(&mut events).await, ["lost", "closed"]);
        assert_eq!(client.status(), ConnectionStatus::Closed);
        let before = Instant::now();
        let error = client.ping().await.unwrap_err();
        assert_eq!((error.delivery(), before.elapsed()), (Delivery::NotSent, Duration::ZERO));
        assert_eq!(error.source().unwrap().to_string(), "connection closed: the server closed the connection");
        assert_eq!((scripted.opened(), scripted.heard("tools/list").len()), (1, 1));
        drop(client);
        assert_no_tasks().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_byte_stream_cannot_be_opened_again_even_under_reconnecting() {
    let scripted = ScriptedServer::well(OLD);
    let (reader, writer) = scripted.open().unwrap();
    let client = reconnecting().connect_stream(reader, writer).await.unwrap();
    let mut events = client.events();
    scripted.kill();

    until(&mut events, "lost").await;
    until(&mut events, "closed").await;
    assert_eq!(client.status(), ConnectionStatus::Closed);
    assert_eq!(client.ping().await.unwrap_err().delivery(), Delivery::NotSent);
}

#[tokio::test(start_paused = true)]
async fn events_arrive_in_order() {
    let scripted = loses_calls(1);
    let client = scripted
        .connect_with(reconnecting().circuit_breaker(CircuitBreaker::new().failure_threshold(2).reset_timeout(SECOND)))
        .await;
    let mut events = client.events();
    scripted.refuse(1);
    let call = client.call_tool("pay", ()).idempotent().await.unwrap();
    assert_eq!(call.text(), "from 2");
    client.close().await;

    let mut seen = so_far(&mut events).await;
    let place = seen.iter().position(|word| word.starts_with("retrying")).unwrap();
    assert_eq!(seen.remove(place), "retrying tools/call \"pay\" 1");
    assert_eq!(seen, ["lost", "reconnecting 1", "failed", "reconnecting 2", "connected 2", "closed"]);
}
