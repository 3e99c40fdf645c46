//! What the messages of a client come to.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use http::StatusCode;
use smallvec::SmallVec;
use turms_core::{
    CallContext, Guarded, GuardedNotify, Outcome, Payload, Peer, Request, lower_outcome, written_outcome,
};
use turms_proto::method::Method as _;
use turms_proto::session::{Call, Dialect, Event, Reply, Ticket};
use turms_proto::types::{Initialize, Meta};
use turms_proto::{Ability, ErrorCode, ErrorObject, Incoming, Message, Notification, Response};

use super::link::{EventStream, Route, SessionLink};
use super::stream::StreamKind;
use super::{HttpSession, Running, settle};
use crate::server::request::RequestHead;
use crate::server::request::context::HttpSource;
use crate::server::response::{self, Answer};

/// How one POST is answered.
pub(super) enum Reaction {
    /// There is nothing to answer.
    Nothing,
    /// All at once.
    Said(Answer),
    /// By what follows on a stream.
    Stream(u64),
    /// The session has ended meanwhile.
    Gone,
}

/// One POST: the stream that its calls share if they need one, and what was answered at once.
struct Post {
    link: Arc<SessionLink>,
    source: HttpSource,
    is_batch: bool,
    answers: SmallVec<[Vec<u8>; 1]>,
    status: StatusCode,
}

/// The events of one POST. Without a batch there is at most one.
type Events = SmallVec<[Event<super::Waiter>; 1]>;

impl HttpSession {
    /// Takes what one POST held, and begins what it asks for.
    pub(super) fn receive(
        self: &Arc<Self>,
        incoming: Incoming,
        head: RequestHead,
        task: &mut TaskContext<'_>,
    ) -> Reaction {
        let has_batches = self.state.lock().protocol.agreed().is_some_and(|version| version.has(Ability::Batching));
        let is_batch = has_batches && matches!(incoming, Incoming::Batch(_));
        let Some((call, events)) = self.take(incoming, is_batch) else { return Reaction::Gone };
        let link = Arc::new(SessionLink::new(self.me.clone(), Route::call()));
        let source = HttpSource::streaming(head, EventStream::new(link.clone()));
        let mut post = Post { link, source, is_batch, answers: SmallVec::new(), status: StatusCode::OK };
        if let Some(call) = call {
            self.begin(call, &mut post, task);
        }
        for event in events {
            match event {
                Event::Request(call) => self.begin(*call, &mut post, task),
                Event::Notification(notification) => self.hear(notification, &mut post, task),
                Event::Send(Message::Response(response)) => self.refuse(response, &mut post),
                Event::Send(message) => {
                    // It waits until somebody listens.
                    let _ = self.say(&Route::Standalone, &message, None);
                }
                Event::Cancelled { ticket, .. } => self.cancel(&ticket),
                event => settle(event),
            }
        }
        self.react(post)
    }

    /// Messages of a batch are taken one by one: over HTTP they have a stream in common, and nothing else.
    fn take(&self, incoming: Incoming, is_batch: bool) -> Option<(Option<Call>, Events)> {
        let now = tokio::time::Instant::now().into_std();
        let mut state = self.state.lock();
        if !state.is_open {
            return None;
        }
        let mut refused = Vec::new();
        let call = match incoming {
            Incoming::Batch(messages) if is_batch => {
                for message in messages {
                    match message {
                        // Over HTTP, `initialize` begins a session of its own, and never inside another one.
                        Ok(Message::Request(request)) if &*request.method == Initialize::NAME => {
                            let error = ErrorObject::invalid_request("initialize cannot be part of a batch");
                            refused.push(Event::Send(Message::Response(Response::new(request.id, Err(error)))));
                        }
                        message => state.protocol.receive(message.map(Incoming::One), now),
                    }
                }
                None
            }
            // The session says what is wrong with a batch in other revisions.
            incoming => state.protocol.receive_call(Ok(incoming), now),
        };
        Some((call, std::iter::from_fn(|| state.protocol.next_event()).chain(refused).collect()))
    }

    fn react(&self, post: Post) -> Reaction {
        let Route::Call(stream) = post.link.route() else { return Reaction::Nothing };
        // If no stream was needed until now, what a handler says after its answer belongs to no call: no stream has this number.
        let stream = *stream.get_or_init(|| 0);
        if stream == 0 {
            return match post.answers.len() {
                0 => Reaction::Nothing,
                _ if post.is_batch => Reaction::Said(response::json(StatusCode::OK, joined(post.answers))),
                _ => Reaction::Said(response::json(post.status, post.answers.into_iter().next().unwrap_or_default())),
            };
        }
        {
            let mut state = self.state.lock();
            let mut left = post.answers.len();
            for answer in post.answers {
                left -= 1;
                state.answer_on(stream, answer, left);
            }
            state.end_if_done(stream);
        }
        self.keep(stream);
        Reaction::Stream(stream)
    }

