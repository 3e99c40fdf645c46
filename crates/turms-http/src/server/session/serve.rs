//! POST, GET and DELETE of clients of older revisions (basic/transports of 2025-03-26 to 2025-11-25).

use std::sync::Arc;

use http::StatusCode;
use http::header::HeaderName;
use http::request::Parts;
use turms_core::store::{SessionRecord, StoreError};
use turms_core::{Context, Guarded, GuardedNotify, Payload, Peer, Request};
use turms_proto::header::{LAST_EVENT_ID, SESSION_ID};
use turms_proto::method::{Method as _, Notification as _};
use turms_proto::session::Dialect;
use turms_proto::types::{Initialize, Initialized};
use turms_proto::{Ability, ErrorObject, Incoming, Message, ProtocolVersion, RawJson, RequestId};

use super::HttpSession;
use super::call::Turnout;
use super::stream::{EventReader, Stream, StreamKind, parse_event_id};
use crate::server::answer::{self, Answer};
use crate::server::head::{EVENT_STREAM, Head, Named, accepts, single};
use crate::server::options::SessionOptions;
use crate::server::{HttpService, extensions_of, header_value, principal_of};

impl HttpService {
    /// Takes messages of a revision with a handshake; `named` is the one that the headers name.
    pub(in crate::server) async fn take_older(
        &self,
        incoming: Incoming,
        named: ProtocolVersion,
        parts: Parts,
    ) -> Answer {
        let id = match &incoming {
            Incoming::One(Message::Request(request)) => Some(request.id.clone()),
            _ => None,
        };
        if !self.speaks_with(Ability::Handshake) {
            return self.refuse_older(&incoming, id.as_ref());
        }
        let Some(options) = &self.options.sessions else {
            return self.take_alone(incoming, named, parts).await;
        };
        let incoming = match incoming {
            Incoming::One(Message::Request(request)) if &*request.method == Initialize::NAME => {
                return self.begin_session(request, options, parts).await;
            }
            incoming => incoming,
        };
        let session = match self.session_of(&parts, options, id.as_ref()).await {
            Ok(session) => session,
            Err(answer) => return answer,
        };
        let turnout = session.receive(incoming, extensions_of(parts)).await;
        self.turn_out(&session, turnout, id.as_ref())
    }

    fn turn_out(&self, session: &Arc<HttpSession>, turnout: Turnout, id: Option<&RequestId>) -> Answer {
        match turnout {
            Turnout::Nothing => answer::empty(StatusCode::ACCEPTED),
            Turnout::Said(answer) => answer,
            Turnout::Stream(stream) => self.read_stream(session, stream, 0, true, id),
        }
    }

    async fn begin_session(
        &self,
        mut request: turms_proto::Request,
        options: &Arc<SessionOptions>,
        parts: Parts,
    ) -> Answer {
        if self.state.sessions.len() >= options.max {
            return full(options.max);
        }
        // What is remembered of it must not keep the buffer that it came in.
        let said = request.params.as_ref().map_or("{}", RawJson::as_str).to_owned();
        let client = RawJson::parse(said).unwrap_or_default();
        request.params = Some(client.clone());
        let incoming = Incoming::One(Message::Request(request));
        let principal = principal_of(&parts);
        let id: Arc<str> = new_id().into();
        let session = HttpSession::new(id, &self.service, options.clone(), self.service.versions());
        let turnout = session.receive(incoming, extensions_of(parts)).await;
        let Some(version) = session.state().protocol.agreed() else {
            return self.turn_out(&session, turnout, None);
        };
        let record = Arc::new(SessionRecord::new(version, client).principal(principal));
        match options.store.insert(&session.id, record.clone(), options.idle).await {
            Ok(()) => {}
            Err(StoreError::Full(max)) => return full(max),
            Err(error) => {
                tracing::warn!(%error, "a session cannot be kept");
                return answer::overloaded(StatusCode::SERVICE_UNAVAILABLE, None, "sessions cannot be kept now");
            }
        }
        let _ = session.record.set(record);
        let session = self.state.sessions.add(session);
        let mut answer = self.turn_out(&session, turnout, None);
        answer.headers_mut().insert(HeaderName::from_static(SESSION_ID), header_value(&session.id));
        answer
    }

