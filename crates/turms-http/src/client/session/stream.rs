//! Event streams of a session: read, and gone on with where they broke (basic/transports of 2025-11-25, "Resumability and
//! Redelivery").

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{Notify, oneshot};
use turms_core::{InboundStream, PeerError};
use turms_proto::session::RequestError;
use turms_proto::{DEFAULT_BATCH_LIMIT, RequestId, header};

use super::super::error::HttpError;
use super::super::read_rest;
use super::super::reply::{EventStream, Reply, messages};
use super::shared::Shared;
use crate::sse::SseEvent;

/// Reads the answer to a POST until these requests are answered. A stream that ends before is gone on with, if its events
/// said where.
pub(super) async fn follow(shared: &Shared, mut events: EventStream, ids: &[RequestId]) -> Result<(), PeerError> {
    let mut trail = Trail::default();
    loop {
        let end = match read(shared, &mut events, &mut trail, ids).await {
            End::Answered => {
                rest(shared, events).await;
                return Ok(());
            }
            End::Closed => HttpError::Cut,
            End::Broken(error) => error,
        };
        if trail.last_id.is_none() || matches!(end, HttpError::TooLong(_)) {
            return Err(end.into());
        }
        events = match reopen(shared, &mut trail).await {
            Ok(events) => events,
            Err(error) => {
                shared.end_if_over(&error);
                return Err(taken(error));
            }
        };
    }
}

/// The request was taken: whatever became of its stream, it may have run.
fn taken(error: PeerError) -> PeerError {
    match error {
        PeerError::Closed => PeerError::Request(RequestError::Closed),
        PeerError::Unreachable { source, .. } | PeerError::Unauthorized(source) => {
            PeerError::Unreachable { sent: true, source }
        }
        error => PeerError::Unreachable { sent: true, source: Arc::new(error) },
    }
}

/// Keeps the stream open on which the server speaks unasked, if it has one; says so when that is known.
pub(super) async fn listen(shared: Arc<Shared>, opened: oneshot::Sender<()>) {
    let mut trail = Trail::default();
    let mut stream = open(&shared, &trail).await;
    // Whoever waited may have gone on.
    let _ = opened.send(());
    // The session has just begun: whoever does not know it here has no such stream, and says so in the wrong way.
    if let Err(PeerError::Closed) = stream {
        return;
    }
    let mut was_open = false;
    loop {
        match stream {
            Ok(mut events) => {
                was_open = true;
                shared.set_inbound(InboundStream::Open);
                if let End::Broken(HttpError::TooLong(limit)) = read(&shared, &mut events, &mut trail, &[]).await {
                    tracing::warn!(target: "turms::client", limit, "an event is too long; the stream is not read any more");
                    return;
                }
            }
            Err(error @ PeerError::Unreachable { .. }) => {
                shared.set_inbound(InboundStream::Broken(error));
            }
            // Credentials may be had again, where there were some.
            Err(error @ PeerError::Unauthorized(_)) if was_open => {
                shared.set_inbound(InboundStream::Broken(error));
            }
            // There is none, or none any more.
            Err(error) => return shared.end_if_over(&error),
        }
        trail.pause(&shared.answered).await;
        stream = open(&shared, &trail).await;
    }
}

/// How reading a stream came to an end.
enum End {
    /// All that was waited for is there.
    Answered,
    /// The server has closed it.
    Closed,
    Broken(HttpError),
}

async fn read(shared: &Shared, events: &mut EventStream, trail: &mut Trail, ids: &[RequestId]) -> End {
    loop {
        shared.wait_for_room().await;
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return End::Closed,
            Err(error) => return End::Broken(error),
        };
        trail.note(&event);
        shared.count_received(event.data.len());
        if let Some(incoming) = messages(event, DEFAULT_BATCH_LIMIT.max(ids.len())) {
            trail.failures = 0;
            shared.receive(incoming, ids).await;
            if !ids.is_empty() && shared.are_settled(ids) {
                return End::Answered;
            }
        }
    }
}

/// What comes after the answer is heard all the same.
async fn rest(shared: &Shared, mut events: EventStream) {
    let Some(shared) = shared.myself() else { return };
    read_rest(async move {
        read(&shared, &mut events, &mut Trail::default(), &[]).await;
    })
    .await;
}

