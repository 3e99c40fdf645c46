//! The state machine of a duplex connection (pipes, sockets, memory), one for both sides.
//!
//! It holds no bytes, no clock and no task. A driver gives it decoded messages and the time, takes [`Event`]s out, and sends
//! what they say. What a driver needs to know it asks: the [`Status`], the dialect, the next deadline, the [`Stats`].
//!
//! # A second `initialize`
//! A connection may carry several sessions, one after another: a bridge keeps one server process and connects clients to it
//! in turn. On the server's side, a valid `initialize` ends the earlier session and begins a new one:
//! - Requests of the earlier session that are still running are cancelled ([`Event::Cancelled`]) and answered with an error before the
//!   response to `initialize`. A request whose id the new `initialize` has is not answered: the id has a new meaning.
//! - Requests of this side that have no response end with [`RequestError::Closed`]; late responses are ignored.
//! - [`Event::SessionEnded`] follows: whatever else belongs to the earlier session (subscriptions, log level) ends.
//!
//! Requests that name their protocol version in `_meta` belong to no session and go on. An `initialize` that is refused because
//! its parameters or its version are invalid ends nothing.
//!
//! ```
//! use std::time::Instant;
//! use turms_proto::session::{ClientOptions, Event, Session};
//! use turms_proto::types::{ClientCapabilities, Implementation};
//!
//! # #[allow(clippy::disallowed_methods)]
//! let now = Instant::now();
//! let options = ClientOptions::new(Implementation::new("my-app", "1.0.0"), ClientCapabilities::new());
//! let mut session = Session::<&str>::client(options);
//! session.open(now);
//! let Some(Event::Send(probe)) = session.next_event() else { panic!("nothing to send") };
//! let mut line = Vec::new();
//! session.encode(&probe, &mut line);
//! assert!(line.starts_with(br#"{"jsonrpc":"2.0","id":1,"method":"server/discover""#));
//! ```

mod admission;
mod event;
mod opening;
mod pending;
mod running;
mod stats;

use std::collections::VecDeque;
use std::time::Instant;

use bytestring::ByteString;

use self::admission::Admission;
pub use self::admission::{VersionClaim, missing_meta, unsupported_version};
pub use self::event::{Call, Dialect, Event, OpenError, Opened, RequestError, SessionError};
pub use self::opening::{ClientOptions, VersionChoice};
use self::opening::{Open, Opening, Question, Step};
use self::pending::Pending;
pub use self::pending::RequestOptions;
pub use self::running::Ticket;
use self::running::{Kind, Running};
pub use self::stats::Stats;
use crate::jsonrpc::{
    ErrorObject, Incoming, InvalidKind, InvalidMessage, LineTooLong, Message, Notification, Request, RequestId,
    Response, encode,
};
use crate::method::{Method as _, Notification as _};
use crate::revision::unexpected_batch;
use crate::types::{
    Cancelled, CancelledParams, Initialize, Initialized, Listen, Meta, Ping, Progress, ProgressParams, RequestMeta, key,
};
use crate::{Ability, Object, ProtocolVersion, RawJson};

/// How a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// Nothing has been tried.
    Disconnected,
    /// The transport is there, or about to be, and nobody has spoken.
    Connecting,
    /// The two sides are finding out how to speak.
    Initializing,
    /// Requests may be made.
    Ready,
    /// It is over.
    Closed,
}

/// One side of a connection. `T` is whatever the caller wants back with the answer to a request of its own.
#[derive(Debug)]
pub struct Session<T> {
    status: Status,
    side: Side,
    /// What a handshake has agreed on.
    agreed: Option<ProtocolVersion>,
    /// How we speak when we ask.
    dialect: Option<Dialect>,
    pending: Pending<Owner<T>>,
    running: Running,
    events: VecDeque<Event<T>>,
    stats: Stats,
}

#[derive(Debug)]
enum Side {
    Client(Box<dyn Open>),
    Server(Admission),
}

/// Who waits for an answer.
#[derive(Debug)]
enum Owner<T> {
    Caller(T, Instant),
    Opening(Question),
}

impl<T> Session<T> {
    /// The side that asks first.
    #[must_use]
    pub fn client(options: ClientOptions) -> Self {
        Self::new(Side::Client(Box::new(Opening::new(options))))
    }

    /// The side that is asked, in one of `versions`.
    #[must_use]
    pub fn server(versions: &[ProtocolVersion]) -> Self {
        Self::new(Side::Server(Admission::new(versions)))
    }