    fn begin(self: &Arc<Self>, call: Call, post: &mut Post, task: &mut TaskContext<'_>) {
        let Call { request, dialect, ticket, meta, .. } = call;
        let (method, params) = (request.method, request.params);
        if self.state.lock().protocol.running() > self.options.max_in_flight {
            let error = ErrorObject::internal("too many requests in flight: wait for answers before asking more");
            return post.answers.extend(self.finish(&ticket, &method, dialect, Err(error.into())));
        }
        let cx =
            CallContext::new(dialect, Peer::shared(post.link.clone())).with_id(ticket.id().clone()).with_meta(meta);
        let cx = post.source.surround(cx);
        let params = params.map_or_else(Payload::default, Payload::json);
        let mut call = Guarded::call(|| self.service.call(Request::raw(method.clone(), params), cx));
        // Most calls answer at once and need neither a task nor a stream.
        match Pin::new(&mut call).poll(task) {
            Poll::Ready(outcome) => post.answers.extend(self.finish(&ticket, &method, dialect, outcome)),
            Poll::Pending => {
                let mut state = self.state.lock();
                // It may have been given up while it was polled.
                if !state.is_open || !state.protocol.is_running(&ticket) {
                    return;
                }
                let Route::Call(stream) = post.link.route() else { return };
                let stream = *stream.get_or_init(|| state.open_stream(StreamKind::Call));
                if let Some(open) = state.streams.get_mut(&stream) {
                    open.calls += 1;
                }
                let (session, key) = (self.clone(), ticket.clone());
                // The task cannot end before it is noted down: it needs the lock for that.
                let task = tokio::spawn(async move {
                    let outcome = call.await;
                    session.complete(&ticket, &method, dialect, outcome);
                });
                state.tasks.insert(key, Running { task: task.abort_handle(), stream });
            }
        }
    }

    /// Hearing may take a while; nobody waits for it, but there are not any number of them.
    fn hear(self: &Arc<Self>, notification: Notification, post: &mut Post, task: &mut TaskContext<'_>) {
        let Some(version) = self.state.lock().protocol.agreed() else { return };
        let peer = Peer::new(SessionLink::new(self.me.clone(), Route::Standalone));
        let cx = CallContext::new(Dialect::Handshake(version), peer)
            .with_meta(Meta::of_params(notification.params.as_ref()));
        let cx = post.source.surround(cx);
        if self.state.lock().hearing as usize >= self.options.max_in_flight {
            tracing::debug!(method = &*notification.method, "a notification is passed over: too many are being heard");
            return;
        }
        let mut hearing = GuardedNotify::new(|| self.service.notify(notification.method, notification.params, cx));
        if Pin::new(&mut hearing).poll(task).is_pending() {
            let heard = Heard::new(self.clone());
            tokio::spawn(async move {
                hearing.await;
                drop(heard);
            });
        }
    }

    /// What was refused before anybody was asked. What is wrong with the request as such is an error of HTTP, too.
    fn refuse(&self, response: Response, post: &mut Post) {
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
        post.answers.push(message);
    }

    /// A call has ended: the answer, if one is still wanted.
    fn finish(&self, ticket: &Ticket, method: &str, dialect: Dialect, outcome: Outcome) -> Option<Vec<u8>> {
        let outcome = lower_outcome(outcome, method, dialect.version());
        let is_wanted = self.state.lock().protocol.reply(ticket, outcome.is_ok()).reply() == Reply::Send;
        is_wanted.then(|| written_outcome(ticket.id(), outcome))
    }

    /// A call that ran as a task has ended.
    fn complete(&self, ticket: &Ticket, method: &str, dialect: Dialect, outcome: Outcome) {
        let outcome = lower_outcome(outcome, method, dialect.version());
        let is_ok = outcome.is_ok();
        let message = written_outcome(ticket.id(), outcome);
        let stream = {
            let mut state = self.state.lock();
            let Some(running) = state.tasks.remove(ticket) else { return };
            if let Some(stream) = state.streams.get_mut(&running.stream) {
                stream.calls = stream.calls.saturating_sub(1);
            }
            if state.protocol.reply(ticket, is_ok).reply() == Reply::Send {
                state.answer_on(running.stream, message, 0);
            }
            state.end_if_done(running.stream);
            running.stream
        };
        self.note_use();
        self.keep(stream);
        if self.has_many_ended() {
            self.forget_streams();
        }
    }

    /// The client does not wait for this answer any more: the call ends, and no answer comes.
    fn cancel(&self, ticket: &Ticket) {
        let mut state = self.state.lock();
        let Some(running) = state.tasks.remove(ticket) else { return };
        running.task.abort();
        if let Some(stream) = state.streams.get_mut(&running.stream) {
            stream.calls = stream.calls.saturating_sub(1);
        }
        state.end_if_done(running.stream);
    }
}

fn joined(answers: SmallVec<[Vec<u8>; 1]>) -> Vec<u8> {
    let mut all = Vec::new();
    for answer in answers {
        all.push(if all.is_empty() { b'[' } else { b',' });
        all.extend_from_slice(&answer);
    }
    all.push(b']');
    all
}

/// A notification that is being heard.
struct Heard(Arc<HttpSession>);

impl Heard {
    fn new(session: Arc<HttpSession>) -> Self {
        session.state.lock().hearing += 1;
        Self(session)
    }
}

impl Drop for Heard {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.hearing = state.hearing.saturating_sub(1);
    }
}
