//! HTTP+SSE, the transport of 2024-11-05: everything the server says comes on one event stream, everything it is told is
//! posted to an address that the stream begins with.
//!
//! It is a duplex connection in two halves, so it is joined to the driver of those: lines that the driver writes are posted,
//! events are lines that it reads.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};
use tokio::task::JoinSet;
use turms_core::transport::StreamConnector;
use turms_core::{Connector as _, Limits, OpenChannel, Service};
use turms_proto::ProtocolVersion;
use turms_proto::session::{ClientOptions, Dialect};
use url::Url;

use super::endpoint::{Endpoint, origin, within};
use super::error::HttpError;
use super::open::Failed;
use super::reply::{EventStream, Reply};

/// How much may wait to be posted, or to be read.
const ROOM: usize = 64 * 1024;

/// How many messages are posted at once.
const MOST_POSTS: usize = 32;

/// How long one may take.
const POST_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a channel.
pub(super) async fn open(
    endpoint: Arc<Endpoint>,
    mut client: ClientOptions,
    service: Arc<dyn Service>,
) -> Result<OpenChannel, Failed> {
    let limit = client.handshake_timeout;
    let (events, place) = within(limit, begin(&endpoint)).await?;
    // Whoever speaks this transport knows no revision without a handshake.
    client.known = Some(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
    let (ours, theirs) = tokio::io::duplex(ROOM);
    let (reader, writer) = tokio::io::split(ours);
    let mut options = Limits::default();
    options.max_message_bytes = endpoint.limit;
    tokio::spawn(carry(endpoint, place, events, theirs));
    StreamConnector::new(reader, writer).options(options).connect(client, service).await.map_err(Failed::Connect)
}

/// The event stream, and where to post to.
async fn begin(endpoint: &Endpoint) -> Result<(EventStream, Url), HttpError> {
    let response = endpoint.get(HeaderMap::new()).await?;
    let mut events = match Reply::read(endpoint, response).await? {
        Reply::Events(events) => *events,
        Reply::Refused(status, error) => return Err(HttpError::Status { status, body: error.message }),
        Reply::Json(_) | Reply::Nothing => return Err(HttpError::NoEndpoint),
    };
    let first = events.next().await?.filter(|event| event.event.as_deref() == Some("endpoint"));
    let place = first.and_then(|event| endpoint.url.join(event.data.trim()).ok()).ok_or(HttpError::NoEndpoint)?;
    if place.origin() != endpoint.url.origin() {
        return Err(HttpError::ForeignEndpoint { from: endpoint.server(), to: origin(&place) });
    }
    Ok((events, place))
}

/// Carries messages both ways until either side ends.
async fn carry(endpoint: Arc<Endpoint>, place: Url, events: EventStream, driver: DuplexStream) {
    let (lines, written) = tokio::io::split(driver);
    let ended = tokio::select! {
        ended = read(events, written) => ended,
        ended = write(endpoint, place, BufReader::new(lines)) => ended,
    };
    if let Err(error) = ended {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(target: "turms::client", error, "the connection ended");
    }
}

/// Events become lines. JSON has no line break that could not be a space.
async fn read(mut events: EventStream, mut driver: tokio::io::WriteHalf<DuplexStream>) -> Result<(), HttpError> {
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
    // The driver hears out what it was told before it sees the end.
    let _ = driver.shutdown().await;
    Ok(())
}

/// Lines are posted. The handshake keeps its order; after that a server may want an answer to what it asks before it takes
/// the next message, so they do not wait for each other.
async fn write(
    endpoint: Arc<Endpoint>,
    place: Url,
    driver: BufReader<tokio::io::ReadHalf<DuplexStream>>,
) -> Result<(), HttpError> {
    const HANDSHAKE: usize = 2;
    let (mut lines, mut posts, mut count) = (driver.lines(), JoinSet::new(), 0);
    loop {
        tokio::select! {
            biased;
            Some(posted) = posts.join_next() => posted.unwrap_or(Ok(()))?,
            line = lines.next_line(), if posts.len() < MOST_POSTS => {
                let Ok(Some(line)) = line else { break };
                let post = post(endpoint.clone(), place.clone(), line);
                count += 1;
                if count <= HANDSHAKE {
                    post.await?;
                } else {
                    posts.spawn(post);
                }
            }
        }
    }
    // What was written last, such as a farewell, still leaves.
    while let Some(posted) = posts.join_next().await {
        posted.unwrap_or(Ok(()))?;
    }
    Ok(())
}

async fn post(endpoint: Arc<Endpoint>, place: Url, line: String) -> Result<(), HttpError> {
    let mut response = within(POST_TIMEOUT, endpoint.post_to(&place, Bytes::from(line), HeaderMap::new())).await?;
    if response.status().is_success() {
        // Whatever it says does not matter, but it has to be read before the next message can go the same way.
        let rest = async { while let Ok(Some(_)) = response.body_mut().next().await {} };
        let _ = tokio::time::timeout(POST_TIMEOUT, rest).await;
        return Ok(());
    }
    // A message that was not taken is not answered either: the session is of no use any more.
    match within(POST_TIMEOUT, Reply::read(&endpoint, response)).await? {
        Reply::Refused(status, error) => Err(HttpError::Status { status, body: error.message }),
        _ => Ok(()),
    }
}
