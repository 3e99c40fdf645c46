//! Channels to a server, and connectors that open them.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bytestring::ByteString;
use tokio::sync::watch;
use turms_proto::session::{ClientOptions, OpenError, Opened, RequestOptions, Stats};
use turms_proto::types::{Meta, ProgressParams};
use turms_proto::{EncodeError, Notification, Object, RawJson, format_duration};

use crate::clock::CallClock;
use crate::connection::OpenFailure;
use crate::payload::Payload;
use crate::peer::{BoxFuture, PeerError};
use crate::service::Service;
use crate::text::error_chain;

/// A request to a server, in the revision of the server.
#[non_exhaustive]
pub struct OutgoingRequest {
    /// The method.
    pub method: ByteString,
    /// The parameters.
    pub params: Payload,
    /// Protocol metadata, sent as `_meta`.
    pub meta: Option<Meta>,
    /// `true` to request progress notifications.
    pub wants_progress: bool,
    /// The time of the call. See [`Channel::call`].
    pub clock: CallClock,
    /// The receiver of progress and notifications of this request.
    pub updates: Option<Updates>,
}

impl OutgoingRequest {
    /// Creates a request with the default options.
    pub fn new(method: impl Into<ByteString>, params: impl Into<Payload>) -> Self {
        Self {
            method: method.into(),
            params: params.into(),
            meta: None,
            wants_progress: false,
            clock: RequestOptions::default().into(),
            updates: None,
        }
    }

    /// Sets the protocol metadata.
    #[must_use]
    pub fn meta(mut self, meta: impl Into<Option<Meta>>) -> Self {
        self.meta = meta.into();
        self
    }

    /// Sets the limits of its time, and whether progress is requested.
    #[must_use]
    pub fn options(mut self, options: RequestOptions) -> Self {
        self.wants_progress = options.progress;
        self.clock = options.into();
        self
    }

    /// The options of the request for a session that does not keep its time.
    #[must_use]
    pub fn untimed_options(&self) -> RequestOptions {
        let mut options = RequestOptions::default().for_ever();
        options.progress = self.wants_progress;
        options
    }

    /// Takes the receiver of updates, with the clock that progress renews.
    pub fn take_updates(&mut self) -> Option<CallUpdates> {
        Some(CallUpdates { receiver: self.updates.take()?, clock: self.clock.clone() })
    }

    /// Sets the receiver of updates.
    #[must_use]
    pub fn updates(mut self, updates: impl Into<Option<Updates>>) -> Self {
        self.updates = updates.into();
        self
    }

    /// The parameters as JSON, `_meta` among them; what stands in `_meta` already stays unless it is named anew.
    ///
    /// # Errors
    /// When they hold something that cannot be written as JSON, or are not an object.
    pub fn take_params(&mut self) -> Result<Option<RawJson>, EncodeError> {
        let (params, meta) = (std::mem::take(&mut self.params), self.meta.take());
        if let (Some(raw), None) = (params.as_raw(), &meta) {
            return Ok((raw.as_str() != "{}").then(|| raw.clone()));
        }
        let mut out = Vec::with_capacity(params.size_hint() + 256);
        write_params(&params, meta.as_ref(), &mut out)?;
        if out.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8(out).map_err(EncodeError::custom)?;
        RawJson::parse(text).map(Some).map_err(EncodeError::custom)
    }
}

/// Appends the parameters of a request, with a `_meta` among them as [`OutgoingRequest::take_params`] has it. Nothing if there are
/// none.
///
/// # Errors
/// When they hold something that cannot be written as JSON, or are not an object. The buffer is then as it was.
pub fn write_params(params: &Payload, meta: Option<&Meta>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    params.write(out)?;
    let Some(meta) = meta.filter(|meta| !meta.is_empty()) else {
        if &out[start..] == b"{}" {
            out.truncate(start);
        }
        return Ok(());
    };
    let written = &out[start..];
    if written.first() != Some(&b'{') {
        out.truncate(start);
        return Err(EncodeError::custom("the parameters of a request must be an object"));
    }
    if may_have_meta(written) {
        let merged = with_meta(written, meta);
        out.truncate(start);
        out.extend_from_slice(merged?.as_str().as_bytes());
        return Ok(());
    }
    out.pop();
    let is_empty = out[start + 1..].trim_ascii().is_empty();
    out.extend_from_slice(if is_empty { b"\"_meta\":" } else { b",\"_meta\":" });
    out.extend_from_slice(meta.as_str().as_bytes());
    out.push(b'}');
    Ok(())
}

