//! The lock of a session.

use std::ops::{Deref, DerefMut};
use std::task::Waker;

use smallvec::SmallVec;

use super::State;
use super::event_stream::Stream;
use crate::server::sync::{Mutex, MutexGuard};

/// The lock around the state of a session.
pub(super) struct SessionLock(Mutex<State>);

impl SessionLock {
    pub(super) fn new(state: State) -> Self {
        Self(Mutex::new(state))
    }

    pub(super) fn lock(&self) -> LockedState<'_> {
        LockedState { state: self.0.lock(), woken: WakeList::default() }
    }
}

/// The state of a session while it is locked.
pub(super) struct LockedState<'a> {
    // Dropped first: wakers run after the lock is released, because a waker may access the session.
    state: MutexGuard<'a, State>,
    woken: WakeList,
}

impl LockedState<'_> {
    /// Returns the state, and the wakers that run when it is unlocked.
    pub(super) fn split(&mut self) -> (&mut State, &mut WakeList) {
        (&mut self.state, &mut self.woken)
    }

    /// Returns a stream, and the wakers that run when the state is unlocked.
    pub(super) fn stream(&mut self, id: u64) -> Option<(&mut Stream, &mut WakeList)> {
        Some((self.state.streams.get_mut(&id)?, &mut self.woken))
    }
}

impl Deref for LockedState<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for LockedState<'_> {
    fn deref_mut(&mut self) -> &mut State {
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