    /// A server's side that has shaken hands already, elsewhere or earlier.
    #[must_use]
    pub fn resumed(version: ProtocolVersion) -> Self {
        let mut session = Self::server(&[version]);
        session.agreed = Some(version);
        session.dialect = Some(Dialect::Handshake(version));
        session.status = Status::Ready;
        session
    }

    /// The revision that a handshake has agreed on.
    #[must_use]
    pub fn agreed(&self) -> Option<ProtocolVersion> {
        self.agreed
    }

    fn new(side: Side) -> Self {
        Self {
            status: Status::Disconnected,
            side,
            agreed: None,
            dialect: None,
            pending: Pending::new(),
            running: Running::default(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// How the connection stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// How this side speaks when it asks, once that is settled.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// What has happened so far.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// How many requests of ours have no answer yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The ids of the requests of ours that have no answer yet.
    pub fn pending_ids(&self) -> impl Iterator<Item = RequestId> {
        self.pending.ids()
    }

    /// Writes several requests as one array where the peer's revision has batches; false if it has not.
    pub fn encode_requests(&mut self, requests: &[Request], out: &mut Vec<u8>) -> bool {
        if !self.agreed.is_some_and(|version| version.has(Ability::Batching)) {
            return false;
        }
        let start = out.len();
        for (index, request) in requests.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            request.encode(out);
        }
        out.push(b']');
        self.count_sent(out.len() - start);
        true
    }

    /// How many requests of the peer's we have not answered yet.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Whether a request of the peer's has not been answered, nor given up.
    #[must_use]
    pub fn is_running(&self, ticket: &Ticket) -> bool {
        self.running.holds(ticket)
    }

    /// What the request `id` was made with.
    #[must_use]
    pub fn owner(&self, id: &RequestId) -> Option<&T> {
        match &self.pending.get(id)?.owner {
            Owner::Caller(owner, _) => Some(owner),
            Owner::Opening(_) => None,
        }
    }

    /// The transport is being set up.
    pub fn connecting(&mut self) {
        if self.status == Status::Disconnected {
            self.status = Status::Connecting;
        }
    }

    /// The transport is there: a client finds out how to speak, a server waits to be spoken to.
    pub fn open(&mut self, now: Instant) {
        match &mut self.side {
            Side::Server(_) => self.connecting(),
            // Once opened, or closed, it stays so.
            Side::Client(_) if !matches!(self.status, Status::Disconnected | Status::Connecting) => {}
            Side::Client(opening) => {
                self.status = Status::Initializing;
                let step = opening.begin();
                self.take_step(step, now);
            }
        }
    }

    /// Makes a request. Send what comes back; [`Event::Answered`] will bring `owner` back with the outcome.
    ///
    /// # Errors
    /// When the connection does not allow requests now.
    pub fn request(
        &mut self,
        method: impl Into<ByteString>,
        params: Option<RawJson>,
        options: RequestOptions,
        owner: T,
        now: Instant,
    ) -> Result<Request, SessionError> {
        let method = method.into();
        self.may_request(&method)?;
        let id = self.pending.insert(Owner::Caller(owner, now), kind_of(&method), options, now);
        self.stats.requests_sent += 1;
        let params = if options.progress { Some(with_progress_token(params.as_ref(), id)) } else { params };
        Ok(Request::raw(id, method, params))
    }

    /// What every request of a client without a handshake has to say in its `_meta`; `None` on other connections. A session
    /// does not add it: parameters go out as they are given.
    #[must_use]
    pub fn request_meta(&self) -> Option<RequestMeta> {
        match (&self.side, self.dialect) {
            (Side::Client(opening), Some(Dialect::Stateless(version))) => Some(opening.request_meta(version)),
            _ => None,
        }
    }

    /// Tells the peer something. Send what comes back.
    ///
    /// # Errors
    /// When the connection is closed.
    pub fn notify(
        &mut self,
        method: impl Into<ByteString>,
        params: Option<RawJson>,
    ) -> Result<Notification, SessionError> {
        if self.status == Status::Closed {
            return Err(SessionError::Closed);
        }
        self.stats.notifications_sent += 1;
        Ok(Notification::raw(method, params))
    }

    /// Gives up a request of ours: its owner comes back, the peer is told, and a late answer is passed over. `None` if it is
    /// answered already, or is the handshake, which cannot be given up.
    pub fn cancel(&mut self, id: &RequestId, reason: Option<&str>) -> Option<T> {
        self.pending.get(id).filter(|entry| entry.cancellable)?;
        let entry = self.pending.remove(id)?;
        let Owner::Caller(owner, _) = entry.owner else {
            return None;
        };
        self.stats.cancelled += 1;
        self.tell_cancelled(id, reason);
        Some(owner)
    }

    /// Gives up a request of ours that the transport could not carry: its owner comes back, and nobody is told. `None` if it
    /// is answered already.
    pub fn fail(&mut self, id: &RequestId) -> Option<T> {
        let Owner::Caller(owner, _) = self.pending.remove(id)?.owner else { return None };
        self.stats.failed += 1;
        Some(owner)
    }

    /// Takes what one transmission held.
    pub fn receive(&mut self, incoming: Result<Incoming, InvalidMessage>, now: Instant) {
        if self.status == Status::Closed {
            self.stats.ignored += 1;
            return;
        }
        match incoming {
            Ok(Incoming::One(message)) => self.receive_message(message, None, now),
            Ok(Incoming::Batch(messages)) => self.receive_batch(messages, now),
            Err(invalid) => self.receive_invalid(invalid, None, now),
        }
    }

    /// As [`Session::receive`], but a request that stands alone comes back at once rather than as an [`Event::Request`].
    pub fn receive_call(&mut self, incoming: Result<Incoming, InvalidMessage>, now: Instant) -> Option<Call> {
        match incoming {
            // What has come of earlier messages is seen to first.
            Ok(Incoming::One(Message::Request(request))) if self.status != Status::Closed && self.events.is_empty() => {
                let call = self.receive_request(request, None)?;
                if self.events.is_empty() {
                    return Some(call);
                }
                // It has ended the session before, and what came of that is seen to first.
                self.events.push_back(Event::Request(Box::new(call)));
                None
            }
            incoming => {
                self.receive(incoming, now);
                None
            }
        }
    }

    /// Takes note of a message that was longer than the limit.
    ///
    /// A request of ours fails at once with [`RequestError::TooLong`] if the message has its id. A message that may be a response
    /// but whose id is not known fails all requests that a client has made, but for subscriptions: one of them has got its
    /// response, and it cannot be said which. A request of the peer's is refused, a notification is lost.
    pub fn receive_too_long(&mut self, too_long: LineTooLong, now: Instant) {
        if self.status == Status::Closed {
            self.stats.ignored += 1;
            return;
        }
        self.stats.parse_errors += 1;
        let (is_client, limit) = (matches!(self.side, Side::Client(_)), too_long.limit);
        let error = ErrorObject::invalid_request(too_long.to_string());
        match (too_long.kind, too_long.id) {
            (InvalidKind::Response, Some(id)) if is_client || self.pending.get(&id).is_some() => {
                self.settle(&id, Err(RequestError::TooLong { limit }), now);
            }
            (InvalidKind::Response, None) if is_client => {
                let ids: Vec<_> = self.pending.ids().collect();
                for id in ids {
                    if self.pending.get(&id).is_some_and(|entry| !entry.lasting) {
                        self.settle(&id, Err(RequestError::TooLong { limit }), now);
                    }
                }
            }
            (InvalidKind::Notification, _) => self.stats.ignored += 1,
            (_, id) => self.refuse(Response { id, outcome: Err(error) }, None),
        }
    }

    /// The next thing that came of it all.
    pub fn next_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// Answers a request of the peer.
    pub fn answer(&mut self, ticket: &Ticket, outcome: Result<RawJson, ErrorObject>) {
        let (succeeded, position) = (outcome.is_ok(), self.events.len());
        let action = self.complete(ticket, succeeded);
        let response = Response::new(ticket.id().clone(), outcome);
        match action {
            // The response leaves before what its end has led to.
            ResponseAction::Send => self.events.insert(position, Event::Send(Message::Response(response))),
            ResponseAction::Collect(batch) => self.collect(batch, response),
            ResponseAction::Drop => {}
        }
    }

    /// Ends a request of the peer, and returns what to do with its response. For drivers that write responses into their own buffer,
    /// before they look for events; `succeeded` is `true` if the response is a result.
    pub fn complete(&mut self, ticket: &Ticket, succeeded: bool) -> ResponseAction {
        let Some((kind, batch)) = self.running.finish(ticket) else { return ResponseAction::Drop };
        if let Side::Server(admission) = &mut self.side
            && admission.handshake_answered(ticket.id())
            && !succeeded
        {
            // A refused handshake agrees on nothing; the client may try again.
            self.agreed = None;
            self.dialect = None;
            self.status = Status::Connecting;
        }
        // The end of a listen request is a result by the page on subscriptions of 2026-07-28, and a notification by the page on
        // cancellation.
        if kind == Kind::Listen && succeeded {
            self.tell_cancelled(ticket.id(), None);
        }
        batch.map_or(ResponseAction::Send, |batch| ResponseAction::Collect(BatchId(batch)))
    }

    /// Adds the response to a request that came in a batch.
    pub fn collect(&mut self, BatchId(batch): BatchId, response: Response) {
        self.running.collect(batch, response, true);
        if let Some(responses) = self.running.take_complete(batch) {
            self.events.push_back(Event::SendBatch(responses));
        }
    }

    /// When [`Session::expire`] is next to be called.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.pending.next_deadline()
    }

    /// Gives up what has waited too long.
    pub fn expire(&mut self, now: Instant) {
        while let Some((id, entry)) = self.pending.expired(now) {
            match entry.owner {
                Owner::Opening(question) => self.opening_timed_out(&id, question, now),
                Owner::Caller(_, since) => {
                    self.stats.timed_out += 1;
                    if entry.cancellable {
                        self.tell_cancelled(&id, Some("timed out"));
                    }
                    let outcome = Err(entry.timed_out(now.saturating_duration_since(since)));
                    let Owner::Caller(owner, _) = entry.owner else { continue };
                    self.events.push_back(Event::Answered { owner, id, outcome });
                }
            }
        }
    }

    /// Ends the connection: everybody who waits hears of it, everything that runs is forgotten.
    pub fn close(&mut self) {
        self.status = Status::Closed;
        self.running.clear();
        self.give_up_pending();
    }

    /// The peer will say nothing any more: everybody who waits hears of it, and what lasts until it says otherwise is over.
    /// What else it asked may still be answered.
    pub fn peer_has_gone(&mut self) {
        for ticket in self.running.take_lasting() {
            self.stats.cancelled += 1;
            self.events.push_back(Event::Cancelled { ticket, reason: None });
        }
        self.give_up_pending();
    }

    fn give_up_pending(&mut self) {
        let mut opening = false;
        for (id, entry) in self.pending.drain() {
            self.stats.failed += 1;
            match entry.owner {
                Owner::Caller(owner, _) => {
                    let outcome = Err(RequestError::Closed);
                    self.events.push_back(Event::Answered { owner, id, outcome });
                }
                Owner::Opening(_) => opening = true,
            }
        }
        if opening {
            self.events.push_back(Event::OpenFailed(OpenError::Closed));
        }
    }

    /// Gives back the memory that is not needed while nothing happens. For drivers that keep many sessions that mostly rest.
    pub fn rest(&mut self) {
        self.events.shrink_to_fit();
        self.running.rest();
        self.pending.rest();
    }

    /// Writes a message as the peer's revision wants it, and counts it.
    pub fn encode(&mut self, message: &Message, out: &mut Vec<u8>) {
        let start = out.len();
        let null_id = self.agreed.is_some_and(|version| !version.has(Ability::IdlessErrors));
        match message {
            Message::Response(Response { id: None, outcome: Err(error) }) if null_id => {
                encode::failure_with_null_id(out, error);
            }
            _ => message.encode(out),
        }
        self.count_sent(out.len() - start);
    }

    /// Writes the answers to a batch as one array, and counts them.
    pub fn encode_batch(&mut self, responses: &[Response], out: &mut Vec<u8>) {
        let start = out.len();
        for (index, response) in responses.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            match &response.outcome {
                // Batches belong to a revision whose schema demands an id.
                Err(error) if response.id.is_none() => encode::failure_with_null_id(out, error),
                _ => response.encode(out),
            }
        }
        out.push(b']');
        self.count_sent(out.len() - start);
    }

