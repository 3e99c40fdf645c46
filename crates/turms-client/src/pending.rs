//! The calls that have no answer yet.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

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
    cancel: Cancel,
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
        let registered = self.register(label.clone(), cancel);
        let cancelled = |delivery| Err(CallError::new(label.text(), CallErrorKind::Cancelled, delivery));
        if registered.cancel.is_cancelled() {
            return cancelled(Delivery::NotSent);
        }
        // Most calls in process are answered at once and never come to wait for the second.
        tokio::select! {
            biased;
            outcome = call => outcome,
            () = registered.cancel.cancelled() => cancelled(Delivery::Unknown),
        }
    }

    /// Puts a call in the list.
    pub(crate) fn register(&self, label: impl Into<Label>, cancel: Option<Cancel>) -> Registered<'_> {
        let key = self.last_key.fetch_add(1, Ordering::Relaxed) + 1;
        let (label, cancel) = (label.into(), cancel.unwrap_or_default());
        lock(&self.waiting).insert(key, Waiting { label, since: Instant::now(), cancel: cancel.clone() });
        Registered { calls: self, key, cancel }
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
        let cancel = lock(&self.waiting).get(&key).map(|waiting| waiting.cancel.clone());
        cancel.inspect(Cancel::cancel).is_some()
    }
}

/// A call that is in the list until this is dropped.
pub(crate) struct Registered<'a> {
    calls: &'a PendingCalls,
    key: u64,
    pub(crate) cancel: Cancel,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        lock(&self.calls.waiting).remove(&self.key);
    }
}
