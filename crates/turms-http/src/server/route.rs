//! Routing of HTTP requests by method, headers and body.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use turms_core::BoxFuture;
use turms_proto::header::HeaderLookup;
use turms_proto::method::Method as _;
use turms_proto::session::{Dialect, VersionClaim, missing_meta};
use turms_proto::types::{Discover, Initialize, Listen, Meta, key};
use turms_proto::{Ability, ErrorObject, Incoming, Message, ProtocolVersion, Request};

use super::handler::BodyLimit;
use super::request::RequestHead;
use super::request::body::BodyError;
use super::request::context::HttpRequestInfo;
use super::request::cors::CorsRequest;
use super::request::headers::{self, KnownHeader, McpHeaders, NamedVersion};
use super::response::{self, HttpBody, HttpResponse};
use super::{HttpState, http_sse, stateless, unreadable_version};

/// The way in which a POST is handled.
enum PostKind<'a> {
    /// A request of a stateless revision.
    Stateless(Request, ProtocolVersion, Option<Meta>, Arc<HttpRequestInfo>),
    /// A rare or large future, boxed so that it does not enlarge the future of every connection.
    Boxed(BoxFuture<'a, HttpResponse>),
}

/// The revision of messages, according to their headers.
enum PostRevision {
    Handshake(ProtocolVersion),
    Stateless,
}

impl HttpState {
    /// Checks a request by its head: `Host` and `Origin`, CORS preflight, public documents, the guard, and then the headers that its
    /// method needs.
    pub(super) async fn check_head(&self, head: &mut RequestHead) -> Result<BodyLimit, Box<HttpResponse>> {
        let mut checked = self.check_access(head);
        if checked.is_ok() && self.options.guard.is_some() {
            if let Some(document) = self.options.guard.document(head.method(), &head.path_and_query().0) {
                return Err(Box::new(document.map(HttpBody::whole)));
            }
            checked = self.check_guard(head).await;
        }
        checked.and_then(|()| self.check_method(head)).map_err(|mut refusal| {
            if self.options.cors {
                CorsRequest::of(head).add_headers(&mut refusal, &self.options.access);
            }
            refusal
        })
    }

    fn check_access(&self, head: &RequestHead) -> Result<(), Box<HttpResponse>> {
        match self.options.access.check_request(head) {
            Err(denied) => Err(Box::new(self.deny(&denied))),
            Ok(()) if self.options.cors && CorsRequest::of(head).is_preflight(head.method()) => {
                Err(Box::new(response::empty(StatusCode::NO_CONTENT)))
            }
            Ok(()) => Ok(()),
        }
    }

    async fn check_guard(&self, head: &mut RequestHead) -> Result<(), Box<HttpResponse>> {
        let checked = self.options.guard.check(&head.guard_request()).await;
        match checked {
            Ok(principal) => {
                principal.into_iter().for_each(|principal| head.set_principal(principal));
                Ok(())
            }
            Err(rejection) => Err(Box::new(rejection.into_response().map(HttpBody::whole))),
        }
    }

    fn check_method(&self, head: &RequestHead) -> Result<BodyLimit, Box<HttpResponse>> {
        let max_bytes = self.options.max_body_bytes.min(self.limits().max_message_bytes);
        let limit = BodyLimit::new(max_bytes, self.options.body_timeout);
        match *head.method() {
            Method::POST if self.has_http_sse() && http_sse::is_message(head) => {
                self.http_sse_session(head).map(|_| limit)
            }
            Method::POST => check_post(head).map(|()| limit),
            _ => Ok(BodyLimit::unread()),
        }
    }

    /// Handles a request that passed the check.
    pub(super) async fn handle(&self, head: RequestHead, body: Result<Bytes, BodyError>) -> HttpResponse {
        let cors = self.options.cors.then(|| Box::new(CorsRequest::of(&head)));
        let mut response = match *head.method() {
            Method::POST if self.has_http_sse() && http_sse::is_message(&head) => {
                Box::pin(self.post_http_sse(head, body)).await
            }
            Method::POST => match self.classify_post(head, body) {
                Ok(PostKind::Stateless(request, version, meta, info)) => {
                    let dialect = Dialect::Stateless(version);
                    self.call(request, dialect, meta, info, stateless::status_of_error).await
                }
                Ok(PostKind::Boxed(response)) => response.await,
                Err(refusal) => *refusal,
            },
            Method::GET if self.has_http_sse() && http_sse::is_opening(&head) => self.open_http_sse(head),
            Method::GET if self.has_sessions() => Box::pin(self.get(head)).await,
            Method::DELETE if self.has_sessions() => Box::pin(self.delete(head)).await,
            _ if self.has_sessions() => response::method_not_allowed("GET, POST, DELETE"),
            _ => response::method_not_allowed("POST"),
        };
        if let Some(cors) = cors {
            cors.add_headers(&mut response, &self.options.access);
        }
        response
    }