    /// Counts bytes that were sent without [`Session::encode`].
    pub fn count_sent(&mut self, bytes: usize) {
        self.stats.bytes_sent += bytes as u64;
    }

    /// Counts bytes that were received.
    pub fn count_received(&mut self, bytes: usize) {
        self.stats.bytes_received += bytes as u64;
    }

    /// Whether a request of this method may be made now.
    ///
    /// # Errors
    /// Saying why not.
    pub fn may_request(&self, method: &str) -> Result<(), SessionError> {
        match (self.status, self.dialect, &self.side) {
            (Status::Closed, ..) => Err(SessionError::Closed),
            // Both sides may see whether the other is there, even before the handshake is done.
            (Status::Initializing, ..) if method == Ping::NAME => Ok(()),
            (Status::Ready, Some(_), Side::Client(_)) => Ok(()),
            (Status::Ready, Some(dialect), Side::Server(_)) if dialect.version().has(Ability::ServerRequests) => Ok(()),
            (Status::Ready, _, Side::Server(_)) => Err(SessionError::NoServerRequests),
            _ => Err(SessionError::NotReady),
        }
    }

    fn receive_batch(&mut self, messages: Vec<Result<Message, InvalidMessage>>, now: Instant) {
        if !self.agreed.is_some_and(|version| version.has(Ability::Batching)) {
            self.stats.parse_errors += 1;
            self.refuse(Response::without_id(unexpected_batch()), None);
            return;
        }
        let batch = self.running.open_batch();
        for message in messages {
            match message {
                Ok(message) => self.receive_message(message, Some(batch), now),
                Err(invalid) => self.receive_invalid(invalid, Some(batch), now),
            }
        }
        if let Some(responses) = self.running.close_batch(batch) {
            self.events.push_back(Event::SendBatch(responses));
        }
    }

