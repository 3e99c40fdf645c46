//! POST, GET and DELETE for clients of revisions with a session (basic/transports of 2025-03-26 to 2025-11-25).

use std::sync::Arc;

use http::StatusCode;
use http::header::HeaderName;
use turms_core::__internal::{dispatch, is_random_id, random_id};
use turms_core::store::{SessionRecord, StoreError};
use turms_core::{BoxFuture, CallContext, CloseReason, Payload, Peer, Principal, Request};
use turms_proto::header::{HeaderLookup, LAST_EVENT_ID, SESSION_ID};
use turms_proto::method::{Method as _, NotificationMethod as _};
use turms_proto::session::Dialect;
use turms_proto::types::{Initialize, InitializedNotification};
use turms_proto::{Ability, ErrorObject, Incoming, Message, Notification, ProtocolVersion, RawJson, RequestId};

use super::HttpSession;
use super::event_stream::StreamKind;
use super::post::{PostReply, PostedMessages};
use super::stream_reader::{StreamReader, StreamStart, parse_event_id};
use crate::server::options::SessionOptions;
use crate::server::request::RequestHead;
use crate::server::request::context::HttpRequestInfo;
use crate::server::request::headers::{KnownHeader, McpHeaders, NamedVersion, accepts_events, single};
use crate::server::response::{self, HttpBody, HttpResponse};
use crate::server::stream_limit::StreamPermit;
use crate::server::{HttpState, header_value, unreadable_version};

impl HttpState {
    /// Handles the messages of a POST in a revision with a handshake. `named` is the revision in the headers.
    pub(in crate::server) async fn post_older(
        &self,
        incoming: Incoming,
        named: ProtocolVersion,
        head: RequestHead,
    ) -> HttpResponse {
        let id = incoming.request_id().cloned();
        if !self.speaks_with(Ability::Handshake) {
            return self.refuse_older(&incoming, id.as_ref());
        }
        let Some(options) = &self.options.sessions else {
            return Box::pin(self.handle_legacy(incoming, named, &HttpRequestInfo::new(head))).await;
        };
        let incoming = match incoming {
            Incoming::One(Message::Request(request)) if &*request.method == Initialize::NAME => {
                return Box::pin(self.begin_session(request, options, head)).await;
            }
            incoming => incoming,
        };
        let session = match self.find_session(&head, options, id.as_ref()).await {
            Ok(session) => session,
            Err(answer) => return answer,
        };
        let principal = head.principal().cloned();
        let posted = PostedMessages { incoming, head, begins_in: None };
        let has_request = posted.has_request();
        // A call is not started if its response could not be delivered.
        let permit = match has_request.then(|| self.take_stream_permit(&session, id.as_ref())).transpose() {
            Ok(permit) => permit,
            Err(refusal) => return *refusal,
        };
        let reply = session.receive(posted, self.limits()).await;
        // A POST of only notifications completes the handshake, or is rare.
        if !has_request {
            session.shrink_memory();
        }
        self.respond_to_post(&session, reply, permit, id.as_ref(), principal.as_ref())
    }

    fn take_stream_permit(
        &self,
        session: &HttpSession,
        id: Option<&RequestId>,
    ) -> Result<StreamPermit, Box<HttpResponse>> {
        let max = session.options.max_streams;
        if session.state.lock().readers as usize >= max {
            let message = format!("at most {max} streams of a session can be open at once");
            return Err(Box::new(response::overloaded(StatusCode::TOO_MANY_REQUESTS, id, message)));
        }
        self.state.streams.take(self.options.max_streams).ok_or_else(|| {
            Box::new(response::overloaded(StatusCode::SERVICE_UNAVAILABLE, id, "too many streams are open"))
        })
    }

    fn respond_to_post(
        &self,
        session: &Arc<HttpSession>,
        reply: PostReply,
        permit: Option<StreamPermit>,
        id: Option<&RequestId>,
        principal: Option<&Principal>,
    ) -> HttpResponse {
        match (reply, permit) {
            (PostReply::Response { status, body }, _) => response::json(status, body),
            (PostReply::Forbidden { scopes, body }, _) => {
                let mut response = self.forbidden(principal, &scopes);
                *response.body_mut() = HttpBody::json(body);
                response
            }
            // A call that was let in may finish, so its stream does not end with the token.
            (PostReply::Stream(stream), Some(permit)) => {
                self.read_stream(session, stream, StreamStart::Fresh(0), permit, |_| None)
            }
            (PostReply::Gone, _) => no_session(id),
            (PostReply::Accepted | PostReply::Stream(_), _) => response::empty(StatusCode::ACCEPTED),
        }
    }

