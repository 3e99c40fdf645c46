//! What the messages of a client come to.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use http::{Extensions, StatusCode};
use turms_core::{Context, Guarded, GuardedNotify, Outcome, Payload, Peer, Request, lower_outcome, write_outcome};
use turms_proto::session::{Call, Dialect, Event, Reply, Ticket};
use turms_proto::{ErrorCode, ErrorObject, Incoming, Message, Notification, Response};

use super::link::{EventStream, Route, SessionLink};
use super::stream::StreamKind;
use super::{HttpSession, Running, State, settle};
use crate::server::answer::{self, Answer};
use crate::server::stateless::meta_of;

/// How one POST is answered.
pub(super) enum Turnout {
    /// There is nothing to answer.
    Nothing,
    /// All at once.
    Said(Answer),
    /// By what follows on a stream.
    Stream(u64),
}

/// One POST: the stream that its calls share if they need one, and what they have answered so far.
struct Post {
    route: Route,
    extensions: Arc<Extensions>,
    is_batch: bool,
    answer: Option<Finished>,
}

/// An answer on its way out.
enum Finished {
    One(Vec<u8>, StatusCode),
    Batch(Vec<Response>),
}

impl HttpSession {
    /// Takes what one POST held, and begins what it asks for.
    pub(super) async fn receive(self: &Arc<Self>, incoming: Incoming, extensions: Extensions) -> Turnout {
        let is_batch = matches!(incoming, Incoming::Batch(_));
        let events: Vec<_> = {
            let mut state = self.state();
            state.protocol.receive(Ok(incoming), tokio::time::Instant::now().into_std());
            std::iter::from_fn(|| state.protocol.next_event()).collect()
        };
        let mut post = Post { route: Route::call(), extensions: Arc::new(extensions), is_batch, answer: None };
        // The batch that a call was given up of, if that was what it waited for.
        let mut given_up = None;
        for event in events {
            match event {
                Event::Request(call) => self.begin(*call, &mut post).await,
                Event::Notification(notification) => self.hear(notification, &post).await,
                Event::Send(Message::Response(response)) => post.answer = Some(refused(&response)),
                Event::SendBatch(responses) => match given_up.take() {
                    Some(stream) => self.push_all(&mut self.state(), stream, &responses),
                    None => post.answer = Some(Finished::Batch(responses)),
                },
                Event::Send(message) => {
                    // It waits until somebody listens.
                    let _ = self.say(&Route::Standalone, &message, None);
                }
                Event::Cancelled { ticket, .. } => given_up = self.cancel(&ticket),
                event => settle(event),
            }
        }
        self.turn_out(post)
    }

    /// What was answered at once is the answer, unless something was said on a stream before.
    fn turn_out(&self, post: Post) -> Turnout {
        let mut state = self.state();
        match (post.answer, post.route.stream()) {
            (None, None) => Turnout::Nothing,
            (None, Some(stream)) => Turnout::Stream(stream),
            (Some(Finished::One(message, status)), None) => Turnout::Said(answer::json(status, message)),
            (Some(Finished::One(message, _)), Some(stream)) => {
                self.push(&mut state, stream, message, true);
                Turnout::Stream(stream)
            }
            (Some(Finished::Batch(responses)), None) => {
                let mut message = Vec::new();
                state.protocol.encode_batch(&responses, &mut message);
                Turnout::Said(answer::json(StatusCode::OK, message))
            }
            (Some(Finished::Batch(responses)), Some(stream)) => {
                self.push_all(&mut state, stream, &responses);
                Turnout::Stream(stream)
            }
        }
    }

