use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The shutdown of a server, shared by everything that serves it. Clones are the same shutdown.
///
/// The server creates it. When it begins, transports stop accepting and let running calls finish. Tasks that have to finish before
/// the process exits are spawned through it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// Creates a shutdown that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins the shutdown.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Returns `true` if the shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Resolves when the shutdown begins.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + use<> {
        self.token.clone().cancelled_owned()
    }

    /// Creates the shutdown of a part of the server, such as one transport. It begins with this one, or on its own.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { token: self.token.child_token(), tasks: self.tasks.clone() }
    }

    /// Spawns a task that [`Shutdown::finished`] waits for.
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&self, task: F) -> tokio::task::JoinHandle<()> {
        self.tasks.spawn(task)
    }

    /// Resolves when the shutdown has begun and all tasks that were spawned through it have finished.
    pub async fn finished(&self) {
        self.token.cancelled().await;
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_shutdown_reaches_its_parts_and_waits_for_tasks() {
        let server = Shutdown::new();
        let (part, other) = (server.child(), server.child());
        part.begin();
        assert!(part.has_begun() && !other.has_begun() && !server.has_begun());
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        other.spawn(async move { drop(released.await) });
        server.begin();
        other.begun().await;
        assert!(server.finished().now_or_never().is_none(), "a task runs");
        drop(release);
        server.finished().await;
    }
}
