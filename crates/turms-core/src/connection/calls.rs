//! Messages of the peer, and the calls that they start.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use turms_proto::method::Method as _;
use turms_proto::session::{Call, Dialect, Event, ResponseAction, Ticket};
use turms_proto::types::{Listen, Meta, ProgressNotification, ProgressParams};
use turms_proto::{ErrorObject, Incoming, LineTooLong, Message, Notification, ProtocolVersion, RequestId, Response};

use super::handle::{ConnectionCommand, PendingRequest, SessionCommand, WaitingCaller};
use super::in_flight::CallPermit;
use super::{Connection, ConnectionStage, now};
use crate::cancellation::CancellationToken;
use crate::channel::ObservedCall;
use crate::context::CallContext;
use crate::dispatch::{dispatch, encode_failure, notification_guard};
use crate::service::{CallResult, Request, Service};
use crate::service_error::too_many_in_flight;
use crate::session::{CloseReason, SessionHandle};

/// A call that has finished.
#[derive(Debug)]
pub(super) struct FinishedCall {
    ticket: Ticket,
    result: CallResult,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    pub(super) fn handle_lines(&mut self, service: &impl Service, task: &mut TaskContext<'_>) {
        loop {
            self.has_unhandled_lines = !self.may_read() || self.output.is_full();
            if self.has_unhandled_lines {
                return;
            }
            let Some(line) = self.lines.next_line() else { return };
            if let Some(extensions) = &self.line_extensions {
                self.extensions = extensions.pop();
                if let Some(principal) = self.extensions.as_ref().and_then(|extensions| extensions.get()) {
                    self.session.note_principal(principal);
                }
            }
            if let Some(call) = self.decode_line(line) {
                self.admit_call(call, service, task);
            }
            self.handle_events(service, task);
        }
    }

    pub(super) fn decode_line(&mut self, line: Result<Bytes, LineTooLong>) -> Option<Call> {
        match line {
            Ok(line) => {
                let incoming = Incoming::decode(line, self.limits.max_batch);
                self.protocol.receive_call(incoming, now())
            }
            Err(too_long) => {
                tracing::warn!(limit = too_long.limit, "message discarded: longer than the limit in bytes");
                self.protocol.receive_too_long(too_long, now());
                None
            }
        }
    }

    /// Handles all events of the protocol session.
    pub(super) fn handle_events(&mut self, service: &impl Service, task: &mut TaskContext<'_>) {
        while let Some(event) = self.protocol.next_event() {
            match event {
                Event::Send(message) => {
                    if let Message::Response(Response { id, outcome: Err(error), .. }) = &message {
                        let id = id.as_ref().map(tracing::field::display);
                        tracing::debug!(id, code = error.code.0, "request refused");
                    }
                    self.output.push(&mut self.protocol, &message);
                }
                Event::SendBatch(responses) => self.output.push_batch(&mut self.protocol, &responses),
                Event::Request(call) => self.admit_call(*call, service, task),
                Event::Notification(notification) => self.handle_notification(notification, service, task),
                Event::Answered { owner, outcome, .. } => {
                    self.pending.remove(&owner.key);
                    owner.settle(outcome);
                }
                Event::Cancelled { ticket, reason } => self.in_flight.cancel(&ticket, reason),
                Event::Progress { id, params } => self.handle_progress(&id, &params, service, task),
                Event::SubscriptionNotification { id, notification } => {
                    self.handle_subscribed(&id, notification, service, task)
                }
                Event::Opened(opened) => {
                    let opened = Some(Ok(Arc::from(opened)));
                    self.state.send_modify(|state| state.opened = opened);
                }
                Event::SessionEnded => self.begin_session(),
                Event::OpenFailed(error) => {
                    self.state.send_modify(|state| state.opened = Some(Err(error)));
                }
                _ => {}
            }
        }
    }