    fn receive_message(&mut self, message: Message, batch: Option<u64>, now: Instant) {
        match message {
            Message::Request(request) => {
                let call = self.receive_request(request, batch);
                self.events.extend(call.map(|call| Event::Request(Box::new(call))));
            }
            Message::Notification(notification) => self.receive_notification(notification, now),
            Message::Response(response) => self.receive_response(response, now),
        }
    }

    fn receive_invalid(&mut self, invalid: InvalidMessage, batch: Option<u64>, now: Instant) {
        self.stats.parse_errors += 1;
        // What a server gives an id and nothing to do may have been meant as an answer.
        let perhaps_answer = matches!(self.side, Side::Client(_)) && invalid.kind == InvalidKind::Unreadable;
        match invalid.id {
            // Whoever waits for this answer waits in vain otherwise.
            Some(id) if perhaps_answer || !invalid.wants_answer() => {
                self.settle(&id, Err(RequestError::Invalid(invalid.error.message)), now);
            }
            id if invalid.wants_answer() => self.refuse(Response { id, outcome: Err(*invalid.error) }, batch),
            _ => {}
        }
    }

    fn receive_request(&mut self, request: Request, batch: Option<u64>) -> Option<Call> {
        self.stats.requests_received += 1;
        let meta = request.params.as_ref().and_then(RawJson::meta);
        match self.admit(&request, meta.as_ref(), batch) {
            Ok(dialect) => {
                let meta = meta.and_then(RawJson::into_object).map(Meta::from);
                let in_session = matches!(dialect, Dialect::Handshake(_));
                let ticket = self.running.insert(request.id.clone(), kind_of(&request.method), in_session, batch);
                Some(Call { request, dialect, ticket, meta })
            }
            Err(error) => {
                self.refuse(Response::new(request.id, Err(error)), batch);
                None
            }
        }
    }

