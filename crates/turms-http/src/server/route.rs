//! Decides how a request is handled.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use turms_core::BoxFuture;
use turms_proto::header::HeaderLookup;
use turms_proto::method::Method as _;
use turms_proto::session::{Dialect, VersionClaim, missing_meta};
use turms_proto::types::{Discover, Initialize, Listen, Meta, key};
use turms_proto::{Ability, Incoming, Message, ProtocolVersion, Request};

use super::handler::BodyLimit;
use super::request::RequestHead;
use super::request::body::BodyError;
use super::request::context::HttpSource;
use super::request::cors::CorsRequest;
use super::request::headers::{self, KnownHeader, McpHeaders, NamedVersion};
use super::response::{self, HttpResponse};
use super::session::{HttpSession, PostedMessages};
use super::{HttpState, http_sse, stateless, unreadable_version};

/// How a request is handled. Decided without an await, so that the future of a request holds nothing that is only needed to
/// decide.
pub(super) enum RequestKind<'a> {
    /// With this response.
    Respond(HttpResponse),
    /// As a request of 2026-07-28.
    Stateless(Request, ProtocolVersion, Option<Meta>, HttpSource),
    /// In a session that is in memory.
    Session(Arc<HttpSession>, PostedMessages),
    /// In a way that is rare enough to be boxed: its future would make that of each connection larger.
    Boxed(BoxFuture<'a, HttpResponse>),
}

impl HttpState {
    /// Checks a request by its head.
    pub(super) fn check_head(&self, head: &RequestHead) -> Result<BodyLimit, Box<HttpResponse>> {
        self.check_access(head).map_err(|mut refusal| {
            if self.options.cors {
                CorsRequest::of(head).decorate(&mut refusal, &self.options.access);
            }
            refusal
        })
    }

    fn check_access(&self, head: &RequestHead) -> Result<BodyLimit, Box<HttpResponse>> {
        self.options.access.check_request(head).map_err(|denied| Box::new(self.deny(&denied)))?;
        if self.options.cors && CorsRequest::of(head).is_preflight(head.method()) {
            return Err(Box::new(response::empty(StatusCode::NO_CONTENT)));
        }
        match *head.method() {
            Method::POST if self.has_http_sse() && http_sse::is_message(head) => drop(self.http_sse_session(head)?),
            Method::POST => check_post(head)?,
            _ => return Ok(BodyLimit::unread()),
        }
        let max_bytes = self.options.body_limit.min(self.limits().max_message_bytes);
        Ok(BodyLimit::new(max_bytes, self.options.body_timeout))
    }

    /// Handles a request that passed the check.
    pub(super) fn handle(
        &self,
        head: RequestHead,
        body: Result<Bytes, BodyError>,
    ) -> impl Future<Output = HttpResponse> + Send {
        let asked = self.options.cors.then(|| Box::new(CorsRequest::of(&head)));
        let kind = self.classify(head, body);
        async move {
            let mut answer = self.handle_kind(kind).await;
            if let Some(asked) = asked {
                asked.decorate(&mut answer, &self.options.access);
            }
            answer
        }
    }

    async fn handle_kind(&self, kind: RequestKind<'_>) -> HttpResponse {
        match kind {
            RequestKind::Respond(answer) => answer,
            RequestKind::Stateless(request, version, meta, source) => {
                let dialect = Dialect::Stateless(version);
                self.call(request, dialect, meta, &source, stateless::status_of_error).await
            }
            // Boxed: it would take 1.7 KB of the future of every connection.
            RequestKind::Session(session, posted) => Box::pin(self.post(&session, posted)).await,
            RequestKind::Boxed(answer) => answer.await,
        }
    }

    /// Classifies a request that passed the check.
    fn classify(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> RequestKind<'_> {
        match *head.method() {
            Method::POST if self.has_http_sse() && http_sse::is_message(&head) => {
                RequestKind::Boxed(Box::pin(self.post_http_sse(head, body)))
            }
            Method::POST => self.classify_post(head, body),
            Method::GET if self.has_http_sse() && http_sse::is_opening(&head) => {
                RequestKind::Respond(self.open_http_sse(head))
            }
            Method::GET if self.has_sessions() => RequestKind::Boxed(Box::pin(self.get(head))),
            Method::DELETE if self.has_sessions() => RequestKind::Boxed(Box::pin(self.delete(head))),
            _ if self.has_sessions() => RequestKind::Respond(response::method_not_allowed("GET, POST, DELETE")),
            _ => RequestKind::Respond(response::method_not_allowed("POST")),
        }
    }

