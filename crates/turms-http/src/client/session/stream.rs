//! Event streams of a session, which are resumed after they break (basic/transports of 2025-11-25, "Resumability and Redelivery").

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use tokio::sync::{Notify, oneshot};
use turms_core::{InboundStream, PeerError};
use turms_proto::{DEFAULT_BATCH_LIMIT, RequestId, header};

use super::super::endpoint::RequestScope;
use super::super::error::HttpError;
use super::super::read_rest;
use super::super::reply::{HttpReply, ResponseEvents, messages};
use super::shared::SessionShared;
use crate::sse::SseEvent;

/// Reads the response stream of a POST until these requests have their responses. A stream that ends before is resumed if its
/// events have ids.
pub(super) async fn read_responses(
    shared: &SessionShared,
    mut events: ResponseEvents,
    ids: &[RequestId],
    scope: RequestScope<'_>,
) -> Result<(), PeerError> {
    let mut position = StreamPosition::default();
    loop {
        let end = match read(shared, &mut events, &mut position, ids).await {
            StreamEnd::Answered => {
                read_after_response(shared, events).await;
                return Ok(());
            }
            StreamEnd::Closed => HttpError::StreamEnded,
            StreamEnd::Broken(error) => error,
        };
        if position.last_id.is_none() || matches!(end, HttpError::TooLarge(_)) {
            return Err(end.into());
        }
        events = match reopen(shared, &mut position, scope.in_background()).await {
            Ok(events) => events,
            Err(error) => {
                shared.close_if_expired(&error);
                return Err(after_acceptance(error));
            }
        };
    }
}

/// Converts an error after the server has accepted the request: it may have run.
fn after_acceptance(error: PeerError) -> PeerError {
    match error {
        PeerError::Closed => PeerError::ClosedBeforeResponse,
        PeerError::Unreachable { source, .. } | PeerError::Unauthorized(source) => {
            PeerError::Unreachable { sent: true, source }
        }
        error => PeerError::Unreachable { sent: true, source: Arc::new(error) },
    }
}

/// Keeps the standalone stream open, if the server has one. Signals `opened` after the first attempt.
pub(super) async fn listen(shared: Arc<SessionShared>, opened: oneshot::Sender<()>) {
    let mut position = StreamPosition::default();
    let mut stream = open(&shared, &position, RequestScope::stream(&[])).await;
    // The receiver may have timed out.
    let _ = opened.send(());
    // The session is new, so 404 means that the server has no such stream.
    if let Err(PeerError::Closed) = stream {
        return;
    }
    let mut was_open = false;
    loop {
        match stream {
            Ok(mut events) => {
                was_open = true;
                shared.set_inbound(InboundStream::Open);
                if let StreamEnd::Broken(HttpError::TooLarge(limit)) =
                    read(&shared, &mut events, &mut position, &[]).await
                {
                    tracing::warn!(target: "turms::client", limit, "an event is too long; the stream is closed");
                    return;
                }
            }
            Err(error @ PeerError::Unreachable { .. }) => {
                shared.set_inbound(InboundStream::Broken(error));
            }
            // The stream was open, so credentials may be valid again later.
            Err(error @ PeerError::Unauthorized(_)) if was_open => {
                shared.set_inbound(InboundStream::Broken(error));
                // Other credentials are unlikely before another request succeeds.
                let _ = tokio::time::timeout(UNAUTHORIZED_DELAY, shared.responded.notified()).await;
            }
            // The server has no such stream, or no longer.
            Err(error) => return shared.close_if_expired(&error),
        }
        position.pause(&shared.responded).await;
        stream = open(&shared, &position, RequestScope::stream(&[])).await;
    }
}

/// Maximum delay before a stream with rejected credentials is opened again.
const UNAUTHORIZED_DELAY: Duration = Duration::from_secs(60);

/// Reason for the end of reading a stream.
enum StreamEnd {
    /// All requests have their responses.
    Answered,
    /// The server closed the stream.
    Closed,
    Broken(HttpError),
}

async fn read(
    shared: &SessionShared,
    events: &mut ResponseEvents,
    position: &mut StreamPosition,
    ids: &[RequestId],
) -> StreamEnd {
    loop {
        shared.wait_for_permit().await;
        let event = match events.next().await {
            Ok(Some(event)) => event,
            Ok(None) => return StreamEnd::Closed,
            Err(error) => return StreamEnd::Broken(error),
        };
        position.note(&event);
        shared.count_received(event.data.len());
        if let Some(incoming) = messages(event, DEFAULT_BATCH_LIMIT.max(ids.len())) {
            position.failures = 0;
            shared.receive(incoming, ids).await;
            if !ids.is_empty() && shared.are_answered(ids) {
                return StreamEnd::Answered;
            }
        }
    }
}

/// Reads messages after the response, too.
async fn read_after_response(shared: &SessionShared, mut events: ResponseEvents) {
    let Some(shared) = shared.upgrade() else { return };
    read_rest(async move {
        read(&shared, &mut events, &mut StreamPosition::default(), &[]).await;
    })
    .await;
}

