//! The circuit breaker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use turms_client::{CallErrorKind, CircuitBreaker, ClientBuilder, ConnectionStatus, Delivery, RetryPolicy};

use crate::supervision::scripted_server::Reply::*;
use crate::supervision::scripted_server::*;

/// A server that does not respond to tool calls on its first connection while `healed` is not set.
fn mute_tools(healed: &Arc<AtomicUsize>) -> ScriptedServer {
    let healed = Arc::clone(healed);
    ScriptedServer::new(OLD, move |_, method| match method {
        "tools/call" if healed.load(Ordering::Relaxed) == 0 => Never,
        _ => Well,
    })
}

fn breaker() -> ClientBuilder {
    reconnecting().circuit_breaker(CircuitBreaker::new().failure_threshold(3).reset_timeout(10 * SECOND))
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_after_consecutive_failures_and_closes_after_a_trial() {
    let healed = Arc::default();
    let scripted = mute_tools(&healed);
    let client = scripted.connect_with(breaker().timeout(SECOND)).await;
    let mut events = client.events();

    for _ in 0..3 {
        assert!(client.call_tool("look", ()).await.unwrap_err().is_timeout());
    }
    assert_eq!(so_far(&mut events).await, ["Open"]);
    // No request reaches the server, and the call fails at once.
    let before = Instant::now();
    let error = client.list_tools().await.unwrap_err();
    assert!(matches!(error.kind(), CallErrorKind::CircuitOpen(rest) if *rest == 10 * SECOND), "{error:?}");
    assert_eq!(error.to_string(), "tools/list: not sent: circuit breaker is open for another 10 s");
    assert_eq!((error.delivery(), before.elapsed()), (Delivery::NotSent, Duration::ZERO));
    assert!(scripted.heard("tools/list").is_empty());

    // One trial call is sent, and fails.
    tokio::time::advance(10 * SECOND).await;
    let trial = spawn_call(&client, "look");
    settle().await;
    assert_eq!(so_far(&mut events).await, ["HalfOpen"]);
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::CircuitOpen(_)));
    assert!(trial.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(so_far(&mut events).await, ["Open"]);
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::CircuitOpen(_)));

    // The next trial call succeeds.
    tokio::time::advance(10 * SECOND).await;
    healed.store(1, Ordering::Relaxed);
    client.call_tool("look", ()).await.unwrap();
    assert_eq!(so_far(&mut events).await, ["HalfOpen", "Closed"]);
    client.ping().await.unwrap();
    assert_eq!(client.status(), ConnectionStatus::Ready);
    assert_eq!(scripted.opened(), 1);
}

#[tokio::test(start_paused = true)]
async fn error_responses_do_not_open_the_breaker() {
    let scripted = ScriptedServer::new(OLD, |_, method| if method == "tools/call" { Error } else { Well });
    let client = scripted.connect_with(breaker()).await;
    for _ in 0..10 {
        let error = client.call_tool("look", ()).await.unwrap_err();
        assert_eq!(error.delivery(), Delivery::Answered);
    }
    client.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_success_between_failures_keeps_the_breaker_closed() {
    let scripted = mute_tools(&Arc::default());
    let client = scripted.connect_with(breaker().timeout(SECOND)).await;
    let mut events = client.events();
    for _ in 0..5 {
        for _ in 0..2 {
            client.call_tool("look", ()).await.unwrap_err();
        }
        client.ping().await.unwrap();
    }
    assert_eq!(so_far(&mut events).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_trial_allows_another() {
    let scripted = mute_tools(&Arc::default());
    let client = scripted.connect_with(breaker().timeout(SECOND)).await;
    for _ in 0..3 {
        client.call_tool("look", ()).await.unwrap_err();
    }
    tokio::time::advance(10 * SECOND).await;
    let trial = spawn_call(&client, "look");
    settle().await;
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::CircuitOpen(_)));
    trial.abort();
    settle().await;
    client.ping().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_breaker_opens_for_an_unreachable_server() {
    let scripted = ScriptedServer::well(OLD);
    let client = scripted.connect_with(breaker().timeout(SECOND)).await;
    let mut events = client.events();
    scripted.refuse(usize::MAX);
    scripted.kill();
    until(&mut events, "lost").await;
    for _ in 0..3 {
        assert_eq!(client.ping().await.unwrap_err().delivery(), Delivery::NotSent);
    }
    until(&mut events, "Open").await;
    let before = Instant::now();
    assert!(matches!(client.ping().await.unwrap_err().kind(), CallErrorKind::CircuitOpen(_)));
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_opens_between_retries_keeps_that_the_call_may_have_run() {
    let scripted = loses_calls(usize::MAX);
    let builder = reconnecting()
        .circuit_breaker(CircuitBreaker::new().failure_threshold(1))
        .retry(RetryPolicy::new().max_retries(3));
    let client = scripted.connect_with(builder).await;
    let error = client.call_tool("pay", ()).idempotent().await.unwrap_err();
    assert!(error.may_have_run(), "{error}");
    assert_eq!(scripted.heard("tools/call").len(), 1);
}
