use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

use turms_proto::types::{ClientCapabilities, Implementation, LoggingLevel};

use crate::peer::Peer;
use crate::principal::Principal;

/// A session of a client of a revision with a handshake. There is none in 2026-07-28.
///
/// The transport creates it and adds it to the [context](crate::CallContext::session) of each call and notification of the session. The
/// service keeps its own state in it. The transport closes it with a reason; dropping it closes it as [`Lost`](CloseReason::Lost).
pub struct SessionHandle {
    serial: u64,
    peer: Peer,
    client: OnceLock<Arc<ClientRecord>>,
    log_level: AtomicU8,
    state: OnceLock<Arc<dyn SessionState>>,
    closed: OnceLock<CloseReason>,
    /// Set once [`SessionState::on_close`] is called.
    is_notified: AtomicBool,
}

/// The `clientInfo` and `capabilities` that a client has sent in `initialize`.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct ClientRecord {
    /// The name and version of the client.
    pub info: Implementation,
    /// The capabilities of the client.
    pub capabilities: ClientCapabilities,
}

impl ClientRecord {
    /// Creates a record.
    #[must_use]
    pub fn new(info: Implementation, capabilities: ClientCapabilities) -> Self {
        Self { info, capabilities }
    }
}

/// The state that a service keeps for a session.
///
/// It must not hold the [`SessionHandle`] that holds it; a [`Peer`] is enough to reach the client.
pub trait SessionState: Any + Send + Sync {
    /// Called with the principal of each request and stream of the session. Its scopes may differ from those of the last one. The
    /// provided method does nothing.
    fn on_principal(&self, principal: &Principal) {
        let _ = principal;
    }

    /// Called once, when the session is closed.
    fn on_close(self: Arc<Self>, reason: CloseReason);
}

/// The reason why a session is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The client has sent `initialize` again, or has closed the connection.
    Client,
    /// The client has deleted the session by HTTP DELETE.
    Deleted,
    /// The session was not used for too long.
    Idle,
    /// The connection was lost.
    Lost,
    /// The server shuts down.
    Shutdown,
    /// The server has closed the session.
    Server,
}

impl SessionHandle {
    /// Creates a session with a client.
    #[must_use]
    pub fn new(peer: Peer) -> Arc<Self> {
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        Arc::new(Self {
            serial: SERIALS.fetch_add(1, Ordering::Relaxed),
            peer,
            client: OnceLock::new(),
            log_level: AtomicU8::new(LoggingLevel::Info as u8),
            state: OnceLock::new(),
            closed: OnceLock::new(),
            is_notified: AtomicBool::new(false),
        })
    }

    /// A number that no other session of this process has.
    #[must_use]
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// The client, for messages that belong to no request.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// The client info and capabilities of `initialize`; `None` before that.
    #[must_use]
    pub fn client(&self) -> Option<&Arc<ClientRecord>> {
        self.client.get()
    }

    /// Stores the client info and capabilities of `initialize`. A session has one handshake: later records are ignored.
    pub fn set_client(&self, client: Arc<ClientRecord>) {
        let _ = self.client.set(client);
    }

    /// Returns `true` if the client wants log messages of this level. Without `logging/setLevel`, it wants `info` and above.
    #[must_use]
    pub fn log_enabled(&self, level: LoggingLevel) -> bool {
        level as u8 >= self.log_level.load(Ordering::Relaxed)
    }

    /// The lowest level of log messages that the client wants. Default: info.
    #[must_use]
    pub fn log_level(&self) -> LoggingLevel {
        LoggingLevel::ALL[usize::from(self.log_level.load(Ordering::Relaxed))]
    }

    /// Sets the lowest level of log messages that the client wants.
    pub fn set_log_level(&self, level: LoggingLevel) {
        self.log_level.store(level as u8, Ordering::Relaxed);
    }

    /// Returns the state of the service, created by `init` at first use. A session has one state: `None` if it has another type, or if there
    /// is none and the session is closed.
    pub fn state<T: SessionState>(&self, init: impl FnOnce() -> Arc<T>) -> Option<Arc<T>> {
        if self.state.get().is_none() && self.closed.get().is_some() {
            return None;
        }
        let mut is_new = false;
        let state = self.state.get_or_init(|| {
            is_new = true;
            init()
        });
        let state = state.clone();
        // `close` may have run in between and found no state to notify.
        if is_new {
            // At least one of the two threads sees what the other has set.
            fence(Ordering::SeqCst);
            if let Some(reason) = self.closed.get() {
                self.notify_closed(&state, *reason);
            }
        }
        (state as Arc<dyn Any + Send + Sync>).downcast().ok()
    }

