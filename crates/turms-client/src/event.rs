//! What happens while nobody asks: one stream of events, for any number of tasks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use turms_core::{ConnectError, Ended};
use turms_proto::types::{LogMessage, ProgressParams, Task};
use turms_proto::{Notification, ProtocolVersion};

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// How the connection stands has changed.
    Connection(ConnectionEvent),
    /// The list of tools has changed.
    ToolsChanged,
    /// The list of prompts has changed.
    PromptsChanged,
    /// The list of resources, or of their templates, has changed.
    ResourcesChanged,
    /// A resource that is watched has changed.
    ResourceUpdated {
        /// Which.
        uri: String,
    },
    /// The server has something to say about its work.
    Log(Arc<LogMessage>),
    /// A call has come further.
    Progress(Arc<ProgressParams>),
    /// A page that the user was sent to has been dealt with (2025-11-25).
    ElicitationComplete {
        /// The id that the question carried.
        id: String,
    },
    /// A task stands otherwise than before. Servers of 2025-11-25 tell of it if they like; those of 2026-07-28 tell whoever
    /// [listens](crate::Client::listen) to the task.
    TaskChanged(Arc<Task>),
    /// A call is made again.
    Retrying {
        /// The call.
        subject: Arc<str>,
        /// The how-manieth repetition this is, from 1.
        attempt: u32,
    },
    /// The circuit breaker has opened or closed.
    Breaker(BreakerState),
    /// A health check has failed.
    Unhealthy {
        /// How many in a row.
        failures: u32,
    },
    /// A health check has succeeded again after some that had not.
    Healthy,
    /// The server told something that this list does not have.
    Other(Arc<Notification>),
    /// This subscriber was too slow, and this many events were left out.
    Missed(u64),
}

/// How the connection stands.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// It is open.
    Connected {
        /// The revision that is spoken.
        version: ProtocolVersion,
        /// The how-manieth connection of this client it is, from 1.
        generation: u64,
    },
    /// It has ended, other than by this client's wish.
    Lost(Ended),
    /// Another is tried.
    Reconnecting {
        /// The how-manieth attempt, from 1.
        attempt: u32,
        /// When, counted from now.
        delay: Duration,
    },
    /// An attempt to open another has failed.
    ConnectFailed(ConnectError),
    /// No other is tried any more.
    GaveUp,
    /// It is over: the client has closed it, or it was lost and no other is tried.
    Closed,
}

/// Whether the circuit breaker lets calls through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// All of them.
    Closed,
    /// None.
    Open,
    /// One, to see whether the server works again.
    HalfOpen,
}

/// Where events come from and go to. Publishing never waits.
#[derive(Default)]
pub(crate) struct EventHub {
    subscribers: Mutex<Subscribers>,
}

#[derive(Default)]
struct Subscribers {
    all: Vec<Subscriber>,
    /// Whether nothing will happen any more.
    closed: bool,
}

struct Subscriber {
    sender: mpsc::Sender<Event>,
    missed: Arc<AtomicU64>,
}

impl EventHub {
    /// How many events a subscriber may leave unread.
    const CAPACITY: usize = 1024;

    pub(crate) fn subscribe(&self) -> Events {
        let (sender, receiver) = mpsc::channel(Self::CAPACITY);
        let missed = Arc::new(AtomicU64::new(0));
        let mut subscribers = self.subscribers.lock();
        // Where nothing happens, publishing does not see who has gone.
        subscribers.all.retain(|subscriber| !subscriber.sender.is_closed());
        if !subscribers.closed {
            subscribers.all.push(Subscriber { sender, missed: missed.clone() });
        }
        Events(Source::Hub { receiver, missed })
    }

    pub(crate) fn publish(&self, event: &Event) {
        let mut subscribers = self.subscribers.lock();
        subscribers.all.retain(|subscriber| {
            match subscriber.sender.try_send(event.clone()) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(_)) => {
                    subscriber.missed.fetch_add(1, Ordering::Relaxed);
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return false,
            }
            true
        });
    }

    pub(crate) fn connection(&self, event: ConnectionEvent) {
        self.publish(&Event::Connection(event));
    }

    /// Ends all streams, also those that are taken later.
    pub(crate) fn close(&self) {
        *self.subscribers.lock() = Subscribers { all: Vec::new(), closed: true };
    }
}

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHub").field("subscribers", &self.subscribers.lock().all.len()).finish()
    }
}

/// A stream of what happens. It ends when the client is closed or dropped.
pub struct Events(Source);

enum Source {
    Hub { receiver: mpsc::Receiver<Event>, missed: Arc<AtomicU64> },
    Merged(Pin<Box<dyn Stream<Item = Event> + Send + Sync>>),
}

impl Events {
    /// Events that others have gathered.
    pub(crate) fn merged(events: impl Stream<Item = Event> + Send + Sync + 'static) -> Self {
        Self(Source::Merged(Box::pin(events)))
    }

    /// The next event; `None` when there will be no more.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|task| self.poll_event(task)).await
    }

    /// The next event that `pick` finds something in.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(Event) -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = pick(self.next().await?) {
                return Some(found);
            }
        }
    }

    pub(crate) fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Option<Event>> {
        let (receiver, missed) = match &mut self.0 {
            Source::Hub { receiver, missed } => (receiver, missed),
            Source::Merged(events) => return events.as_mut().poll_next(task),
        };
        // What was missed came after all that could still be kept, and is told when that has been read.
        let read_all = receiver.is_empty();
        match receiver.poll_recv(task) {
            Poll::Pending | Poll::Ready(None) if read_all && missed.load(Ordering::Relaxed) > 0 => {
                Poll::Ready(Some(Event::Missed(missed.swap(0, Ordering::Relaxed))))
            }
            poll => poll,
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(task)
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_subscriber_learns_how_much_it_missed_and_keeps_nobody_waiting() {
        let hub = EventHub::default();
        let (mut slow, mut other) = (hub.subscribe(), hub.subscribe());
        for _ in 0..EventHub::CAPACITY + 3 {
            hub.publish(&Event::ToolsChanged);
            assert!(matches!(other.next().await, Some(Event::ToolsChanged)));
        }
        for _ in 0..EventHub::CAPACITY {
            assert!(matches!(slow.next().await, Some(Event::ToolsChanged)));
        }
        assert!(matches!(slow.next().await, Some(Event::Missed(3))));
        hub.close();
        assert!(slow.next().await.is_none());
        assert!(hub.subscribe().next().await.is_none());
    }

    #[tokio::test]
    async fn subscribers_that_have_gone_are_forgotten_and_those_who_come_too_late_hear_nothing() {
        let hub = EventHub::default();
        for _ in 0..10 {
            drop(hub.subscribe());
        }
        assert_eq!(hub.subscribers.lock().all.len(), 1);
        hub.close();
        assert!(hub.subscribe().next().await.is_none());
    }
}
