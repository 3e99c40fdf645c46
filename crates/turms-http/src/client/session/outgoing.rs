//! What the server is asked and told.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use tokio::sync::{oneshot, watch};
use turms_core::{CallClock, DropCause, Ended, OutgoingRequest, PeerError};
use turms_proto::session::{RequestError, RequestOptions, Session};
use turms_proto::{
    DEFAULT_BATCH_LIMIT, ErrorCode, ErrorObject, Incoming, Message, Notification, RawJson, RequestId, Response, header,
};

use super::super::error::HttpError;
use super::super::reply::Reply;
use super::super::{TURNS, ends_within};
use super::shared::{Answer, Shared, Waiter, now};
use super::stream;

/// How long the end of a session may take. It would expire anyway.
const GOODBYE: Duration = Duration::from_secs(2);

impl Shared {
    pub(super) async fn ask(&self, request: OutgoingRequest) -> Result<RawJson, PeerError> {
        let (mut body, cause) = (Vec::new(), request.drop_cause());
        let (id, answer) = {
            let mut session = self.session.lock();
            let (request, answer) = self.register(&mut session, request)?;
            session.encode(&Message::Request(request.clone()), &mut body);
            (request.id, answer)
        };
        let ids = [id];
        let _forget = Forget { shared: self, id: &ids[0], cause };
        self.wait(body.into(), &ids, async { answer.await.unwrap_or(Err(PeerError::Closed)) }).await
    }

    pub(super) async fn ask_all(&self, requests: Vec<OutgoingRequest>) -> Vec<Result<RawJson, PeerError>> {
        let (mut body, mut asked) = (Vec::new(), Vec::new());
        let answers: Vec<_> = {
            let mut session = self.session.lock();
            let register = |request: OutgoingRequest| {
                let (clock, cause) = (request.clock.clone(), request.drop_cause());
                let (request, answer) = self.register(&mut session, request)?;
                let id = request.id.clone();
                asked.push(request);
                Ok((id, answer, clock, cause))
            };
            let answers = requests.into_iter().map(register).collect();
            session.encode_requests(&asked, &mut body);
            answers
        };
        let ids: Vec<_> = asked.into_iter().map(|request| request.id).collect();
        let answered = |asked: Result<(RequestId, Answer, CallClock, DropCause), PeerError>| async {
            let (id, answer, clock, cause) = asked?;
            let _forget = Forget { shared: self, id: &id, cause };
            clock.run(answer).await?.unwrap_or(Err(PeerError::Closed))
        };
        let answers = join_all(answers.into_iter().map(answered));
        if ids.is_empty() { answers.await } else { self.wait(body.into(), &ids, answers).await }
    }

    fn register(
        &self,
        session: &mut Session<Waiter>,
        mut request: OutgoingRequest,
    ) -> Result<(turms_proto::Request, Answer), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let (params, options) = (request.take_params()?, request.untimed_options());
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { reply, observer: request.take_observer() };
        Ok((session.request(request.method, params, options, waiter, now())?, answer))
    }

    /// Posts requests and waits for their responses.
    async fn wait<T>(&self, body: Bytes, ids: &[RequestId], answers: impl Future<Output = T>) -> T {
        let mut ended = self.ended.subscribe();
        let (mut answers, mut carried) = (std::pin::pin!(answers), std::pin::pin!(self.carry(body, ids)));
        let mut on_the_way = true;
        loop {
            tokio::select! {
                biased;
                answers = &mut answers => {
                    // What has just read the response sees to the rest of its stream.
                    if on_the_way {
                        ends_within(TURNS + 2, carried).await;
                    }
                    return answers;
                }
                () = &mut carried, if on_the_way => on_the_way = false,
                () = over(&mut ended) => self.give_up(),
            }
        }
    }

    pub(super) async fn tell(&self, notification: Notification) -> Result<(), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let mut body = Vec::new();
        {
            let mut session = self.session.lock();
            let notification = session.notify(notification.method, notification.params)?;
            session.encode(&Message::Notification(notification), &mut body);
        }
        let limit = RequestOptions::DEFAULT_TIMEOUT;
        let timed_out = Err(PeerError::Request(RequestError::TimedOut(limit)));
        tokio::time::timeout(limit, self.post(body.into())).await.unwrap_or(timed_out)
    }

    /// Tells the server that the session is over. Not all take note.
    pub(super) async fn say_goodbye(&self) {
        if self.headers.contains_key(header::SESSION_ID) {
            let _ = tokio::time::timeout(GOODBYE, self.endpoint.delete(self.headers.clone())).await;
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
                self.receive(Incoming::decode(body, DEFAULT_BATCH_LIMIT.max(ids.len())), ids).await;
            }
            Reply::Events(events) => stream::follow(self, *events, ids).await?,
            Reply::Refused(_, error) => {
                for id in ids {
                    let response = Response::new(id.clone(), Err((*error).clone()));
                    self.receive(Ok(Incoming::One(Message::Response(response))), ids).await;
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

    /// Posts something that is not answered.
    pub(super) async fn post(&self, body: Bytes) -> Result<(), PeerError> {
        match self.exchange(body).await.inspect_err(|error| self.end_if_over(error))? {
            Reply::Refused(_, error) => Err(PeerError::Request(RequestError::Peer(error))),
            Reply::Nothing | Reply::Json(_) | Reply::Events(_) => Ok(()),
        }
    }

    async fn exchange(&self, body: Bytes) -> Result<Reply, PeerError> {
        let reply = async { Reply::read(&self.endpoint, self.endpoint.post(body, self.headers.clone()).await?).await };
        let reply = self.judge(reply.await)?;
        self.answered.notify_waiters();
        Ok(reply)
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

    /// A request could not be carried.
    fn fail(&self, id: &RequestId, error: PeerError) {
        let owner = self.session.lock().fail(id);
        if let Some(owner) = owner {
            let _ = owner.reply.send(Err(error));
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

/// Cancels a request when it is dropped before its response.
struct Forget<'a> {
    shared: &'a Shared,
    id: &'a RequestId,
    cause: DropCause,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let events = self.shared.with(|session| {
            if self.cause.is_timeout() {
                session.time_out(self.id)
            } else {
                session.cancel(self.id, self.cause.reason())
            };
        });
        events.into_iter().for_each(|event| self.shared.settle(event));
    }
}

pub(super) async fn over(ended: &mut watch::Receiver<Option<Ended>>) {
    let _ = ended.wait_for(Option::is_some).await;
}