/// Returns `true` if an object may have a member `_meta`. Looking for the word is cheaper than parsing.
fn may_have_meta(object: &[u8]) -> bool {
    let follows = |start: u8, word: &[u8]| {
        let mut places = memchr::memchr_iter(start, object);
        places.any(|place| object[place..].starts_with(word))
    };
    follows(b'_', b"_meta\"") || follows(b'\\', b"\\u")
}

fn with_meta(params: &[u8], meta: &Meta) -> Result<Object, EncodeError> {
    let text = String::from_utf8(params.to_vec()).map_err(EncodeError::custom)?;
    let mut params = Object::parse(text).map_err(EncodeError::custom)?;
    let mut merged = params.get("_meta").and_then(|own| own.as_object()).unwrap_or_default();
    merged.extend(meta);
    params.insert_raw("_meta", &merged.into());
    Ok(params)
}

impl fmt::Debug for OutgoingRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutgoingRequest")
            .field("method", &self.method)
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}

/// A message of the server about a request, before its response.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Update {
    /// Progress of the request.
    Progress(ProgressParams),
    /// Something that a listen request asked to hear.
    Told(Notification),
}

/// A receiver of updates. It is called where the connection is driven: it must be quick and must not block.
pub type Updates = Arc<dyn Fn(Update) + Send + Sync>;

/// The updates of one call, as a channel delivers them.
#[derive(Clone)]
pub struct CallUpdates {
    receiver: Updates,
    clock: CallClock,
}

impl CallUpdates {
    /// Delivers an update. Progress renews the timeout of the call. A panic of the receiver ends nothing else.
    pub fn send(&self, update: Update) {
        if matches!(update, Update::Progress(_)) {
            self.clock.renew();
        }
        let _ = catch_unwind(AssertUnwindSafe(|| (self.receiver)(update)));
    }
}

impl fmt::Debug for CallUpdates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallUpdates").finish_non_exhaustive()
    }
}

/// A channel to one server, for calls. What else there is to a connection is its [`ChannelControl`].
pub trait Channel: Send + Sync + 'static {
    /// Sends a request and waits for its response, however long it takes: the caller runs its clock
    /// ([`call_in_time`](#method.call_in_time)). Dropping the future cancels the request and tells the server, as the revision defines.
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>>;

    /// Sends several requests, together if the revision has batches, and runs the clock of each. The responses are in the order of the
    /// requests.
    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>>;

    /// Sends a notification.
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>>;
}

impl dyn Channel {
    /// Sends a request and waits for its response until the time of the request is over.
    ///
    /// # Errors
    /// Those of [`Channel::call`], and the end of the time.
    pub fn call_in_time(&self, request: OutgoingRequest) -> impl Future<Output = Result<Payload, PeerError>> + Send {
        let clock = request.clock.clone();
        let call = self.call(request);
        async move { clock.run(call).await? }
    }
}

/// The connection behind a [`Channel`]: its state and its end.
pub trait ChannelControl: Send + Sync + 'static {
    /// The properties of the transport.
    fn info(&self) -> TransportInfo {
        TransportInfo::new()
    }

    /// The stream on which the server sends what belongs to no request, where it is apart from the responses.
    fn inbound(&self) -> watch::Receiver<InboundStream> {
        watch::channel(InboundStream::Open).1
    }

    /// The counters of the connection.
    fn stats(&self) -> Stats;

    /// Closes the connection and waits until nothing of it is left, such as a process.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Waits until the connection has closed, and returns how.
    fn closed(&self) -> BoxFuture<'_, Ended>;
}

/// The properties of a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransportInfo {
    /// `true` if the server receives requests in the order in which they are sent. The response to a later request then shows that an
    /// earlier one was ignored.
    pub is_ordered: bool,
}

impl TransportInfo {
    /// A transport with one ordered stream.
    #[must_use]
    pub fn new() -> Self {
        Self { is_ordered: true }
    }

