//! Detects the era of an HTTP server (basic/transports and "Versioning" of 2026-07-28): `server/discover` first, `initialize` if the
//! server does not support that, HTTP+SSE if it does not support that either.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use turms_core::__internal::dispatch_notification;
use turms_core::{CallContext, ConnectContext, ConnectError, OpenChannel, Peer, Service, TransportKind};
use turms_proto::method::Method as _;
use turms_proto::session::{Dialect, Event, Negotiated, Session};
use turms_proto::types::{Discover, Initialize, key};
use turms_proto::{ErrorObject, Incoming, Message, ProtocolVersion, RawJson, Request, Response, header};

use super::endpoint::{HttpEndpoint, RequestTimer};
use super::error::HttpError;
use super::headers::RequestHeaders;
use super::reply::{HttpReply, ResponseEvents, messages};
use super::session::{ResponseWaiter, SessionChannel, now, session_headers};
use super::stateless::StatelessChannel;
use super::{http_sse, read_rest};

/// Opens a channel in the era that the server supports. Also returns the transport.
pub(super) async fn open(
    endpoint: Arc<HttpEndpoint>,
    cx: &ConnectContext,
    transport: TransportKind,
) -> Result<(OpenChannel, TransportKind), ConnectError> {
    let server = endpoint.server();
    let over_sse = |established| (established, TransportKind::HttpSse);
    if transport == TransportKind::HttpSse {
        let opened = http_sse::open(endpoint, cx).await;
        return opened.map(over_sse).map_err(|error| error.into_connect(&server));
    }
    let mut attempt = ConnectAttempt {
        limit: cx.client.handshake_timeout,
        timer: RequestTimer::connecting(cx),
        session: Session::client(cx.client.clone()),
        endpoint: endpoint.clone(),
        service: cx.incoming.clone(),
        id: None,
        rejections: Vec::new(),
        notification_deadline: None,
    };
    let failed = match attempt.run().await {
        Ok(opened) => return Ok((attempt.establish(opened).await, TransportKind::StreamableHttp)),
        Err(failed) => failed,
    };
    let OpenAttemptError::NotSupported(refused) = failed else { return Err(failed.into_connect(&server)) };
    if transport == TransportKind::StreamableHttp {
        return Err(attempt.not_supported(refused).into_connect(&server));
    }
    tracing::debug!(target: "turms::client", "initialize is not supported; trying HTTP+SSE");
    match http_sse::open(endpoint, cx).await {
        Ok(established) => Ok(over_sse(established)),
        Err(OpenAttemptError::Http(error)) if !error.is_unauthorized() => {
            attempt.rejections.push(("HTTP+SSE", error));
            Err(attempt.not_supported(refused).into_connect(&server))
        }
        Err(failed) => Err(failed.into_connect(&server)),
    }
}