/// Resumes the stream of a POST.
async fn reopen(
    shared: &SessionShared,
    position: &mut StreamPosition,
    scope: RequestScope<'_>,
) -> Result<ResponseEvents, PeerError> {
    loop {
        position.pause(&shared.responded).await;
        match open(shared, position, scope).await {
            Err(PeerError::Unreachable { .. }) if position.failures < MAX_FAILURES => {}
            opened => return opened,
        }
    }
}

async fn open(
    shared: &SessionShared,
    position: &StreamPosition,
    scope: RequestScope<'_>,
) -> Result<ResponseEvents, PeerError> {
    let mut headers = shared.headers.clone();
    if let Some(id) = &position.last_id {
        let mut id =
            HeaderValue::from_bytes(id.as_bytes()).map_err(|_| HttpError::Header("the id of the last event"))?;
        id.set_sensitive(true);
        headers.insert(header::LAST_EVENT_ID, id);
    }
    let reply = async { HttpReply::read(&shared.endpoint, shared.endpoint.get(headers, scope).await?).await };
    match shared.check_session(reply.await)? {
        HttpReply::Events(events) => Ok(*events),
        HttpReply::Refused(status, error) => Err(HttpError::Status { status, body: error.message }.into()),
        HttpReply::Nothing | HttpReply::Json(_) => {
            Err(HttpError::Message("it is not an event stream".to_owned()).into())
        }
    }
}

/// Maximum number of failed attempts in a row to reopen a stream.
const MAX_FAILURES: u32 = 40;

/// Position in a stream, and the delay before it is reopened.
#[derive(Debug, Default)]
struct StreamPosition {
    last_id: Option<String>,
    retry: Option<Duration>,
    /// Number of attempts since the last event.
    failures: u32,
}

impl StreamPosition {
    /// First delay without a `retry` of the server. It doubles with each attempt.
    const INITIAL_BACKOFF: Duration = Duration::from_millis(250);
    /// Maximum delay without a `retry` of the server. It is short, because notifications are missed meanwhile.
    const MAX_BACKOFF: Duration = Duration::from_secs(3);
    /// Minimum delay, whatever the `retry` of the server.
    const MIN_RETRY: Duration = Duration::from_millis(50);

    fn note(&mut self, event: &SseEvent) {
        if let Some(id) = &event.id {
            self.last_id = Some(id.clone()).filter(|id| !id.is_empty());
        }
        if let Some(retry) = event.retry {
            self.retry = Some(Duration::from_millis(retry));
        }
    }

    /// Waits for the `retry` time of the server, which is mandatory. Without one, waits with exponential backoff and jitter, or
    /// until the server has responded to a request.
    async fn pause(&mut self, responded: &Notify) {
        let backoff = Self::INITIAL_BACKOFF.saturating_mul(1 << self.failures.min(10)).min(Self::MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        if let Some(retry) = self.retry {
            return tokio::time::sleep(retry.max(Self::MIN_RETRY)).await;
        }
        // Jitter between half and all of the delay, so that clients do not reconnect at the same time.
        let pause = backoff.mul_f64(0.5 + fastrand::f64() / 2.0);
        let minimum = Self::INITIAL_BACKOFF.min(pause);
        let response = responded.notified();
        // A minimum delay: a server without such a stream does not get another request for it after every call.
        tokio::time::sleep(minimum).await;
        let _ = tokio::time::timeout(pause - minimum, response).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: Option<&str>, retry: Option<u64>) -> SseEvent {
        SseEvent { id: id.map(str::to_owned), retry, ..SseEvent::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_is_set_by_the_server_or_grows() {
        let mut position = StreamPosition::default();
        let mut pauses = Vec::new();
        for retry in [None, None, None, None, None, None, Some(1234), None] {
            position.note(&event(None, retry));
            let started = tokio::time::Instant::now();
            position.pause(&Notify::new()).await;
            pauses.push(started.elapsed().as_millis());
        }
        let most = [250, 500, 1000, 2000, 3000, 3000];
        assert!(pauses.iter().zip(most).all(|(pause, most)| (most / 2..=most + 1).contains(pause)), "{pauses:?}");
        assert_eq!(pauses[6..], [1234, 1234]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_delay_ends_when_the_server_responds() {
        let mut position = StreamPosition { failures: 10, ..StreamPosition::default() };
        let (responded, started) = (Notify::new(), tokio::time::Instant::now());
        tokio::join!(position.pause(&responded), async {
            tokio::task::yield_now().await;
            responded.notify_waiters();
        });
        assert!(started.elapsed() <= Duration::from_millis(251), "{:?}", started.elapsed());
    }

    #[test]
    fn an_event_without_id_does_not_change_the_position() {
        let mut position = StreamPosition::default();
        position.note(&event(Some("a-1"), None));
        position.note(&event(None, None));
        assert_eq!(position.last_id.as_deref(), Some("a-1"));
        position.note(&event(Some(""), None));
        assert_eq!(position.last_id, None);
    }
}