    /// Begins another session, after the client has sent `initialize` again. Handlers of the earlier session cannot send messages to it.
    fn begin_session(&mut self) {
        self.in_flight.stop_notifications();
        self.session_number += 1;
        let number = self.session_number;
        self.session.close(CloseReason::Client);
        self.session = SessionHandle::new(self.handle.peer_in(Some(number)));
        self.state.send_modify(|state| state.session = number);
    }

    fn context(&self, dialect: Dialect, id: Option<RequestId>, meta: Option<Meta>) -> CallContext {
        let (peer, session) = match dialect {
            Dialect::Handshake(_) => (self.session.peer(), Some(self.session.clone())),
            _ => (&self.peer, None),
        };
        let (peer, extensions) = (peer.clone(), self.extensions.clone());
        let mut cx = CallContext { dialect, id, meta, peer, session, request: None, extensions, cancellation: None };
        if let Some(call) = self.related_call() {
            cx.insert_extension(call);
        }
        cx
    }

    /// The call that a message of the peer belongs to. A byte stream does not tell; but if one request of ours is in flight, it is that.
    fn related_call(&self) -> Option<ObservedCall> {
        let mut pending = self.pending.values();
        match (pending.next(), pending.next()) {
            (Some(id), None) => self.protocol.owner(id)?.observer().cloned(),
            _ => None,
        }
    }

    pub(super) fn admit_call(&mut self, call: Call, service: &impl Service, task: &mut TaskContext<'_>) {
        if self.stage != ConnectionStage::Open {
            let message = "the connection is closing; no more requests are accepted";
            return self.refuse(&call.ticket, ErrorObject::internal(message));
        }
        match self.in_flight.admit(&call, &self.limits) {
            CallPermit::Start => self.start_call(call, service, task),
            CallPermit::Wait => self.in_flight.wait(call, self.extensions.clone()),
            CallPermit::Refuse => self.refuse(&call.ticket, too_many_in_flight().into_object()),
        }
    }

    pub(super) fn refuse(&mut self, ticket: &Ticket, error: ErrorObject) {
        self.protocol.answer(ticket, Err(error));
    }

    /// Starts calls and notification handlers that have waited for others to finish.
    pub(super) fn start_waiting(&mut self, service: &impl Service, task: &mut TaskContext<'_>) {
        while let Some((call, extensions)) = self.in_flight.next(&self.limits) {
            self.extensions = extensions;
            self.start_call(call, service, task);
            self.handle_events(service, task);
        }
        while let Some((notification, extensions)) = self.in_flight.next_notification(&self.limits) {
            self.extensions = extensions;
            self.start_notification(notification, service, task);
        }
    }

    /// Starts a call. Most calls finish when they are first polled and need no task of their own.
    fn start_call(&mut self, call: Call, service: &impl Service, task: &mut TaskContext<'_>) {
        let Call { request, dialect, ticket, meta, .. } = call;
        let cancellation = CancellationToken::new();
        let cx = self.context(dialect, Some(ticket.id().clone()), meta).with_cancellation(cancellation.clone());
        let is_subscription = &*request.method == Listen::NAME;
        let mut call = dispatch(service, Request::from(request), cx);
        match Pin::new(&mut call).poll(task) {
            Poll::Ready(result) => self.finish_call(FinishedCall { ticket, result }),
            Poll::Pending => {
                let finished = self.finished_calls_sender.clone();
                self.in_flight.spawn(ticket.clone(), is_subscription, cancellation, async move {
                    let result = call.await;
                    // The connection may have closed meanwhile.
                    let _ = finished.send(FinishedCall { ticket, result });
                });
            }
        }
    }

    fn handle_notification(&mut self, notification: Notification, service: &impl Service, task: &mut TaskContext<'_>) {
        if self.in_flight.can_notify(&self.limits) {
            self.start_notification(notification, service, task);
        } else {
            self.in_flight.wait_to_notify(notification, self.extensions.clone(), &self.limits);
        }
    }

