//! Channels to a server, and connectors that open them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use tokio::sync::watch;
use turms_proto::session::{ClientOptions, ConnectionStats, Negotiated, OpenError, RequestOptions};
use turms_proto::types::{Meta, ProgressParams};
use turms_proto::{EncodeError, MethodName, Notification, Object, RawJson, format_duration};

use crate::__internal::debug_error;
use crate::cancellation::CancellationToken;
use crate::clock::{CallClock, ClockPauses};
use crate::connection::HandshakeError;
use crate::payload::Payload;
use crate::peer::{BoxFuture, PeerError};
use crate::service::{Request, ResponseFuture, Service};

/// A request to a server, in the revision of the server.
#[non_exhaustive]
pub struct OutgoingRequest {
    /// The method.
    pub method: MethodName,
    /// The parameters.
    pub params: Payload,
    /// Protocol metadata, sent as `_meta`.
    pub meta: Option<Meta>,
    /// `true` to request progress notifications.
    pub wants_progress: bool,
    /// The time of the call. See [`Channel::call`].
    pub clock: CallClock,
    /// The receiver of what the server sends for this request before its response.
    pub observer: Option<Arc<dyn CallObserver>>,
    /// The token with the reason that is sent to the server if the future of the call is dropped.
    pub cancellation: Option<CancellationToken>,
    /// `true` for a request that no caller waits for, such as a health check. Credentials for it are obtained without the user.
    pub is_background: bool,
}

impl OutgoingRequest {
    /// Creates a request with the default options.
    pub fn new(method: impl Into<MethodName>, params: impl Into<Payload>) -> Self {
        Self::with_options(method, params, RequestOptions::default())
    }

    /// Creates a request with these limits of its time.
    pub fn with_options(method: impl Into<MethodName>, params: impl Into<Payload>, options: RequestOptions) -> Self {
        Self {
            method: method.into(),
            params: params.into(),
            meta: None,
            wants_progress: options.progress,
            clock: options.into(),
            observer: None,
            cancellation: None,
            is_background: false,
        }
    }

    /// Sets the protocol metadata.
    #[must_use]
    pub fn meta(mut self, meta: impl Into<Option<Meta>>) -> Self {
        self.meta = meta.into();
        self
    }

    /// Sets the limits of its time, and requests progress or not.
    #[must_use]
    pub fn options(mut self, options: RequestOptions) -> Self {
        self.wants_progress = options.progress;
        self.clock = options.into();
        self
    }

    /// Returns the options of the request without its timeouts, for a session that leaves them to the caller.
    #[must_use]
    pub fn untimed_options(&self) -> RequestOptions {
        let mut options = RequestOptions::default().without_timeout();
        options.progress = self.wants_progress;
        options
    }

    /// Takes the observer, with the clock that progress renews.
    pub fn take_observer(&mut self) -> Option<ObservedCall> {
        Some(ObservedCall { observer: self.observer.take()?, clock: self.clock.clone() })
    }

    /// The state that says why the future of the call is dropped.
    #[must_use]
    pub fn drop_cause(&self) -> DropCause {
        DropCause { clock: self.clock.clone(), cancellation: self.cancellation.clone() }
    }

    /// Sets the observer.
    #[must_use]
    pub fn observer(mut self, observer: impl Into<Option<Arc<dyn CallObserver>>>) -> Self {
        self.observer = observer.into();
        self
    }

    /// Sets the token with the reason that is sent to the server.
    #[must_use]
    pub fn cancellation(mut self, token: CancellationToken) -> Self {
        self.cancellation = Some(token);
        self
    }

    /// Marks it as a request that no caller waits for.
    #[must_use]
    pub fn background(mut self) -> Self {
        self.is_background = true;
        self
    }

    /// Takes the parameters as JSON, with `_meta`. Keys of the metadata replace those that are in the parameters' `_meta` already.
    ///
    /// # Errors
    /// If the parameters cannot be encoded as JSON or are not an object.
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

/// Appends the parameters of a request, with `_meta` as in [`OutgoingRequest::take_params`]. Appends nothing if there are none.
///
/// # Errors
/// If the parameters cannot be encoded as JSON or are not an object. The buffer is then unchanged.
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
        let mut positions = memchr::memchr_iter(start, object);
        positions.any(|position| object[position..].starts_with(word))
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

/// An observer of one call: receives what the server sends for it before its response. Its methods are called where the connection is
/// driven: they must be quick and must not block.
pub trait CallObserver: Send + Sync + 'static {
    /// Receives progress.
    fn progress(&self, params: &ProgressParams) {
        let _ = params;
    }

