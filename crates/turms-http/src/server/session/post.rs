//! One POST in a session: its messages and the reply.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

use http::StatusCode;
use smallvec::SmallVec;
use turms_core::__internal::{Dispatch, dispatch, encode_response, too_many_in_flight};
use turms_core::{CallContext, CallResult, CancellationToken, ErrorOrigin, Limits, Peer, Request};
use turms_proto::method::Method as _;
use turms_proto::session::{Call, Event, ResponseAction, Ticket};
use turms_proto::types::Initialize;
use turms_proto::{Ability, ErrorCode, ErrorObject, Incoming, Message, Response};

use super::peer::{MessageRoute, SessionPeer, StreamControl};
use super::{HttpSession, RunningCall, SessionManager, deliver};
use crate::server::request::RequestHead;
use crate::server::request::context::HttpRequestInfo;

/// The messages of one POST, with its head.
pub(in crate::server) struct PostedMessages {
    pub(in crate::server) incoming: Incoming,
    pub(in crate::server) head: RequestHead,
    /// The sessions that this one will be among, if the POST is its `initialize`.
    pub(super) begins_in: Option<Weak<SessionManager>>,
}

impl PostedMessages {
    /// Returns `true` if there is a request among the messages.
    pub(super) fn has_request(&self) -> bool {
        let is_request = |message: &Message| matches!(message, Message::Request(_));
        match &self.incoming {
            Incoming::One(message) => is_request(message),
            Incoming::Batch(messages) => messages.iter().flatten().any(is_request),
        }
    }
}

/// The reply to a POST, independent of the connection.
pub(super) enum PostReply {
    /// No response is required.
    Accepted,
    /// All responses, encoded.
    Response { status: StatusCode, body: Vec<u8> },
    /// The response to a call that needs more scopes.
    Forbidden { scopes: Vec<String>, body: Vec<u8> },
    /// The responses follow on a stream.
    Stream(u64),
    /// The session was closed meanwhile.
    Gone,
}

/// A POST in progress: the stream that its calls share if they need one, and the responses that are ready.
struct PostInProgress {
    peer: Arc<SessionPeer>,
    info: Arc<HttpRequestInfo>,
    begins_in: Option<Weak<SessionManager>>,
    is_batch: bool,
    responses: SmallVec<[Vec<u8>; 1]>,
    status: StatusCode,
    /// The scopes that the call needs, if it needs more than the caller has.
    scopes: Option<Vec<String>>,
}

/// The events of one POST. At most one unless it is a batch.
type Events = SmallVec<[Event<super::Waiter>; 1]>;

impl HttpSession {
    /// Handles the messages of one POST, and starts its calls.
    pub(super) async fn receive(self: &Arc<Self>, posted: PostedMessages, limits: &Limits) -> PostReply {
        let has_request = posted.has_request();
        let PostedMessages { incoming, head, begins_in } = posted;
        let has_batches = self.state.lock().protocol.agreed().is_some_and(|version| version.has(Ability::Batching));
        let is_batch = has_batches && matches!(incoming, Incoming::Batch(_));
        let Some((call, events)) = self.receive_messages(incoming, is_batch) else { return PostReply::Gone };
        let peer = Arc::new(SessionPeer::new(self.weak_self.clone(), MessageRoute::post()));
        let info = HttpRequestInfo::streaming(head, StreamControl::new(peer.clone()));
        let (responses, status) = (SmallVec::new(), StatusCode::OK);
        let mut post = PostInProgress { peer, info, begins_in, is_batch, responses, status, scopes: None };
        if let Some(call) = call {
            self.start_call(call, &mut post, limits).await;
        }
        for event in events {
            match event {
                Event::Request(call) => self.start_call(*call, &mut post, limits).await,
                Event::Notification(notification) => self.handle_notification(notification, &post.info, limits).await,
                Event::Send(Message::Response(response)) => self.reject(response, &mut post),
                Event::Send(message) => {
                    // Queued until a client opens a standalone stream.
                    let _ = self.send(&MessageRoute::Standalone, &message, None);
                }
                Event::Cancelled { ticket, reason } => self.cancel(&ticket, reason),
                event => deliver(event),
            }
        }
        let PostInProgress { peer, is_batch, responses, status, scopes, .. } = post;
        match peer.route().close() {
            Some(stream) => {
                self.respond_on(stream, responses);
                PostReply::Stream(stream)
            }
            None if responses.is_empty() && has_request && !self.state.lock().is_open => PostReply::Gone,
            None if responses.is_empty() => PostReply::Accepted,
            None if is_batch => PostReply::Response { status: StatusCode::OK, body: join_batch(responses) },
            None => {
                let body = responses.into_iter().next().unwrap_or_default();
                match scopes {
                    Some(scopes) => PostReply::Forbidden { scopes, body },
                    None => PostReply::Response { status, body },
                }
            }
        }
    }

    /// Passes the messages to the protocol session. The messages of a batch are handled one by one: over HTTP they only
    /// share a stream. Returns `None` if the session is closed.
    fn receive_messages(&self, incoming: Incoming, is_batch: bool) -> Option<(Option<Call>, Events)> {
        let now = tokio::time::Instant::now().into_std();
        let mut state = self.state.lock();
        if !state.is_open {
            return None;
        }
        let mut rejected = Vec::new();
        let call = match incoming {
            Incoming::Batch(messages) if is_batch => {
                for message in messages {
                    match message {
                        // Over HTTP, `initialize` starts a new session, and is never part of another one.
                        Ok(Message::Request(request)) if &*request.method == Initialize::NAME => {
                            let error = ErrorObject::invalid_request("initialize cannot be part of a batch");
                            rejected.push(Event::Send(Message::Response(Response::new(request.id, Err(error)))));
                        }
                        message => state.protocol.receive(message.map(Incoming::One), now),
                    }
                }
                None
            }
            // In other revisions, the protocol session rejects a batch.
            incoming => state.protocol.receive_call(Ok(incoming), now),
        };
        Some((call, std::iter::from_fn(|| state.protocol.next_event()).chain(rejected).collect()))
    }