    fn start_notification(&mut self, notification: Notification, service: &impl Service, task: &mut TaskContext<'_>) {
        let dialect = self.protocol.dialect().unwrap_or(Dialect::Handshake(ProtocolVersion::LATEST_WITH_HANDSHAKE));
        let cx = self.context(dialect, None, Meta::of_params(notification.params.as_ref()));
        let mut handler = notification_guard(service, notification, cx);
        if Pin::new(&mut handler).poll(task).is_pending() {
            self.in_flight.spawn_notification(async move {
                let _ = handler.await;
            });
        }
    }

    /// Delivers progress of one of our requests to its caller, or to the service if the caller does not receive updates.
    fn handle_progress(
        &mut self,
        id: &RequestId,
        params: &ProgressParams,
        service: &impl Service,
        task: &mut TaskContext<'_>,
    ) {
        match self.protocol.owner(id).and_then(WaitingCaller::observer) {
            Some(observer) => observer.progress(params),
            None => {
                if let Ok(notification) = Notification::new::<ProgressNotification>(params) {
                    self.handle_notification(notification, service, task);
                }
            }
        }
    }

    /// Delivers a notification of one of our subscriptions to its caller, or to the service if the caller does not receive updates.
    fn handle_subscribed(
        &mut self,
        id: &RequestId,
        notification: Notification,
        service: &impl Service,
        task: &mut TaskContext<'_>,
    ) {
        let unhandled = match self.protocol.owner(id).and_then(WaitingCaller::observer) {
            Some(observer) => observer.notification(notification),
            None => Err(notification),
        };
        if let Err(notification) = unhandled {
            self.handle_notification(notification, service, task);
        }
    }

    /// Sends the response of a call. Messages that the handler has sent before are sent first.
    pub(super) fn finish_call(&mut self, call: FinishedCall) {
        while let Ok(command) = self.commands.try_recv() {
            self.handle_command(command);
        }
        let FinishedCall { ticket, result } = call;
        self.in_flight.finished(&ticket);
        match self.protocol.complete(&ticket, result.is_ok()) {
            ResponseAction::Send => self.output.push_response(&mut self.protocol, ticket.id(), result),
            ResponseAction::Collect(batch) => {
                let result = result.and_then(|payload| payload.into_raw().map_err(|error| encode_failure(&error)));
                self.protocol.collect(batch, Response::new(ticket.id().clone(), result.map_err(Into::into)));
            }
            _ => {}
        }
    }

    pub(super) fn handle_command(&mut self, command: SessionCommand) {
        if command.session.is_some_and(|session| session != self.session_number) {
            return;
        }
        match command.command {
            ConnectionCommand::Notify(notification) => {
                let Notification { method, params, .. } = notification;
                if let Ok(notification) = self.protocol.notify(method, params) {
                    self.output.push(&mut self.protocol, &Message::Notification(notification));
                }
            }
            ConnectionCommand::Request(request) => {
                if let Some(request) = self.register(request) {
                    self.output.push(&mut self.protocol, &Message::Request(request));
                }
            }
            ConnectionCommand::Batch(requests) => {
                let requests: Vec<_> = requests.into_iter().filter_map(|request| self.register(request)).collect();
                self.output.push_requests(&mut self.protocol, requests);
            }
        }
    }

    /// Registers a request with the session, unless its caller has stopped waiting or the session does not allow it.
    fn register(&mut self, request: PendingRequest) -> Option<turms_proto::Request> {
        let PendingRequest { method, params, options, caller } = request;
        if caller.is_gone() {
            return None;
        }
        if let Err(error) = self.protocol.may_request(&method) {
            caller.refuse(error);
            return None;
        }
        let key = caller.key;
        let request = self.protocol.request(method, params, options, caller, now()).ok()?;
        self.pending.insert(key, request.id.clone());
        Some(request)
    }
}
