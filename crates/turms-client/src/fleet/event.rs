use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::mpsc;

use crate::event::{Event, Events};

/// What happens at the servers of a fleet, and at which. It ends when the fleet is closed or dropped.
///
/// A server that comes later, comes back or is taken away is told of as well: its lists have changed.
pub struct FleetEvents {
    news: mpsc::UnboundedReceiver<News>,
    /// Whether the fleet is there no more.
    over: bool,
    streams: Vec<Heard>,
    ready: VecDeque<(Arc<str>, Event)>,
    /// Whose turn it is, so that a server that tells much does not keep others from being heard.
    turn: usize,
}

struct Heard {
    placed: u64,
    name: Arc<str>,
    events: Events,
    /// What to tell when all of it has been read, if it is a server of the fleet no more.
    leaving: Option<Vec<Event>>,
}

/// Who has come to a fleet, and who has gone.
pub(super) enum News {
    Joined {
        placed: u64,
        name: Arc<str>,
        /// For those who want to hear them. Never the client itself: what lies unread must keep nothing alive.
        events: Option<Events>,
        told: Vec<Event>,
    },
    Left {
        placed: u64,
        name: Arc<str>,
        told: Vec<Event>,
    },
}

impl FleetEvents {
    pub(super) fn new(
        news: mpsc::UnboundedReceiver<News>,
        present: impl IntoIterator<Item = (u64, Arc<str>, Events)>,
    ) -> Self {
        let streams =
            present.into_iter().map(|(placed, name, events)| Heard { placed, name, events, leaving: None }).collect();
        Self { news, over: false, streams, ready: VecDeque::new(), turn: 0 }
    }

    /// The next event, and the name of the server; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<(Arc<str>, Event)> {
        std::future::poll_fn(|task| self.poll_event(task)).await
    }

    /// The next event that `pick` finds something in.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(&str, Event) -> Option<T>) -> Option<T> {
        loop {
            let (server, event) = self.next().await?;
            if let Some(found) = pick(&server, event) {
                return Some(found);
            }
        }
    }

    fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Option<(Arc<str>, Event)>> {
        while let Poll::Ready(news) = self.news.poll_recv(task) {
            match news {
                Some(news) => self.take_note(news),
                None => {
                    self.over = true;
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
            let heard = &mut self.streams[at];
            match heard.events.poll_event(task) {
                Poll::Ready(Some(event)) => {
                    self.turn = at + 1;
                    return Poll::Ready(Some((heard.name.clone(), event)));
                }
                Poll::Pending if heard.leaving.is_none() && !self.over => waiting += 1,
                Poll::Pending | Poll::Ready(None) => {
                    let heard = self.streams.remove(at);
                    let last = heard.leaving.into_iter().flatten();
                    self.ready.extend(last.map(|event| (heard.name.clone(), event)));
                    (self.turn, waiting) = (0, 0);
                }
            }
        }
        if self.over && self.streams.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    }

    fn take_note(&mut self, news: News) {
        match news {
            News::Joined { placed, name, events, told } => {
                self.ready.extend(told.into_iter().map(|event| (name.clone(), event)));
                if let Some(events) = events {
                    self.streams.push(Heard { placed, name, events, leaving: None });
                }
            }
            News::Left { placed, name, told } => match self.streams.iter_mut().find(|heard| heard.placed == placed) {
                Some(heard) => heard.leaving = Some(told),
                None => self.ready.extend(told.into_iter().map(|event| (name.clone(), event))),
            },
        }
    }
}

impl Stream for FleetEvents {
    type Item = (Arc<str>, Event);

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_event(task)
    }
}

impl fmt::Debug for FleetEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<_> = self.streams.iter().map(|heard| &heard.name).collect();
        f.debug_struct("FleetEvents").field("servers", &servers).finish_non_exhaustive()
    }
}

/// The same without saying whose each is.
pub(super) struct Nameless(pub(super) FleetEvents);

impl Stream for Nameless {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.0.poll_event(task).map(|next| next.map(|(_, event)| event))
    }
}
