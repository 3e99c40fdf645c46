//! A channel with a session, for the revisions that begin with a handshake: messages are posted, and whatever comes back on
//! any stream goes through the one state machine.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio::sync::{oneshot, watch};
use tokio::task::AbortHandle;
use turms_core::{
    BoxFuture, Channel, Context, Ended, Guarded, GuardedNotify, Link, Outgoing, Payload, Peer, PeerError, Service,
    Update, Updates,
};
use turms_proto::revision::Translate as _;
use turms_proto::session::{Call, Dialect, Event, RequestError, RequestOptions, Session, Stats, Ticket};
use turms_proto::types::{Meta, Progress};
use turms_proto::{
    Ability, DEFAULT_BATCH_LIMIT, ErrorCode, ErrorObject, Incoming, InvalidMessage, Message, Notification, RawJson,
    RequestId, Response, header,
};

use super::endpoint::Endpoint;
use super::error::HttpError;
use super::reply::Reply;
use super::{TURNS, ends_within, join_all, stream};

/// A channel to a server that has shaken hands. Dropping it ends the session.
pub(super) struct SessionChannel(Arc<Shared>);

/// What the channel, its streams and the calls of the server share.
pub(super) struct Shared {
    me: Weak<Self>,
    pub(super) endpoint: Arc<Endpoint>,
    service: Arc<dyn Service>,
    dialect: Dialect,
    /// What every request says: the session, and the revision where that is said.
    pub(super) headers: HeaderMap,
    /// Requests come from many tasks and answers on many streams, and none of them is the driver; so it is guarded by a lock,
    /// held for the time of one message.
    session: Mutex<Session<Waiter>>,
    /// What the server asked and has no answer yet, and the stream that is always open.
    tasks: Mutex<HashMap<Task, AbortHandle>>,
    ended: watch::Sender<Option<Ended>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Task {
    Stream,
    Call(Ticket),
}

/// Who waits for an answer.
pub(super) struct Waiter {
    reply: oneshot::Sender<Result<RawJson, PeerError>>,
    updates: Option<Updates>,
}

type Answer = oneshot::Receiver<Result<RawJson, PeerError>>;

/// How many requests of the server's may be at work at once.
const MOST_CALLS: usize = 256;

/// How long the end of a session may take. It would expire anyway.
const GOODBYE: Duration = Duration::from_secs(2);

impl SessionChannel {
    /// A channel in a session that has just been opened.
    pub(super) fn new(
        endpoint: Arc<Endpoint>,
        service: Arc<dyn Service>,
        session: Session<Waiter>,
        dialect: Dialect,
        id: Option<HeaderValue>,
    ) -> Self {
        let shared = Arc::new_cyclic(|me| Shared {
            me: me.clone(),
            endpoint,
            service,
            dialect,
            headers: session_headers(dialect, id),
            session: Mutex::new(session),
            tasks: Mutex::default(),
            ended: watch::Sender::new(None),
        });
        Self(shared)
    }

    /// Opens the stream on which the server speaks unasked, if it has one. Waits for that, so that nothing is missed, but not
    /// for servers that say nothing before they have something to tell.
    pub(super) async fn listen(&self) {
        const HEAD: Duration = Duration::from_millis(500);
        let (opened, settled) = oneshot::channel();
        let task = tokio::spawn(stream::listen(self.0.clone(), opened));
        lock(&self.0.tasks).insert(Task::Stream, task.abort_handle());
        let _ = tokio::time::timeout(HEAD, settled).await;
    }
}

/// What every request in a session says.
pub(super) fn session_headers(dialect: Dialect, id: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(id) = id {
        headers.insert(header::SESSION_ID, id);
    }
    if dialect.version().has(Ability::VersionHeader) {
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(dialect.version().as_str()));
    }
    headers
}

