//! The calls that have no answer yet.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::cancel::Cancel;
use crate::error::{CallError, CallErrorKind, Delivery};
use crate::job::{Label, Subject as _};
use crate::single::lock;
use crate::state::PendingCall;

/// Who waits, and how to make them wait no more.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    waiting: Mutex<HashMap<u64, Waiting, BuildHasherDefault<KeyHasher>>>,
    last_key: AtomicU64,
}

#[derive(Debug)]
struct Waiting {
    label: Label,
    since: Instant,
    /// Made when somebody wants to wait for it or use it, unless the caller has one.
    cancel: Option<Cancel>,
}

/// Keys are given out one after the other, and nobody else chooses them.
#[derive(Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte) ^ self.0.rotate_left(8));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl PendingCalls {
    /// Makes a call that can be seen and cancelled until it has ended.
    pub(crate) async fn track<T>(
        &self,
        label: impl Into<Label>,
        cancel: Option<Cancel>,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let label = label.into();
        if cancel.as_ref().is_some_and(Cancel::is_cancelled) {
            return Err(CallError::not_sent(label.text(), CallErrorKind::Cancelled));
        }
        self.register(label, cancel).while_wanted(call).await
    }

    /// Puts a call in the list.
    pub(crate) fn register(&self, label: impl Into<Label>, cancel: Option<Cancel>) -> Registered<&Self> {
        let key = self.last_key.fetch_add(1, Ordering::Relaxed) + 1;
        lock(&self.waiting).insert(key, Waiting { label: label.into(), since: Instant::now(), cancel });
        Registered { calls: self, key }
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> Vec<PendingCall> {
        let mut pending: Vec<_> = lock(&self.waiting)
            .iter()
            .map(|(key, waiting)| PendingCall {
                key: *key,
                subject: waiting.label.text(),
                waiting: waiting.since.elapsed(),
            })
            .collect();
        pending.sort_by_key(|call| call.key);
        pending
    }

    /// Gives one up; false if there is none of this key.
    pub(crate) fn cancel(&self, key: u64) -> bool {
        self.cancel_of(key).inspect(Cancel::cancel).is_some()
    }

    fn cancel_of(&self, key: u64) -> Option<Cancel> {
        lock(&self.waiting).get_mut(&key).map(|waiting| waiting.cancel.get_or_insert_default().clone())
    }
}

/// A call that is in the list until this is dropped.
pub(crate) struct Registered<C: Borrow<PendingCalls>> {
    calls: C,
    key: u64,
}

impl<C: Borrow<PendingCalls>> Registered<C> {
    /// What it can be given up with.
    pub(crate) fn cancel(&self) -> Cancel {
        self.calls.borrow().cancel_of(self.key).unwrap_or_default()
    }

    /// Waits for a call as long as it is not given up.
    pub(crate) async fn while_wanted<T>(
        self,
        call: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        // Many calls in process are answered at once and never come to wait for the second.
        tokio::select! {
            biased;
            outcome = call => outcome,
            () = async { self.cancel().cancelled().await } => Err(self.given_up()),
        }
    }

    fn given_up(&self) -> CallError {
        let subject = lock(&self.calls.borrow().waiting).get(&self.key).map(|waiting| waiting.label.text());
        CallError::new(subject.unwrap_or_default(), CallErrorKind::Cancelled, Delivery::Unknown)
    }
}

impl Registered<&PendingCalls> {
    /// The same, when the list is not borrowed any more.
    pub(crate) fn owned(self, calls: Arc<PendingCalls>) -> Registered<Arc<PendingCalls>> {
        let key = self.key;
        std::mem::forget(self);
        Registered { calls, key }
    }
}

impl<C: Borrow<PendingCalls>> Drop for Registered<C> {
    fn drop(&mut self) {
        lock(&self.calls.borrow().waiting).remove(&self.key);
    }
}