    async fn begin_session(
        &self,
        mut request: turms_proto::Request,
        options: &Arc<SessionOptions>,
        head: RequestHead,
    ) -> HttpResponse {
        let Some(place) = self.state.sessions.reserve(options.max_sessions) else {
            return too_many_sessions(options.max_sessions, &request.id);
        };
        // Copied, so that the record does not keep the buffer of the request in memory, and limited in length.
        let params = request.params.as_ref().map_or("{}", RawJson::as_str).to_owned();
        if params.len() > MAX_INITIALIZE_PARAMS {
            let error = ErrorObject::invalid_params(format!(
                "the parameters of initialize must not be longer than {MAX_INITIALIZE_PARAMS} bytes"
            ));
            return response::error(StatusCode::BAD_REQUEST, Some(&request.id), &error);
        }
        let client = RawJson::parse(params).unwrap_or_default();
        request.params = Some(client.clone());
        let id = request.id.clone();
        let Some(permit) = self.state.streams.take(self.options.max_streams) else {
            return response::overloaded(StatusCode::SERVICE_UNAVAILABLE, Some(&id), "too many streams are open");
        };
        let principal = head.principal().cloned();
        let session = HttpSession::new(random_id().into(), self.endpoint.service(), options.clone(), self.versions());
        let incoming = Incoming::One(Message::Request(request));
        let begins_in = Some(Arc::downgrade(&self.state.sessions));
        let reply = session.receive(PostedMessages { incoming, head, begins_in }, self.limits()).await;
        let Some(version) = session.state.lock().protocol.agreed() else {
            return self.respond_to_post(&session, reply, Some(permit), Some(&id), principal.as_ref());
        };
        let owner = principal.as_ref().map(|principal| principal.key().to_owned());
        let record = self.state.sessions.shared(SessionRecord::new(version, client).principal(owner));
        match options.sessions().insert(&session.id, record.clone(), options.store_ttl()).await {
            Ok(()) => {}
            Err(StoreError::CapacityExceeded { limit, .. }) => return too_many_sessions(limit, &id),
            Err(error) => {
                tracing::warn!(%error, "a session cannot be stored");
                return response::unavailable(Some(&id), "sessions cannot be stored at the moment");
            }
        }
        let _ = session.record.set(record);
        session.shrink_memory();
        let session = self.state.sessions.add(session, place);
        // It may have been refused while it was stored.
        self.state.sessions.remove_if_refused(&session).await;
        let mut answer = self.respond_to_post(&session, reply, Some(permit), Some(&id), principal.as_ref());
        answer.headers_mut().insert(HeaderName::from_static(SESSION_ID), header_value(&session.id));
        answer
    }

    /// Finds the session that a request names, if it belongs to the sender.
    async fn find_session(
        &self,
        head: &RequestHead,
        options: &Arc<SessionOptions>,
        id: Option<&RequestId>,
    ) -> Result<Arc<HttpSession>, HttpResponse> {
        let bad = |error| response::error(StatusCode::BAD_REQUEST, id, &error);
        let Some(named) = single(head.lookup(KnownHeader::SessionId), SESSION_ID).map_err(bad)? else {
            let message = "header \"mcp-session-id\" is missing: POST initialize and send the id from its response, or send the \
                           protocol version in params._meta, which requires no session";
            return Err(response::error(StatusCode::BAD_REQUEST, id, &ErrorObject::invalid_request(message)));
        };
        let owner = head.principal().map(Principal::key);
        let here = match self.state.sessions.get(named) {
            Some(session) => Some(session),
            None => Box::pin(self.load(named, head.principal(), options)).await.map_err(|error| match error {
                StoreError::CapacityExceeded { limit: max, .. } => {
                    let message = format!("no more than {max} sessions can be served here: try again later");
                    response::overloaded(StatusCode::SERVICE_UNAVAILABLE, id, message)
                }
                error => {
                    tracing::warn!(%error, "sessions cannot be looked up");
                    response::unavailable(id, "sessions cannot be looked up at the moment")
                }
            })?,
        };
        // A client cannot distinguish a session of another principal from a missing one.
        let Some(session) = here.filter(|session| session.principal() == owner) else { return Err(no_session(id)) };
        session.note_use();
        if let Some(principal) = head.principal() {
            session.handle.note_principal(principal);
        }
        // Another process that shares the store may have closed the session.
        let must_check_store = session.claim_touch() || options.sessions().is_shared();
        if must_check_store && !options.touch(&session.id).await {
            self.state.sessions.close(&session.id, options, CloseReason::Deleted).await;
            return Err(no_session(id));
        }
        Ok(session)
    }

