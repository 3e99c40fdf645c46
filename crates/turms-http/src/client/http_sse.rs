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
use tokio::task::JoinSet;
use turms_core::transport::StreamConnector;
use turms_core::{ConnectContext, Connector as _, Limits, OpenChannel, Service};
use turms_proto::ProtocolVersion;
use turms_proto::session::{ClientOptions, Dialect};
use url::Url;

use super::endpoint::{HttpEndpoint, origin, with_timeout};
use super::error::HttpError;
use super::open::OpenAttemptError;
use super::reply::{HttpReply, ResponseEvents};

/// Size of the buffer in each direction.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of messages that are posted at once.
const MAX_POSTS: usize = 32;

/// Timeout for one POST.
const POST_TIMEOUT: Duration = Duration::from_secs(60);

/// Opens a channel.
pub(super) async fn open(
    endpoint: Arc<HttpEndpoint>,
    mut client: ClientOptions,
    service: Arc<dyn Service>,
) -> Result<OpenChannel, OpenAttemptError> {
    let limit = client.handshake_timeout;
    let (events, url) = with_timeout(limit, open_stream(&endpoint)).await?;
    // All servers with this transport use the handshake.
    client.known = Some(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let (reader, writer) = tokio::io::split(ours);
    let mut options = Limits::default();
    options.max_message_bytes = endpoint.limit;
    tokio::spawn(forward(endpoint, url, events, theirs));
    StreamConnector::new(reader, writer)
        .limits(options)
        .connect(ConnectContext::new(client, service))
        .await
        .map_err(OpenAttemptError::Connect)
}

/// Opens the event stream, and returns it with the URL for messages.
async fn open_stream(endpoint: &HttpEndpoint) -> Result<(ResponseEvents, Url), HttpError> {
    let response = endpoint.get(HeaderMap::new()).await?;
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

/// Forwards messages in both directions until one side closes.
async fn forward(endpoint: Arc<HttpEndpoint>, url: Url, events: ResponseEvents, driver: DuplexStream) {
    let (lines, written) = tokio::io::split(driver);
    let ended = tokio::select! {
        ended = forward_events(events, written) => ended,
        ended = forward_lines(endpoint, url, BufReader::new(lines)) => ended,
    };
    if let Err(error) = ended {
        let error: &dyn std::error::Error = &error;
        tracing::debug!(target: "turms::client", error, "the connection closed");
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
    endpoint: Arc<HttpEndpoint>,
    url: Url,
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
                let post = post(endpoint.clone(), url.clone(), line);
                count += 1;
                if count <= HANDSHAKE {
                    post.await?;
                } else {
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

async fn post(endpoint: Arc<HttpEndpoint>, url: Url, line: String) -> Result<(), HttpError> {
    let mut response = with_timeout(POST_TIMEOUT, endpoint.post_to(&url, Bytes::from(line), HeaderMap::new())).await?;
    if response.status().is_success() {
        // The body does not matter, but must be read before the connection can be reused.
        let rest = async { while let Ok(Some(_)) = response.body_mut().next().await {} };
        let _ = tokio::time::timeout(POST_TIMEOUT, rest).await;
        return Ok(());
    }
    // A rejected message gets no response, so the session cannot be used any more.
    match with_timeout(POST_TIMEOUT, HttpReply::read(&endpoint, response)).await? {
        HttpReply::Refused(status, error) => Err(HttpError::Status { status, body: error.message }),
        _ => Ok(()),
    }
}
