//! A channel without a session: each request is one POST, and what comes back is read in the request's own future.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use bytestring::ByteString;
use futures_util::future::join_all;
use http::HeaderMap;
use tokio::sync::Notify;
use turms_core::{
    BoxFuture, CallClock, CallContext, CallUpdates, Channel, ChannelControl, Counters, Ended, OutgoingRequest, Payload,
    Peer, PeerError, Service, TransportInfo, Update, dispatch_notification, write_params,
};
use turms_proto::jsonrpc::encode;
use turms_proto::method::{Method as _, Notification as _};
use turms_proto::session::{Dialect, RelatedRequest, RequestError, RequestOptions, Stats};
use turms_proto::types::{CallTool, Cancelled, ListTools, Meta, key};
use turms_proto::{
    EncodeError, ErrorCode, Incoming, Message, Notification, Object, ProtocolVersion, RawJson, RequestId, Response,
};

use super::endpoint::Endpoint;
use super::error::HttpError;
use super::headers::Mirror;
use super::read_rest;
use super::reply::{EventStream, Reply, messages};

/// A channel to a server that is spoken to without a handshake.
pub(super) struct StatelessChannel {
    endpoint: Arc<Endpoint>,
    service: Arc<dyn Service>,
    version: ProtocolVersion,
    mirror: Mirror,
    last_id: AtomicI64,
    counters: Counters,
    gate: Gate,
}

/// The open or closed state of the channel.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    told: Notify,
}

impl Gate {
    fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.told.notify_waiters();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until it is closed.
    async fn closed(&self) {
        let mut told = pin!(self.told.notified());
        // From here on nothing is missed, so looking once is enough.
        told.as_mut().enable();
        if !self.is_closed() {
            told.await;
        }
    }
}

/// Maximum number of pages of tools that are fetched to learn which arguments headers mirror.
const MAX_PAGES: usize = 100;

impl StatelessChannel {
    pub(super) fn new(endpoint: Arc<Endpoint>, service: Arc<dyn Service>, version: ProtocolVersion) -> Self {
        Self {
            endpoint,
            service,
            version,
            mirror: Mirror::default(),
            last_id: AtomicI64::new(0),
            counters: Counters::default(),
            gate: Gate::default(),
        }
    }

    async fn exchange(&self, mut request: OutgoingRequest) -> Result<Payload, PeerError> {
        let updates = request.take_updates();
        let OutgoingRequest { method, params, meta, wants_progress, clock, .. } = request;
        let call = Call { method, params, meta, wants_progress, updates };
        if self.gate.is_closed() {
            return Err(PeerError::Closed);
        }
        let counted = self.counters.request(clock);
        let outcome = tokio::select! {
            biased;
            outcome = self.call(&call) => outcome,
            () = self.gate.closed() => Err(PeerError::Request(RequestError::Closed)),
        };
        counted.finish(outcome).map(Payload::json)
    }

    async fn call(&self, call: &Call) -> Result<RawJson, PeerError> {
        let outcome = self.ask(call).await;
        let mismatched = |error: &PeerError| match error {
            PeerError::Request(RequestError::Peer(error)) => error.code == ErrorCode::HEADER_MISMATCH,
            _ => false,
        };
        if &*call.method == CallTool::NAME && outcome.as_ref().is_err_and(mismatched) {
            return Box::pin(self.call_again(call)).await;
        }
        outcome
    }

    /// The tool is not as it was known, if it was known: looks anew, and tries once more.
    async fn call_again(&self, call: &Call) -> Result<RawJson, PeerError> {
        self.relearn(call).await;
        self.ask(call).await
    }

    /// Asks for the list of tools, to see what they want to be repeated.
    async fn relearn(&self, call: &Call) {
        let mut cursor: Option<RawJson> = None;
        for _ in 0..MAX_PAGES {
            let mut params = Object::new();
            if let Some(cursor) = &cursor {
                params.insert_raw("cursor", cursor);
            }
            let list = Call {
                method: ByteString::from_static(ListTools::NAME),
                params: Payload::json(params.into()),
                meta: call.whole_meta(),
                wants_progress: false,
                updates: None,
            };
            let Ok(page) = self.ask(&list).await else { return };
            cursor = page.member("nextCursor").filter(|cursor| !cursor.is_null());
            if cursor.is_none() {
                return;
            }
        }
    }

