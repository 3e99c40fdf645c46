//! Whether a server is heard, where that can be lost while the connection, which is one in name only, has not ended.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use turms_core::Ended;

use crate::call::error::{CallError, Delivery};
use crate::event::ConnectionEvent;
use crate::single::{Live, Single};

/// How well the server at the other end of a connection is heard.
#[derive(Debug, Default)]
pub(crate) struct Hearing {
    /// How many streams of changes are broken.
    deaf: AtomicUsize,
    /// Whether that was told.
    told: AtomicBool,
    /// Whether nobody was there when one of them was to be opened again, so that calls will not get through either.
    gone: AtomicBool,
}

impl Hearing {
    /// Whether whoever watches the events believes that the connection is lost.
    pub(crate) fn is_told_lost(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    pub(crate) fn answered(&self) {
        self.gone.store(false, Ordering::Relaxed);
    }

    /// Whether it has to be told that all is well again.
    pub(crate) fn is_back(&self) -> bool {
        self.deaf.load(Ordering::Relaxed) == 0 && self.told.swap(false, Ordering::Relaxed)
    }
}

/// A stream of changes that is broken, until it is open again or nobody wants it any more.
pub(crate) struct Deaf {
    single: Weak<Single>,
    live: Weak<Live>,
}

impl Deaf {
    /// Tells of it, if nobody has.
    pub(crate) fn new(single: &Single, live: &Arc<Live>, why: &CallError) -> Self {
        let hearing = &live.hearing;
        hearing.deaf.fetch_add(1, Ordering::Relaxed);
        if why.delivery() == Delivery::NotSent {
            hearing.gone.store(true, Ordering::Relaxed);
        }
        if !hearing.told.swap(true, Ordering::Relaxed) {
            let ended = Ended::new().how(format!("cannot be heard any more: {}", reason(why)));
            tracing::debug!(target: "turms::client", %ended, "changes are not heard");
            single.ear.events.connection(ConnectionEvent::Lost(ended));
        }
        Self { single: single.weak(), live: Arc::downgrade(live) }
    }

    pub(crate) fn is_about(&self, live: &Arc<Live>) -> bool {
        std::ptr::eq(self.live.as_ptr(), Arc::as_ptr(live))
    }

    /// It is open again.
    pub(crate) fn end(self) {
        let (single, live) = (self.single.upgrade(), self.live.upgrade());
        drop(self);
        if let (Some(single), Some(live)) = (single, live) {
            live.hearing.answered();
            single.hear_again(&live);
        }
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        if let Some(live) = self.live.upgrade() {
            live.hearing.deaf.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// What is behind an error, for people.
fn reason(error: &CallError) -> String {
    let first = std::error::Error::source(error);
    let causes: Vec<_> = std::iter::successors(first, |error| error.source()).map(ToString::to_string).collect();
    if causes.is_empty() { error.kind().to_string() } else { causes.join(": ") }
}
