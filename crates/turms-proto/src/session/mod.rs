//! State machine of a duplex connection (pipes, sockets, in-process), for both sides.
//!
//! It has no I/O, no clock and no tasks. A driver passes in decoded messages and the time, takes out [`Event`]s and
//! sends the messages in them. The driver can query the [`ConnectionStatus`], the dialect, the next deadline and the [`ConnectionStats`].
//!
//! # A second `initialize`
//! A connection may carry several sessions in sequence: a bridge can keep one server process and connect clients to it
//! in turn. On the server, a valid `initialize` ends the previous session and starts a new one:
//! - Running requests of the previous session are cancelled ([`Event::Cancelled`]) and receive an error response before
//!   the response to `initialize`. If the new `initialize` reuses the id of a request, that request receives none.
//! - Pending requests of the server end with [`RequestError::Closed`]; late responses are ignored.
//! - [`Event::SessionEnded`] follows. Other state of the previous session (subscriptions, log level) ends with it.
//!
//! Requests that name their protocol version in `_meta` belong to no session and continue. An `initialize` with
//! invalid parameters or an unsupported version is rejected and ends nothing.
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
mod demux;
mod event;
mod opening;
mod pending;
mod running;
mod stats;

use std::collections::VecDeque;
use std::time::Instant;

use self::admission::Admission;
pub use self::admission::{VersionClaim, missing_meta, unsupported_version};
pub use self::demux::RelatedRequest;
pub use self::event::{Call, Dialect, Event, Negotiated, OpenError, RequestError, SessionError};
pub use self::opening::{ClientOptions, VersionChoice};
use self::opening::{Open, Opening, OpeningRequest, OpeningStep};
use self::pending::PendingRequests;
pub use self::pending::RequestOptions;
pub use self::running::Ticket;
use self::running::{RequestKind, RunningRequests};
pub use self::stats::ConnectionStats;
use crate::jsonrpc::{
    ErrorObject, Incoming, LineTooLong, Message, MessageError, MessageErrorKind, Notification, Request, RequestId,
    Response, encode,
};
use crate::method::{Method as _, NotificationMethod as _};
use crate::revision::unexpected_batch;
use crate::types::{
    CancelledNotification, CancelledParams, Initialize, InitializedNotification, Listen, Meta, Ping,
    ProgressNotification, ProgressParams, RequestMeta, key,
};
use crate::{Ability, MethodName, Object, ProtocolVersion, RawJson};

/// ConnectionStatus of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConnectionStatus {
    /// The initial state.
    Disconnected,
    /// The transport is connecting, or is connected and no message was received.
    Connecting,
    /// The handshake or discovery is in progress.
    Initializing,
    /// Requests can be sent.
    Ready,
    /// The connection is closed.
    Closed,
}

/// One side of a connection. `T` is a value that the caller passes with a request and receives back with the response.
#[derive(Debug)]
pub struct Session<T> {
    status: ConnectionStatus,
    side: Side,
    /// The version negotiated in a handshake.
    agreed: Option<ProtocolVersion>,
    /// The dialect of outgoing requests.
    dialect: Option<Dialect>,
    pending: PendingRequests<RequestOwner<T>>,
    running: RunningRequests,
    events: VecDeque<Event<T>>,
    stats: ConnectionStats,
}

#[derive(Debug)]
enum Side {
    Client(Box<dyn Open>),
    Server(Admission),
}

/// The owner of a pending request.
#[derive(Debug)]
enum RequestOwner<T> {
    Caller(T, Instant),
    Opening(OpeningRequest),
}

impl<T> Session<T> {
    /// Creates the client side.
    #[must_use]
    pub fn client(options: ClientOptions) -> Self {
        Self::new(Side::Client(Box::new(Opening::new(options))))
    }

    /// Creates the server side, which supports `versions`.
    #[must_use]
    pub fn server(versions: &[ProtocolVersion]) -> Self {
        Self::new(Side::Server(Admission::new(versions)))
    }

    /// Creates the server side of a connection after its handshake.
    #[must_use]
    pub fn resumed(version: ProtocolVersion) -> Self {
        let mut session = Self::server(&[version]);
        session.agreed = Some(version);
        session.dialect = Some(Dialect::Handshake(version));
        session.status = ConnectionStatus::Ready;
        session
    }

    /// Returns the version negotiated in a handshake.
    #[must_use]
    pub fn agreed(&self) -> Option<ProtocolVersion> {
        self.agreed
    }

