//! Messages from the server: responses, notifications and requests.

use std::sync::Weak;

use turms_core::__internal::{dispatch, dispatch_notification, too_many_in_flight};
use turms_core::{BoxFuture, CallContext, ObservedCall, OutgoingRequest, Payload, Peer, PeerError, PeerTransport};
use turms_proto::session::{Call, Event, RequestOptions, Session, Ticket};
use turms_proto::types::{Meta, ProgressNotification};
use turms_proto::{ErrorObject, Incoming, Message, MessageError, MethodName, Notification, RawJson, RequestId};

use super::outgoing::wait_closed;
use super::shared::{ResponseWaiter, SessionShared, SessionTask, now};

/// Maximum number of requests of the server in flight.
const MAX_CALLS: usize = 256;

impl SessionShared {
    /// Handles a message that arrived on the stream of these requests; of none if it arrived on the standalone stream.
    pub(super) async fn receive(&self, incoming: Result<Incoming, MessageError>, stream_of: &[RequestId]) {
        for event in self.with_session(|session| session.receive(incoming, now())) {
            // The call of the stream, in case that the message belongs to it.
            let related = || match stream_of {
                [id] => self.observer(id),
                _ => None,
            };
            match event {
                Event::Request(call) => self.handle_request(*call, related()),
                Event::Notification(notification) => self.on_notification(notification, related()).await,
                Event::Progress { id, params } => match self.observer(&id) {
                    Some(observer) => observer.progress(&params),
                    None => {
                        if let Ok(report) = Notification::new::<ProgressNotification>(&params) {
                            self.on_notification(report, related()).await;
                        }
                    }
                },
                Event::SubscriptionNotification { id, notification } => {
                    let unhandled = match self.observer(&id) {
                        Some(observer) => observer.notification(notification),
                        None => Err(notification),
                    };
                    if let Err(notification) = unhandled {
                        self.on_notification(notification, related()).await;
                    }
                }
                Event::Cancelled { ticket, .. } => {
                    if let Some(task) = self.tasks.lock().remove(&SessionTask::Call(ticket)) {
                        task.abort();
                    }
                }
                event => self.handle_event(event),
            }
        }
    }

    /// Handles an event that needs no waiting.
    pub(super) fn handle_event(&self, event: Event<ResponseWaiter>) {
        match event {
            Event::Send(message) => self.post_in_background(|session, out| session.encode(&message, out)),
            Event::SendBatch(responses) => {
                self.post_in_background(|session, out| session.encode_batch(&responses, out))
            }
            Event::Answered { owner, outcome, .. } => {
                // The caller may have dropped its future.
                let _ = owner.reply.send(outcome.map_err(PeerError::from));
            }
            _ => {}
        }
    }

    /// Posts a message in the background, as soon as there is a permit.
    fn post_in_background(&self, encode: impl FnOnce(&mut Session<ResponseWaiter>, &mut Vec<u8>)) {
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
                () = wait_closed(&mut ended) => return,
            };
            if let Err(error) = me.post(body.into()).await {
                tracing::debug!(target: "turms::client", %error, "a message was not delivered");
            }
        });
    }

    fn observer(&self, id: &RequestId) -> Option<ObservedCall> {
        self.session.lock().owner(id)?.observer.clone()
    }

    async fn on_notification(&self, notification: Notification, related: Option<ObservedCall>) {
        let cx = self.context(notification.params.as_ref(), related);
        dispatch_notification(&*self.service, notification, cx).await;
    }

    fn context(&self, params: Option<&RawJson>, related: Option<ObservedCall>) -> CallContext {
        let peer = Peer::new(ChannelPeer(self.me.clone()));
        let mut cx = CallContext::new(self.dialect, peer).with_meta(Meta::of_params(params));
        if let Some(call) = related {
            cx.insert_extension(call);
        }
        cx
    }

    /// Runs a request of the server in its own task. The stream is read on meanwhile, because the server may cancel the request.
    fn handle_request(&self, call: Call, related: Option<ObservedCall>) {
        let Call { request, ticket, .. } = call;
        if self.tasks.lock().len() > MAX_CALLS {
            return self.respond(&ticket, Err(too_many_in_flight().into_object()));
        }
        let Some(me) = self.me.upgrade() else { return };
        if self.ended.borrow().is_some() {
            return;
        }
        let cx = self.context(request.params.as_ref(), related).with_id(ticket.id().clone());
        let method = request.method.clone();
        let call = dispatch(&*self.service, request.into(), cx);
        let key = SessionTask::Call(ticket.clone());
        // Locked until the task is stored, so that it cannot finish before.
        let mut tasks = self.tasks.lock();
        // Closing sets `ended` before it takes the tasks.
        if self.ended.borrow().is_some() {
            return;
        }
        let task = tokio::spawn(async move {
            let result = call.await.map_err(ErrorObject::from).and_then(|payload| encode(payload, &method));
            me.tasks.lock().remove(&SessionTask::Call(ticket.clone()));
            me.respond(&ticket, result);
        });
        tasks.insert(key, task.abort_handle());
    }

    fn respond(&self, ticket: &Ticket, outcome: Result<RawJson, ErrorObject>) {
        for event in self.with_session(|session| session.answer(ticket, outcome)) {
            self.handle_event(event);
        }
    }
}

fn encode(payload: Payload, method: &str) -> Result<RawJson, ErrorObject> {
    let invalid = |problem| ErrorObject::internal(format!("the result of {method} is invalid: {problem}"));
    payload.into_raw().map_err(invalid)
}

/// The server as the peer of the service.
struct ChannelPeer(Weak<SessionShared>);

impl PeerTransport for ChannelPeer {
    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(async move {
            match self.0.upgrade() {
                Some(shared) => shared.send_notification(notification).await,
                None => Err(PeerError::Closed),
            }
        })
    }

    fn try_notify(&self, notification: Notification) -> bool {
        let Some(shared) = self.0.upgrade().filter(|shared| shared.ended.borrow().is_none()) else { return false };
        shared.post_in_background(|session, out| session.encode(&Message::Notification(notification), out));
        true
    }

    fn request(
        &self,
        method: MethodName,
        params: Option<RawJson>,
        options: RequestOptions,
    ) -> BoxFuture<'_, Result<RawJson, PeerError>> {
        Box::pin(async move {
            let Some(shared) = self.0.upgrade() else { return Err(PeerError::Closed) };
            let params = params.map_or_else(Payload::default, Payload::json);
            let request = OutgoingRequest::new(method, params).options(options);
            let clock = request.clock.clone();
            clock.run(shared.request(request)).await?
        })
    }
}