    /// Receives another notification of the call, such as a log message or a change of a subscription.
    ///
    /// # Errors
    /// The notification, if the client is to handle it as any other.
    fn notification(&self, notification: Notification) -> Result<(), Notification> {
        Err(notification)
    }

    /// Responds to a request of the server that belongs to the call, such as `elicitation/create`.
    ///
    /// # Errors
    /// The request, if the handlers of the client are to respond.
    fn request(&self, request: Request) -> Result<ResponseFuture, Request> {
        Err(request)
    }
}

/// The observer of a call, as a channel uses it.
///
/// Channels send progress and notifications of subscriptions to it. All other messages of the server go to the service of the client; if
/// the channel knows the call that a message belongs to, this is an extension of the context.
#[derive(Clone)]
pub struct ObservedCall {
    observer: Arc<dyn CallObserver>,
    clock: CallClock,
}

impl ObservedCall {
    /// Delivers progress, which renews the timeout of the call. A panic of the observer ends nothing else.
    pub fn progress(&self, params: &ProgressParams) {
        self.clock.renew();
        let _ = catch_unwind(AssertUnwindSafe(|| self.observer.progress(params)));
    }

    /// Delivers a notification of the call. A panic of the observer ends nothing else.
    ///
    /// # Errors
    /// The notification, if the observer does not handle it.
    pub fn notification(&self, notification: Notification) -> Result<(), Notification> {
        catch_unwind(AssertUnwindSafe(|| self.observer.notification(notification))).unwrap_or(Ok(()))
    }

    /// Passes a request of the server to the observer.
    ///
    /// # Errors
    /// The request, if the observer does not respond to it.
    pub fn request(&self, request: Request) -> Result<ResponseFuture, Request> {
        self.observer.request(request)
    }
}

impl fmt::Debug for ObservedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObservedCall").finish_non_exhaustive()
    }
}

/// The cause for which the future of a call is dropped before its response, known when it is dropped.
#[derive(Debug, Clone)]
pub struct DropCause {
    clock: CallClock,
    cancellation: Option<CancellationToken>,
}

impl DropCause {
    /// Returns `true` if the time of the call was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.clock.is_over()
    }

    /// The reason that the caller gave for cancelling the call.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.cancellation.as_ref()?.reason()
    }
}

/// A channel to one server, for calls. The state of its connection is in its [`ChannelControl`].
pub trait Channel: Send + Sync + 'static {
    /// Sends a request and waits for its response, without a timeout: the caller runs its clock
    /// ([`call_in_time`](#method.call_in_time)). Dropping the future cancels the request and notifies the server, as the revision defines.
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
    /// Those of [`Channel::call`], and a timeout.
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

    /// The stream for messages of the server that belong to no request, on transports where it is separate from responses.
    fn inbound(&self) -> watch::Receiver<InboundStream> {
        watch::channel(InboundStream::Open).1
    }

    /// The counters of the connection.
    fn stats(&self) -> ConnectionStats;

    /// Closes the connection and waits until all its resources are released, such as a process.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// Waits until the connection has closed, and returns the reason.
    fn closed(&self) -> BoxFuture<'_, CloseInfo>;
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

/// The state of the stream for messages of the server that belong to no request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InboundStream {
    /// It is open, or the transport needs no separate stream.
    Open,
    /// It is broken, while requests may still work.
    Broken(PeerError),
}

/// The reason why a connection is closed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloseInfo {
    /// A description of what the server did: `"exited with status 1"`.
    pub how: Option<String>,
    /// The last lines of standard error, if the server is a child process.
    pub stderr: Vec<String>,
    /// `true` if the server still runs and a new connection will work, as after an HTTP session has expired.
    pub renewable: bool,
}

impl CloseInfo {
    /// Creates a reason without details.
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

    /// Marks the server as still running, so that a new connection will work.
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

impl CloseInfo {
    /// Returns a sentence about the reason, followed by `what`, such as `"before it answered"`, and the last line of standard error.
    #[must_use]
    pub fn before(&self, what: &str) -> String {
        let how = self.how.as_deref().unwrap_or("closed the connection");
        let gap = if what.is_empty() { "" } else { " " };
        match self.stderr.iter().rev().find(|line| !line.trim().is_empty()) {
            Some(last) => format!("the server {how}{gap}{what}; last line of stderr: {last:?}"),
            None => format!("the server {how}{gap}{what}"),
        }
    }
}

impl fmt::Display for CloseInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.before(""))
    }
}