    /// Sends the responses of a POST on its stream.
    fn respond_on(&self, stream: u64, responses: SmallVec<[Vec<u8>; 1]>) {
        let mut state = self.state.lock();
        let mut left = responses.len();
        for response in responses {
            left -= 1;
            state.respond_on_stream(stream, response, left);
        }
        state.end_if_done(stream);
        drop(state);
        self.persist(stream);
    }

    /// Starts a call. Most calls finish at the first poll and need neither a task nor a stream.
    async fn start_call(self: &Arc<Self>, call: Call, post: &mut PostInProgress, limits: &Limits) {
        let Call { request, dialect, ticket, meta, .. } = call;
        let is_full = self.state.lock().protocol.running() > limits.max_in_flight;
        let result = if is_full {
            Err(too_many_in_flight())
        } else {
            let cx =
                CallContext::new(dialect, Peer::shared(post.peer.clone())).with_id(ticket.id().clone()).with_meta(meta);
            let cancellation = CancellationToken::new();
            let cx = cx.with_request_info(post.info.clone()).with_session(self.handle.clone());
            let cx = cx.with_cancellation(cancellation.clone());
            let mut call = dispatch(&*self.service, Request::from(request), cx);
            match poll_fn(|task| Poll::Ready(Pin::new(&mut call).poll(task))).await {
                Poll::Ready(result) => result,
                Poll::Pending => return self.spawn_call(call, ticket, cancellation, post),
            }
        };
        if let Err(error) = &result
            && error.origin() == ErrorOrigin::Forbidden
        {
            post.scopes = Some(error.required_scopes().to_vec());
        }
        // The call may have been cancelled while it was polled.
        let is_wanted = self.state.lock().protocol.complete(&ticket, result.is_ok()) == ResponseAction::Send;
        post.responses.extend(is_wanted.then(|| encode_response(ticket.id(), result)));
    }

    /// Runs a call as a task. Its response follows on the stream of the POST.
    fn spawn_call(
        self: &Arc<Self>,
        call: Dispatch,
        ticket: Ticket,
        cancellation: CancellationToken,
        post: &PostInProgress,
    ) {
        let mut state = self.state.lock();
        // The call may have been cancelled while it was polled.
        if !state.is_open || !state.protocol.is_running(&ticket) {
            return;
        }
        let Some(stream) = post.peer.route().open_stream(&mut state) else { return };
        if let Some(open) = state.streams.get_mut(&stream) {
            open.calls += 1;
        }
        let (session, key, begins_in) = (self.clone(), ticket.clone(), post.begins_in.clone());
        // The task is in the table before it completes: `complete` needs the lock that is held here.
        let task = tokio::spawn(async move {
            let result = call.await;
            session.complete(&ticket, result);
            if let Some(sessions) = begins_in.and_then(|sessions| sessions.upgrade()) {
                sessions.remove_if_refused(&session).await;
            }
        });
        state.tasks.insert(key, RunningCall { task: task.abort_handle(), stream, cancellation });
    }

    /// Adds an error response for a request that was rejected before its handler was called. Invalid requests also set
    /// the HTTP status.
    fn reject(&self, response: Response, post: &mut PostInProgress) {
        if let Err(error) = &response.outcome
            && matches!(error.code, ErrorCode::INVALID_REQUEST | ErrorCode::PARSE_ERROR)
        {
            post.status = StatusCode::BAD_REQUEST;
        }
        if let Err(error) = &response.outcome {
            let id = response.id.as_ref().map(tracing::field::display);
            tracing::debug!(id, code = error.code.0, "a request is refused");
        }
        let mut message = Vec::new();
        self.state.lock().protocol.encode(&Message::Response(response), &mut message);
        post.responses.push(message);
    }

    /// Completes a call that ran as a task.
    fn complete(&self, ticket: &Ticket, result: CallResult) {
        let is_ok = result.is_ok();
        let message = encode_response(ticket.id(), result);
        let stream = {
            let mut state = self.state.lock();
            let Some(running) = state.tasks.remove(ticket) else { return };
            if let Some(stream) = state.streams.get_mut(&running.stream) {
                stream.calls = stream.calls.saturating_sub(1);
            }
            if state.protocol.complete(ticket, is_ok) == ResponseAction::Send {
                state.respond_on_stream(running.stream, message, 0);
            }
            state.end_if_done(running.stream);
            running.stream
        };
        self.note_use();
        self.persist(stream);
        if self.has_many_ended() {
            self.remove_old_streams();
        }
    }

    /// Aborts a call that the client cancelled. It gets no response.
    fn cancel(&self, ticket: &Ticket, reason: Option<String>) {
        let mut state = self.state.lock();
        let Some(running) = state.tasks.remove(ticket) else { return };
        match reason {
            Some(reason) => running.cancellation.cancel_with_reason(reason),
            None => running.cancellation.cancel(),
        }
        running.task.abort();
        if let Some(stream) = state.streams.get_mut(&running.stream) {
            stream.calls = stream.calls.saturating_sub(1);
        }
        state.end_if_done(running.stream);
    }
}

fn join_batch(responses: SmallVec<[Vec<u8>; 1]>) -> Vec<u8> {
    let mut all = Vec::new();
    for response in responses {
        all.push(if all.is_empty() { b'[' } else { b',' });
        all.extend_from_slice(&response);
    }
    all.push(b']');
    all
}
