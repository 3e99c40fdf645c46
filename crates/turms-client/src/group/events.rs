use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::event::{Event, Events};

/// A stream of the events of all servers of a group, with the name of the server. It ends when the group is closed or
/// dropped.
///
/// Adding, reconnecting or removing a server changes the lists of the group, and so is reported as changed lists.
pub struct GroupEvents {
    changes: mpsc::UnboundedReceiver<MembershipChange>,
    /// `true` if the group is closed.
    closed: bool,
    streams: Vec<MemberEvents>,
    ready: VecDeque<(Arc<str>, Event)>,
    /// Index of the stream to poll first. The streams take turns, so that one with many events does not starve the
    /// others.
    turn: usize,
}

struct MemberEvents {
    client_id: u64,
    name: Arc<str>,
    events: Events,
    /// The events to yield after the last event of a server that has left the group.
    leaving: Option<Vec<Event>>,
}

/// A change of the servers of a group.
pub(super) enum MembershipChange {
    Joined {
        client_id: u64,
        name: Arc<str>,
        /// Not the client: an unread change must not keep a connection open.
        events: Option<Events>,
        announce: Vec<Event>,
    },
    Left {
        client_id: u64,
        name: Arc<str>,
        announce: Vec<Event>,
    },
}

impl GroupEvents {
    pub(super) fn new(
        changes: mpsc::UnboundedReceiver<MembershipChange>,
        present: impl IntoIterator<Item = (u64, Arc<str>, Events)>,
    ) -> Self {
        let streams = present
            .into_iter()
            .map(|(client_id, name, events)| MemberEvents { client_id, name, events, leaving: None })
            .collect();
        Self { changes, closed: false, streams, ready: VecDeque::new(), turn: 0 }
    }

    /// Returns the next event with the name of its server; `None` after the group was closed or dropped.
    pub async fn next(&mut self) -> Option<(Arc<str>, Event)> {
        std::future::poll_fn(|task| self.poll_event(task)).await
    }

    /// Returns the first value that `pick` returns for an event; `None` after the group was closed or dropped.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(&str, Event) -> Option<T>) -> Option<T> {
        loop {
            let (server, event) = self.next().await?;
            if let Some(found) = pick(&server, event) {
                return Some(found);
            }
        }
    }

    fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Option<(Arc<str>, Event)>> {
        while let Poll::Ready(change) = self.changes.poll_recv(task) {
            match change {
                Some(change) => self.apply(change),
                None => {
                    self.closed = true;
                    break;
                }
            }
        }
        let mut waiting = 0;
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            if waiting == self.streams.len() {
                break;
            }
            let at = (self.turn + waiting) % self.streams.len();
            let stream = &mut self.streams[at];
            match stream.events.poll_event(task) {
                Poll::Ready(Some(event)) => {
                    self.turn = at + 1;
                    return Poll::Ready(Some((stream.name.clone(), event)));
                }
                Poll::Pending if stream.leaving.is_none() && !self.closed => waiting += 1,
                Poll::Pending | Poll::Ready(None) => {
                    let stream = self.streams.remove(at);
                    let last = stream.leaving.into_iter().flatten();
                    self.ready.extend(last.map(|event| (stream.name.clone(), event)));
                    (self.turn, waiting) = (0, 0);
                }
            }
        }
        if self.closed && self.streams.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    fn apply(&mut self, change: MembershipChange) {
        match change {
            MembershipChange::Joined { client_id, name, events, announce } => {
                self.ready.extend(announce.into_iter().map(|event| (name.clone(), event)));
                if let Some(events) = events {
                    self.streams.push(MemberEvents { client_id, name, events, leaving: None });
                }
            }
            MembershipChange::Left { client_id, name, announce } => {
                match self.streams.iter_mut().find(|stream| stream.client_id == client_id) {
                    Some(stream) => stream.leaving = Some(announce),
                    None => self.ready.extend(announce.into_iter().map(|event| (name.clone(), event))),
                }
            }
        }
    }
}

impl Stream for GroupEvents {
    type Item = (Arc<str>, Event);

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(task)
    }
}

impl fmt::Debug for GroupEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.streams.iter().map(|stream| &stream.name).collect();
        f.debug_struct("GroupEvents").field("servers", &servers).finish_non_exhaustive()
    }
}

/// A stream of [`GroupEvents`] without the names of the servers.
pub(super) struct WithoutNames(pub(super) GroupEvents);

impl Stream for WithoutNames {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_event(task).map(|next| next.map(|(_, event)| event))
    }
}