/// An attempt to open a channel.
struct ConnectAttempt {
    endpoint: Arc<HttpEndpoint>,
    service: Arc<dyn Service>,
    session: Session<ResponseWaiter>,
    /// Timeout for one request. Over HTTP, silence says nothing about the revision, so the short probe timeout of other
    /// transports does not apply.
    limit: Duration,
    timer: RequestTimer,
    /// The session id.
    id: Option<HeaderValue>,
    /// The requests that the server rejected, with the error of each.
    rejections: Vec<(&'static str, HttpError)>,
    /// Deadline for the handlers of notifications, set by the first notification.
    notification_deadline: Option<tokio::time::Instant>,
}

/// Error for a channel that could not be opened.
pub(super) enum OpenAttemptError {
    /// The server does not support `initialize` over POST. It may have sent a JSON-RPC error.
    NotSupported(Option<Box<ErrorObject>>),
    Http(HttpError),
    Connect(ConnectError),
}

impl OpenAttemptError {
    pub(super) fn into_connect(self, server: &str) -> ConnectError {
        match self {
            Self::Connect(error) => error,
            Self::Http(HttpError::TimedOut(limit)) => ConnectError::Timeout { server: Some(server.to_owned()), limit },
            Self::Http(error) if error.is_unauthorized() => {
                let transient = matches!(&error, HttpError::Authorize { source, .. } if source.is_transient());
                ConnectError::Unauthorized { server: server.to_owned(), source: Arc::new(error), transient }
            }
            Self::Http(error) if error.is_response() => ConnectError::rejected(server, error),
            Self::Http(error) => ConnectError::unreachable(server, error),
            Self::NotSupported(error) => {
                ConnectError::rejected(server, error.map_or_else(String::new, |it| it.message))
            }
        }
    }
}

impl From<HttpError> for OpenAttemptError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl ConnectAttempt {
    /// Sends the requests of the handshake until it completes.
    async fn run(&mut self) -> Result<Box<Negotiated>, OpenAttemptError> {
        self.session.open(now());
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Send(Message::Request(request)) => self.request(request).await?,
                Event::Send(message) => self.notify(&message).await?,
                Event::Opened(opened) => return Ok(opened),
                Event::OpenFailed(error) => return Err(OpenAttemptError::Connect(error.into())),
                Event::Notification(notification) => {
                    let dialect = Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE);
                    let cx = CallContext::new(dialect, Peer::disconnected());
                    let handled = dispatch_notification(&*self.service, notification, cx);
                    // All notifications together have the timeout of one request. The connection does not depend on them.
                    let deadline =
                        *self.notification_deadline.get_or_insert_with(|| tokio::time::Instant::now() + self.limit);
                    if tokio::time::timeout_at(deadline, handled).await.is_err() {
                        tracing::debug!(target: "turms::client", "a notification handler timed out while connecting");
                    }
                }
                _ => {}
            }
        }
        Err(HttpError::StreamEnded.into())
    }

    async fn request(&mut self, request: Request) -> Result<(), OpenAttemptError> {
        let is_initialize = &*request.method == Initialize::NAME;
        let headers = if is_initialize { HeaderMap::new() } else { probe_headers(&request)? };
        let mut body = Vec::new();
        self.session.encode(&Message::Request(request.clone()), &mut body);
        match self.exchange(body.into(), &headers, &request).await {
            Ok(None) => Ok(()),
            // A transient failure says nothing about the revisions of the server.
            Ok(Some((status, error))) if !is_initialize && !error.code.is_modern() && is_transient(status) => {
                Err(HttpError::Status { status, body: error.message }.into())
            }
            Ok(Some((status, error))) => {
                if is_initialize && is_unsupported(status) && !error.code.is_modern() {
                    return Err(OpenAttemptError::NotSupported(Some(error)));
                }
                self.receive_error(&request, *error);
                Ok(())
            }
            // A server of 2026-07-28 would have sent a valid response.
            Err(error) if !is_initialize && is_from_older_server(&error) => {
                let rejection = ErrorObject::invalid_request(error.to_string());
                self.rejections.push((request_name(&request), error));
                self.receive_error(&request, rejection);
                Ok(())
            }
            Err(error) if is_initialize && error.status().is_some_and(is_unsupported) => {
                self.rejections.push((request_name(&request), error));
                Err(OpenAttemptError::NotSupported(None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Posts a request and reads its response. Returns the error of a non-success response.
    async fn exchange(
        &mut self,
        body: Bytes,
        headers: &HeaderMap,
        request: &Request,
    ) -> Result<Option<(StatusCode, Box<ErrorObject>)>, HttpError> {
        let response = self.timer.run(self.endpoint.post(body, headers.clone(), self.timer.scope())).await?;
        // Only the response to `initialize` has one, and it is the last response here.
        self.id = response.headers().get(header::SESSION_ID).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
        match self.timer.run(HttpReply::read(&self.endpoint, response)).await? {
            HttpReply::Json(body) => {
                self.session.count_received(body.len());
                self.receive(Incoming::decode(body, 1), request)?;
            }
            HttpReply::Events(events) => self.timer.clone().run(self.read(*events, request)).await?,
            HttpReply::Nothing => return Err(HttpError::Message("empty body".to_owned())),
            HttpReply::Refused(status, error) => return Ok(Some((status, error))),
        }
        Ok(None)
    }

    async fn read(&mut self, mut events: ResponseEvents, request: &Request) -> Result<(), HttpError> {
        while let Some(event) = events.next().await? {
            if let Some(incoming) = messages(event, 1) {
                let is_response = matches!(&incoming, Ok(Incoming::One(Message::Response(_))) | Err(_));
                self.receive(incoming, request)?;
                if is_response {
                    read_rest(async move { while let Ok(Some(_)) = events.next().await {} }).await;
                    return Ok(());
                }
            }
        }
        Err(HttpError::StreamEnded)
    }

    fn receive(
        &mut self,
        incoming: Result<Incoming, turms_proto::MessageError>,
        request: &Request,
    ) -> Result<(), HttpError> {
        match incoming {
            // There is only one request in flight, so the response is for it.
            Ok(Incoming::One(Message::Response(Response { outcome, .. }))) => {
                let response = Response::new(request.id.clone(), outcome);
                self.session.receive(Ok(Incoming::One(Message::Response(response))), now());
                Ok(())
            }
            Ok(incoming) => {
                self.session.receive(Ok(incoming), now());
                Ok(())
            }
            Err(invalid) => Err(HttpError::Message(invalid.to_string())),
        }
    }

    fn receive_error(&mut self, request: &Request, error: ErrorObject) {
        let response = Response::new(request.id.clone(), Err(error));
        self.session.receive(Ok(Incoming::One(Message::Response(response))), now());
    }

    /// Sends `notifications/initialized`.
    async fn notify(&mut self, message: &Message) -> Result<(), HttpError> {
        let mut body = Vec::new();
        self.session.encode(message, &mut body);
        let headers =
            self.session.dialect().map(|dialect| session_headers(dialect, self.id.clone())).unwrap_or_default();
        let response = self.timer.run(self.endpoint.post(body.into(), headers, self.timer.scope())).await?;
        match self.timer.run(HttpReply::read(&self.endpoint, response)).await {
            Ok(HttpReply::Refused(_, error)) => {
                tracing::debug!(target: "turms::client", %error, "the server rejected notifications/initialized");
                Ok(())
            }
            // The content of the response does not matter.
            Ok(_) | Err(HttpError::ContentType { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns the channel of the negotiated era.
    async fn establish(self, opened: Box<Negotiated>) -> OpenChannel {
        let opened = Arc::from(opened);
        let dialect = Negotiated::clone(&opened).dialect;
        match dialect {
            Dialect::Handshake(_) => {
                let channel = SessionChannel::new(self.endpoint, self.service, self.session, dialect, self.id);
                channel.listen().await;
                OpenChannel::of(Arc::new(channel), opened)
            }
            dialect => {
                let channel = StatelessChannel::new(self.endpoint, self.service, dialect.version());
                OpenChannel::of(Arc::new(channel), opened)
            }
        }
    }

    /// Returns the error for a server that supports no transport, with the error of each attempt.
    fn not_supported(&mut self, refused: Option<Box<ErrorObject>>) -> OpenAttemptError {
        if let Some(error) = refused {
            return OpenAttemptError::Connect(turms_proto::session::OpenError::Refused(error).into());
        }
        OpenAttemptError::Http(HttpError::NoCommonTransport(std::mem::take(&mut self.rejections)))
    }
}

/// Returns the headers of `server/discover`.
fn probe_headers(request: &Request) -> Result<HeaderMap, HttpError> {
    let meta = request.params.as_ref().and_then(RawJson::meta);
    let version =
        meta.and_then(|meta| meta.member(key::PROTOCOL_VERSION)).and_then(|version| version.decode::<String>().ok());
    let version = version.and_then(|version| version.parse().ok()).unwrap_or(ProtocolVersion::LATEST);
    RequestHeaders::default().headers(version, &request.method, None)
}

fn request_name(request: &Request) -> &'static str {
    if &*request.method == Initialize::NAME { Initialize::NAME } else { Discover::NAME }
}

/// Returns `true` for a status that HTTP+SSE servers send for a POST (basic/transports, "Backwards Compatibility").
fn is_unsupported(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

/// Returns `true` if a server of 2026-07-28 would not respond to the probe like this. Failures of the server, of the network
/// and of authorization say nothing about the revision.
fn is_from_older_server(error: &HttpError) -> bool {
    match error {
        HttpError::Status { status, .. } => {
            status.is_client_error() && !matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        }
        HttpError::ContentType { .. } | HttpError::Message(_) | HttpError::StreamEnded => true,
        _ => false,
    }
}

/// Returns `true` for a status of a transient failure, which says nothing about the revision.
fn is_transient(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}