    /// Determines the revision of the messages of a POST. Each POST is classified on its own, regardless of earlier
    /// requests.
    fn classify_post(
        &self,
        head: RequestHead,
        body: Result<Bytes, BodyError>,
    ) -> Result<PostKind<'_>, Box<HttpResponse>> {
        let bytes = body.map_err(|error| response::refuse(error.status(), error.to_string()))?;
        let incoming = Incoming::decode(bytes, self.limits().max_batch)
            .map_err(|invalid| response::error(StatusCode::BAD_REQUEST, invalid.id.as_ref(), &invalid.error))?;
        let incoming = match incoming {
            Incoming::One(Message::Request(request)) if self.speaks_with(Ability::Stateless) => {
                if let Some((claim, name)) = stateless::claim_of(&request) {
                    let (meta, mcp) = (claim.as_ref().ok().map(VersionClaim::meta), McpHeaders::of(&head));
                    let admitted = stateless::admit(&request, claim, name.as_ref(), &mcp, self.versions());
                    let version = admitted.map_err(|error| {
                        response::error(response::status_of_refusal(&error), Some(&request.id), &error)
                    })?;
                    return Ok(PostKind::Stateless(request, version, meta, HttpRequestInfo::mirroring(head)));
                }
                Incoming::One(Message::Request(request))
            }
            incoming => incoming,
        };
        Ok(PostKind::Boxed(match self.revision_of(&incoming, &head)? {
            PostRevision::Handshake(version) => Box::pin(self.post_older(incoming, version, head)),
            PostRevision::Stateless => Box::pin(self.notify(incoming, HttpRequestInfo::new(head))),
        }))
    }

    /// Returns the revision of messages without one in `_meta`:
    ///
    /// | `MCP-Protocol-Version` | with `Mcp-Session-Id` | without |
    /// |---|---|---|
    /// | of a revision with a handshake | that one | that one |
    /// | absent | assumed, with a handshake | the same, unless it is a request that older revisions cannot have |
    /// | stateless, known | assumed, with a handshake | stateless: a notification |
    /// | stateless, not known | refused | stateless: a notification |
    /// | not supported, or not readable | refused | refused |
    ///
    /// `initialize` always starts a session. Some clients send `Mcp-Method` in older revisions, too, so the session id
    /// takes precedence.
    fn revision_of(&self, incoming: &Incoming, head: &RequestHead) -> Result<PostRevision, Box<HttpResponse>> {
        let (mcp, id) = (McpHeaders::of(head), incoming.request_id());
        let bad_request = |error: &ErrorObject| Box::new(response::error(StatusCode::BAD_REQUEST, id, error));
        let in_session =
            head.lookup(KnownHeader::SessionId) != HeaderLookup::Absent && self.speaks_with(Ability::Handshake);
        let assumed = Ok(PostRevision::Handshake(ProtocolVersion::ASSUMED_OVER_HTTP));
        if let Incoming::One(Message::Request(request)) = incoming
            && &*request.method == Initialize::NAME
        {
            return Ok(PostRevision::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
        }
        match (mcp.named(self.versions()), incoming) {
            (NamedVersion::Handshake(version), _) => Ok(PostRevision::Handshake(version)),
            (NamedVersion::Unsupported(name), _) => Err(self.refuse_version(id, name).into()),
            (NamedVersion::Unreadable, _) => Err(unreadable_version(&mcp, id).into()),
            (NamedVersion::Stateless(name), _) if in_session && name.parse::<ProtocolVersion>().is_err() => {
                Err(self.refuse_version(id, name).into())
            }
            _ if in_session => assumed,
            (NamedVersion::Stateless(_), Incoming::One(Message::Request(_))) => {
                Err(bad_request(&missing_meta(key::PROTOCOL_VERSION)))
            }
            (NamedVersion::Stateless(_), Incoming::One(Message::Notification(_))) => Ok(PostRevision::Stateless),
            (NamedVersion::Stateless(_), _) => {
                let message = "the body must be one request or notification in this revision";
                Err(response::refuse(StatusCode::BAD_REQUEST, message).into())
            }
            (NamedVersion::Absent, Incoming::One(Message::Request(request)))
                if self.speaks_with(Ability::Stateless)
                    && (matches!(&*request.method, Discover::NAME | Listen::NAME)
                        || mcp.method != HeaderLookup::Absent) =>
            {
                Err(bad_request(&missing_meta(key::PROTOCOL_VERSION)))
            }
            (NamedVersion::Absent, _) => assumed,
        }
    }
}

/// Checks that the body is JSON, and that the client accepts JSON and event streams.
fn check_post(head: &RequestHead) -> Result<(), Box<HttpResponse>> {
    if let Err(problem) = headers::check_body(head) {
        return Err(Box::new(response::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, problem)));
    }
    if !headers::accepts_both(head) {
        let message = "responses are JSON or event streams: send \"Accept: application/json, text/event-stream\"";
        return Err(Box::new(response::refuse(StatusCode::NOT_ACCEPTABLE, message)));
    }
    Ok(())
}