    fn new(side: Side) -> Self {
        Self {
            status: ConnectionStatus::Disconnected,
            side,
            agreed: None,
            dialect: None,
            pending: PendingRequests::new(),
            running: RunningRequests::default(),
            events: VecDeque::new(),
            stats: ConnectionStats::default(),
        }
    }

    /// Returns the status of the connection.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.status
    }

    /// Returns the dialect of outgoing requests, once it is determined.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Returns the statistics of the connection.
    #[must_use]
    pub fn stats(&self) -> &ConnectionStats {
        &self.stats
    }

    /// Returns the number of own requests without a response.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns the ids of own requests without a response.
    pub fn pending_ids(&self) -> impl Iterator<Item = RequestId> {
        self.pending.ids()
    }

    /// Encodes several requests as one array. Returns `false` and writes nothing if the peer's revision has no
    /// batches.
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

    /// Returns the number of requests from the peer that are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns `true` if a request from the peer is running: it has no response and is not cancelled.
    #[must_use]
    pub fn is_running(&self, ticket: &Ticket) -> bool {
        self.running.contains_ticket(ticket)
    }

    /// Returns the value that was passed with the request `id`.
    #[must_use]
    pub fn owner(&self, id: &RequestId) -> Option<&T> {
        match &self.pending.get(id)?.owner {
            RequestOwner::Caller(owner, _) => Some(owner),
            RequestOwner::Opening(_) => None,
        }
    }

    /// Reports that the transport is connecting.
    pub fn connecting(&mut self) {
        if self.status == ConnectionStatus::Disconnected {
            self.status = ConnectionStatus::Connecting;
        }
    }

    /// Reports that the transport is connected. A client starts discovery, a server waits for requests.
    pub fn open(&mut self, now: Instant) {
        match &mut self.side {
            Side::Server(_) => self.connecting(),
            // Opening has no effect on an open or closed connection.
            Side::Client(_)
                if !matches!(self.status, ConnectionStatus::Disconnected | ConnectionStatus::Connecting) => {}
            Side::Client(opening) => {
                self.status = ConnectionStatus::Initializing;
                let step = opening.begin();
                self.apply_step(step, now);
            }
        }
    }

    /// Creates a request. The caller sends it, and [`Event::Answered`] returns `owner` with the outcome.
    ///
    /// # Errors
    /// If the connection does not allow requests in its current state.
    pub fn request(
        &mut self,
        method: impl Into<MethodName>,
        params: Option<RawJson>,
        options: RequestOptions,
        owner: T,
        now: Instant,
    ) -> Result<Request, SessionError> {
        let method = method.into();
        self.may_request(&method)?;
        let id = self.pending.insert(RequestOwner::Caller(owner, now), kind_of(&method), options, now);
        self.stats.requests_sent += 1;
        let params = if options.progress { Some(with_progress_token(params.as_ref(), id)) } else { params };
        Ok(Request::raw(id, method, params))
    }

    /// Returns the metadata that a stateless revision requires in every request of a client; `None` on other
    /// connections. The session does not add it to the parameters.
    #[must_use]
    pub fn request_meta(&self) -> Option<RequestMeta> {
        match (&self.side, self.dialect) {
            (Side::Client(opening), Some(Dialect::Stateless(version))) => Some(opening.request_meta(version)),
            _ => None,
        }
    }

    /// Creates a notification. The caller sends it.
    ///
    /// # Errors
    /// If the connection is closed.
    pub fn notify(
        &mut self,
        method: impl Into<MethodName>,
        params: Option<RawJson>,
    ) -> Result<Notification, SessionError> {
        if self.status == ConnectionStatus::Closed {
            return Err(SessionError::Closed);
        }
        self.stats.notifications_sent += 1;
        Ok(Notification::raw(method, params))
    }

    /// Cancels an own request: returns its owner, notifies the peer and ignores a late response. `None` if it already
    /// has a response, or is the handshake, which cannot be cancelled.
    pub fn cancel(&mut self, id: &RequestId, reason: Option<&str>) -> Option<T> {
        self.pending.get(id).filter(|request| request.cancellable)?;
        let request = self.pending.remove(id)?;
        let RequestOwner::Caller(owner, _) = request.owner else {
            return None;
        };
        self.stats.cancelled += 1;
        self.notify_cancelled(id, reason);
        Some(owner)
    }

    /// As [`Session::cancel`], for a request that has timed out.
    pub fn time_out(&mut self, id: &RequestId) -> Option<T> {
        let owner = self.cancel(id, Some("timed out"))?;
        self.stats.cancelled -= 1;
        self.stats.timed_out += 1;
        Some(owner)
    }

    /// Removes an own request that the transport could not send: returns its owner, without a notification to the
    /// peer. `None` if it already has a response.
    pub fn fail(&mut self, id: &RequestId) -> Option<T> {
        let RequestOwner::Caller(owner, _) = self.pending.remove(id)?.owner else { return None };
        self.stats.failed += 1;
        Some(owner)
    }

    /// Processes one received transmission.
    pub fn receive(&mut self, incoming: Result<Incoming, MessageError>, now: Instant) {
        if self.status == ConnectionStatus::Closed {
            self.stats.ignored += 1;
            return;
        }
        match incoming {
            Ok(Incoming::One(message)) => self.receive_message(message, None, now),
            Ok(Incoming::Batch(messages)) => self.receive_batch(messages, now),
            Err(invalid) => self.receive_invalid(invalid, None, now),
        }
    }

    /// Processes one received transmission like [`Session::receive`], but returns a single request directly instead of
    /// as an [`Event::Request`].
    pub fn receive_call(&mut self, incoming: Result<Incoming, MessageError>, now: Instant) -> Option<Call> {
        match incoming {
            // Events of earlier messages come first.
            Ok(Incoming::One(Message::Request(request)))
                if self.status != ConnectionStatus::Closed && self.events.is_empty() =>
            {
                let call = self.receive_request(request, None)?;
                if self.events.is_empty() {
                    return Some(call);
                }
                // The request ended the previous session. The events of that come first.
                self.events.push_back(Event::Request(Box::new(call)));
                None
            }
            incoming => {
                self.receive(incoming, now);
                None
            }
        }
    }

    /// Processes a message that exceeds the size limit.
    ///
    /// An own request fails if its id is in the message, with [`RequestError::TooLong`]. If a client cannot determine
    /// the id of a response, all its pending requests except subscriptions fail, because any of them may be the one
    /// with the response. A request from the peer is rejected; a notification is ignored.
    pub fn receive_too_long(&mut self, too_long: LineTooLong, now: Instant) {
        if self.status == ConnectionStatus::Closed {
            self.stats.ignored += 1;
            return;
        }
        self.stats.parse_errors += 1;
        let (is_client, limit) = (matches!(self.side, Side::Client(_)), too_long.limit);
        let error = ErrorObject::invalid_request(too_long.to_string());
        match (too_long.kind, too_long.id) {
            (MessageErrorKind::Response, Some(id)) if is_client || self.pending.get(&id).is_some() => {
                self.settle(&id, Err(RequestError::TooLong { limit }), now);
            }
            (MessageErrorKind::Response, None) if is_client => {
                let ids: Vec<_> = self.pending.ids().collect();
                for id in ids {
                    if self.pending.get(&id).is_some_and(|request| !request.is_subscription) {
                        self.settle(&id, Err(RequestError::TooLong { limit }), now);
                    }
                }
            }
            (MessageErrorKind::Notification, _) => self.stats.ignored += 1,
            (_, id) => self.refuse(Response { id, outcome: Err(error) }, None),
        }
    }

    /// Returns the next event.
    pub fn next_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// Responds to a request from the peer.
    pub fn answer(&mut self, ticket: &Ticket, outcome: Result<RawJson, ErrorObject>) {
        let (succeeded, position) = (outcome.is_ok(), self.events.len());
        let action = self.complete(ticket, succeeded);
        let response = Response::new(ticket.id().clone(), outcome);
        match action {
            // The response is sent before the events that completing the request caused.
            ResponseAction::Send => self.events.insert(position, Event::Send(Message::Response(response))),
            ResponseAction::Collect(batch) => self.collect(batch, response),
            ResponseAction::Drop => {}
        }
    }

    /// Completes a request from the peer, and returns what to do with its response. For drivers that write responses
    /// into their own buffer before they poll for events. `succeeded` is `true` if the response is a result.
    pub fn complete(&mut self, ticket: &Ticket, succeeded: bool) -> ResponseAction {
        let Some((kind, batch)) = self.running.finish(ticket) else { return ResponseAction::Drop };
        if let Side::Server(admission) = &mut self.side
            && admission.handshake_answered(ticket.id())
            && !succeeded
        {
            // A rejected handshake negotiates nothing; the client may retry.
            self.agreed = None;
            self.dialect = None;
            self.status = ConnectionStatus::Connecting;
        }
        // In 2026-07-28, the page on subscriptions ends a listen request with a result, and the page on cancellation
        // with a notification. Send both.
        if kind == RequestKind::Listen && succeeded {
            self.notify_cancelled(ticket.id(), None);
        }
        batch.map_or(ResponseAction::Send, |batch| ResponseAction::Collect(BatchId(batch)))
    }

    /// Adds the response to a request of a batch.
    pub fn collect(&mut self, BatchId(batch): BatchId, response: Response) {
        self.running.collect(batch, response, true);
        if let Some(responses) = self.running.take_complete(batch) {
            self.events.push_back(Event::SendBatch(responses));
        }
    }

    /// Returns the time at which [`Session::expire`] must be called next.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.pending.next_deadline()
    }

    /// Fails the expired requests.
    pub fn expire(&mut self, now: Instant) {
        while let Some((id, request)) = self.pending.expired(now) {
            match request.owner {
                RequestOwner::Opening(kind) => self.opening_timed_out(&id, kind, now),
                RequestOwner::Caller(_, since) => {
                    self.stats.timed_out += 1;
                    if request.cancellable {
                        self.notify_cancelled(&id, Some("timed out"));
                    }
                    let outcome = Err(request.timed_out(now.saturating_duration_since(since)));
                    let RequestOwner::Caller(owner, _) = request.owner else { continue };
                    self.events.push_back(Event::Answered { owner, id, outcome });
                }
            }
        }
    }

    /// Closes the connection. Pending requests fail, and running requests are dropped.
    pub fn close(&mut self) {
        self.status = ConnectionStatus::Closed;
        self.running.clear();
        self.fail_pending();
    }

    /// Reports that the peer has closed its sending side. Pending requests fail and subscriptions of the peer end.
    /// Other running requests can still be completed.
    pub fn peer_has_gone(&mut self) {
        for ticket in self.running.take_subscriptions() {
            self.stats.cancelled += 1;
            self.events.push_back(Event::Cancelled { ticket, reason: None });
        }
        self.fail_pending();
    }

    fn fail_pending(&mut self) {
        let mut opening = false;
        for (id, request) in self.pending.drain() {
            self.stats.failed += 1;
            match request.owner {
                RequestOwner::Caller(owner, _) => {
                    let outcome = Err(RequestError::Closed);
                    self.events.push_back(Event::Answered { owner, id, outcome });
                }
                RequestOwner::Opening(_) => opening = true,
            }
        }
        if opening {
            self.events.push_back(Event::OpenFailed(OpenError::Closed));
        }
    }

    /// Releases unused memory. For drivers with many idle sessions.
    pub fn rest(&mut self) {
        self.events.shrink_to_fit();
        self.running.shrink();
        self.pending.shrink();
    }

    /// Encodes a message for the peer's revision, and counts its bytes.
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

    /// Encodes the responses to a batch as one array, and counts its bytes.
    pub fn encode_batch(&mut self, responses: &[Response], out: &mut Vec<u8>) {
        let start = out.len();
        for (index, response) in responses.iter().enumerate() {
            out.push(if index == 0 { b'[' } else { b',' });
            match &response.outcome {
                // The schema of the revision with batches requires an id.
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

    /// Checks that a request of this method can be sent in the current state.
    ///
    /// # Errors
    /// If it cannot be sent.
    pub fn may_request(&self, method: &str) -> Result<(), SessionError> {
        match (self.status, self.dialect, &self.side) {
            (ConnectionStatus::Closed, ..) => Err(SessionError::Closed),
            // Both sides may ping before the handshake is complete.
            (ConnectionStatus::Initializing, ..) if method == Ping::NAME => Ok(()),
            (ConnectionStatus::Ready, Some(_), Side::Client(_)) => Ok(()),
            (ConnectionStatus::Ready, Some(dialect), Side::Server(_))
                if dialect.version().has(Ability::ServerRequests) =>
            {
                Ok(())
            }
            (ConnectionStatus::Ready, _, Side::Server(_)) => Err(SessionError::NoServerRequests),
            _ => Err(SessionError::NotReady),
        }
    }

    fn receive_batch(&mut self, messages: Vec<Result<Message, MessageError>>, now: Instant) {
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

    fn receive_invalid(&mut self, invalid: MessageError, batch: Option<u64>, now: Instant) {
        self.stats.parse_errors += 1;
        // A message from a server with an id and nothing else may be meant as a response.
        let may_be_response = matches!(self.side, Side::Client(_)) && invalid.kind == MessageErrorKind::Unreadable;
        match invalid.id {
            // Fail the pending request, which would otherwise wait for its timeout.
            Some(id) if may_be_response || !invalid.expects_response() => {
                self.settle(&id, Err(RequestError::Invalid(invalid.error.message)), now);
            }
            id if invalid.expects_response() => self.refuse(Response { id, outcome: Err(*invalid.error) }, batch),
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

    /// Decides whether a request is accepted, and in which dialect. After the handshake, only `initialize` changes the
    /// dialect of the connection.
    fn admit(&mut self, request: &Request, meta: Option<&RawJson>, batch: Option<u64>) -> Result<Dialect, ErrorObject> {
        let starts_session = matches!(self.side, Side::Server(_)) && &*request.method == Initialize::NAME;
        // `initialize` ends the session, which frees its ids.
        if self.running.contains(&request.id) && !(starts_session && self.running.is_in_session(&request.id)) {
            return Err(ErrorObject::invalid_request(format!(
                "the id {} is in use by a request in flight",
                request.id
            )));
        }
        match &mut self.side {
            Side::Client(_) => admission::admit_on_client(request, self.dialect),
            Side::Server(_) if batch.is_some() && starts_session => {
                Err(ErrorObject::invalid_request("initialize cannot be part of a batch"))
            }
            Side::Server(admission) => {
                let dialect = admission.admit(request, meta, self.agreed)?;
                match dialect {
                    Dialect::Handshake(version) if starts_session => {
                        if self.agreed.is_some() {
                            self.end_session(&request.id);
                        }
                        self.agreed = Some(version);
                        self.dialect = Some(dialect);
                        self.status = ConnectionStatus::Initializing;
                    }
                    Dialect::Stateless(_) if self.agreed.is_none() => {
                        self.dialect = Some(dialect);
                        self.status = ConnectionStatus::Ready;
                    }
                    _ => {}
                }
                Ok(dialect)
            }
        }
    }

    /// Ends the current session, because the request `initialize` starts a new one.
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
        self.fail_pending();
        self.events.push_back(Event::SessionEnded);
    }

    fn receive_notification(&mut self, notification: Notification, now: Instant) {
        self.stats.notifications_received += 1;
        match &*notification.method {
            CancelledNotification::NAME => self.receive_cancelled(&notification, now),
            ProgressNotification::NAME => self.receive_progress(notification, now),
            InitializedNotification::NAME => {
                if self.agreed.is_some() && self.status == ConnectionStatus::Initializing {
                    self.status = ConnectionStatus::Ready;
                }
                self.events.push_back(Event::Notification(notification));
            }
            _ => match self.subscription_of(&notification) {
                Some(id) => self.events.push_back(Event::SubscriptionNotification { id, notification }),
                None => self.events.push_back(Event::Notification(notification)),
            },
        }
    }

    /// Returns the own listen request that a notification belongs to.
    fn subscription_of(&self, notification: &Notification) -> Option<RequestId> {
        if !self.pending.has_subscriptions() {
            return None;
        }
        let Some(RelatedRequest::Subscription(id)) = RelatedRequest::of(notification) else { return None };
        self.pending.get(&id).filter(|request| request.is_subscription).map(|_| id)
    }

    fn receive_cancelled(&mut self, notification: &Notification, now: Instant) {
        let params = notification.params::<CancelledNotification>().unwrap_or_default();
        let Some(id) = params.request_id else {
            self.stats.ignored += 1;
            return;
        };
        if self.pending.get(&id).is_some_and(|request| request.is_subscription) {
            return self.settle(&id, Ok(RawJson::from(Object::new())), now);
        }
        let Some((ticket, batch)) = self.running.cancel(&id) else {
            // Unknown, completed or the handshake: it cannot be cancelled, and there is no response.
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
        let wants_progress = |params: &ProgressParams| {
            self.pending.get(&params.progress_token).is_some_and(|request| request.wants_progress)
        };
        match RelatedRequest::of(&notification) {
            Some(RelatedRequest::Progress(params)) if wants_progress(&params) => {
                let id = params.progress_token.clone();
                self.pending.touch(&id, now);
                self.events.push_back(Event::Progress { id, params });
            }
            // The token may belong to a task, or be chosen by the caller.
            _ => self.events.push_back(Event::Notification(notification)),
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
        let Some(request) = self.pending.remove(id) else {
            self.stats.ignored += 1;
            return;
        };
        match &outcome {
            Ok(_) => self.stats.completed += 1,
            Err(_) => self.stats.failed += 1,
        }
        match request.owner {
            RequestOwner::Opening(kind) => self.continue_opening(kind, outcome, now),
            RequestOwner::Caller(owner, _) => {
                self.events.push_back(Event::Answered { owner, id: id.clone(), outcome });
            }
        }
    }

    fn continue_opening(&mut self, kind: OpeningRequest, outcome: Result<RawJson, RequestError>, now: Instant) {
        if let Side::Client(opening) = &mut self.side {
            let step = opening.on_response(kind, outcome);
            self.apply_step(step, now);
        }
    }

    fn opening_timed_out(&mut self, id: &RequestId, kind: OpeningRequest, now: Instant) {
        let Side::Client(opening) = &mut self.side else { return };
        let (more, step) = opening.on_timeout(kind);
        match more {
            Some(timeout) => {
                let options = RequestOptions::default().timeout(timeout);
                self.pending.insert_again(id, RequestOwner::Opening(kind), RequestKind::Handshake, options, now);
            }
            None => self.stats.timed_out += 1,
        }
        self.apply_step(step, now);
    }

    fn apply_step(&mut self, step: OpeningStep, now: Instant) {
        match step {
            OpeningStep::Send { kind, params, timeout } => {
                let options = RequestOptions::default().timeout(timeout);
                let id = self.pending.insert(RequestOwner::Opening(kind), RequestKind::Handshake, options, now);
                self.stats.requests_sent += 1;
                let request = Request::raw(id, MethodName::from_static(kind.method()), Some(params));
                self.send(Message::Request(request));
            }
            OpeningStep::Wait => {}
            OpeningStep::Open { opened, notification } => {
                if let Dialect::Handshake(version) = opened.dialect {
                    self.agreed = Some(version);
                }
                self.dialect = Some(opened.dialect);
                self.status = ConnectionStatus::Ready;
                self.stats.timed_out += self.pending.remove_all(|owner| matches!(owner, RequestOwner::Opening(_)));
                if let Some(method) = notification {
                    self.stats.notifications_sent += 1;
                    self.send(Message::Notification(Notification::raw(MethodName::from_static(method), None)));
                }
                self.events.push_back(Event::Opened(opened));
            }
            OpeningStep::Fail(error) => {
                self.stats.failed += self.pending.remove_all(|owner| matches!(owner, RequestOwner::Opening(_)));
                self.events.push_back(Event::OpenFailed(error));
                self.close();
            }
        }
    }

    /// Sends an error response. A client sends none before the handshake, and afterwards only for messages with an id.
    /// Other invalid input is likely to be stray log output, and the server could not match a response to it.
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

    fn notify_cancelled(&mut self, id: &RequestId, reason: Option<&str>) {
        let mut params = CancelledParams::new().request_id(id.clone());
        params.reason = reason.map(str::to_owned);
        if let Ok(notification) = Notification::new::<CancelledNotification>(&params) {
            self.stats.notifications_sent += 1;
            self.send(Message::Notification(notification));
        }
    }

    fn send(&mut self, message: Message) {
        self.events.push_back(Event::Send(message));
    }
}

/// Action for the response to a request from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResponseAction {
    /// Send the response.
    Send,
    /// Pass the response to [`Session::collect`]: the request is part of a batch.
    Collect(BatchId),
    /// Drop the response: the request was cancelled or is already completed.
    Drop,
}

/// Id of a batch of requests from the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchId(u64);

fn kind_of(method: &str) -> RequestKind {
    match method {
        Initialize::NAME => RequestKind::Handshake,
        Listen::NAME => RequestKind::Listen,
        _ => RequestKind::Ordinary,
    }
}

/// Adds a progress token. It equals the request id, which is unique among pending requests and needs no second table.
fn with_progress_token(params: Option<&RawJson>, id: i64) -> RawJson {
    let mut params = params.and_then(RawJson::as_object).unwrap_or_default();
    let mut meta = params.get("_meta").and_then(|meta| meta.as_object()).unwrap_or_default();
    meta.insert_raw(key::PROGRESS_TOKEN, &RawJson::trusted(id.to_string().into()));
    params.insert_raw("_meta", &RawJson::from(meta));
    params.into()
}

#[cfg(test)]
mod tests;