    async fn begin(self: &Arc<Self>, call: Call, post: &mut Post) {
        let Call { request, dialect, ticket, .. } = call;
        let (method, params) = (request.method, request.params);
        if self.state().protocol.running() > self.options.max_in_flight {
            let error = ErrorObject::internal("too many requests in flight: wait for answers before asking more");
            post.answer = self.finish(&ticket, &method, dialect, Err(error)).or_else(|| post.answer.take());
            return;
        }
        let mut cx = Context::new(dialect, Peer::new(SessionLink::new(Arc::downgrade(self), post.route.clone())))
            .with_id(ticket.id().clone())
            .with_meta(meta_of(params.as_ref()))
            .with_extensions(post.extensions.clone());
        cx.insert_extension(EventStream::new(self, post.route.clone()));
        let params = params.map_or_else(Payload::default, Payload::raw);
        let mut call = Guarded::call(|| self.service.call(Request::raw(method.clone(), params), cx));
        // Most calls answer at once and need neither a task nor a stream.
        match poll_fn(|task| Poll::Ready(Pin::new(&mut call).poll(task))).await {
            Poll::Ready(outcome) => {
                post.answer = self.finish(&ticket, &method, dialect, outcome).or_else(|| post.answer.take());
            }
            Poll::Pending => {
                let mut state = self.state();
                let Route::Call(stream) = &post.route else { return };
                let stream = *stream.get_or_init(|| state.open_stream(StreamKind::Call));
                let (session, key, is_batch) = (self.clone(), ticket.clone(), post.is_batch);
                // The task cannot end before it is noted down: it needs the lock for that.
                let task = tokio::spawn(async move {
                    let outcome = call.await;
                    session.complete(&ticket, &method, dialect, outcome);
                });
                state.tasks.insert(key, Running { task: task.abort_handle(), stream, is_batch });
            }
        }
    }

    /// Hearing may take a while; nobody waits for it.
    async fn hear(self: &Arc<Self>, notification: Notification, post: &Post) {
        let Some(version) = self.state().protocol.agreed() else { return };
        let peer = Peer::new(SessionLink::new(Arc::downgrade(self), Route::Standalone));
        let cx = Context::new(Dialect::Handshake(version), peer)
            .with_meta(meta_of(notification.params.as_ref()))
            .with_extensions(post.extensions.clone());
        let mut hearing = GuardedNotify::new(|| self.service.notify(notification.method, notification.params, cx));
        if poll_fn(|task| Poll::Ready(Pin::new(&mut hearing).poll(task))).await.is_pending() {
            tokio::spawn(hearing);
        }
    }

    /// A call has ended: the answer that is due now, if any is.
    fn finish(&self, ticket: &Ticket, method: &str, dialect: Dialect, outcome: Outcome) -> Option<Finished> {
        let outcome = lower_outcome(outcome, method, dialect.version());
        let mut state = self.state();
        let to = state.protocol.reply(ticket, outcome.is_ok());
        match to.reply() {
            Reply::Send => {
                let mut message = Vec::with_capacity(256);
                write_outcome(&mut message, ticket.id(), outcome);
                Some(Finished::One(message, StatusCode::OK))
            }
            Reply::Collect => {
                let outcome = outcome
                    .and_then(|payload| payload.into_raw().map_err(|error| ErrorObject::internal(error.to_string())));
                state.protocol.collect(to, Response::new(ticket.id().clone(), outcome));
                match state.protocol.next_event() {
                    Some(Event::SendBatch(responses)) => Some(Finished::Batch(responses)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A call that ran as a task has ended.
    fn complete(&self, ticket: &Ticket, method: &str, dialect: Dialect, outcome: Outcome) {
        let Some(running) = self.state().tasks.remove(ticket) else { return };
        let finished = self.finish(ticket, method, dialect, outcome);
        self.touch();
        let mut state = self.state();
        match finished {
            Some(Finished::One(message, _)) => self.push(&mut state, running.stream, message, true),
            Some(Finished::Batch(responses)) => self.push_all(&mut state, running.stream, &responses),
            None if running.is_batch => {}
            None => self.end_stream(&mut state, running.stream),
        }
    }

    /// Answers of a batch one by one, the stream's last: clients that read events expect one message in each.
    fn push_all(&self, state: &mut State, stream: u64, responses: &[Response]) {
        if responses.is_empty() {
            self.end_stream(state, stream);
        }
        for (index, response) in responses.iter().enumerate() {
            let mut data = Vec::new();
            response.encode(&mut data);
            self.push(state, stream, data, index + 1 == responses.len());
        }
    }

    /// The client does not wait for this answer any more: the call ends, and no answer comes. The stream of the batch that it
    /// is of, if it is of one.
    fn cancel(&self, ticket: &Ticket) -> Option<u64> {
        let mut state = self.state();
        let running = state.tasks.remove(ticket)?;
        running.task.abort();
        if running.is_batch {
            return Some(running.stream);
        }
        self.end_stream(&mut state, running.stream);
        None
    }
}

/// What was refused before anybody was asked. What is wrong with the request as such is an error of HTTP, too.
fn refused(response: &Response) -> Finished {
    let mut message = Vec::new();
    response.encode(&mut message);
    let status = match &response.outcome {
        Err(error) if matches!(error.code, ErrorCode::INVALID_REQUEST | ErrorCode::PARSE_ERROR) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    };
    Finished::One(message, status)
}