    /// One POST and what comes of it.
    async fn ask(&self, call: &Call) -> Result<RawJson, PeerError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = Asked { id: RequestId::Number(id), updates: call.updates.as_ref() };
        let headers = self.mirror.headers(self.version, &call.method, Some(&call.params))?;
        let body = call.body(id)?;
        let reply = self.post(body.into(), headers).await?;
        let result = match reply {
            Reply::Json(body) => {
                self.counters.received(body.len());
                read_answer(Incoming::decode(body, 1), &asked)
            }
            Reply::Events(events) => Box::pin(self.read_events(*events, &asked)).await,
            Reply::Refused(_, error) => Err(PeerError::Request(RequestError::Peer(error))),
            Reply::Nothing => Err(HttpError::Message("it is empty".to_owned()).into()),
        }?;
        if &*call.method == ListTools::NAME {
            self.mirror.learn(&result);
        }
        Ok(result)
    }

    async fn post(&self, body: Bytes, headers: HeaderMap) -> Result<Reply, HttpError> {
        self.counters.sent(body.len());
        let response = self.endpoint.post(body, headers).await?;
        Reply::read(&self.endpoint, response).await
    }

    async fn read_events(&self, mut events: EventStream, asked: &Asked<'_>) -> Result<RawJson, PeerError> {
        loop {
            let Some(event) = events.next().await? else { return Err(HttpError::Cut.into()) };
            self.counters.received(event.data.len());
            match messages(event, 1) {
                None => {}
                Some(Ok(Incoming::One(Message::Notification(notification)))) => self.hear(notification, asked).await,
                // Servers of this era do not ask.
                Some(Ok(Incoming::One(Message::Request(request)))) => {
                    tracing::debug!(target: "turms::client", method = %request.method, "a request by the server is ignored");
                }
                Some(answer) => {
                    let answer = read_answer(answer, asked);
                    read_rest(async move { while let Ok(Some(_)) = events.next().await {} }).await;
                    return answer;
                }
            }
        }
    }

    /// Delivers a notification to the request that it belongs to, or to the service.
    async fn hear(&self, notification: Notification, asked: &Asked<'_>) {
        self.counters.notification_received();
        if let (Some(update), Some(updates)) = (asked.update(&notification), asked.updates) {
            return updates.send(update);
        }
        let meta = Meta::of_params(notification.params.as_ref());
        let cx = CallContext::new(Dialect::Stateless(self.version), Peer::nobody()).with_meta(meta);
        dispatch_notification(&*self.service, notification, cx).await;
    }

    async fn tell(&self, notification: Notification) -> Result<(), PeerError> {
        if self.gate.is_closed() {
            return Err(PeerError::Closed);
        }
        // Closing the stream is the way to give something up here, and the only one.
        if &*notification.method == Cancelled::NAME {
            return Ok(());
        }
        let headers = self.mirror.headers(self.version, &notification.method, None)?;
        let mut body = Vec::new();
        notification.encode(&mut body);
        self.counters.notification_sent();
        match CallClock::from(RequestOptions::default()).run(self.post(body.into(), headers)).await?? {
            Reply::Refused(_, error) => Err(PeerError::Request(RequestError::Peer(error))),
            _ => Ok(()),
        }
    }
}

fn read_answer(answer: Result<Incoming, turms_proto::InvalidMessage>, asked: &Asked<'_>) -> Result<RawJson, PeerError> {
    let not_one = |problem: &str| Err(HttpError::Message(problem.to_owned()).into());
    match answer {
        Ok(Incoming::One(Message::Response(Response { id, outcome, .. }))) => match outcome {
            // An error about something unreadable may have no id, but there is only one request that it can be about.
            Err(error) if id.is_none() => Err(PeerError::Request(RequestError::Peer(Box::new(error)))),
            _ if id.as_ref() != Some(&asked.id) => not_one("it answers another request"),
            outcome => outcome.map_err(|error| PeerError::Request(RequestError::Peer(Box::new(error)))),
        },
        Ok(Incoming::One(_)) => not_one("it is no answer"),
        Ok(Incoming::Batch(_)) => not_one("it is a batch"),
        Err(invalid) => not_one(&invalid.to_string()),
    }
}

/// A request that can be made more than once.
struct Call {
    method: ByteString,
    params: Payload,
    /// Protocol metadata to be merged into the `_meta` of the parameters.
    meta: Option<Meta>,
    wants_progress: bool,
    updates: Option<CallUpdates>,
}

impl Call {
    /// The message under this id, which is also the token of its progress.
    fn body(&self, id: i64) -> Result<Vec<u8>, EncodeError> {
        let mut meta = Cow::Borrowed(&self.meta);
        if self.wants_progress {
            meta.to_mut().get_or_insert_default().insert_raw(key::PROGRESS_TOKEN, &RawJson::number(id));
        }
        let known = meta.as_ref().as_ref().map_or(0, |meta| meta.as_str().len());
        let mut body = Vec::with_capacity(self.params.size_hint() + known + USUAL_SIZE);
        let write = |out: &mut Vec<u8>| write_params(&self.params, meta.as_ref().as_ref(), out);
        encode::request_with(&mut body, &RequestId::Number(id), &self.method, write)?;
        Ok(body)
    }

    /// All of its `_meta` that others may have, too.
    fn whole_meta(&self) -> Option<Meta> {
        let mut request = Vec::new();
        write_params(&self.params, self.meta.as_ref(), &mut request).ok()?;
        let params = Object::parse(String::from_utf8(request).ok()?).ok()?;
        let mut meta = params.get("_meta")?.as_object()?;
        meta.remove(key::PROGRESS_TOKEN);
        Some(meta.into())
    }
}

/// Number of bytes that most messages have beside their parameters and metadata.
const USUAL_SIZE: usize = 256;

/// A request that was made.
struct Asked<'a> {
    id: RequestId,
    updates: Option<&'a CallUpdates>,
}

impl Asked<'_> {
    /// The update that a notification is for this request.
    fn update(&self, notification: &Notification) -> Option<Update> {
        match RelatedRequest::of(notification)? {
            RelatedRequest::Progress(params) if params.progress_token == self.id => Some(Update::Progress(params)),
            RelatedRequest::Subscription(id) if id == self.id => Some(Update::Told(notification.clone())),
            _ => None,
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
        Box::pin(self.tell(notification))
    }
}

impl ChannelControl for StatelessChannel {
    fn info(&self) -> TransportInfo {
        TransportInfo::unordered()
    }

    fn stats(&self) -> Stats {
        self.counters.stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.gate.close();
        Box::pin(std::future::ready(()))
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        Box::pin(async move {
            self.gate.closed().await;
            Ended::new()
        })
    }
}