impl Shared {
    pub(super) fn myself(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    /// Takes what came on some stream.
    pub(super) async fn receive(&self, incoming: Result<Incoming, InvalidMessage>) {
        let events = self.with(|session| session.receive(incoming, now()));
        self.dispatch(events).await;
    }

    /// Whether none of these waits for an answer any more.
    pub(super) fn are_settled(&self, ids: &[RequestId]) -> bool {
        let session = lock(&self.session);
        ids.iter().all(|id| session.owner(id).is_none())
    }

    pub(super) fn count_received(&self, bytes: usize) {
        lock(&self.session).count_received(bytes);
    }

    /// Does something with the session; what came of it.
    fn with(&self, work: impl FnOnce(&mut Session<Waiter>)) -> Vec<Event<Waiter>> {
        let mut session = lock(&self.session);
        work(&mut session);
        std::iter::from_fn(|| session.next_event()).collect()
    }

    async fn dispatch(&self, events: Vec<Event<Waiter>>) {
        for event in events {
            match event {
                Event::Request(call) => self.admit(*call),
                Event::Notification(notification) => self.hear(notification).await,
                Event::Progress { id, params } => {
                    if !self.update(&id, Update::Progress(params.clone()))
                        && let Ok(report) = Notification::new::<Progress>(&params)
                    {
                        self.hear(report).await;
                    }
                }
                Event::Told { id, notification } => {
                    if !self.update(&id, Update::Told(notification.clone())) {
                        self.hear(notification).await;
                    }
                }
                Event::Cancelled { ticket, .. } => {
                    if let Some(task) = lock(&self.tasks).remove(&Task::Call(ticket)) {
                        task.abort();
                    }
                }
                event => self.settle(event),
            }
        }
    }

    /// What needs no waiting.
    fn settle(&self, event: Event<Waiter>) {
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

    /// Posts something that nobody waits for.
    fn send(&self, encode: impl FnOnce(&mut Session<Waiter>, &mut Vec<u8>)) {
        let mut body = Vec::new();
        encode(&mut lock(&self.session), &mut body);
        let (Some(me), Ok(runtime)) = (self.me.upgrade(), tokio::runtime::Handle::try_current()) else { return };
        runtime.spawn(async move {
            let sent = tokio::time::timeout(RequestOptions::DEFAULT_TIMEOUT, me.post(body.into())).await;
            if let Ok(Err(error)) = sent {
                tracing::debug!(target: "turms::client", %error, "the server did not take a message");
            }
        });
    }

    fn update(&self, id: &RequestId, update: Update) -> bool {
        let updates = lock(&self.session).owner(id).and_then(|waiter| waiter.updates.clone());
        let Some(updates) = updates else { return false };
        // Whoever listens is not ours: their panic must not end the stream.
        let _ = catch_unwind(AssertUnwindSafe(|| updates(update)));
        true
    }

    async fn hear(&self, notification: Notification) {
        let cx = self.context(notification.params.as_ref());
        GuardedNotify::new(|| self.service.notify(notification.method, notification.params, cx)).await;
    }

    fn context(&self, params: Option<&RawJson>) -> Context {
        let meta = params.and_then(|params| params.member("_meta")).and_then(|meta| meta.as_object());
        Context::new(self.dialect, Peer::new(SessionLink(self.me.clone()))).with_meta(meta.map(Meta::from))
    }

    /// The server asks. Its stream is read on meanwhile: it may tell that it does not want to know any more.
    fn admit(&self, call: Call) {
        let Call { request, ticket, .. } = call;
        if lock(&self.tasks).len() > MOST_CALLS {
            let busy = ErrorObject::internal("too many requests in flight: wait for answers before asking more");
            return self.answer(&ticket, Err(busy));
        }
        let Some(me) = self.me.upgrade() else { return };
        let cx = self.context(request.params.as_ref()).with_id(ticket.id().clone());
        let params = request.params.map_or_else(Payload::default, Payload::raw);
        let asked = turms_core::Request::raw(request.method.clone(), params);
        let future = Guarded::call(|| self.service.call(asked, cx));
        let key = Task::Call(ticket.clone());
        // Held until the task is noted, so that it cannot end before.
        let mut tasks = lock(&self.tasks);
        let task = tokio::spawn(async move {
            let outcome = me.lower(future.await, &request.method);
            lock(&me.tasks).remove(&Task::Call(ticket.clone()));
            me.answer(&ticket, outcome);
        });
        tasks.insert(key, task.abort_handle());
    }

    fn lower(&self, outcome: turms_core::Outcome, method: &str) -> Result<RawJson, ErrorObject> {
        let version = self.dialect.version();
        match outcome {
            Ok(mut payload) => {
                let lowered = payload.lower_result(method, version).map_err(|problem| problem.to_string());
                let written = lowered.and_then(|()| payload.into_raw().map_err(|problem| problem.to_string()));
                written
                    .map_err(|problem| ErrorObject::internal(format!("the result of {method} is not one: {problem}")))
            }
            Err(mut error) => {
                error.lower(version);
                Err(error)
            }
        }
    }

    fn answer(&self, ticket: &Ticket, outcome: Result<RawJson, ErrorObject>) {
        for event in self.with(|session| session.answer(ticket, outcome)) {
            self.settle(event);
        }
    }

    /// Posts something that is not answered.
    async fn post(&self, body: Bytes) -> Result<(), PeerError> {
        match self.exchange(body).await.inspect_err(|error| self.end_if_over(error))? {
            Reply::Refused(_, error) => Err(PeerError::Request(RequestError::Peer(error))),
            Reply::Nothing | Reply::Json(_) | Reply::Events(_) => Ok(()),
        }
    }

    /// Posts requests and sees to it that each is answered, well or not.
    async fn carry(&self, body: Bytes, ids: &[RequestId]) {
        if let Err(error) = self.try_carry(body, ids).await {
            // First what was just refused, which has certainly not run; nobody knows that of the others.
            for id in ids {
                self.fail(id, error.clone());
            }
            self.end_if_over(&error);
        }
    }

    async fn try_carry(&self, body: Bytes, ids: &[RequestId]) -> Result<(), PeerError> {
        match self.exchange(body).await? {
            Reply::Json(body) => {
                self.count_received(body.len());
                self.receive(Incoming::decode(body, DEFAULT_BATCH_LIMIT.max(ids.len()))).await;
            }
            Reply::Events(events) => stream::follow(self, *events, ids).await?,
            Reply::Refused(_, error) => {
                for id in ids {
                    let response = Response::new(id.clone(), Err((*error).clone()));
                    self.receive(Ok(Incoming::One(Message::Response(response)))).await;
                }
            }
            Reply::Nothing => return Err(HttpError::Message("it is empty".to_owned()).into()),
        }
        if self.are_settled(ids) {
            Ok(())
        } else {
            Err(HttpError::Message("it answers another request".to_owned()).into())
        }
    }

    async fn exchange(&self, body: Bytes) -> Result<Reply, PeerError> {
        let reply = async { Reply::read(&self.endpoint, self.endpoint.post(body, &self.headers).await?).await };
        self.judge(reply.await)
    }

    /// A server that does not know the session any more has certainly not done what it was asked in it.
    pub(super) fn judge(&self, reply: Result<Reply, HttpError>) -> Result<Reply, PeerError> {
        let over = match &reply {
            Ok(Reply::Refused(status, error)) => is_session_unknown(*status, error),
            Err(error) => error.status() == Some(StatusCode::NOT_FOUND),
            Ok(_) => false,
        };
        if over && self.headers.contains_key(header::SESSION_ID) { Err(PeerError::Closed) } else { Ok(reply?) }
    }

    /// The server does not know the session any more, which wants another.
    pub(super) fn end_if_over(&self, error: &PeerError) {
        if matches!(error, PeerError::Closed) {
            self.end(Ended::new().how("ended the session").renewable());
        }
    }

    /// A request could not be carried.
    fn fail(&self, id: &RequestId, error: PeerError) {
        let owner = lock(&self.session).fail(id);
        if let Some(owner) = owner {
            let _ = owner.reply.send(Err(error));
        }
    }

    /// Ends everything; false if it had ended before.
    fn end(&self, ended: Ended) -> bool {
        let first = self.ended.send_if_modified(|known| {
            let first = known.is_none();
            if first {
                *known = Some(ended);
            }
            first
        });
        if first {
            let tasks = std::mem::take(&mut *lock(&self.tasks));
            tasks.into_values().for_each(|task| task.abort());
        }
        first
    }

    /// Nobody gets an answer any more.
    fn give_up(&self) {
        for event in self.with(Session::close) {
            if matches!(event, Event::Answered { .. }) {
                self.settle(event);
            }
        }
    }

    fn register(
        &self,
        session: &mut Session<Waiter>,
        mut request: Outgoing,
    ) -> Result<(turms_proto::Request, Answer), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let params = request.take_params()?;
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply, updates: request.updates };
        Ok((session.request(request.method, params, request.options, waiter, now())?, answer))
    }

