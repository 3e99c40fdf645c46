//! HTTP+SSE, the transport of 2024-11-05: the server sends all messages on one event stream, and the client posts all messages to a
//! URL in the first event.
//!
//! It is a duplex connection, so it uses the driver of byte streams: lines that the driver writes are posted, and events become
//! lines that it reads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use turms_core::transport::StreamConnector;
use turms_core::{
    BoxFuture, Channel, ClockPauses, ConnectContext, ConnectError, Connector as _, Limits, OpenChannel,
    OutgoingRequest, Payload, PeerError,
};
use turms_proto::session::Dialect;
use turms_proto::{Notification, ProtocolVersion};
use url::Url;

use super::endpoint::{HttpEndpoint, RequestTimer, origin};
use super::error::HttpError;
use super::open::OpenAttemptError;
use super::reply::{HttpReply, ResponseEvents};

/// Size of the buffer in each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of messages that are posted at once.
const MAX_POSTS: usize = 32;

/// Timeout for one POST.
const POST_TIMEOUT: Duration = Duration::from_secs(60);

/// Timeout of the driver for the handshake, which has the timer of this module instead: it stops while the authorizer works.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Opens a channel.
pub(super) async fn open(endpoint: Arc<HttpEndpoint>, cx: &ConnectContext) -> Result<OpenChannel, OpenAttemptError> {
    let timer = RequestTimer::connecting(cx);
    let (events, url) = timer.run(open_stream(&endpoint, &timer)).await?;
    let mut client = cx.client.clone();
    // All servers with this transport use the handshake.
    client.known = Some(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
    client.handshake_timeout = DRIVER_TIMEOUT;
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let (reader, writer) = tokio::io::split(ours);
    let mut options = Limits::default();
    options.max_message_bytes = endpoint.max_message_bytes;
    let (failed, failure) = oneshot::channel();
    let messages = MessageEndpoint { endpoint, url, pauses: cx.pauses.clone(), is_background: cx.is_background };
    tokio::spawn(forward(messages, events, theirs, failed));
    let stream = StreamConnector::new(reader, writer).limits(options);
    let connecting = stream.connect(ConnectContext::new(client, cx.incoming.clone()));
    let opened = timer.run(timer.follow(async { Ok(connecting.await) })).await?;
    match opened {
        Ok(OpenChannel { channel, control, negotiated, .. }) => {
            let channel = HttpSseChannel { channel, pauses: cx.pauses.clone() };
            Ok(OpenChannel::new(Arc::new(channel), control, negotiated))
        }
        // The reason is that a message was rejected.
        Err(ConnectError::Closed(ended)) => Err(match failure.await {
            Ok(error) => OpenAttemptError::Http(error),
            Err(_) => OpenAttemptError::Connect(ConnectError::Closed(ended)),
        }),
        Err(error) => Err(OpenAttemptError::Connect(error)),
    }
}

/// A channel with calls that stop their clocks while the authorizer works for any message: the messages of calls are not known to those
/// that post them.
struct HttpSseChannel {
    channel: Arc<dyn Channel>,
    pauses: ClockPauses,
}

impl Channel for HttpSseChannel {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        let clock = request.clock.clone();
        let call = self.channel.call(request);
        Box::pin(async move { self.pauses.follow(&[clock], call).await })
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        let clocks: Vec<_> = requests.iter().map(|request| request.clock.clone()).collect();
        let batch = self.channel.call_batch(requests);
        Box::pin(async move { self.pauses.follow(&clocks, batch).await })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        self.channel.notify(notification)
    }
}

/// Opens the event stream, and returns it with the URL for messages.
async fn open_stream(endpoint: &HttpEndpoint, timer: &RequestTimer) -> Result<(ResponseEvents, Url), HttpError> {
    let response = endpoint.get(HeaderMap::new(), timer.scope()).await?;
    let mut events = match HttpReply::read(endpoint, response).await? {
        HttpReply::Events(events) => *events,
        HttpReply::Refused(status, error) => return Err(HttpError::Status { status, body: error.message }),
        HttpReply::Json(_) | HttpReply::Nothing => return Err(HttpError::NoEndpoint),
    };
    let first = events.next().await?.filter(|event| event.event.as_deref() == Some("endpoint"));
    let url = first.and_then(|event| endpoint.url.join(event.data.trim()).ok()).ok_or(HttpError::NoEndpoint)?;
    if url.origin() != endpoint.url.origin() {
        return Err(HttpError::ForeignEndpoint { from: endpoint.server(), to: origin(&url) });
    }
    Ok((events, url))
}

