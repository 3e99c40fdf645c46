//! The tasks of a pool: forward events, check members, replace them.

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
        // A server may come back with other tools.
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

/// Checks the health of a member, and sets the log level of the pool. Ends when the member is removed.
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
        // A member that is not connected gets no calls anyway.
        if member.is_connected() {
            let responds = member.answers(check.timeout).await;
            record_health(&pool, &member, check, &mut failures, responds);
        }
        checked = Instant::now();
    }
}

fn record_health(pool: &PoolShared, member: &PoolMember, check: &HealthCheck, failures: &mut u32, responds: bool) {
    *failures = if responds { 0 } else { failures.saturating_add(1) };
    // Set before the event, so that its receivers find it so.
    let changed = match *failures {
        0 => member.set_healthy(true),
        many if many >= check.max_failures => member.set_healthy(false),
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

/// Replaces members that are missing or closed: at once at first, and with backoff if that does not help.
pub(super) async fn keep_full(pool: Arc<PoolShared>, connect: Connect, max_delay: Duration) {
    let mut changes = pool.changes.subscribe();
    let backoff = Backoff::new().max_delay(max_delay);
    let mut attempt = 0;
    let mut full_since: Option<Instant> = None;
    loop {
        changes.borrow_and_update();
        if pool.to_be_made() == 0 {
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
        pool.begin_making();
        let made = join_all((0..pool.to_be_made()).map(|_| connect())).await;
        pool.take_made(made);
    }
}
