//! What the server says: answers, notifications, and questions of its own.

use std::sync::Weak;

use bytestring::ByteString;
use turms_core::{
    BoxFuture, CallContext, ObservedCall, OutgoingRequest, Payload, Peer, PeerError, PeerTransport, dispatch,
    dispatch_notification,
};
use turms_proto::session::{Call, Event, RequestOptions, Session, Ticket};
use turms_proto::types::{Meta, Progress};
use turms_proto::{ErrorObject, Incoming, InvalidMessage, Message, Notification, RawJson, RequestId};

use super::outgoing::over;
use super::shared::{Shared, Task, Waiter, now};

/// How many requests of the server's may be at work at once.
const MOST_CALLS: usize = 256;

impl Shared {
    /// Receives a message that came on the stream of these requests; of none if it came on the standalone stream.
    pub(super) async fn receive(&self, incoming: Result<Incoming, InvalidMessage>, stream_of: &[RequestId]) {
        let observer = match stream_of {
            [id] => self.observer(id),
            _ => None,
        };
        let events = self.with(|session| session.receive(incoming, now()));
        self.dispatch(events, observer.as_ref()).await;
    }

    /// Handles what came of a message, with the observer of the call that it belongs to.
    async fn dispatch(&self, events: Vec<Event<Waiter>>, related: Option<&ObservedCall>) {
        for event in events {
            match event {
                Event::Request(call) => self.admit(*call, related),
                Event::Notification(notification) => self.hear(notification, related).await,
                Event::Progress { id, params } => match self.observer(&id) {
                    Some(observer) => observer.progress(&params),
                    None => {
                        if let Ok(report) = Notification::new::<Progress>(&params) {
                            self.hear(report, related).await;
                        }
                    }
                },
                Event::Told { id, notification } => {
                    let unhandled = match self.observer(&id) {
                        Some(observer) => observer.notification(notification),
                        None => Err(notification),
                    };
                    if let Err(notification) = unhandled {
                        self.hear(notification, related).await;
                    }
                }
                Event::Cancelled { ticket, .. } => {
                    if let Some(task) = self.tasks.lock().remove(&Task::Call(ticket)) {
                        task.abort();
                    }
                }
                event => self.settle(event),
            }
        }
    }

    /// What needs no waiting.
    pub(super) fn settle(&self, event: Event<Waiter>) {
        match event {
            Event::Send(message) => self.send(|session, out| session.encode(&message, out)),
            Event::SendBatch(responses) => self.send(|session, out| session.encode_batch(&responses, out)),
            Event::Answered { owner, outcome, .. } => {
                // Whoever asked may have stopped waiting.
                let _ = owner.reply.send(outcome.map_err(PeerError::from));
            }
            _ => {}
        }
    }

    /// Posts something that no caller waits for, when there is a permit for it.
    fn send(&self, encode: impl FnOnce(&mut Session<Waiter>, &mut Vec<u8>)) {
        let mut body = Vec::new();
        encode(&mut self.session.lock(), &mut body);
        let (Some(me), Ok(runtime)) = (self.me.upgrade(), tokio::runtime::Handle::try_current()) else { return };
        let permit = self.posts.clone().try_acquire_owned();
        runtime.spawn(async move {
            let mut ended = me.ended.subscribe();
            let permit = async {
                match permit {
                    Ok(permit) => Ok(permit),
                    Err(_) => me.posts.clone().acquire_owned().await,
                }
            };
            let _permit = tokio::select! {
                biased;
                permit = permit => permit,
                () = over(&mut ended) => return,
            };
            let sent = tokio::time::timeout(RequestOptions::DEFAULT_TIMEOUT, me.post(body.into())).await;
            if let Ok(Err(error)) = sent {
                tracing::debug!(target: "turms::client", %error, "the server did not take a message");
            }
        });
    }

    fn observer(&self, id: &RequestId) -> Option<ObservedCall> {
        self.session.lock().owner(id)?.observer.clone()
    }

    async fn hear(&self, notification: Notification, related: Option<&ObservedCall>) {
        let cx = self.context(notification.params.as_ref(), related);
        dispatch_notification(&*self.service, notification, cx).await;
    }

    fn context(&self, params: Option<&RawJson>, related: Option<&ObservedCall>) -> CallContext {
        let peer = Peer::new(SessionLink(self.me.clone()));
        let mut cx = CallContext::new(self.dialect, peer).with_meta(Meta::of_params(params));
        if let Some(call) = related {
            cx.insert_extension(call.clone());
        }
        cx
    }

    /// The server asks. Its stream is read on meanwhile: it may tell that it does not want to know any more.
    fn admit(&self, call: Call, related: Option<&ObservedCall>) {
        let Call { request, ticket, .. } = call;
        if self.tasks.lock().len() > MOST_CALLS {
            let busy = ErrorObject::internal("too many requests in flight; wait for responses before sending more");
            return self.answer(&ticket, Err(busy));
        }
        let Some(me) = self.me.upgrade() else { return };
        if self.ended.borrow().is_some() {
            return;
        }
        let cx = self.context(request.params.as_ref(), related).with_id(ticket.id().clone());
        let method = request.method.clone();
        let call = dispatch(&*self.service, request.into(), cx);
        let key = Task::Call(ticket.clone());
        // Held until the task is noted, so that it cannot end before.
        let mut tasks = self.tasks.lock();
        // Whoever ends the session says so before it takes the tasks.
        if self.ended.borrow().is_some() {
            return;
        }
        let task = tokio::spawn(async move {
            let result = call.await.map_err(ErrorObject::from).and_then(|payload| encode(payload, &method));
            me.tasks.lock().remove(&Task::Call(ticket.clone()));
            me.answer(&ticket, result);
        });
        tasks.insert(key, task.abort_handle());
    }

    fn answer(&self, ticket: &Ticket, outcome: Result<RawJson, ErrorObject>) {
        for event in self.with(|session| session.answer(ticket, outcome)) {
            self.settle(event);
        }
    }
}

fn encode(payload: Payload, method: &str) -> Result<RawJson, ErrorObject> {
    let invalid = |problem| ErrorObject::internal(format!("the result of {method} is invalid: {problem}"));
    payload.into_raw().map_err(invalid)
}

/// The server, as the service sees it.
struct SessionLink(Weak<Shared>);

impl PeerTransport for SessionLink {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(async move {
            match self.0.upgrade() {
                Some(shared) => shared.tell(notification).await,
                None => Err(PeerError::Closed),
            }
        })
    }

    fn try_notify(&self, notification: Notification) -> bool {
        let Some(shared) = self.0.upgrade().filter(|shared| shared.ended.borrow().is_none()) else { return false };
        shared.send(|session, out| session.encode(&Message::Notification(notification), out));
        true
    }

    fn request(
        &self,
        method: ByteString,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(async move {
            let Some(shared) = self.0.upgrade() else { return Err(PeerError::Closed) };
            let params = params.map_or_else(Payload::default, Payload::json);
            let request = OutgoingRequest::new(method, params).options(options);
            let clock = request.clock.clone();
            clock.run(shared.ask(request)).await?
        })
    }
}