    async fn ask(&self, request: Outgoing) -> Result<RawJson, PeerError> {
        let mut body = Vec::new();
        let (id, answer) = {
            let mut session = lock(&self.session);
            let (request, answer) = self.register(&mut session, request)?;
            session.encode(&Message::Request(request.clone()), &mut body);
            (request.id, answer)
        };
        let ids = [id];
        self.wait(body.into(), &ids, async { answer.await.unwrap_or(Err(PeerError::Closed)) }).await
    }

    async fn ask_all(&self, requests: Vec<Outgoing>) -> Vec<Result<RawJson, PeerError>> {
        let (mut body, mut asked) = (Vec::new(), Vec::new());
        let answers: Vec<_> = {
            let mut session = lock(&self.session);
            let register = |request| {
                let (request, answer) = self.register(&mut session, request)?;
                asked.push(request);
                Ok(answer)
            };
            let answers = requests.into_iter().map(register).collect();
            session.encode_requests(&asked, &mut body);
            answers
        };
        let ids: Vec<_> = asked.into_iter().map(|request| request.id).collect();
        let answered = |answer: Result<Answer, PeerError>| async { answer?.await.unwrap_or(Err(PeerError::Closed)) };
        let answers = join_all(answers.into_iter().map(answered).collect());
        if ids.is_empty() { answers.await } else { self.wait(body.into(), &ids, answers).await }
    }