    /// Decides whether a request is accepted, and in which dialect. Only `initialize` changes the dialect of a connection after its
    /// handshake.
    fn admit(&mut self, request: &Request, meta: Option<&RawJson>, batch: Option<u64>) -> Result<Dialect, ErrorObject> {
        let may_begin = matches!(self.side, Side::Server(_)) && &*request.method == Initialize::NAME;
        // The ids of a session are free again once `initialize` has ended it.
        if self.running.contains(&request.id) && !(may_begin && self.running.is_in_session(&request.id)) {
            return Err(ErrorObject::invalid_request(format!(
                "the id {} is in use by a request in flight",
                request.id
            )));
        }
        match &mut self.side {
            Side::Client(_) => admission::admit_on_client(request, self.dialect),
            Side::Server(_) if batch.is_some() && may_begin => {
                Err(ErrorObject::invalid_request("initialize cannot be part of a batch"))
            }
            Side::Server(admission) => {
                let dialect = admission.admit(request, meta, self.agreed)?;
                match dialect {
                    Dialect::Handshake(version) if may_begin => {
                        if self.agreed.is_some() {
                            self.end_session(&request.id);
                        }
                        self.agreed = Some(version);
                        self.dialect = Some(dialect);
                        self.status = Status::Initializing;
                    }
                    Dialect::Stateless(_) if self.agreed.is_none() => {
                        self.dialect = Some(dialect);
                        self.status = Status::Ready;
                    }
                    _ => {}
                }
                Ok(dialect)
            }
        }
    }