    /// The session that a request names, if it is there and theirs.
    async fn session_of(
        &self,
        parts: &Parts,
        options: &Arc<SessionOptions>,
        id: Option<&RequestId>,
    ) -> Result<Arc<HttpSession>, Answer> {
        let bad = |error| answer::error(StatusCode::BAD_REQUEST, id, &error);
        let Some(named) = single(Head::of(&parts.headers).session, SESSION_ID).map_err(bad)? else {
            let message =
                "header \"mcp-session-id\" is missing: begin with initialize, and send the id that its answer has";
            return Err(answer::error(StatusCode::BAD_REQUEST, id, &ErrorObject::invalid_request(message)));
        };
        let here = match self.state.sessions.get(named) {
            Some(session) => Some(session),
            None => self.take_up(named, options).await.map_err(|error| {
                tracing::warn!(%error, "sessions cannot be looked up");
                answer::overloaded(StatusCode::SERVICE_UNAVAILABLE, id, "sessions cannot be looked up now")
            })?,
        };
        // Whoever is not its owner learns no more than that it is not theirs.
        let theirs = here.filter(|session| session.principal() == principal_of(parts).as_deref());
        if let Some(session) = theirs
            && self.is_still_there(&session, options).await
        {
            return Ok(session);
        }
        let message = "there is no such session, or it has ended: begin a new one with initialize";
        Err(answer::error(StatusCode::NOT_FOUND, id, &ErrorObject::invalid_request(message)))
    }

    /// Takes note that a session is used. Where others share the store, they may have ended it.
    async fn is_still_there(&self, session: &Arc<HttpSession>, options: &Arc<SessionOptions>) -> bool {
        let is_due = session.touch();
        if !is_due && !options.store.is_shared() {
            return true;
        }
        // A store that fails now has not forgotten the session.
        let is_there = options.store.touch(&session.id, options.idle).await.unwrap_or(true);
        if !is_there {
            self.state.sessions.close(&session.id, options).await;
        }
        is_there
    }

    /// A session that another process has begun, or this one before it was started anew.
    async fn take_up(&self, id: &str, options: &Arc<SessionOptions>) -> Result<Option<Arc<HttpSession>>, StoreError> {
        let Some(record) = options.store.load(id).await? else { return Ok(None) };
        let session = HttpSession::resumed(id.into(), &self.service, options.clone(), record.clone());
        // The service gets to know the client as if it had shaken hands just now.
        let dialect = Dialect::Handshake(record.version);
        let cx = || Context::new(dialect, Peer::nobody());
        let hello = Request::raw(Initialize::NAME, Payload::raw(record.client.clone()));
        if Guarded::call(|| session.service.call(hello, cx())).await.is_err() {
            return Ok(None);
        }
        GuardedNotify::new(|| session.service.notify(Initialized::NAME.into(), None, cx())).await;
        Ok(Some(self.state.sessions.add(session)))
    }

