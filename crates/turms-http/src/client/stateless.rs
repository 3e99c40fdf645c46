//! The stateless channel of 2026-07-28: each request is one POST, and its future reads the response.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use futures_util::future::join_all;
use http::HeaderMap;
use tokio::sync::Notify;
use turms_core::__internal::{dispatch_notification, write_params};
use turms_core::{
    BoxFuture, CallClock, CallContext, Channel, ChannelControl, CloseInfo, Counters, ObservedCall, OutgoingRequest,
    Payload, Peer, PeerError, Service, TransportInfo,
};
use turms_proto::jsonrpc::encode;
use turms_proto::method::{Method as _, NotificationMethod as _};
use turms_proto::session::{ConnectionStats, Dialect, RelatedRequest, RequestOptions};
use turms_proto::types::{CallTool, CancelledNotification, ListTools, Meta, key};
use turms_proto::{
    EncodeError, ErrorCode, Incoming, Message, MethodName, Notification, Object, ProtocolVersion, RawJson, RequestId,
    Response,
};

use super::endpoint::{HttpEndpoint, RequestScope};
use super::error::HttpError;
use super::headers::RequestHeaders;
use super::read_rest;
use super::reply::{HttpReply, ResponseEvents, messages};

/// A channel to a server without a handshake.
pub(super) struct StatelessChannel {
    endpoint: Arc<HttpEndpoint>,
    service: Arc<dyn Service>,
    version: ProtocolVersion,
    request_headers: RequestHeaders,
    last_id: AtomicI64,
    counters: Counters,
    close_signal: CloseSignal,
}

/// Signals that the channel is closed.
#[derive(Default)]
struct CloseSignal {
    closed: AtomicBool,
    notify: Notify,
}

impl CloseSignal {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until it is closed.
    async fn closed(&self) {
        let mut notify = pin!(self.notify.notified());
        // Registered before the check, so that no notification is missed.
        notify.as_mut().enable();
        if !self.is_closed() {
            notify.await;
        }
    }
}

/// Maximum number of pages of tools that are fetched to find the arguments that are mirrored in headers.
const MAX_PAGES: usize = 100;

impl StatelessChannel {
    pub(super) fn new(endpoint: Arc<HttpEndpoint>, service: Arc<dyn Service>, version: ProtocolVersion) -> Self {
        Self {
            endpoint,
            service,
            version,
            request_headers: RequestHeaders::default(),
            last_id: AtomicI64::new(0),
            counters: Counters::default(),
            close_signal: CloseSignal::default(),
        }
    }

    async fn exchange(&self, mut request: OutgoingRequest) -> Result<Payload, PeerError> {
        let observer = request.take_observer();
        let OutgoingRequest { method, params, meta, wants_progress, clock, is_background, .. } = request;
        let call =
            StatelessCall { method, params, meta, wants_progress, observer, clock: clock.clone(), is_background };
        if self.close_signal.is_closed() {
            return Err(PeerError::Closed);
        }
        let counted = self.counters.request(clock);
        let outcome = tokio::select! {
            biased;
            outcome = self.call(&call) => outcome,
            () = self.close_signal.closed() => Err(PeerError::ClosedBeforeResponse),
        };
        counted.finish(outcome).map(Payload::json)
    }

    async fn call(&self, call: &StatelessCall) -> Result<RawJson, PeerError> {
        let outcome = self.send_call(call).await;
        let mismatched = |error: &PeerError| match error {
            PeerError::ErrorResponse(error) => error.code == ErrorCode::HEADER_MISMATCH,
            _ => false,
        };
        if &*call.method == CallTool::NAME && outcome.as_ref().is_err_and(mismatched) {
            return Box::pin(self.retry_with_headers(call)).await;
        }
        outcome
    }

    /// Reads the schemas of the tools again after a header mismatch, and retries the call once.
    async fn retry_with_headers(&self, call: &StatelessCall) -> Result<RawJson, PeerError> {
        self.refresh_tools(call).await;
        self.send_call(call).await
    }

