//! How a client finds out in which dialect to speak over HTTP (basic/transports and "Versioning" of 2026-07-28): a modern
//! request first, `initialize` where that is not understood, HTTP+SSE where that is not either.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode};
use turms_core::{CallContext, ConnectError, OpenChannel, Peer, Service, UrlTransport, dispatch_notification};
use turms_proto::method::Method as _;
use turms_proto::session::{ClientOptions, Dialect, Event, Opened, Session};
use turms_proto::types::{Discover, Initialize, key};
use turms_proto::{ErrorObject, Incoming, Message, ProtocolVersion, RawJson, Request, Response, header};

use super::endpoint::{Endpoint, within};
use super::error::HttpError;
use super::headers::Mirror;
use super::reply::{EventStream, Reply, messages};
use super::session::{SessionChannel, Waiter, now, session_headers};
use super::stateless::StatelessChannel;
use super::{http_sse, read_rest};

/// Opens a channel in whatever dialect the server understands, and says over which transport.
pub(super) async fn open(
    endpoint: Arc<Endpoint>,
    client: ClientOptions,
    service: Arc<dyn Service>,
    transport: UrlTransport,
) -> Result<(OpenChannel, UrlTransport), ConnectError> {
    let server = endpoint.server();
    let over_sse = |established| (established, UrlTransport::Sse);
    if transport == UrlTransport::Sse {
        let opened = http_sse::open(endpoint, client, service).await;
        return opened.map(over_sse).map_err(|error| error.into_connect(&server));
    }
    let mut opening = Opening {
        limit: client.handshake_timeout,
        session: Session::client(client.clone()),
        endpoint: endpoint.clone(),
        service: service.clone(),
        id: None,
        refusals: Vec::new(),
        heard_until: None,
    };
    let failed = match opening.run().await {
        Ok(opened) => return Ok((opening.establish(opened).await, UrlTransport::StreamableHttp)),
        Err(failed) => failed,
    };
    let Failed::NotUnderstood(refused) = failed else { return Err(failed.into_connect(&server)) };
    if transport == UrlTransport::StreamableHttp {
        return Err(opening.refused(refused).into_connect(&server));
    }
    tracing::debug!(target: "turms::client", "the handshake is not understood; trying HTTP+SSE");
    match http_sse::open(endpoint, client, service).await {
        Ok(established) => Ok(over_sse(established)),
        Err(Failed::Http(error)) => {
            opening.refusals.push(("HTTP+SSE", error));
            Err(opening.refused(refused).into_connect(&server))
        }
        Err(failed) => Err(failed.into_connect(&server)),
    }
}

/// A connection that is being opened.
struct Opening {
    endpoint: Arc<Endpoint>,
    service: Arc<dyn Service>,
    session: Session<Waiter>,
    /// How long one question may take. Silence over HTTP says nothing about the revision, so the short patience with which
    /// other transports are probed is not for here.
    limit: Duration,
    /// What the server calls the session.
    id: Option<HeaderValue>,
    /// What was not understood so far, and how the server said so.
    refusals: Vec<(&'static str, HttpError)>,
    /// When handlers of notifications are not waited for any more; known once there is one.
    heard_until: Option<tokio::time::Instant>,
}

/// Why there is no connection.
pub(super) enum Failed {
    /// The handshake was refused as only those do who do not know it; in JSON-RPC perhaps.
    NotUnderstood(Option<Box<ErrorObject>>),
    Http(HttpError),
    Connect(ConnectError),
}

impl Failed {
    pub(super) fn into_connect(self, server: &str) -> ConnectError {
        match self {
            Self::Connect(error) => error,
            Self::Http(HttpError::TimedOut(limit)) => ConnectError::Late { server: server.to_owned(), limit },
            Self::Http(error) if error.is_answer() => ConnectError::rejected(server, error),
            Self::Http(error) => ConnectError::unreachable(server, error),
            Self::NotUnderstood(error) => {
                ConnectError::rejected(server, error.map_or_else(String::new, |it| it.message))
            }
        }
    }
}

impl From<HttpError> for Failed {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl Opening {
    /// Asks what there is to ask, until the two have agreed.
    async fn run(&mut self) -> Result<Box<Opened>, Failed> {
        self.session.open(now());
        while let Some(event) = self.session.next_event() {
            match event {
                Event::Send(Message::Request(request)) => self.ask(request).await?,
                Event::Send(message) => self.tell(&message).await?,
                Event::Opened(opened) => return Ok(opened),
                Event::OpenFailed(error) => return Err(Failed::Connect(error.into())),
                Event::Notification(notification) => {
                    let dialect = Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE);
                    let cx = CallContext::new(dialect, Peer::nobody());
                    let heard = dispatch_notification(&*self.service, notification, cx);
                    // All notifications together have as much time as one question. The connection does not depend on them.
                    let until = *self.heard_until.get_or_insert_with(|| tokio::time::Instant::now() + self.limit);
                    if tokio::time::timeout_at(until, heard).await.is_err() {
                        tracing::debug!(target: "turms::client", "a handler of a notification is given up while connecting");
                    }
                }
                _ => {}
            }
        }
        Err(HttpError::Cut.into())
    }

