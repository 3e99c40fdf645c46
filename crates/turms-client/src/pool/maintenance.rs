//! The tasks of a pool: forward events, check the health of members, replace lost members.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;

use super::builder::Connect;
use super::member::PoolMember;
use super::shared::PoolShared;
use crate::call::options::{CallOptions, Timeout};
use crate::connection::MIN_UPTIME;
use crate::event::{ConnectionEvent, Event, Events};
use crate::reconnect::{Backoff, HealthCheck};

/// Timeout for setting the log level of one member.
const LEVEL_TIMEOUT: Duration = Duration::from_secs(5);

/// Forwards the events of a member.
pub(super) async fn forward_events(pool: Arc<PoolShared>, mut events: Events) {
    while let Some(event) = events.next().await {
        // After a reconnect, the server may have different tools.
        if matches!(event, Event::ToolsChanged | Event::Connection(ConnectionEvent::Connected { .. })) {
            pool.tools.forget();
        }
        pool.events.publish(&event);
        if matches!(event, Event::Connection(_)) {
            pool.notify_changed();
        }
    }
    pool.notify_changed();
}

/// Runs the health checks of a member, and applies the log level of the pool to it. Runs until the member is removed.
pub(super) async fn maintain(pool: Arc<PoolShared>, member: Arc<PoolMember>, check: Option<HealthCheck>) {
    let mut changes = pool.changes.subscribe();
    let mut failures = 0;
    let mut checked = Instant::now();
    loop {
        set_level(&pool, &member).await;
        let due = async {
            match &check {
                Some(check) => {
                    tokio::time::sleep_until(checked + check.interval).await;
                    check
                }
                None => std::future::pending().await,
            }
        };
        let check = tokio::select! {
            check = due => check,
            changed = changes.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        // A disconnected member needs no check: its status already keeps calls away.
        if member.is_connected() {
            let responds = member.responds_to_ping(check.timeout).await;
            record_health(&pool, &member, check, &mut failures, responds);
        }
        checked = Instant::now();
    }
}

fn record_health(pool: &PoolShared, member: &PoolMember, check: &HealthCheck, failures: &mut u32, responds: bool) {
    *failures = if responds { 0 } else { failures.saturating_add(1) };
    // Update the member before publishing the event, so that receivers see the new state.
    let changed = match *failures {
        0 => member.set_healthy(true),
        count if count >= check.max_failures => member.set_healthy(false),
        _ => false,
    };
    match (*failures, changed) {
        (0, true) => pool.events.publish(&Event::Healthy),
        (0, false) => {}
        (failures, _) => pool.events.publish(&Event::Unhealthy { failures }),
    }
    if changed {
        pool.notify_changed();
    }
}

async fn set_level(pool: &PoolShared, member: &PoolMember) {
    let level = *pool.level.lock();
    let Some(level) = level.filter(|level| !member.has_level(*level) && member.is_connected()) else { return };
    let options = CallOptions::with_timeout(Timeout::After(LEVEL_TIMEOUT));
    if let Err(error) = member.set_level(level, &options).await {
        tracing::debug!(target: "turms::client", %error, "the log level of a pool member was not set");
    }
}

/// Connects members in place of missing, closed or unhealthy ones. The first attempt is immediate, further ones use
/// backoff.
pub(super) async fn replace_members(pool: Arc<PoolShared>, connect: Connect, max_delay: Duration) {
    let mut changes = pool.changes.subscribe();
    let backoff = Backoff::new().max_delay(max_delay);
    let mut attempt = 0;
    let mut full_since: Option<Instant> = None;
    loop {
        changes.borrow_and_update();
        if pool.missing_members() == 0 {
            full_since.get_or_insert_with(Instant::now);
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        if full_since.take().is_some_and(|since| since.elapsed() >= MIN_UPTIME) {
            attempt = 0;
        }
        attempt += 1;
        tokio::time::sleep(backoff.delay(attempt).unwrap_or_default()).await;
        pool.begin_connecting();
        let results = join_all((0..pool.missing_members()).map(|_| connect())).await;
        pool.add_connected(results);
    }
}