/// A channel that has just been opened.
#[non_exhaustive]
pub struct OpenChannel {
    /// The channel for calls.
    pub channel: Arc<dyn Channel>,
    /// The control of the connection.
    pub control: Arc<dyn ChannelControl>,
    /// The result of the negotiation: the server and its revision.
    pub negotiated: Arc<Negotiated>,
}

impl OpenChannel {
    /// Creates an open channel from a channel, its control and the result of the negotiation.
    #[must_use]
    pub fn new(channel: Arc<dyn Channel>, control: Arc<dyn ChannelControl>, negotiated: Arc<Negotiated>) -> Self {
        Self { channel, control, negotiated }
    }

    /// As [`OpenChannel::new`], for a channel that is its own control.
    pub fn of<C: Channel + ChannelControl>(channel: Arc<C>, negotiated: Arc<Negotiated>) -> Self {
        Self::new(channel.clone(), channel, negotiated)
    }
}

impl fmt::Debug for OpenChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenChannel").field("dialect", &self.negotiated.dialect).finish_non_exhaustive()
    }
}

/// The context of one attempt to connect.
#[non_exhaustive]
pub struct ConnectContext {
    /// The client, and the revisions that it speaks.
    pub client: ClientOptions,
    /// The service that receives requests and notifications of the server.
    pub incoming: Arc<dyn Service>,
    /// Pauses of the timeouts of connecting, for connectors with an authorizer at work.
    pub pauses: ClockPauses,
    /// `true` for an attempt that no caller waits for, such as a reconnection. Credentials for it are obtained without the user.
    pub is_background: bool,
    on_initializing: Option<Box<dyn Fn() + Send + Sync>>,
}

impl ConnectContext {
    /// Creates a context for a client.
    pub fn new(client: ClientOptions, incoming: Arc<dyn Service>) -> Self {
        Self { client, incoming, pauses: ClockPauses::new(), is_background: false, on_initializing: None }
    }

    /// Sets the pauses of the timeouts of connecting.
    #[must_use]
    pub fn pauses(mut self, pauses: ClockPauses) -> Self {
        self.pauses = pauses;
        self
    }

    /// Sets whether no caller waits for the attempt.
    #[must_use]
    pub fn background(mut self, is_background: bool) -> Self {
        self.is_background = is_background;
        self
    }

    /// Sets a callback for the moment when the transport is connected.
    #[must_use]
    pub fn on_initializing(mut self, callback: impl Fn() + Send + Sync + 'static) -> Self {
        self.on_initializing = Some(Box::new(callback));
        self
    }

    /// Reports that the transport is connected and that the handshake or discovery begins.
    pub fn initializing(&self) {
        if let Some(callback) = &self.on_initializing {
            callback();
        }
    }
}

impl fmt::Debug for ConnectContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectContext").field("client", &self.client).finish_non_exhaustive()
    }
}

/// Opens channels to one server: starts a program, connects a socket, joins a service.
pub trait Connector: Send + Sync + 'static {
    /// Opens a channel.
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>>;

    /// Returns `true` if another channel can be opened after one has closed. A byte stream can be used once, a program can be started
    /// again.
    fn is_repeatable(&self) -> bool;

    /// Returns a text that identifies the server, such as its command line or URL, as the key of caches. `None` if there is none. It may
    /// contain a secret and is not shown.
    fn identity(&self) -> Option<String>;
}

impl<C: Connector + ?Sized> Connector for Arc<C> {
    fn connect(&self, cx: ConnectContext) -> BoxFuture<'_, Result<OpenChannel, ConnectError>> {
        (**self).connect(cx)
    }

    fn is_repeatable(&self) -> bool {
        (**self).is_repeatable()
    }

    fn identity(&self) -> Option<String> {
        (**self).identity()
    }
}