    /// A transport with a connection for each request.
    #[must_use]
    pub fn unordered() -> Self {
        Self { is_ordered: false }
    }
}

impl Default for TransportInfo {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of the stream on which a server sends what belongs to no request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InboundStream {
    /// It is open, or needs no stream of its own.
    Open,
    /// It is broken, while requests may still work.
    Broken(PeerError),
}

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Ended {
    /// A description of the end: `"exited with status 1"`.
    pub how: Option<String>,
    /// The last lines that it wrote to standard error, if it is a process.
    pub stderr: Vec<String>,
    /// `true` if the server still runs and a new connection will work, as after an HTTP session has expired.
    pub renewable: bool,
}

impl Ended {
    /// Nothing is known but that it ended.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the description.
    #[must_use]
    pub fn how(mut self, how: impl Into<String>) -> Self {
        self.how = Some(how.into());
        self
    }

    /// The other side is still there, and wants to be connected anew.
    #[must_use]
    pub fn renewable(mut self) -> Self {
        self.renewable = true;
        self
    }

    /// Sets the last lines of standard error.
    #[must_use]
    pub fn stderr(mut self, lines: Vec<String>) -> Self {
        self.stderr = lines;
        self
    }
}

impl Ended {
    /// Returns a sentence about the end, with `what` it preceded, such as `"before it answered"`, and the last line of standard error.
    #[must_use]
    pub fn before(&self, what: &str) -> String {
        let how = self.how.as_deref().unwrap_or("closed the connection");
        let gap = if what.is_empty() { "" } else { " " };
        match self.stderr.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(last) => format!("the server {how}{gap}{what}; the last it wrote was {last:?}"),
            None => format!("the server {how}{gap}{what}"),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before(""))
    }
}

/// A channel that has just been opened.
#[non_exhaustive]
pub struct OpenChannel {
    /// For calls.
    pub channel: Arc<dyn Channel>,
    /// For the connection.
    pub control: Arc<dyn ChannelControl>,
    /// The server and its revision.
    pub negotiated: Arc<Opened>,
}

impl OpenChannel {
    /// A channel, its control, and the result of the negotiation.
    #[must_use]
    pub fn new(channel: Arc<dyn Channel>, control: Arc<dyn ChannelControl>, negotiated: Arc<Opened>) -> Self {
        Self { channel, control, negotiated }
    }

    /// As [`OpenChannel::new`], for a channel that is its own control.
    pub fn of<C: Channel + ChannelControl>(channel: Arc<C>, negotiated: Arc<Opened>) -> Self {
        Self::new(channel.clone(), channel, negotiated)
    }
}

impl fmt::Debug for OpenChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenChannel").field("dialect", &self.negotiated.dialect).finish_non_exhaustive()
    }
}

/// Opens channels to one server: starts a program, connects a socket, joins a service.
pub trait Connector: Send + Sync + 'static {
    /// Opens a channel. What the server asks and tells goes to `service`.
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<OpenChannel, ConnectError>>;

    /// Returns `true` if another channel can be opened after one has closed. A byte stream can be used once, a program can be started
    /// again.
    fn is_repeatable(&self) -> bool;

    /// Returns a text that identifies the server, such as its command line or URL, for what is remembered about it. `None` if there
    /// is none. It may contain a secret and is not shown.
    fn identity(&self) -> Option<String>;
}

impl<C: Connector + ?Sized> Connector for Arc<C> {
    fn connect(
        &self,
        client: ClientOptions,
        service: Arc<dyn Service>,
    ) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        (**self).connect(client, service)
    }

    fn is_repeatable(&self) -> bool {
        (**self).is_repeatable()
    }

    fn identity(&self) -> Option<String> {
        (**self).identity()
    }
}

