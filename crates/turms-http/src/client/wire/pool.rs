//! Connections that wait for their next request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::connection::Connection;

#[derive(Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    connections: Vec<(Connection, Instant)>,
    /// Whether somebody looks after those that wait too long.
    is_watched: bool,
}

/// How many are kept, and for how long.
const MOST: usize = 64;
const LONGEST: Duration = Duration::from_secs(90);

/// After this time it is looked closely whether the server has closed one.
const BRIEF: Duration = Duration::from_secs(1);

/// How often those are looked for that need not be kept.
const PERIOD: Duration = Duration::from_secs(15);

impl Pool {
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection that was used last, which is the least likely to have been closed.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.idle().connections.pop()?;
            let idle = since.elapsed();
            if idle < LONGEST && connection.is_quiet(idle > BRIEF) {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(self: &Arc<Self>, connection: Connection) {
        let mut idle = self.idle();
        if idle.connections.len() >= MOST {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut idle.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }

    /// Closes those that nobody wants any more, and says whether there are others.
    pub(super) fn tidy(&self) -> bool {
        let mut idle = self.idle();
        idle.connections.retain_mut(|(connection, since)| since.elapsed() < LONGEST && connection.is_quiet(true));
        idle.is_watched = !idle.connections.is_empty();
        idle.is_watched
    }
}

/// Looks after those that wait, as long as there are any.
async fn watch(pool: std::sync::Weak<Pool>) {
    loop {
        tokio::time::sleep(PERIOD).await;
        if !pool.upgrade().is_some_and(|pool| pool.tidy()) {
            return;
        }
    }
}