    /// Ends the session that was agreed on, because the request `initialize` begins another one.
    fn end_session(&mut self, initialize: &RequestId) {
        for (ticket, batch) in self.running.take_session() {
            self.stats.cancelled += 1;
            let error = ErrorObject::internal("the session has ended: the client has sent initialize again");
            let response = Response::new(ticket.id().clone(), Err(error));
            let is_reused = ticket.id() == initialize;
            self.events.push_back(Event::Cancelled { ticket, reason: None });
            match batch {
                Some(batch) => {
                    self.running.leave_batch(batch, (!is_reused).then_some(response));
                    self.events.extend(self.running.take_complete(batch).map(Event::SendBatch));
                }
                None if is_reused => {}
                None => self.send(Message::Response(response)),
            }
        }
        self.give_up_pending();
        self.events.push_back(Event::SessionEnded);
    }

    fn receive_notification(&mut self, notification: Notification, now: Instant) {
        self.stats.notifications_received += 1;
        match &*notification.method {
            Cancelled::NAME => self.receive_cancelled(&notification, now),
            Progress::NAME => self.receive_progress(notification, now),
            Initialized::NAME => {
                if self.agreed.is_some() && self.status == Status::Initializing {
                    self.status = Status::Ready;
                }
                self.events.push_back(Event::Notification(notification));
            }
            _ => match self.subscription_of(&notification) {
                Some(id) => self.events.push_back(Event::Told { id, notification }),
                None => self.events.push_back(Event::Notification(notification)),
            },
        }
    }

    /// The listen request of ours that a notification belongs to.
    fn subscription_of(&self, notification: &Notification) -> Option<RequestId> {
        if !self.pending.has_lasting() {
            return None;
        }
        let id = notification.params.as_ref()?.meta()?.member(key::SUBSCRIPTION_ID)?.decode().ok()?;
        self.pending.get(&id).filter(|entry| entry.lasting).map(|_| id)
    }

    fn receive_cancelled(&mut self, notification: &Notification, now: Instant) {
        let params = notification.params::<Cancelled>().unwrap_or_default();
        let Some(id) = params.request_id else {
            self.stats.ignored += 1;
            return;
        };
        if self.pending.get(&id).is_some_and(|entry| entry.lasting) {
            return self.settle(&id, Ok(RawJson::from(Object::new())), now);
        }
        let Some((ticket, batch)) = self.running.cancel(&id) else {
            // Unknown, answered, foreign, or the handshake: not to be cancelled, and no answer is due.
            self.stats.ignored += 1;
            return;
        };
        self.stats.cancelled += 1;
        self.events.push_back(Event::Cancelled { ticket, reason: params.reason });
        if let Some(responses) = batch.and_then(|batch| self.running.take_complete(batch)) {
            self.events.push_back(Event::SendBatch(responses));
        }
    }

    fn receive_progress(&mut self, notification: Notification, now: Instant) {
        let params = notification.params::<Progress>().ok();
        let known = params.filter(|params: &ProgressParams| {
            self.pending.get(&params.progress_token).is_some_and(|entry| entry.wants_progress)
        });
        match known {
            Some(params) => {
                let id = params.progress_token.clone();
                self.pending.touch(&id, now);
                self.events.push_back(Event::Progress { id, params });
            }
            // Not ours to judge: it may belong to a task, or to a token that the caller chose.
            None => self.events.push_back(Event::Notification(notification)),
        }
    }

    fn receive_response(&mut self, response: Response, now: Instant) {
        let outcome = response.outcome.map_err(|error| RequestError::Peer(Box::new(error)));
        match response.id {
            Some(id) => self.settle(&id, outcome, now),
            None => self.stats.ignored += 1,
        }
    }