/// Error of [`Connector::connect`].
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The server cannot be reached: the program does not start, or nothing listens at the address.
    #[error("cannot reach {server}")]
    Unreachable {
        /// The server.
        server: String,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The server responded but rejected the connection: it has nothing at this path, or failed.
    #[error("{server} rejected the connection")]
    Rejected {
        /// The server.
        server: String,
        /// The response.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The server requires other credentials, or none could be obtained.
    #[error("cannot connect to {server}: not authorized")]
    Unauthorized {
        /// The server.
        server: String,
        /// The response, or the error of the authorizer.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
        /// `true` if credentials could not be obtained for a transient reason, such as the network.
        transient: bool,
    },
    /// The handshake failed, such as for want of a common revision.
    #[error(transparent)]
    Negotiation(#[from] OpenError),
    /// The server closed the connection during the handshake.
    #[error("{}", .0.before("before the connection was open"))]
    Closed(CloseInfo),
    /// The connection was open and has closed.
    #[error("connection closed: {0}")]
    Lost(CloseInfo),
    /// The server was not ready in time.
    #[error("{} was not ready within {}", .server.as_deref().unwrap_or("the server"), format_duration(*limit))]
    Timeout {
        /// The address of the server, if it has one.
        server: Option<String>,
        /// The timeout.
        limit: Duration,
    },
    /// The client declares an invalid extension.
    #[error("extension {id:?}: {problem}")]
    InvalidExtension {
        /// The id of the extension.
        id: String,
        /// The reason why it is invalid.
        problem: &'static str,
    },
    /// The byte stream is already used by an earlier connection.
    #[error("the byte stream is already used; connectors for one stream connect once")]
    AlreadyUsed,
}

/// Returns `true` if a cause of the error is a network that does not carry, or a server that does not listen.
fn is_network_error(error: &(dyn std::error::Error + 'static)) -> bool {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.filter_map(|error| error.downcast_ref::<io::Error>()).any(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
                | io::ErrorKind::NetworkDown
                | io::ErrorKind::TimedOut
                | io::ErrorKind::UnexpectedEof
        )
    })
}

debug_error! {
    ConnectError {
        Unreachable { server, source },
        Rejected { server, source },
        Unauthorized { server, source, transient },
        Negotiation(error),
        Closed(info),
        Lost(info),
        Timeout { server, limit },
        InvalidExtension { id, problem },
        AlreadyUsed,
    }
}

impl ConnectError {
    /// Creates the error for a server that cannot be reached.
    pub fn unreachable(server: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Unreachable { server: server.into(), source: Arc::from(source.into()) }
    }

    /// Creates the error for a server that rejected the connection.
    pub fn rejected(server: impl Into<String>, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Rejected { server: server.into(), source: Arc::from(source.into()) }
    }

    /// Creates the error for a server that requires other credentials.
    pub fn unauthorized(
        server: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unauthorized { server: server.into(), source: Arc::from(source.into()), transient: false }
    }

    /// Returns `true` if another attempt may succeed, because the server did not respond or refused the connection. Not if it could
    /// not be started, rejected the client or has no common revision with it.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { source, .. } => is_network_error(&**source),
            Self::Lost(_) => true,
            Self::Unauthorized { transient, .. } => *transient,
            error => error.is_timeout(),
        }
    }

    /// Returns `true` if the server was not ready in time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::Timeout { .. } | Self::Negotiation(OpenError::TimedOut))
    }
}

impl From<HandshakeError> for ConnectError {
    fn from(failure: HandshakeError) -> Self {
        match failure {
            HandshakeError::Refused(OpenError::Closed) | HandshakeError::Closed => Self::Closed(CloseInfo::new()),
            HandshakeError::Refused(error) => Self::Negotiation(error),
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
    fn meta_is_merged_into_existing_meta() {
        let meta = |text: &'static str| Meta::from(Object::parse(text).unwrap());
        let mut request = outgoing(r#"{"name":"a","_meta":{"mine":1,"both":1}}"#).meta(meta(r#"{"both":2,"ours":3}"#));
        let params = request.take_params().unwrap().unwrap();
        assert_eq!(params.as_str(), r#"{"name":"a","_meta":{"mine":1,"both":2,"ours":3}}"#);
        assert_eq!(outgoing("{}").take_params().unwrap(), None);
        assert!(outgoing("[1]").meta(meta(r#"{"a":1}"#)).take_params().is_err());
    }

    #[test]
    fn meta_occurs_once_however_it_is_spelled() {
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
    fn a_close_reason_has_the_last_line_of_stderr() {
        assert_eq!(CloseInfo::new().to_string(), "the server closed the connection");
        let ended = CloseInfo::new().how("exited with status 1").stderr(vec!["no module".into(), " ".into()]);
        assert_eq!(ended.to_string(), r#"the server exited with status 1; last line of stderr: "no module""#);
        let early = ConnectError::Closed(ended).to_string();
        assert_eq!(
            early,
            r#"the server exited with status 1 before the connection was open; last line of stderr: "no module""#
        );
    }
}