    /// Opens a stream for what belongs to no call, or takes one up after the last event that was seen of it.
    pub(in crate::server) async fn get(&self, parts: Parts) -> Answer {
        let Some(options) = &self.options.sessions else { return answer::method_not_allowed("POST") };
        if !accepts(&parts.headers, EVENT_STREAM) {
            let message = "GET opens a stream of events: send \"Accept: text/event-stream\"";
            return answer::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let head = Head::of(&parts.headers);
        if let Some(answer) = self.refuse_named(&head) {
            return answer;
        }
        let session = match self.session_of(&parts, options, None).await {
            Ok(session) => session,
            Err(answer) => return answer,
        };
        match single(head.last_event, LAST_EVENT_ID) {
            Ok(Some(event)) => self.resume(&session, event).await,
            Ok(None) => self.listen(&session),
            Err(error) => answer::error(StatusCode::BAD_REQUEST, None, &error),
        }
    }

    /// Only clients of older revisions have sessions.
    fn refuse_named(&self, head: &Head<'_>) -> Option<Answer> {
        match head.named(self.service.versions()) {
            Named::Older(_) => None,
            Named::Newest => Some(answer::method_not_allowed("POST")),
            Named::Unknown(named) => Some(self.refuse_version(None, named)),
        }
    }

    fn listen(&self, session: &Arc<HttpSession>) -> Answer {
        let (stream, taken) = {
            let mut state = session.state();
            // What waits for somebody to listen is heard first.
            let waiting = state
                .streams
                .iter()
                .find(|(_, stream)| stream.kind() == StreamKind::Standalone && stream.has_no_reader());
            match waiting.map(|(id, stream)| (*id, stream.taken())) {
                Some(found) => found,
                None => (state.open_stream(StreamKind::Standalone), 0),
            }
        };
        self.read_stream(session, stream, taken, true, None)
    }

    async fn resume(&self, session: &Arc<HttpSession>, event: &str) -> Answer {
        let unknown =
            || answer::refuse(StatusCode::BAD_REQUEST, format!("there is no event {event:?} in this session"));
        let Some((stream, number)) = parse_event_id(event) else { return unknown() };
        let here = session.state().streams.get(&stream).map(|open| open.is_remote() || number <= open.last());
        match here {
            Some(true) => {}
            Some(false) => return unknown(),
            None => match session.options.events.after(&session.id, stream, 0, 1).await {
                Ok(events) if events.is_empty() => return unknown(),
                // Another process speaks on it, or has spoken.
                _ => drop(session.state().streams.entry(stream).or_insert_with(Stream::remote)),
            },
        }
        match session.options.events.after(&session.id, stream, number, 1).await {
            Ok(_) => self.read_stream(session, stream, number, false, None),
            Err(StoreError::Gone) => {
                let message = format!("what came after the event {event:?} is not kept any more");
                answer::refuse(StatusCode::GONE, message)
            }
            Err(error) => {
                tracing::warn!(%error, "events cannot be read");
                answer::overloaded(StatusCode::SERVICE_UNAVAILABLE, None, "events cannot be read now")
            }
        }
    }

    fn read_stream(
        &self,
        session: &Arc<HttpSession>,
        stream: u64,
        after: u64,
        is_new: bool,
        id: Option<&RequestId>,
    ) -> Answer {
        if session.state().readers >= session.options.max_streams {
            let message = format!("at most {} streams of a session can be open at once", session.options.max_streams);
            return answer::overloaded(StatusCode::TOO_MANY_REQUESTS, id, message);
        }
        let Some(permit) = self.state.streams.take(self.options.max_streams) else {
            return answer::overloaded(StatusCode::SERVICE_UNAVAILABLE, id, "too many streams are open");
        };
        match EventReader::new(session, stream, after, self.options.keep_alive, is_new, self.ending(), permit) {
            Some(reader) => answer::events(reader),
            None => answer::refuse(StatusCode::NOT_FOUND, "the session has ended"),
        }
    }

    pub(in crate::server) async fn delete(&self, parts: &Parts) -> Answer {
        let Some(options) = &self.options.sessions else { return answer::method_not_allowed("POST") };
        if let Some(answer) = self.refuse_named(&Head::of(&parts.headers)) {
            return answer;
        }
        match self.session_of(parts, options, None).await {
            Ok(session) => {
                self.state.sessions.close(&session.id, options).await;
                answer::empty(StatusCode::NO_CONTENT)
            }
            Err(answer) => answer,
        }
    }

    /// A server of the newest revision alone says so.
    fn refuse_older(&self, incoming: &Incoming, id: Option<&RequestId>) -> Answer {
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
                answer::error(StatusCode::BAD_REQUEST, id, &error)
            }
        }
    }
}

fn full(max: usize) -> Answer {
    let message = format!("there are {max} sessions already, which is as many as this server keeps; try again later");
    answer::overloaded(StatusCode::SERVICE_UNAVAILABLE, None, message)
}

/// An id that nobody can guess.
pub(in crate::server) fn new_id() -> String {
    let mut bytes = [0_u8; 16];
    // Without randomness there is no safety, so there is no server either.
    getrandom::fill(&mut bytes).expect("the system has randomness");
    base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, bytes)
}
