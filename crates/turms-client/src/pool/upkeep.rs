//! What a pool does while nobody asks: it hears its members, looks after them, and makes new ones.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;

use super::builder::Connect;
use super::member::Member;
use super::shared::Shared;
use crate::event::{ConnectionEvent, Event, Events};
use crate::options::{CallOptions, Timeout};
use crate::supervision::{Backoff, HealthCheck};

/// How long connections have to last to count as ones that work.
const LASTING: Duration = Duration::from_secs(10);

/// How long a member may take to be told the log level.
const PATIENCE: Duration = Duration::from_secs(5);

/// Passes on what a member has to tell.
pub(super) async fn hear(pool: Weak<Shared>, mut events: Events) {
    while let Some(event) = events.next().await {
        let Some(pool) = pool.upgrade() else { return };
        // A server that is connected anew may be another version of itself.
        if matches!(event, Event::ToolsChanged | Event::Connection(ConnectionEvent::Connected { .. })) {
            pool.tools.forget();
        }
        pool.events.publish(&event);
        if matches!(event, Event::Connection(_)) {
            pool.changed();
        }
    }
    if let Some(pool) = pool.upgrade() {
        pool.changed();
    }
}

/// Looks after a member: whether it answers, and whether it knows the log level. Ends with the member's place in the pool.
pub(super) async fn tend(
    pool: Weak<Shared>,
    member: Arc<Member>,
    check: Option<HealthCheck>,
    mut changes: watch::Receiver<()>,
) {
    let mut failures = 0;
    let mut checked = Instant::now();
    loop {
        set_level(&pool, &member).await;
        let due = async {
            match &check {
                Some(check) => {
                    tokio::time::sleep_until(checked + check.every).await;
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
        // One that is not connected says so itself, and takes no calls anyway.
        if member.is_connected() {
            let answers = member.answers(check.timeout).await;
            let Some(pool) = pool.upgrade() else { return };
            note_health(&pool, &member, check, &mut failures, answers);
        }
        checked = Instant::now();
    }
}

fn note_health(pool: &Shared, member: &Member, check: &HealthCheck, failures: &mut u32, answers: bool) {
    *failures = if answers { 0 } else { failures.saturating_add(1) };
    // News first, so that whoever hears of it finds it so.
    let news = match *failures {
        0 => member.set_healthy(true),
        many if many >= check.failures => member.set_healthy(false),
        _ => false,
    };
    match (*failures, news) {
        (0, true) => pool.events.publish(&Event::Healthy),
        (0, false) => {}
        (failures, _) => pool.events.publish(&Event::Unhealthy { failures }),
    }
    if news {
        pool.changed();
    }
}

async fn set_level(pool: &Weak<Shared>, member: &Member) {
    let wanted = pool.upgrade().and_then(|pool| *pool.level.lock());
    let Some(level) = wanted.filter(|level| !member.has_level(*level) && member.is_connected()) else { return };
    let options = CallOptions::within(Timeout::After(PATIENCE));
    if let Err(error) = member.set_level(level, options).await {
        tracing::debug!(target: "turms::client", %error, "a member of a pool does not know the log level");
    }
}

/// Makes members in place of those that are missing or dead, at once at first, and ever more slowly if that does not help.
pub(super) async fn keep_full(
    pool: Weak<Shared>,
    connect: Connect,
    longest: Duration,
    mut changes: watch::Receiver<()>,
) {
    let backoff = Backoff::new().longest(longest);
    let mut attempt = 0;
    let mut complete_since = None;
    loop {
        changes.borrow_and_update();
        let Some(missing) = pool.upgrade().map(|pool| pool.to_be_made()) else { return };
        if missing == 0 {
            complete_since.get_or_insert_with(Instant::now);
            if changes.changed().await.is_err() {
                return;
            }
            continue;
        }
        if complete_since.take().is_some_and(|since: Instant| since.elapsed() >= LASTING) {
            attempt = 0;
        }
        attempt += 1;
        tokio::time::sleep(backoff.delay(attempt).unwrap_or_default()).await;
        let Some(missing) = pool.upgrade().map(|pool| {
            pool.begin_making();
            pool.to_be_made()
        }) else {
            return;
        };
        let made = join_all((0..missing).map(|_| connect())).await;
        let Some(pool) = pool.upgrade() else { return };
        pool.take_made(made);
    }
}