    /// Requests the list of tools to learn which arguments are mirrored in headers.
    async fn refresh_tools(&self, call: &StatelessCall) {
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let mut params = Object::new();
            if let Some(cursor) = &cursor {
                params.insert_raw("cursor", cursor);
            }
            let list = StatelessCall {
                method: MethodName::from_static(ListTools::NAME),
                params: Payload::json(params.into()),
                meta: call.merged_meta(),
                wants_progress: false,
                observer: None,
                clock: call.clock.clone(),
                is_background: call.is_background,
            };
            let Ok(page) = self.send_call(&list).await else { return };
            cursor = page.member("nextCursor").filter(|cursor| !cursor.is_null());
            if cursor.is_none() {
                return;
            }
        }
    }

    /// Posts a call and reads its response.
    async fn send_call(&self, call: &StatelessCall) -> Result<RawJson, PeerError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let sent = SentRequest { id: RequestId::Number(id), observer: call.observer.as_ref() };
        let headers = self.request_headers.headers(self.version, &call.method, Some(&call.params))?;
        let body = call.body(id)?;
        let scope = RequestScope::call(std::slice::from_ref(&call.clock), call.is_background);
        let reply = self.post(body.into(), headers, scope).await?;
        let result = match reply {
            HttpReply::Json(body) => {
                self.counters.received(body.len());
                decode_response(Incoming::decode(body, 1), &sent)
            }
            HttpReply::Events(events) => Box::pin(self.read_events(*events, &sent)).await,
            HttpReply::Refused(_, error) => Err(PeerError::ErrorResponse(error)),
            HttpReply::Nothing => Err(HttpError::Message("empty body".to_owned()).into()),
        }?;
        if &*call.method == ListTools::NAME {
            self.request_headers.learn(&result);
        }
        Ok(result)
    }

    async fn post(&self, body: Bytes, headers: HeaderMap, scope: RequestScope<'_>) -> Result<HttpReply, HttpError> {
        self.counters.sent(body.len());
        let response = self.endpoint.post(body, headers, scope).await?;
        HttpReply::read(&self.endpoint, response).await
    }

    async fn read_events(&self, mut events: ResponseEvents, sent: &SentRequest<'_>) -> Result<RawJson, PeerError> {
        loop {
            let Some(event) = events.next().await? else { return Err(HttpError::StreamEnded.into()) };
            self.counters.received(event.data.len());
            match messages(event, 1) {
                None => {}
                Some(Ok(Incoming::One(Message::Notification(notification)))) => {
                    self.on_notification(notification, sent).await
                }
                // Servers of this era do not send requests.
                Some(Ok(Incoming::One(Message::Request(request)))) => {
                    tracing::debug!(target: "turms::client", method = %request.method, "ignored a request of the server");
                }
                Some(incoming) => {
                    let response = decode_response(incoming, sent);
                    read_rest(async move { while let Ok(Some(_)) = events.next().await {} }).await;
                    return response;
                }
            }
        }
    }

    /// Delivers a notification to the request that it belongs to, or to the service.
    async fn on_notification(&self, notification: Notification, sent: &SentRequest<'_>) {
        self.counters.notification_received();
        let Some(notification) = sent.observe(notification) else { return };
        let meta = Meta::of_params(notification.params.as_ref());
        let mut cx = CallContext::new(Dialect::Stateless(self.version), Peer::disconnected()).with_meta(meta);
        if let Some(observer) = sent.observer {
            cx.insert_extension(observer.clone());
        }
        dispatch_notification(&*self.service, notification, cx).await;
    }

    async fn send_notification(&self, notification: Notification) -> Result<(), PeerError> {
        if self.close_signal.is_closed() {
            return Err(PeerError::Closed);
        }
        // In this era, a request is cancelled by closing its stream.
        if &*notification.method == CancelledNotification::NAME {
            return Ok(());
        }
        let headers = self.request_headers.headers(self.version, &notification.method, None)?;
        let mut body = Vec::new();
        notification.encode(&mut body);
        self.counters.notification_sent();
        let clock = CallClock::from(RequestOptions::default());
        let scope = RequestScope::stream(std::slice::from_ref(&clock));
        match clock.run(self.post(body.into(), headers, scope)).await?? {
            HttpReply::Refused(_, error) => Err(PeerError::ErrorResponse(error)),
            _ => Ok(()),
        }
    }
}