/// The URL for messages.
#[derive(Clone)]
struct MessageEndpoint {
    endpoint: Arc<HttpEndpoint>,
    url: Url,
    /// Pauses of the clocks of all calls.
    pauses: ClockPauses,
    is_background: bool,
}

/// Forwards messages in both directions until one side closes, and reports the error of a message that could not be posted.
async fn forward(
    messages: MessageEndpoint,
    events: ResponseEvents,
    driver: DuplexStream,
    failed: oneshot::Sender<HttpError>,
) {
    let (lines, written) = tokio::io::split(driver);
    let ended = tokio::select! {
        ended = forward_events(events, written) => ended,
        ended = forward_lines(messages, BufReader::new(lines)) => ended,
    };
    if let Err(error) = ended {
        let shown: &dyn std::error::Error = &error;
        tracing::debug!(target: "turms::client", error = shown, "the connection closed");
        // The connection is usually open, and nothing waits for the error.
        let _ = failed.send(error);
    }
}

/// Forwards events as lines. Line breaks in JSON are whitespace.
async fn forward_events(
    mut events: ResponseEvents,
    mut driver: tokio::io::WriteHalf<DuplexStream>,
) -> Result<(), HttpError> {
    while let Some(event) = events.next().await? {
        let is_message = event.event.as_deref().is_none_or(|kind| kind == "message");
        if is_message && !event.data.is_empty() {
            let mut line = event.data.replace(['\n', '\r'], " ").into_bytes();
            line.push(b'\n');
            if driver.write_all(&line).await.is_err() {
                break;
            }
        }
    }
    // The driver reads all lines before it sees the end.
    let _ = driver.shutdown().await;
    Ok(())
}

/// Posts lines. The messages of the handshake are posted in order. Later ones are posted concurrently: a server may need a
/// response from the client before it accepts the next message.
async fn forward_lines(
    mut messages: MessageEndpoint,
    driver: BufReader<tokio::io::ReadHalf<DuplexStream>>,
) -> Result<(), HttpError> {
    const HANDSHAKE: usize = 2;
    let (mut lines, mut posts, mut count) = (driver.lines(), JoinSet::new(), 0);
    loop {
        tokio::select! {
            biased;
            Some(posted) = posts.join_next() => posted.unwrap_or(Ok(()))?,
            line = lines.next_line(), if posts.len() < MAX_POSTS => {
                let Ok(Some(line)) = line else { break };
                let post = messages.clone().post(line);
                count += 1;
                if count <= HANDSHAKE {
                    post.await?;
                } else {
                    messages.is_background = false;
                    posts.spawn(post);
                }
            }
        }
    }
    // Messages that were written last are still sent.
    while let Some(posted) = posts.join_next().await {
        posted.unwrap_or(Ok(()))?;
    }
    Ok(())
}

impl MessageEndpoint {
    async fn post(self, line: String) -> Result<(), HttpError> {
        let Self { endpoint, url, pauses, is_background } = self;
        let timer = RequestTimer::new(POST_TIMEOUT, is_background, pauses);
        let mut response =
            timer.run(endpoint.post_to(&url, Bytes::from(line), HeaderMap::new(), timer.scope())).await?;
        if response.status().is_success() {
            // The body does not matter, but must be read before the connection can be reused.
            let rest = async { while let Ok(Some(_)) = response.body_mut().next().await {} };
            let _ = tokio::time::timeout(POST_TIMEOUT, rest).await;
            return Ok(());
        }
        // A rejected message gets no response, so the session cannot be used any more.
        match timer.run(HttpReply::read(&endpoint, response)).await? {
            HttpReply::Refused(status, error) => Err(HttpError::Status { status, body: error.message }),
            _ => Ok(()),
        }
    }
}