    async fn ask(&mut self, request: Request) -> Result<(), Failed> {
        let shaking = &*request.method == Initialize::NAME;
        let headers = if shaking { HeaderMap::new() } else { probe_headers(&request)? };
        let mut body = Vec::new();
        self.session.encode(&Message::Request(request.clone()), &mut body);
        match self.exchange(body.into(), &headers, &request).await {
            Ok(None) => Ok(()),
            // A server that is in trouble says nothing about what it speaks.
            Ok(Some((status, error))) if !shaking && !error.code.is_modern() && is_passing(status) => {
                Err(HttpError::Status { status, body: error.message }.into())
            }
            Ok(Some((status, error))) => {
                if shaking && is_unknown(status) && !error.code.is_modern() {
                    return Err(Failed::NotUnderstood(Some(error)));
                }
                self.answer(&request, *error);
                Ok(())
            }
            // Whatever is no answer at all is none of a server that knows the question.
            Err(error) if !shaking && is_foreign(&error) => {
                let told = ErrorObject::invalid_request(error.to_string());
                self.refusals.push((request_name(&request), error));
                self.answer(&request, told);
                Ok(())
            }
            Err(error) if shaking && error.status().is_some_and(is_unknown) => {
                self.refusals.push((request_name(&request), error));
                Err(Failed::NotUnderstood(None))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Posts a question and hears the answer; a refusal comes back.
    async fn exchange(
        &mut self,
        body: Bytes,
        headers: &HeaderMap,
        request: &Request,
    ) -> Result<Option<(StatusCode, Box<ErrorObject>)>, HttpError> {
        let response = within(self.limit, self.endpoint.post(body, headers.clone())).await?;
        // Only the answer to initialize gives one, and it is the last that is heard here.
        self.id = response.headers().get(header::SESSION_ID).cloned().map(|mut id| {
            id.set_sensitive(true);
            id
        });
        match within(self.limit, Reply::read(&self.endpoint, response)).await? {
            Reply::Json(body) => {
                self.session.count_received(body.len());
                self.hear(Incoming::decode(body, 1), request)?;
            }
            Reply::Events(events) => within(self.limit, self.read(*events, request)).await?,
            Reply::Nothing => return Err(HttpError::Message("it is empty".to_owned())),
            Reply::Refused(status, error) => return Ok(Some((status, error))),
        }
        Ok(None)
    }

    async fn read(&mut self, mut events: EventStream, request: &Request) -> Result<(), HttpError> {
        while let Some(event) = events.next().await? {
            if let Some(incoming) = messages(event, 1) {
                let answered = matches!(&incoming, Ok(Incoming::One(Message::Response(_))) | Err(_));
                self.hear(incoming, request)?;
                if answered {
                    read_rest(async move { while let Ok(Some(_)) = events.next().await {} }).await;
                    return Ok(());
                }
            }
        }
        Err(HttpError::Cut)
    }

    fn hear(
        &mut self,
        incoming: Result<Incoming, turms_proto::InvalidMessage>,
        request: &Request,
    ) -> Result<(), HttpError> {
        match incoming {
            // There is only one question that an answer can be about.
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

    fn answer(&mut self, request: &Request, error: ErrorObject) {
        let response = Response::new(request.id.clone(), Err(error));
        self.session.receive(Ok(Incoming::One(Message::Response(response))), now());
    }

    /// Tells the server that the handshake is done.
    async fn tell(&mut self, message: &Message) -> Result<(), HttpError> {
        let mut body = Vec::new();
        self.session.encode(message, &mut body);
        let headers =
            self.session.dialect().map(|dialect| session_headers(dialect, self.id.clone())).unwrap_or_default();
        let response = within(self.limit, self.endpoint.post(body.into(), headers)).await?;
        match within(self.limit, Reply::read(&self.endpoint, response)).await {
            Ok(Reply::Refused(_, error)) => {
                tracing::debug!(target: "turms::client", %error, "the server does not want to know that the handshake is done");
                Ok(())
            }
            // What it says instead of nothing does not matter.
            Ok(_) | Err(HttpError::ContentType { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The channel that was agreed on.
    async fn establish(self, opened: Box<Opened>) -> OpenChannel {
        let opened = Arc::from(opened);
        let dialect = Opened::clone(&opened).dialect;
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

    /// Nothing was understood: what the server said to each.
    fn refused(&mut self, refused: Option<Box<ErrorObject>>) -> Failed {
        if let Some(error) = refused {
            return Failed::Connect(turms_proto::session::OpenError::Refused(error).into());
        }
        Failed::Http(HttpError::NothingUnderstood(std::mem::take(&mut self.refusals)))
    }
}

/// The headers of `server/discover`: nothing of it is repeated but the method.
fn probe_headers(request: &Request) -> Result<HeaderMap, HttpError> {
    let meta = request.params.as_ref().and_then(RawJson::meta);
    let version =
        meta.and_then(|meta| meta.member(key::PROTOCOL_VERSION)).and_then(|version| version.decode::<String>().ok());
    let version = version.and_then(|version| version.parse().ok()).unwrap_or(ProtocolVersion::LATEST);
    Mirror::default().headers(version, &request.method, None)
}

fn request_name(request: &Request) -> &'static str {
    if &*request.method == Initialize::NAME { Initialize::NAME } else { Discover::NAME }
}

/// Whether a status is one that servers of HTTP+SSE answer a POST with (basic/transports, "Backwards Compatibility").
fn is_unknown(status: StatusCode) -> bool {
    matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED)
}

/// Whether an answer to the probe is none that a server of 2026-07-28 gives. Faults of the server and of the network say
/// nothing, and neither do those who want to be authorized first.
fn is_foreign(error: &HttpError) -> bool {
    match error {
        HttpError::Status { status, .. } => {
            status.is_client_error() && !matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
        }
        HttpError::ContentType { .. } | HttpError::Message(_) | HttpError::Cut => true,
        _ => false,
    }
}

/// Whether a status is one that passes: it says nothing about what the server understands.
fn is_passing(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}
