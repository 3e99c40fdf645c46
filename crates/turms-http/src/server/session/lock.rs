//! The lock of a session.

use std::ops::{Deref, DerefMut};
use std::task::Waker;

use smallvec::SmallVec;

use super::HttpSessionState;
use super::event_stream::SessionStream;
use crate::server::sync::{Mutex, MutexGuard};

/// The lock around the state of a session.
pub(super) struct SessionLock(Mutex<HttpSessionState>);

impl SessionLock {
    pub(super) fn new(state: HttpSessionState) -> Self {
        Self(Mutex::new(state))
    }

    pub(super) fn lock(&self) -> LockedSession<'_> {
        LockedSession { state: self.0.lock(), woken: WakeList::default() }
    }
}

/// The state of a session while it is locked.
pub(super) struct LockedSession<'a> {
    // Dropped first: wakers run after the lock is released, because a waker may access the session.
    state: MutexGuard<'a, HttpSessionState>,
    woken: WakeList,
}

impl LockedSession<'_> {
    /// Returns the state, and the wakers that run when it is unlocked.
    pub(super) fn split(&mut self) -> (&mut HttpSessionState, &mut WakeList) {
        (&mut self.state, &mut self.woken)
    }

    /// Returns a stream, and the wakers that run when the state is unlocked.
    pub(super) fn stream(&mut self, id: u64) -> Option<(&mut SessionStream, &mut WakeList)> {
        Some((self.state.streams.get_mut(&id)?, &mut self.woken))
    }
}

impl Deref for LockedSession<'_> {
    type Target = HttpSessionState;

    fn deref(&self) -> &HttpSessionState {
        &self.state
    }
}

impl DerefMut for LockedSession<'_> {
    fn deref_mut(&mut self) -> &mut HttpSessionState {
        &mut self.state
    }
}

/// Wakers that run when the list is dropped.
#[derive(Default)]
pub(super) struct WakeList(SmallVec<[Waker; 1]>);

impl Extend<Waker> for WakeList {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        self.0.extend(wakers);
    }
}

impl Drop for WakeList {
    fn drop(&mut self) {
        self.0.drain(..).for_each(Waker::wake);
    }
}