    /// Loads a session that another process started, or this process before a restart.
    async fn load(
        &self,
        id: &str,
        owner: Option<&Principal>,
        options: &Arc<SessionOptions>,
    ) -> Result<Option<Arc<HttpSession>>, StoreError> {
        if !is_random_id(id) {
            return Ok(None);
        }
        let Some(record) = options.sessions().load(id).await? else { return Ok(None) };
        if record.principal.as_deref() != owner.map(Principal::key) {
            return Ok(None);
        }
        let Some(place) = self.state.sessions.reserve(options.max_sessions) else {
            return Err(StoreError::CapacityExceeded { what: "sessions", limit: options.max_sessions });
        };
        let session = HttpSession::resumed(id.into(), self.endpoint.service(), options.clone(), record.clone());
        // The handshake is replayed, so that the service knows the client.
        let dialect = Dialect::Handshake(record.version);
        let cx = || {
            let mut cx = CallContext::new(dialect, Peer::disconnected()).with_session(session.handle.clone());
            if let Some(owner) = owner {
                cx.insert_extension(owner.clone());
            }
            cx
        };
        let initialize = Request::raw(Initialize::NAME, Payload::json(record.client.clone()));
        if dispatch(&*session.service, initialize, cx()).await.is_err() {
            return Ok(None);
        }
        let initialized = Notification::raw(InitializedNotification::NAME, None);
        session.run_notification(initialized, cx()).await;
        let session = self.state.sessions.add(session, place);
        // The session may have been closed in the meantime.
        if options.sessions().load(id).await?.is_none() {
            self.state.sessions.close(id, options, CloseReason::Deleted).await;
            return Ok(None);
        }
        Ok(Some(session))
    }

    /// Opens a standalone stream, or resumes a stream after the last event that the client received.
    pub(in crate::server) async fn get(&self, request_head: RequestHead) -> HttpResponse {
        let Some(options) = &self.options.sessions else { return response::method_not_allowed("POST") };
        if !accepts_events(&request_head) {
            let message = "GET opens an event stream: send \"Accept: text/event-stream\"";
            return response::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let head = McpHeaders::of(&request_head);
        if let Some(answer) = self.refuse_named(&head, &request_head) {
            return answer;
        }
        let session = match self.find_session(&request_head, options, None).await {
            Ok(session) => session,
            Err(answer) => return answer,
        };
        match single(head.last_event, LAST_EVENT_ID) {
            Ok(Some(event)) => self.resume(&session, event, request_head.principal()).await,
            Ok(None) => self.listen(&session, request_head.principal()).await,
            Err(error) => response::error(StatusCode::BAD_REQUEST, None, &error),
        }
    }

    /// Rejects requests that name a revision without sessions, unless they name a session, too, which decides first.
    fn refuse_named(&self, head: &McpHeaders<'_>, request_head: &RequestHead) -> Option<HttpResponse> {
        let has_session = request_head.lookup(KnownHeader::SessionId) != HeaderLookup::Absent;
        match head.named(self.versions()) {
            NamedVersion::Absent | NamedVersion::Handshake(_) => None,
            NamedVersion::Stateless(named) if has_session && named.parse::<ProtocolVersion>().is_ok() => None,
            NamedVersion::Stateless(named) if has_session => Some(self.refuse_version(None, named)),
            NamedVersion::Stateless(_) => Some(response::method_not_allowed("POST")),
            NamedVersion::Unsupported(named) => Some(self.refuse_version(None, named)),
            NamedVersion::Unreadable => Some(unreadable_version(head, None)),
        }
    }

    async fn listen(&self, session: &Arc<HttpSession>, principal: Option<&Principal>) -> HttpResponse {
        let permit = match self.take_stream_permit(session, None) {
            Ok(permit) => permit,
            Err(answer) => return *answer,
        };
        let ending = |kind| self.get_end(principal, kind);
        // A standalone stream with undelivered events is read first.
        let waiting = {
            let state = session.state.lock();
            let mut standing = state.streams.iter();
            let left = standing.find(|(_, stream)| stream.kind == StreamKind::Standalone && stream.has_no_reader());
            left.map(|(id, stream)| (*id, stream.taken(), stream.last()))
        };
        if let Some((stream, taken, last)) = waiting {
            let is_kept = last == taken || session.has_event(stream, taken + 1).await;
            if is_kept {
                return self.read_stream(session, stream, StreamStart::Fresh(taken), permit, ending);
            }
            tracing::warn!(missed = last - taken, "undelivered events are no longer in the store");
            session.state.lock().end_if_done(stream);
        }
        let stream = session.state.lock().open_stream(StreamKind::Standalone);
        self.read_stream(session, stream, StreamStart::Fresh(0), permit, ending)
    }

    async fn resume(&self, session: &Arc<HttpSession>, event: &str, principal: Option<&Principal>) -> HttpResponse {
        let unknown =
            || response::refuse(StatusCode::BAD_REQUEST, format!("there is no event {event:?} in this session"));
        let Some((stream, number)) = parse_event_id(event) else { return unknown() };
        let last = session
            .state
            .lock()
            .streams
            .get(&stream)
            .filter(|open| open.kind != StreamKind::Remote)
            .map(|open| open.last());
        let begin = match last {
            Some(last) if number > last => return unknown(),
            Some(last) if number == last => StreamStart::After(number),
            Some(_) if session.has_event(stream, number + 1).await => StreamStart::After(number),
            Some(_) => return event_gone(event),
            None => match session.options.event_store.after(&session.id, stream, number, 1).await {
                Ok(events) if !events.is_empty() => StreamStart::Remote(number),
                Ok(_) => match session.options.event_store.after(&session.id, stream, 0, 1).await {
                    Ok(events) if events.is_empty() => return unknown(),
                    // There are no later events yet.
                    Ok(_) | Err(StoreError::NotFound) => StreamStart::Remote(number),
                    Err(error) => return events_unreadable(&error),
                },
                Err(StoreError::NotFound) => return event_gone(event),
                Err(error) => return events_unreadable(&error),
            },
        };
        match self.take_stream_permit(session, None) {
            Ok(permit) => self.read_stream(session, stream, begin, permit, |kind| self.get_end(principal, kind)),
            Err(answer) => *answer,
        }
    }

    /// Returns the future that ends the stream of a GET. The stream of a call stays open during a shutdown, so that the call may
    /// finish.
    fn get_end(&self, principal: Option<&Principal>, kind: StreamKind) -> Option<BoxFuture<'static, ()>> {
        self.stream_end(principal, kind != StreamKind::Call)
    }

