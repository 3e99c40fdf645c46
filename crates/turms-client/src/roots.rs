use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use turms_proto::types::Root;

/// The directories and files that a server may list. The server is notified of changes, if its revision has this
/// notification.
#[derive(Debug, Clone)]
pub struct Roots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    roots: Mutex<Vec<Root>>,
    changes: watch::Sender<u64>,
}

impl Roots {
    /// Creates a list of roots.
    pub fn new(roots: impl IntoIterator<Item = Root>) -> Self {
        let roots = Mutex::new(roots.into_iter().collect());
        Self(Arc::new(Shared { roots, changes: watch::Sender::new(0) }))
    }

    /// Returns all roots.
    #[must_use]
    pub fn list(&self) -> Vec<Root> {
        self.0.roots.lock().clone()
    }

    /// Adds a root. Replaces a root with the same URI.
    pub fn add(&self, root: Root) {
        let mut roots = self.0.roots.lock();
        match roots.iter_mut().find(|old| old.uri == root.uri) {
            Some(old) => *old = root,
            None => roots.push(root),
        }
        drop(roots);
        self.changed();
    }

    /// Removes a root. Returns `false` if there is none with this URI.
    #[expect(clippy::must_use_candidate, reason = "done for its effect")]
    pub fn remove(&self, uri: &str) -> bool {
        let mut roots = self.0.roots.lock();
        let before = roots.len();
        roots.retain(|root| root.uri != uri);
        let removed = roots.len() < before;
        drop(roots);
        if removed {
            self.changed();
        }
        removed
    }

    /// Removes all roots.
    pub fn clear(&self) {
        self.0.roots.lock().clear();
        self.changed();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    fn changed(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }
}

impl<R: IntoIterator<Item = Root>> From<R> for Roots {
    fn from(roots: R) -> Self {
        Self::new(roots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_come_and_go_and_each_change_is_seen() {
        let roots = Roots::new([Root::new("file:///a")]);
        let mut changes = roots.changes();
        roots.add(Root::new("file:///b"));
        roots.add(Root::new("file:///b").name("b"));
        assert_eq!(roots.list().len(), 2);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(!roots.remove("file:///c"));
        assert!(!changes.has_changed().unwrap());
        assert!(roots.remove("file:///a"));
        roots.clear();
        assert!(roots.list().is_empty() && changes.has_changed().unwrap());
    }
}