/// Goes on with a stream that a POST began.
async fn reopen(shared: &Shared, trail: &mut Trail) -> Result<EventStream, PeerError> {
    loop {
        trail.pause(&shared.answered).await;
        match open(shared, trail).await {
            Err(PeerError::Unreachable { .. }) if trail.failures < MOST_FAILURES => {}
            opened => return opened,
        }
    }
}

async fn open(shared: &Shared, trail: &Trail) -> Result<EventStream, PeerError> {
    let mut headers = shared.headers.clone();
    if let Some(id) = &trail.last_id {
        let mut id =
            HeaderValue::from_bytes(id.as_bytes()).map_err(|_| HttpError::Header("the id of the last event"))?;
        id.set_sensitive(true);
        headers.insert(header::LAST_EVENT_ID, id);
    }
    let reply = async { Reply::read(&shared.endpoint, shared.endpoint.get(headers).await?).await };
    match shared.judge(reply.await)? {
        Reply::Events(events) => Ok(*events),
        Reply::Refused(status, error) => Err(HttpError::Status { status, body: error.message }.into()),
        Reply::Nothing | Reply::Json(_) => Err(HttpError::Message("it is no event stream".to_owned()).into()),
    }
}

/// How often in a row a stream is asked for in vain.
const MOST_FAILURES: u32 = 40;

/// Where a stream is, and when to ask for it again.
#[derive(Debug, Default)]
struct Trail {
    last_id: Option<String>,
    retry: Option<Duration>,
    /// How often it was asked for since it last said anything.
    failures: u32,
}

impl Trail {
    /// How long to wait where the server does not say: twice as long each time, up to the longest. That is not long, because
    /// nothing the server says is heard meanwhile.
    const FIRST_PAUSE: Duration = Duration::from_millis(250);
    const LONGEST_PAUSE: Duration = Duration::from_secs(3);
    /// Nobody is asked without a pause, not even who wants to be.
    const SHORTEST_RETRY: Duration = Duration::from_millis(50);

    fn note(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Waits as long as the server wants, which is a must, or longer each time, but then only until it has answered anything.
    async fn pause(&mut self, answered: &Notify) {
        let backoff = Self::FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(Self::LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        if let Some(retry) = self.retry {
            return tokio::time::sleep(retry.max(Self::SHORTEST_RETRY)).await;
        }
        // Between half and all of it, so that those who were cut off together do not come back together.
        let pause = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
        let shortest = Self::FIRST_PAUSE.min(pause);
        let back = answered.notified();
        // A server that answers but has no such stream is not asked for it with every request.
        tokio::time::sleep(shortest).await;
        let _ = tokio::time::timeout(pause - shortest, back).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, retry: Option<u64>) -> SseEvent {
        SseEvent { id: id.map(str::to_owned), retry, ..SseEvent::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_is_what_the_server_says_or_grows() {
        let mut trail = Trail::default();
        let mut pauses = Vec::new();
        for retry in [None, None, None, None, None, None, Some(1234), None] {
            trail.note(&event(None, retry));
            let begun = tokio::time::Instant::now();
            trail.pause(&Notify::new()).await;
            pauses.push(begun.elapsed().as_millis());
        }
        let most = [250, 500, 1000, 2000, 3000, 3000];
        assert!(pauses.iter().zip(most).all(|(pause, most)| (most / 2..=most + 1).contains(pause)), "{pauses:?}");
        assert_eq!(pauses[6..], [1234, 1234]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_pause_ends_when_the_server_has_answered_something() {
        let mut trail = Trail { failures: 10, ..Trail::default() };
        let (answered, begun) = (Notify::new(), tokio::time::Instant::now());
        tokio::join!(trail.pause(&answered), async {
            tokio::task::yield_now().await;
            answered.notify_waiters();
        });
        assert!(begun.elapsed() <= Duration::from_millis(251), "{:?}", begun.elapsed());
    }

    #[test]
    fn an_event_without_id_leaves_the_trail_as_it_is() {
        let mut trail = Trail::default();
        trail.note(&event(Some("a-1"), None));
        trail.note(&event(None, None));
        assert_eq!(trail.last_id.as_deref(), Some("a-1"));
        trail.note(&event(Some(""), None));
        assert_eq!(trail.last_id, None);
    }
}
