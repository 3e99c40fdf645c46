//! Connections that wait for their next request.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::connection::Connection;

#[derive(Default)]
pub(super) struct Pool(Mutex<Idle>);

#[derive(Default)]
struct Idle {
    connections: Vec<(Connection, Instant)>,
    /// Who looks after those that wait too long. It ends with its runtime.
    watcher: Option<JoinHandle<()>>,
}

/// How many are kept, and for how long.
const MOST: usize = 64;
const LONGEST: Duration = Duration::from_secs(90);

/// After this time it is looked closely whether the server has closed one.
const BRIEF: Duration = Duration::from_secs(1);

/// How often those are looked for that need not be kept.
const PERIOD: Duration = Duration::from_secs(15);

impl Pool {
    /// The connection that was used last, which is the least likely to have been closed.
    pub(super) fn take(&self) -> Option<Connection> {
        loop {
            let (mut connection, since) = self.0.lock().connections.pop()?;
            let idle = since.elapsed();
            if idle >= LONGEST || !connection.is_quiet() {
                continue;
            }
            let kept = if idle > BRIEF { connection.if_quiet() } else { Some(connection) };
            if kept.is_some() {
                return kept;
            }
        }
    }

    /// Keeps a connection for the next request.
    pub(super) fn keep(self: &Arc<Self>, connection: Connection) {
        let mut idle = self.0.lock();
        if idle.connections.len() >= MOST {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        let is_watched = idle.watcher.as_ref().is_some_and(|watcher| !watcher.is_finished());
        if !is_watched && let Ok(runtime) = Handle::try_current() {
            idle.watcher = Some(runtime.spawn(watch(Arc::downgrade(self))));
        }
    }

    /// Closes those that nobody wants any more, and says whether there are others.
    pub(super) fn tidy(&self) -> bool {
        let mut idle = self.0.lock();
        idle.connections.retain_mut(|(connection, since)| since.elapsed() < LONGEST && connection.is_quiet());
        if idle.connections.is_empty() {
            idle.watcher = None;
        }
        !idle.connections.is_empty()
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

#[cfg(test)]
mod tests {
    use std::future::{Future as _, poll_fn};
    use std::net::{TcpListener, TcpStream};
    use std::pin::pin;
    use std::task::Poll;

    use tokio::runtime::Runtime;

    use super::*;

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
    }

    /// A connection, and the server's side of it.
    async fn connected() -> (tokio::net::TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = tokio::net::TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (ours, listener.accept().unwrap().0)
    }

    /// A program may do something else for long, and nobody hears meanwhile that the server hangs up.
    #[test]
    fn a_connection_is_looked_at_though_the_runtime_has_not_run() {
        let (pool, runtime) = (Pool::default(), runtime());
        let (ours, theirs) = runtime.block_on(connected());
        let _inside = runtime.enter();
        let long_ago = Instant::now() - 2 * BRIEF;
        pool.0.lock().connections.push((Connection::new(ours), long_ago));
        let kept = pool.take().unwrap();
        pool.0.lock().connections.push((kept, long_ago));
        drop(theirs);
        assert!(pool.take().is_none());
    }

    #[tokio::test]
    async fn a_connection_is_looked_at_by_a_task_that_has_done_much_at_once() {
        let pool = Pool::default();
        let (ours, theirs) = connected().await;
        drop(theirs);
        ours.readable().await.unwrap();
        pool.0.lock().connections.push((Connection::new(ours), Instant::now()));
        poll_fn(|task| {
            while pin!(tokio::task::consume_budget()).poll(task).is_ready() {}
            assert!(pool.take().is_none());
            Poll::Ready(())
        })
        .await;
    }

    #[test]
    fn connections_are_looked_after_though_a_runtime_has_ended() {
        let pool = Arc::new(Pool::default());
        let (ours, _first) = {
            let runtime = runtime();
            runtime.block_on(async {
                let (ours, theirs) = connected().await;
                pool.keep(Connection::new(ours));
                (pool.take(), theirs)
            })
        };
        drop(ours);
        runtime().block_on(async {
            let (ours, _theirs) = connected().await;
            pool.keep(Connection::new(ours));
            tokio::time::sleep(LONGEST + 2 * PERIOD).await;
            assert!(pool.0.lock().connections.is_empty());
        });
    }

    /// Nothing but what looks after connections needs a runtime.
    #[test]
    fn a_connection_can_be_kept_outside_of_a_runtime() {
        let (pool, runtime) = (Arc::new(Pool::default()), runtime());
        let (ours, _theirs) = runtime.block_on(connected());
        pool.keep(Connection::new(ours));
        assert_eq!(pool.0.lock().connections.len(), 1);
    }
}
