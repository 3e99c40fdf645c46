//! The calls that have no answer yet.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::call::error::{CallError, CallErrorKind, Delivery};
use crate::cancel::Cancel;
use crate::job::{Label, Subject as _};
use crate::state::PendingCall;

/// Who waits, and how to make them wait no more.
#[derive(Debug, Default)]
pub(crate) struct PendingCalls {
    waiting: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    last_key: u64,
    /// Whoever makes one call at a time never comes to need the map.
    one: Option<(u64, Waiting)>,
    others: HashMap<u64, Waiting, BuildHasherDefault<KeyHasher>>,
}

impl Table {
    fn insert(&mut self, waiting: Waiting) -> u64 {
        self.last_key += 1;
        match self.one {
            None => self.one = Some((self.last_key, waiting)),
            Some(_) => drop(self.others.insert(self.last_key, waiting)),
        }
        self.last_key
    }

    fn get_mut(&mut self, key: u64) -> Option<&mut Waiting> {
        match &mut self.one {
            Some((one, waiting)) if *one == key => Some(waiting),
            _ => self.others.get_mut(&key),
        }
    }

    fn remove(&mut self, key: u64) -> Option<Waiting> {
        match self.one.take_if(|(one, _)| *one == key) {
            Some((_, waiting)) => Some(waiting),
            None => self.others.remove(&key),
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u64, &Waiting)> {
        let one = self.one.as_ref().map(|(key, waiting)| (*key, waiting));
        one.into_iter().chain(self.others.iter().map(|(key, waiting)| (*key, waiting)))
    }
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
        let waiting = Waiting { label: label.into(), since: Instant::now(), cancel };
        let key = self.waiting.lock().insert(waiting);
        Registered { calls: self, key }
    }

    /// All of them, the oldest first.
    pub(crate) fn list(&self) -> Vec<PendingCall> {
        let mut pending: Vec<_> = self
            .waiting
            .lock()
            .iter()
            .map(|(key, waiting)| PendingCall { key, subject: waiting.label.text(), waiting: waiting.since.elapsed() })
            .collect();
        pending.sort_by_key(|call| call.key);
        pending
    }

    /// Gives one up; false if there is none of this key.
    pub(crate) fn cancel(&self, key: u64) -> bool {
        self.cancel_of(key).inspect(Cancel::cancel).is_some()
    }

    fn cancel_of(&self, key: u64) -> Option<Cancel> {
        self.waiting.lock().get_mut(key).map(|waiting| waiting.cancel.get_or_insert_default().clone())
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
        let subject = self.calls.borrow().waiting.lock().get_mut(self.key).map(|waiting| waiting.label.text());
        CallError::new(subject.unwrap_or_default(), CallErrorKind::Cancelled, Delivery::Unknown)
    }
}

impl<C: Borrow<PendingCalls>> Drop for Registered<C> {
    fn drop(&mut self) {
        let ended = self.calls.borrow().waiting.lock().remove(self.key);
        // The list is free for others by now.
        drop(ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_in_the_list_until_they_end_in_whatever_order() {
        let calls = PendingCalls::default();
        let register = |name: &str| calls.register(name.to_owned(), None);
        let subjects = || calls.list().into_iter().map(|call| call.subject).collect::<Vec<_>>().join(" ");
        let (a, b, c) = (register("a"), register("b"), register("c"));
        assert_eq!(subjects(), "a b c");
        drop(b);
        assert_eq!(subjects(), "a c");
        let (key, cancel) = (a.key, a.cancel());
        assert!(calls.cancel(key) && cancel.is_cancelled() && !c.cancel().is_cancelled());
        drop(a);
        assert!(!calls.cancel(key));
        let d = register("d");
        assert_eq!(subjects(), "c d");
        assert!(calls.cancel(d.key) && d.cancel().is_cancelled());
        drop((c, d));
        assert_eq!(subjects(), "");
    }
}