    /// Waits for answers, carrying the requests there and giving up what has waited too long. If nobody waits any more, the
    /// server is told.
    async fn wait<T>(&self, body: Bytes, ids: &[RequestId], answers: impl Future<Output = T>) -> T {
        let _forget = Forget { shared: self, ids };
        let mut ended = self.ended.subscribe();
        let (mut answers, mut carried) = (std::pin::pin!(answers), std::pin::pin!(self.carry(body, ids)));
        let mut on_the_way = true;
        loop {
            let deadline = lock(&self.session).next_deadline();
            tokio::select! {
                biased;
                answers = &mut answers => {
                    // Whoever has just read the answer sees to the rest of its stream.
                    if on_the_way {
                        ends_within(TURNS + 2, carried).await;
                    }
                    return answers;
                }
                () = &mut carried, if on_the_way => on_the_way = false,
                () = over(&mut ended) => self.give_up(),
                () = reached(deadline) => {
                    let events = self.with(|session| session.expire(now()));
                    self.dispatch(events).await;
                }
            }
        }
    }

    async fn tell(&self, notification: Notification) -> Result<(), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let mut body = Vec::new();
        {
            let mut session = lock(&self.session);
            let notification = session.notify(notification.method, notification.params)?;
            session.encode(&Message::Notification(notification), &mut body);
        }
        let limit = RequestOptions::DEFAULT_TIMEOUT;
        let timed_out = Err(PeerError::Request(RequestError::TimedOut(limit)));
        tokio::time::timeout(limit, self.post(body.into())).await.unwrap_or(timed_out)
    }

    /// Tells the server that the session is over. Not all take note.
    async fn say_goodbye(&self) {
        if self.headers.contains_key(header::SESSION_ID) {
            let _ = tokio::time::timeout(GOODBYE, self.endpoint.delete(&self.headers)).await;
        }
    }
}

/// Whether a refusal says that the session is over. The status for that is 404; but servers made after the examples of the
/// official TypeScript SDK, `server-everything` among them, answer with 400 and a code that has no meaning.
fn is_session_unknown(status: StatusCode, error: &ErrorObject) -> bool {
    match status {
        StatusCode::NOT_FOUND => error.code != ErrorCode::METHOD_NOT_FOUND,
        StatusCode::BAD_REQUEST => error.code == ErrorCode(-32000) && error.message.contains("No valid session ID"),
        _ => false,
    }
}

/// Requests that are given up when this is dropped before they are answered.
struct Forget<'a> {
    shared: &'a Shared,
    ids: &'a [RequestId],
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        for id in self.ids {
            let events = self.shared.with(|session| {
                session.cancel(id, None);
            });
            events.into_iter().for_each(|event| self.shared.settle(event));
        }
    }
}

impl Channel for SessionChannel {
    fn request(&self, request: Outgoing) -> BoxFuture<'_, Result<Payload, PeerError>> {
        Box::pin(async move { self.0.ask(request).await.map(Payload::raw) })
    }

    fn batch(&self, requests: Vec<Outgoing>) -> BoxFuture<'_, Vec<Result<Payload, PeerError>>> {
        Box::pin(async move {
            let answers = if self.0.dialect.version().has(Ability::Batching) && requests.len() > 1 {
                self.0.ask_all(requests).await
            } else {
                join_all(requests.into_iter().map(|request| self.0.ask(request)).collect()).await
            };
            answers.into_iter().map(|answer| answer.map(Payload::raw)).collect()
        })
    }

    fn notify(&self, notification: Notification) -> BoxFuture<'_, Result<(), PeerError>> {
        Box::pin(self.0.tell(notification))
    }

    fn stats(&self) -> Stats {
        *lock(&self.0.session).stats()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if self.0.end(Ended::new()) {
                self.0.give_up();
                self.0.say_goodbye().await;
            }
        })
    }

    fn closed(&self) -> BoxFuture<'_, Ended> {
        let mut ended = self.0.ended.subscribe();
        Box::pin(async move {
            let ended = ended.wait_for(Option::is_some).await;
            ended.ok().and_then(|ended| ended.clone()).unwrap_or_default()
        })
    }
}

impl Drop for SessionChannel {
    fn drop(&mut self) {
        if self.0.end(Ended::new())
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = self.0.clone();
            runtime.spawn(async move { shared.say_goodbye().await });
        }
    }
}

/// The server, as the service sees it.
struct SessionLink(Weak<Shared>);

impl Link for SessionLink {
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
            let params = params.map_or_else(Payload::default, Payload::raw);
            shared.ask(Outgoing::new(method, params).options(options)).await
        })
    }
}

async fn over(ended: &mut watch::Receiver<Option<Ended>>) {
    let _ = ended.wait_for(Option::is_some).await;
}

async fn reached(moment: Option<std::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

pub(super) fn now() -> std::time::Instant {
    tokio::time::Instant::now().into_std()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