    fn settle(&mut self, id: &RequestId, outcome: Result<RawJson, RequestError>, now: Instant) {
        let Some(entry) = self.pending.remove(id) else {
            self.stats.ignored += 1;
            return;
        };
        match &outcome {
            Ok(_) => self.stats.completed += 1,
            Err(_) => self.stats.failed += 1,
        }
        match entry.owner {
            Owner::Opening(question) => self.go_on_opening(question, outcome, now),
            Owner::Caller(owner, _) => {
                self.events.push_back(Event::Answered { owner, id: id.clone(), outcome });
            }
        }
    }

    fn go_on_opening(&mut self, question: Question, outcome: Result<RawJson, RequestError>, now: Instant) {
        if let Side::Client(opening) = &mut self.side {
            let step = opening.answered(question, outcome);
            self.take_step(step, now);
        }
    }

    fn opening_timed_out(&mut self, id: &RequestId, question: Question, now: Instant) {
        let Side::Client(opening) = &mut self.side else { return };
        let (more, step) = opening.timed_out(question);
        match more {
            Some(timeout) => {
                let options = RequestOptions::default().timeout(timeout);
                self.pending.insert_again(id, Owner::Opening(question), Kind::Handshake, options, now);
            }
            None => self.stats.timed_out += 1,
        }
        self.take_step(step, now);
    }

    fn take_step(&mut self, step: Step, now: Instant) {
        match step {
            Step::Ask { question, params, timeout } => {
                let options = RequestOptions::default().timeout(timeout);
                let id = self.pending.insert(Owner::Opening(question), Kind::Handshake, options, now);
                self.stats.requests_sent += 1;
                let request = Request::raw(id, ByteString::from_static(question.method()), Some(params));
                self.send(Message::Request(request));
            }
            Step::Wait => {}
            Step::Open { opened, tell } => {
                if let Dialect::Handshake(version) = opened.dialect {
                    self.agreed = Some(version);
                }
                self.dialect = Some(opened.dialect);
                self.status = Status::Ready;
                self.stats.timed_out += self.pending.remove_all(|owner| matches!(owner, Owner::Opening(_)));
                if let Some(method) = tell {
                    self.stats.notifications_sent += 1;
                    self.send(Message::Notification(Notification::raw(ByteString::from_static(method), None)));
                }
                self.events.push_back(Event::Opened(opened));
            }
            Step::Fail(error) => {
                self.stats.failed += self.pending.remove_all(|owner| matches!(owner, Owner::Opening(_)));
                self.events.push_back(Event::OpenFailed(error));
                self.close();
            }
        }
    }

    /// A client that has not shaken hands must not write responses, not even to refuse something. Afterwards it refuses what
    /// has an id only: all else is likely to be a log that went astray, and the server would not know what to make of answers
    /// to that.
    fn refuse(&mut self, response: Response, batch: Option<u64>) {
        if matches!(self.side, Side::Client(_)) && (self.agreed.is_none() || response.id.is_none()) {
            self.stats.ignored += 1;
            return;
        }
        match batch {
            Some(batch) => self.running.collect(batch, response, false),
            None => self.send(Message::Response(response)),
        }
    }

    fn tell_cancelled(&mut self, id: &RequestId, reason: Option<&str>) {
        let mut params = CancelledParams::new().request_id(id.clone());
        params.reason = reason.map(str::to_owned);
        if let Ok(notification) = Notification::new::<Cancelled>(&params) {
            self.stats.notifications_sent += 1;
            self.send(Message::Notification(notification));
        }
    }

    fn send(&mut self, message: Message) {
        self.events.push_back(Event::Send(message));
    }
}

/// What to do with the response to a request of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseAction {
    /// Send it.
    Send,
    /// Hand it to [`Session::collect`]: its request came in a batch.
    Collect(BatchId),
    /// Nothing: the request was cancelled, or is answered already.
    Drop,
}

/// A batch of requests of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId(u64);

fn kind_of(method: &str) -> Kind {
    match method {
        Initialize::NAME => Kind::Handshake,
        Listen::NAME => Kind::Listen,
        _ => Kind::Ordinary,
    }
}

/// The token is the request's own id: unique among those in flight, and found without a second table.
fn with_progress_token(params: Option<&RawJson>, id: i64) -> RawJson {
    let mut params = params.and_then(RawJson::as_object).unwrap_or_default();
    let mut meta = params.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    meta.insert_raw(key::PROGRESS_TOKEN, &RawJson::trusted(id.to_string().into()));
    params.insert_raw("_meta", &RawJson::from(meta));
    params.into()
}

#[cfg(test)]
mod tests;