    /// Returns the state of the service, if there is one already.
    #[must_use]
    pub fn existing_state<T: SessionState>(&self) -> Option<Arc<T>> {
        (self.state.get()?.clone() as Arc<dyn Any + Send + Sync>).downcast().ok()
    }

    /// Calls [`SessionState::on_principal`]. Transports call it for each request and stream, before the request is handled, if those of
    /// one session may have tokens with different scopes.
    pub fn note_principal(&self, principal: &Principal) {
        if let Some(state) = self.state.get() {
            state.on_principal(principal);
        }
    }

    /// Closes the session and calls [`SessionState::on_close`], once.
    pub fn close(&self, reason: CloseReason) {
        if self.closed.set(reason).is_ok() {
            fence(Ordering::SeqCst);
            if let Some(state) = self.state.get() {
                self.notify_closed(state, reason);
            }
        }
    }

    /// Calls [`SessionState::on_close`] unless it was called. Both `close` and `state` may have to.
    fn notify_closed(&self, state: &Arc<dyn SessionState>, reason: CloseReason) {
        if !self.is_notified.swap(true, Ordering::AcqRel) {
            state.clone().on_close(reason);
        }
    }

    /// The reason why the session is closed; `None` while it is open.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.closed.get().copied()
    }
}

impl Drop for SessionHandle {
    fn drop(&mut self) {
        self.close(CloseReason::Lost);
    }
}

impl std::fmt::Debug for SessionHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut session = f.debug_struct("SessionHandle");
        session.field("serial", &self.serial).field("client", &self.client).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct Recorded(Mutex<Vec<CloseReason>>);

    impl SessionState for Recorded {
        fn on_close(self: Arc<Self>, reason: CloseReason) {
            self.0.lock().push(reason);
        }
    }

    struct Other;

    impl SessionState for Other {
        fn on_close(self: Arc<Self>, _: CloseReason) {}
    }

    #[test]
    fn a_state_is_created_once_and_notified_once() {
        let session = SessionHandle::new(Peer::disconnected());
        assert!(session.existing_state::<Recorded>().is_none());
        let state = session.state(|| Arc::new(Recorded::default())).unwrap();
        assert!(Arc::ptr_eq(&state, &session.state(|| Arc::new(Recorded::default())).unwrap()));
        assert!(session.state(|| Arc::new(Other)).is_none(), "a session has one state");
        session.close(CloseReason::Deleted);
        session.close(CloseReason::Idle);
        drop(session);
        assert_eq!(*state.0.lock(), [CloseReason::Deleted]);
    }

    #[test]
    fn a_session_that_is_dropped_is_lost() {
        let session = SessionHandle::new(Peer::disconnected());
        let state = session.state(|| Arc::new(Recorded::default())).unwrap();
        drop(session);
        assert_eq!(*state.0.lock(), [CloseReason::Lost]);
    }

    #[test]
    fn a_closed_session_takes_no_state() {
        let session = SessionHandle::new(Peer::disconnected());
        session.close(CloseReason::Idle);
        assert!(session.state(|| Arc::new(Recorded::default())).is_none());
    }

    #[test]
    fn a_state_is_notified_once_if_its_session_is_closed_at_the_same_time() {
        for _ in 0..2_000 {
            let session = SessionHandle::new(Peer::disconnected());
            let state = Arc::new(Recorded::default());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while session.existing_state::<Recorded>().is_none() {
                        std::hint::spin_loop();
                    }
                    session.close(CloseReason::Idle);
                });
                session.state(|| state.clone()).unwrap();
            });
            assert_eq!(*state.0.lock(), [CloseReason::Idle]);
        }
    }

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let session = SessionHandle::new(Peer::disconnected());
        let code = [("SessionHandle::log_level", when(session.log_level() == LoggingLevel::Info, "info"))];
        assert_documented(include_str!("session.rs"), &code);
    }
}