/// Why a server could not be reached.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// There is no way to it: the program does not start, the address does not answer.
    #[error("cannot reach {server}")]
    Unreachable {
        /// The server.
        server: String,
        /// Why not.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// It was reached, and answered with something that opens no connection: that it wants credentials, that there is nothing
    /// at this address, that it has a fault.
    #[error("the server at {server} turned the connection down")]
    Rejected {
        /// The server.
        server: String,
        /// The response.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// It was reached, but the two sides could not agree.
    #[error(transparent)]
    Refused(#[from] OpenError),
    /// It was reached and went away before it had said how to speak to it.
    #[error("{}", .0.before("before the connection was open"))]
    Ended(Ended),
    /// It was connected, and the connection was lost.
    #[error("the connection was lost: {0}")]
    Lost(Ended),
    /// It did not become ready in time.
    #[error("the server was not ready within {}", format_duration(*.0))]
    TimedOut(Duration),
    /// The server at an address did not become ready in time.
    #[error("the server at {server} was not ready within {}", format_duration(*limit))]
    Late {
        /// The server.
        server: String,
        /// The timeout.
        limit: Duration,
    },
    /// The client was told to declare something that cannot be declared.
    #[error("the extension {id:?} cannot be declared: {problem}")]
    Undeclarable {
        /// The id of the extension.
        id: String,
        /// Why it cannot be.
        problem: &'static str,
    },
    /// The byte stream was used by an earlier connection, and there is only one.
    #[error("the byte stream has been used already, and there is no other")]
    Spent,
}

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self))
    }
}

impl ConnectError {
    /// There is no way to `server`.
    pub fn unreachable(server: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unreachable { server: server.into(), source: Arc::from(source.into()) }
    }

    /// `server` answered, and will have no connection.
    pub fn rejected(server: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Rejected { server: server.into(), source: Arc::from(source.into()) }
    }

    /// Returns `true` if the server was not ready in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut(_) | Self::Late { .. } | Self::Refused(OpenError::TimedOut))
    }
}

impl From<OpenFailure> for ConnectError {
    fn from(failure: OpenFailure) -> Self {
        match failure {
            OpenFailure::Refused(OpenError::Closed) | OpenFailure::Closed => Self::Ended(Ended::new()),
            OpenFailure::Refused(error) => Self::Refused(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing(params: &'static str) -> OutgoingRequest {
        OutgoingRequest::new("tools/call", RawJson::parse(params).unwrap())
    }

    #[test]
    fn meta_joins_what_is_there() {
        let meta = |text: &'static str| Meta::from(Object::parse(text).unwrap());
        let mut request = outgoing(r#"{"name":"a","_meta":{"mine":1,"both":1}}"#).meta(meta(r#"{"both":2,"ours":3}"#));
        let params = request.take_params().unwrap().unwrap();
        assert_eq!(params.as_str(), r#"{"name":"a","_meta":{"mine":1,"both":2,"ours":3}}"#);
        assert_eq!(outgoing("{}").take_params().unwrap(), None);
        assert!(outgoing("[1]").meta(meta(r#"{"a":1}"#)).take_params().is_err());
    }

    #[test]
    fn meta_is_there_once_however_it_was_written() {
        let meta = Meta::from(Object::parse(r#"{"a":1}"#).unwrap());
        let written = |params: &'static str| {
            let mut out = b"before".to_vec();
            write_params(&RawJson::parse(params).unwrap().into(), Some(&meta), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("{ }"), r#"before{ "_meta":{"a":1}}"#);
        assert_eq!(written(r#"{"name":"_meta"}"#), r#"before{"name":"_meta","_meta":{"a":1}}"#);
        assert_eq!(written(r#"{"\u005fmeta":{"b":2}}"#), r#"before{"_meta":{"b":2,"a":1}}"#);
        assert_eq!(written(r#"{"_meta":null,"name":"\u0001"}"#), r#"before{"_meta":{"a":1},"name":"\u0001"}"#);
        let mut out = b"before".to_vec();
        assert!(write_params(&RawJson::NULL.into(), Some(&meta), &mut out).is_err());
        assert_eq!(out, b"before");
    }

    #[test]
    fn how_it_ended_is_said_with_the_last_words() {
        assert_eq!(Ended::new().to_string(), "the server closed the connection");
        let ended = Ended::new().how("exited with status 1").stderr(vec!["no module".into(), " ".into()]);
        assert_eq!(ended.to_string(), r#"the server exited with status 1; the last it wrote was "no module""#);
        let early = ConnectError::Ended(ended).to_string();
        assert_eq!(
            early,
            r#"the server exited with status 1 before the connection was open; the last it wrote was "no module""#
        );
    }
}
