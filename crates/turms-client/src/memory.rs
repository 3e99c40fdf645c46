use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use turms_proto::session::{Dialect, Opened};

/// What was found out about servers: which revision each speaks, so that the next connection need not ask.
///
/// Clients share one for the whole process unless they are given another.
#[derive(Clone, Default)]
pub struct VersionMemory(Arc<Mutex<HashMap<String, Opened>>>);

impl VersionMemory {
    /// More servers than this are not remembered at a time.
    const CAPACITY: usize = 1024;

    /// One that knows nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The one that all clients of this process share.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: LazyLock<VersionMemory> = LazyLock::new(VersionMemory::new);
        SHARED.clone()
    }

    /// How a server was last spoken to, by its [identity](turms_core::Connector::identity).
    #[must_use]
    pub fn dialect(&self, server: &str) -> Option<Dialect> {
        self.known().get(server).map(|opened| opened.dialect)
    }

    /// Forgets a server.
    pub fn forget(&self, server: &str) {
        self.known().remove(server);
    }

    pub(crate) fn recall(&self, server: &str) -> Option<Opened> {
        self.known().get(server).cloned()
    }

    pub(crate) fn remember(&self, server: &str, opened: &Opened) {
        let mut known = self.known();
        if known.len() >= Self::CAPACITY && !known.contains_key(server) {
            known.clear();
        }
        known.insert(server.to_owned(), opened.clone());
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Opened>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for VersionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VersionMemory").field("servers", &self.known().len()).finish()
    }
}
