//! Events of a client: a stream for any number of tasks.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use turms_core::{CloseInfo, ConnectError};
use turms_proto::types::{LogMessage, ProgressParams, Task};
use turms_proto::{Notification, ProtocolVersion};

/// An event of a client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The state of the connection has changed.
    Connection(ConnectionEvent),
    /// The list of tools has changed.
    ToolsChanged,
    /// The list of prompts has changed.
    PromptsChanged,
    /// The list of resources, or of their templates, has changed.
    ResourcesChanged,
    /// A resource with a [subscription](crate::Client::subscribe) has changed.
    ResourceUpdated {
        /// The URI of the resource, or of a part of it.
        uri: String,
    },
    /// A log message of the server.
    Log(Arc<LogMessage>),
    /// Progress of a call.
    Progress(Arc<ProgressParams>),
    /// The user has completed a URL elicitation (2025-11-25).
    ElicitationComplete {
        /// The id of the elicitation.
        id: String,
    },
    /// A task has changed. Servers of 2025-11-25 send this unsolicited, those of 2026-07-28 to a
    /// [subscription](crate::Client::subscribe).
    TaskUpdated(Arc<Task>),
    /// A call is retried.
    Retrying {
        /// The call.
        target: Arc<str>,
        /// The number of the retry, starting at 1.
        attempt: u32,
    },
    /// The circuit breaker has opened or closed.
    CircuitBreaker(BreakerState),
    /// A health check has failed.
    Unhealthy {
        /// The number of failures in a row.
        failures: u32,
    },
    /// A health check has succeeded after failures.
    Healthy,
    /// Another notification of the server.
    Notification(Arc<Notification>),
    /// The number of events that this subscriber missed because it was too slow.
    Lagged(u64),
}

/// A change of the connection.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// The connection is open.
    Connected {
        /// The negotiated revision.
        version: ProtocolVersion,
        /// The number of the connection, starting at 1.
        generation: u64,
    },
    /// The connection was lost.
    Lost(CloseInfo),
    /// The client will reconnect.
    Reconnecting {
        /// The number of the attempt, starting at 1.
        attempt: u32,
        /// The delay before the attempt.
        delay: Duration,
    },
    /// An attempt to connect has failed.
    ConnectFailed(ConnectError),
    /// The last attempt to reconnect has failed.
    ReconnectFailed,
    /// The client is closed: by [`Client::close`](crate::Client::close), or after the connection was lost.
    Closed,
}

/// The state of the circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a circuit breaker has these three states")]
pub enum BreakerState {
    /// All calls are sent.
    Closed,
    /// No call is sent.
    Open,
    /// One call is sent as a trial.
    HalfOpen,
}

/// Publishes events to all subscribers. Publishing never waits.
#[derive(Default)]
pub(crate) struct EventHub {
    subscribers: Mutex<Subscribers>,
}

#[derive(Default)]
struct Subscribers {
    all: Vec<Subscriber>,
    /// `true` if the client is closed and there will be no more events.
    closed: bool,
}

struct Subscriber {
    sender: mpsc::Sender<Event>,
    missed: Arc<AtomicU64>,
}

impl EventHub {
    /// Maximum number of unread events of a subscriber.
    const CAPACITY: usize = 1024;

    pub(crate) fn subscribe(&self) -> Events {
        let (sender, receiver) = mpsc::channel(Self::CAPACITY);
        let missed = Arc::new(AtomicU64::new(0));
        let mut subscribers = self.subscribers.lock();
        // `publish` removes dropped subscribers too, but only when there is an event.
        subscribers.all.retain(|subscriber| !subscriber.sender.is_closed());
        if !subscribers.closed {
            subscribers.all.push(Subscriber { sender, missed: missed.clone() });
        }
        Events(EventSource::Hub { receiver, missed })
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

    /// Publishes a change of the connection.
    pub(crate) fn connection(&self, event: ConnectionEvent) {
        self.publish(&Event::Connection(event));
    }

    /// Ends all streams, including streams that are created later.
    pub(crate) fn close(&self) {
        *self.subscribers.lock() = Subscribers { all: Vec::new(), closed: true };
    }
}

impl fmt::Debug for EventHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventHub").field("subscribers", &self.subscribers.lock().all.len()).finish()
    }
}

/// A stream of events. It ends when the client is closed or dropped.
pub struct Events(EventSource);

enum EventSource {
    /// The events of one client.
    Hub { receiver: mpsc::Receiver<Event>, missed: Arc<AtomicU64> },
    /// The events of the connections of a pool or the servers of a group.
    Merged(Pin<Box<dyn Stream<Item = Event> + Send + Sync>>),
}

impl Events {
    /// Creates a stream from the events of several clients.
    pub(crate) fn merged(events: impl Stream<Item = Event> + Send + Sync + 'static) -> Self {
        Self(EventSource::Merged(Box::pin(events)))
    }

    /// Returns the next event; `None` after the client is closed.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|task| self.poll_event(task)).await
    }

    /// Returns the first value that `pick` returns for an event; `None` after the client is closed.
    pub async fn find<T>(&mut self, mut pick: impl FnMut(Event) -> Option<T>) -> Option<T> {
        loop {
            if let Some(found) = pick(self.next().await?) {
                return Some(found);
            }
        }
    }

    pub(crate) fn poll_event(&mut self, task: &mut Context<'_>) -> Poll<Option<Event>> {
        let (receiver, missed) = match &mut self.0 {
            EventSource::Hub { receiver, missed } => (receiver, missed),
            EventSource::Merged(events) => return events.as_mut().poll_next(task),
        };
        // Report missed events after the queue is read, because they are newer than all queued events.
        let read_all = receiver.is_empty();
        match receiver.poll_recv(task) {
            Poll::Pending | Poll::Ready(None) if read_all && missed.load(Ordering::Relaxed) > 0 => {
                Poll::Ready(Some(Event::Lagged(missed.swap(0, Ordering::Relaxed))))
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
    async fn a_slow_subscriber_learns_how_much_it_missed_and_holds_up_no_other() {
        let hub = EventHub::default();
        let (mut slow, mut other) = (hub.subscribe(), hub.subscribe());
        for _ in 0..EventHub::CAPACITY + 3 {
            hub.publish(&Event::ToolsChanged);
            assert!(matches!(other.next().await, Some(Event::ToolsChanged)));
        }
        for _ in 0..EventHub::CAPACITY {
            assert!(matches!(slow.next().await, Some(Event::ToolsChanged)));
        }
        assert!(matches!(slow.next().await, Some(Event::Lagged(3))));
        hub.close();
        assert!(slow.next().await.is_none());
        assert!(hub.subscribe().next().await.is_none());
    }

    #[tokio::test]
    async fn dropped_subscribers_are_removed_and_late_ones_get_no_events() {
        let hub = EventHub::default();
        for _ in 0..10 {
            drop(hub.subscribe());
        }
        assert_eq!(hub.subscribers.lock().all.len(), 1);
        hub.close();
        assert!(hub.subscribe().next().await.is_none());
    }
}