fn decode_response(
    incoming: Result<Incoming, turms_proto::MessageError>,
    sent: &SentRequest<'_>,
) -> Result<RawJson, PeerError> {
    let invalid_message = |problem: &str| Err(HttpError::Message(problem.to_owned()).into());
    match incoming {
        Ok(Incoming::One(Message::Response(Response { id, outcome, .. }))) => match outcome {
            // An error about an unreadable request may have no id. There is only one request, so the error is for it.
            Err(error) if id.is_none() => Err(PeerError::ErrorResponse(Box::new(error))),
            _ if id.as_ref() != Some(&sent.id) => invalid_message("it is for another request"),
            outcome => outcome.map_err(|error| PeerError::ErrorResponse(Box::new(error))),
        },
        Ok(Incoming::One(_)) => invalid_message("it is not a response"),
        Ok(Incoming::Batch(_)) => invalid_message("it is a batch"),
        Err(invalid) => invalid_message(&invalid.to_string()),
    }
}

/// A call that can be sent more than once.
struct StatelessCall {
    method: MethodName,
    params: Payload,
    /// Protocol metadata to be merged into the `_meta` of the parameters.
    meta: Option<Meta>,
    wants_progress: bool,
    observer: Option<ObservedCall>,
    clock: CallClock,
    is_background: bool,
}

impl StatelessCall {
    /// Encodes the request with this id, which is also its progress token.
    fn body(&self, id: i64) -> Result<Vec<u8>, EncodeError> {
        let mut meta = Cow::Borrowed(&self.meta);
        if self.wants_progress {
            meta.to_mut().get_or_insert_default().insert_raw(key::PROGRESS_TOKEN, &RawJson::number(id));
        }
        let meta_bytes = meta.as_ref().as_ref().map_or(0, |meta| meta.as_str().len());
        let mut body = Vec::with_capacity(self.params.size_hint() + meta_bytes + BASE_BYTES);
        let write = |out: &mut Vec<u8>| write_params(&self.params, meta.as_ref().as_ref(), out);
        encode::request_with(&mut body, &RequestId::Number(id), &self.method, write)?;
        Ok(body)
    }

    /// Returns the merged `_meta` of the call for other requests, without the progress token.
    fn merged_meta(&self) -> Option<Meta> {
        let mut request = Vec::new();
        write_params(&self.params, self.meta.as_ref(), &mut request).ok()?;
        let params = Object::parse(String::from_utf8(request).ok()?).ok()?;
        let mut meta = params.get("_meta")?.as_object()?;
        meta.remove(key::PROGRESS_TOKEN);
        Some(meta.into())
    }
}

/// Usual size of a request without its parameters and metadata.
const BASE_BYTES: usize = 256;

/// A request that was sent.
struct SentRequest<'a> {
    id: RequestId,
    observer: Option<&'a ObservedCall>,
}

impl SentRequest<'_> {
    /// Delivers progress and notifications of a subscription to the observer of the request; returns all others.
    fn observe(&self, notification: Notification) -> Option<Notification> {
        let Some(observer) = self.observer else { return Some(notification) };
        match RelatedRequest::of(&notification) {
            Some(RelatedRequest::Progress(params)) if params.progress_token == self.id => {
                observer.progress(&params);
                None
            }
            Some(RelatedRequest::Subscription(id)) if id == self.id => observer.notification(notification).err(),
            _ => Some(notification),
        }
    }
}

impl Channel for StatelessChannel {
    fn call(&self, request: OutgoingRequest) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(self.exchange(request))
    }

    fn call_batch(&self, requests: Vec<OutgoingRequest>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(join_all(requests.into_iter().map(|request| async move {
            let clock = request.clock.clone();
            clock.run(self.exchange(request)).await?
        })))
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.send_notification(notification))
    }
}

impl ChannelControl for StatelessChannel {
    fn info(&self) -> TransportInfo {
        TransportInfo::unordered()
    }

    fn stats(&self) -> ConnectionStats {
        self.counters.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.close_signal.close();
        Box::pin(std::future::ready(()))
    }

    fn closed(&self) -> BoxFuture<'_, CloseInfo> {
        Box::pin(async move {
            self.close_signal.closed().await;
            CloseInfo::new()
        })
    }
}