    fn read_stream(
        &self,
        session: &Arc<HttpSession>,
        stream: u64,
        begin: StreamStart,
        permit: StreamPermit,
        ending: impl FnOnce(StreamKind) -> Option<BoxFuture<'static, ()>>,
    ) -> HttpResponse {
        match StreamReader::new(session, stream, begin, self.options.keep_alive, ending, permit) {
            Some(reader) => response::events(reader),
            None => no_session(None),
        }
    }

    pub(in crate::server) async fn delete(&self, head: RequestHead) -> HttpResponse {
        let Some(options) = &self.options.sessions else { return response::method_not_allowed("POST") };
        if let Some(answer) = self.refuse_named(&McpHeaders::of(&head), &head) {
            return answer;
        }
        match self.find_session(&head, options, None).await {
            Ok(session) => {
                self.state.sessions.close(&session.id, options, CloseReason::Deleted).await;
                response::empty(StatusCode::NO_CONTENT)
            }
            Err(answer) => answer,
        }
    }

    /// Rejects a request of an older revision, for a server that supports only stateless revisions.
    fn refuse_older(&self, incoming: &Incoming, id: Option<&RequestId>) -> HttpResponse {
        let asked = match incoming {
            Incoming::One(Message::Request(request)) if &*request.method == Initialize::NAME => {
                request.params.as_ref().and_then(|params| params.member("protocolVersion")?.decode::<String>().ok())
            }
            _ => None,
        };
        match asked {
            Some(asked) => self.refuse_version(id, &asked),
            None => {
                let error = turms_proto::session::missing_meta(turms_proto::types::key::PROTOCOL_VERSION);
                response::error(StatusCode::BAD_REQUEST, id, &error)
            }
        }
    }
}

/// Maximum length of the parameters of `initialize`, which are stored with the session.
const MAX_INITIALIZE_PARAMS: usize = 64 * 1024;

fn no_session(id: Option<&RequestId>) -> HttpResponse {
    let message = "there is no such session, or it has ended: start a new one with initialize";
    response::error(StatusCode::NOT_FOUND, id, &ErrorObject::invalid_request(message))
}

fn event_gone(event: &str) -> HttpResponse {
    response::refuse(StatusCode::GONE, format!("the events after {event:?} are no longer stored"))
}

fn events_unreadable(error: &StoreError) -> HttpResponse {
    tracing::warn!(%error, "events cannot be read");
    response::unavailable(None, "events cannot be read at the moment")
}

fn too_many_sessions(max: usize, id: &RequestId) -> HttpResponse {
    let message = format!("the limit of {max} sessions is reached: try again later");
    response::overloaded(StatusCode::SERVICE_UNAVAILABLE, Some(id), message)
}