    fn classify_post(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> RequestKind<'_> {
        let bytes = match body {
            Ok(bytes) => bytes,
            Err(problem) => return RequestKind::Respond(response::refuse(problem.status(), problem.to_string())),
        };
        match Incoming::decode(bytes, self.limits().max_batch) {
            Ok(incoming) => self.classify_message(incoming, head),
            Err(invalid) => {
                RequestKind::Respond(response::error(StatusCode::BAD_REQUEST, invalid.id.as_ref(), &invalid.error))
            }
        }
    }

    fn classify_older(&self, incoming: Incoming, version: ProtocolVersion, head: RequestHead) -> RequestKind<'_> {
        match self.session_at_hand(&incoming, &head) {
            Some(session) => RequestKind::Session(session, PostedMessages { incoming, head }),
            None => RequestKind::Boxed(Box::pin(self.post_older(incoming, version, head))),
        }
    }

    /// Decides which revision a message belongs to. Each request is decided for itself, whatever came before it.
    fn classify_message(&self, incoming: Incoming, request_head: RequestHead) -> RequestKind<'_> {
        let head = McpHeaders::of(&request_head);
        let newest = self.speaks_with(Ability::Stateless);
        if newest
            && let Incoming::One(Message::Request(request)) = &incoming
            && let Some((claim, name)) = stateless::claim_of(request)
        {
            let meta = claim.as_ref().ok().map(VersionClaim::meta);
            return match stateless::admit(request, claim, name.as_ref(), &head, self.versions()) {
                Ok(version) => {
                    let Incoming::One(Message::Request(request)) = incoming else {
                        return RequestKind::Respond(response::empty(StatusCode::BAD_REQUEST));
                    };
                    RequestKind::Stateless(request, version, meta, HttpSource::repeating(request_head))
                }
                Err(error) => RequestKind::Respond(response::error(
                    response::status_of_refusal(&error),
                    Some(&request.id),
                    &error,
                )),
            };
        }
        let id = match &incoming {
            Incoming::One(Message::Request(request)) => Some(&request.id),
            _ => None,
        };
        if let Incoming::One(Message::Request(request)) = &incoming
            && &*request.method == Initialize::NAME
        {
            return self.classify_older(incoming, ProtocolVersion::LATEST_WITH_HANDSHAKE, request_head);
        }
        let named = match head.named(self.versions()) {
            NamedVersion::Unknown(named) => return RequestKind::Respond(self.refuse_version(id, named)),
            NamedVersion::Unreadable => return RequestKind::Respond(unreadable_version(&head, id)),
            named => named,
        };
        // The id of a session and the name of an older revision decide first, whatever other headers say: some clients send
        // `Mcp-Method` in older revisions, too.
        let has_session = request_head.lookup(KnownHeader::SessionId) != HeaderLookup::Absent;
        if let (true, HeaderLookup::One(name)) = (has_session && named == NamedVersion::Newest, head.version)
            && name.trim().parse::<ProtocolVersion>().is_err()
        {
            return RequestKind::Respond(self.refuse_version(id, name.trim()));
        }
        let is_older =
            matches!(named, NamedVersion::Older(Some(_))) || (has_session && self.speaks_with(Ability::Handshake));
        match (&incoming, named) {
            _ if is_older => {}
            (Incoming::One(Message::Request(request)), named) if newest => {
                let belongs = matches!(&*request.method, Discover::NAME | Listen::NAME);
                if named == NamedVersion::Newest || belongs || head.method != HeaderLookup::Absent {
                    let error = missing_meta(key::PROTOCOL_VERSION);
                    return RequestKind::Respond(response::error(StatusCode::BAD_REQUEST, id, &error));
                }
            }
            (Incoming::One(Message::Notification(_)), NamedVersion::Newest) => {
                return RequestKind::Boxed(Box::pin(self.notify(incoming, HttpSource::new(request_head))));
            }
            (_, NamedVersion::Newest) => {
                let message = "the body must be one request or notification in this revision";
                return RequestKind::Respond(response::refuse(StatusCode::BAD_REQUEST, message));
            }
            _ => {}
        }
        let version = match named {
            NamedVersion::Older(Some(version)) => version,
            _ => ProtocolVersion::ASSUMED_OVER_HTTP,
        };
        self.classify_older(incoming, version, request_head)
    }
}

/// Checks that the body is JSON, and that the client takes both kinds of responses.
fn check_post(head: &RequestHead) -> Result<(), Box<HttpResponse>> {
    if let Err(problem) = headers::check_body(head) {
        return Err(Box::new(response::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem)));
    }
    if !headers::accepts_both(head) {
        let message = "answers are JSON or events: send \"Accept: application/json, text/event-stream\"";
        return Err(Box::new(response::refuse(StatusCode::NOT_ACCEPTABLE, message)));
    }
    Ok(())
}
