//! What a handler says before it answers, when everything happens inside one request.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context as TaskContext, Poll, Waker};

use bytes::Bytes;
use bytestring::ByteString;
use parking_lot::Mutex;
use turms_core::{BoxFuture, PeerError, PeerTransport};
use turms_proto::session::{RequestOptions, SessionError};
use turms_proto::{Notification, RawJson};

use crate::sse;

/// What a handler has said and nobody has read.
#[derive(Debug, Default)]
pub(super) struct Voice(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    reader: Option<Waker>,
    speakers: Vec<Waker>,
    gone: bool,
}

impl Voice {
    /// How many bytes may be left unread before handlers have to wait.
    const LIMIT: usize = 256 * 1024;

    fn say(&self, notification: &Notification, speaker: Option<&Waker>) -> Poll<bool> {
        let mut said = self.0.lock();
        if said.gone {
            return Poll::Ready(false);
        }
        if said.bytes >= Self::LIMIT {
            if let Some(speaker) = speaker
                && !said.speakers.iter().any(|waiting| waiting.will_wake(speaker))
            {
                said.speakers.push(speaker.clone());
            }
            return Poll::Pending;
        }
        let mut json = Vec::new();
        notification.encode(&mut json);
        let mut event = Vec::with_capacity(json.len() + 16);
        sse::write_event(&mut event, None, None, &json);
        said.bytes += event.len();
        said.events.push_back(event);
        if let Some(reader) = said.reader.take() {
            reader.wake();
        }
        Poll::Ready(true)
    }

    /// Everything that was said since.
    pub(super) fn poll_heard(&self, task: &mut TaskContext<'_>) -> Poll<Bytes> {
        let mut said = self.0.lock();
        if said.events.is_empty() {
            said.reader = Some(task.waker().clone());
            return Poll::Pending;
        }
        let mut all = Vec::with_capacity(said.bytes);
        for event in said.events.drain(..) {
            all.extend_from_slice(&event);
        }
        said.bytes = 0;
        said.speakers.drain(..).for_each(Waker::wake);
        Poll::Ready(all.into())
    }

    /// Comes when something was said that nobody has read.
    pub(super) fn poll_spoken(&self, task: &mut TaskContext<'_>) -> Poll<()> {
        let mut said = self.0.lock();
        if said.events.is_empty() {
            said.reader = Some(task.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Nobody listens any more.
    pub(super) fn leave(&self) {
        let mut said = self.0.lock();
        said.gone = true;
        said.speakers.drain(..).for_each(Waker::wake);
    }
}

/// The client, as a handler sees it during one request.
impl PeerTransport for Voice {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(poll_fn(move |task| {
            self.say(&notification, Some(task.waker())).map(|heard| heard.then_some(()).ok_or(PeerError::Closed))
        }))
    }

    fn try_notify(&self, notification: Notification) -> bool {
        matches!(self.say(&notification, None), Poll::Ready(true))
    }

    fn request(
        &self,
        _: ByteString,
        _: Option<RawJson>,
        _: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(std::future::ready(Err(SessionError::NoServerRequests.into())))
    }
}
