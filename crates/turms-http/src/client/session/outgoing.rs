//! Messages to the server: requests and notifications.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use tokio::sync::{oneshot, watch};
use turms_core::{CallClock, CloseInfo, DropCause, OutgoingRequest, PeerError};
use turms_proto::session::{RequestOptions, Session};
use turms_proto::{
    DEFAULT_BATCH_LIMIT, ErrorCode, ErrorObject, Incoming, Message, Notification, RawJson, RequestId, Response, header,
};

use super::super::endpoint::RequestScope;
use super::super::error::HttpError;
use super::super::reply::HttpReply;
use super::super::{DRAIN_YIELDS, ends_within};
use super::shared::{ResponseReceiver, ResponseWaiter, SessionShared, now};
use super::stream;

/// Timeout for the deletion of a session, which would expire anyway.
const DELETE_TIMEOUT: Duration = Duration::from_secs(2);

impl SessionShared {
    pub(super) async fn request(&self, request: OutgoingRequest) -> Result<RawJson, PeerError> {
        let (mut body, cause) = (Vec::new(), request.drop_cause());
        let (clock, is_background) = (request.clock.clone(), request.is_background);
        let (id, response) = {
            let mut session = self.session.lock();
            let (request, response) = self.register(&mut session, request)?;
            session.encode(&Message::Request(request.clone()), &mut body);
            (request.id, response)
        };
        let ids = [id];
        let _cancel = CancelRequest { shared: self, id: &ids[0], cause };
        let scope = RequestScope::call(std::slice::from_ref(&clock), is_background);
        self.wait(body.into(), &ids, scope, async { response.await.unwrap_or(Err(PeerError::Closed)) }).await
    }

    pub(super) async fn request_batch(&self, requests: Vec<OutgoingRequest>) -> Vec<Result<RawJson, PeerError>> {
        let (mut body, mut sent) = (Vec::new(), Vec::new());
        let clocks: Vec<_> = requests.iter().map(|request| request.clock.clone()).collect();
        let scope = RequestScope::call(&clocks, requests.iter().all(|request| request.is_background));
        let responses: Vec<_> = {
            let mut session = self.session.lock();
            let register = |request: OutgoingRequest| {
                let (clock, cause) = (request.clock.clone(), request.drop_cause());
                let (request, response) = self.register(&mut session, request)?;
                let id = request.id.clone();
                sent.push(request);
                Ok((id, response, clock, cause))
            };
            let responses = requests.into_iter().map(register).collect();
            session.encode_requests(&sent, &mut body);
            responses
        };
        let ids: Vec<_> = sent.into_iter().map(|request| request.id).collect();
        let wait_for_response = |sent: Result<(RequestId, ResponseReceiver, CallClock, DropCause), PeerError>| async {
            let (id, response, clock, cause) = sent?;
            let _cancel = CancelRequest { shared: self, id: &id, cause };
            clock.run(response).await?.unwrap_or(Err(PeerError::Closed))
        };
        let responses = join_all(responses.into_iter().map(wait_for_response));
        if ids.is_empty() { responses.await } else { self.wait(body.into(), &ids, scope, responses).await }
    }

    fn register(
        &self,
        session: &mut Session<ResponseWaiter>,
        mut request: OutgoingRequest,
    ) -> Result<(turms_proto::Request, ResponseReceiver), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let (params, options) = (request.take_params()?, request.untimed_options());
        let (reply, response) = oneshot::channel();
        let waiter = ResponseWaiter { reply, observer: request.take_observer() };
        Ok((session.request(request.method, params, options, waiter, now())?, response))
    }

    /// Posts requests and waits for their responses.
    async fn wait<T>(
        &self,
        body: Bytes,
        ids: &[RequestId],
        scope: RequestScope<'_>,
        responses: impl Future<Output = T>,
    ) -> T {
        let mut ended = self.ended.subscribe();
        let mut responses = std::pin::pin!(responses);
        let mut delivered = std::pin::pin!(self.deliver(body, ids, scope));
        let mut in_flight = true;
        loop {
            tokio::select! {
                biased;
                responses = &mut responses => {
                    // The task that read the response also reads the rest of its stream.
                    if in_flight {
                        ends_within(DRAIN_YIELDS + 2, delivered).await;
                    }
                    return responses;
                }
                () = &mut delivered, if in_flight => in_flight = false,
                () = wait_closed(&mut ended) => self.fail_pending(),
            }
        }
    }

    pub(super) async fn send_notification(&self, notification: Notification) -> Result<(), PeerError> {
        if self.ended.borrow().is_some() {
            return Err(PeerError::Closed);
        }
        let mut body = Vec::new();
        {
            let mut session = self.session.lock();
            let notification = session.notify(notification.method, notification.params)?;
            session.encode(&Message::Notification(notification), &mut body);
        }
        self.post(body.into()).await
    }

    /// Deletes the session. Not all servers support it.
    pub(super) async fn delete_session(&self) {
        if self.headers.contains_key(header::SESSION_ID) {
            let _ = tokio::time::timeout(DELETE_TIMEOUT, self.endpoint.delete(self.headers.clone())).await;
        }
    }

    /// Posts requests and makes sure that each gets a response or an error.
    async fn deliver(&self, body: Bytes, ids: &[RequestId], scope: RequestScope<'_>) {
        let delivered: Result<(), PeerError> = async {
            match self.exchange(body, scope).await? {
                HttpReply::Json(body) => {
                    self.count_received(body.len());
                    self.receive(Incoming::decode(body, DEFAULT_BATCH_LIMIT.max(ids.len())), ids).await;
                }
                HttpReply::Events(events) => stream::read_responses(self, *events, ids, scope).await?,
                HttpReply::Refused(_, error) => {
                    for id in ids {
                        let response = Response::new(id.clone(), Err((*error).clone()));
                        self.receive(Ok(Incoming::One(Message::Response(response))), ids).await;
                    }
                }
                HttpReply::Nothing => return Err(HttpError::Message("empty body".to_owned()).into()),
            }
            match self.are_answered(ids) {
                true => Ok(()),
                false => Err(HttpError::Message("it is for another request".to_owned()).into()),
            }
        }
        .await;
        if let Err(error) = delivered {
            // First the requests that were just rejected and have certainly not run. Others may have run.
            for id in ids {
                self.fail(id, error.clone());
            }
            self.close_if_expired(&error);
        }
    }

    /// Posts a message that has no response, in the background, with the default timeout.
    pub(super) async fn post(&self, body: Bytes) -> Result<(), PeerError> {
        let clock = CallClock::new(Some(RequestOptions::DEFAULT_TIMEOUT), None);
        let scope = RequestScope::stream(std::slice::from_ref(&clock));
        match clock.run(self.exchange(body, scope)).await?.inspect_err(|error| self.close_if_expired(error))? {
            HttpReply::Refused(_, error) => Err(PeerError::ErrorResponse(error)),
            HttpReply::Nothing | HttpReply::Json(_) | HttpReply::Events(_) => Ok(()),
        }
    }

    async fn exchange(&self, body: Bytes, scope: RequestScope<'_>) -> Result<HttpReply, PeerError> {
        let reply = async {
            let response = self.endpoint.post(body, self.headers.clone(), scope).await?;
            HttpReply::read(&self.endpoint, response).await
        };
        let reply = self.check_session(reply.await)?;
        self.responded.notify_waiters();
        Ok(reply)
    }

    /// Detects an expired session. A request that was rejected because of that has certainly not run.
    pub(super) fn check_session(&self, reply: Result<HttpReply, HttpError>) -> Result<HttpReply, PeerError> {
        let is_expired = match &reply {
            Ok(HttpReply::Refused(status, error)) => is_session_unknown(*status, error),
            Err(error) => error.status() == Some(StatusCode::NOT_FOUND),
            Ok(_) => false,
        };
        if is_expired && self.headers.contains_key(header::SESSION_ID) { Err(PeerError::Closed) } else { Ok(reply?) }
    }

    /// Fails a request that could not be delivered.
    fn fail(&self, id: &RequestId, error: PeerError) {
        let owner = self.session.lock().fail(id);
        if let Some(owner) = owner {
            let _ = owner.reply.send(Err(error));
        }
    }
}

/// Returns `true` if an error response means that the session has expired. The status for that is 404, but servers based on the
/// examples of the official TypeScript SDK, such as `server-everything`, send 400 with a generic code.
fn is_session_unknown(status: StatusCode, error: &ErrorObject) -> bool {
    match status {
        StatusCode::NOT_FOUND => error.code != ErrorCode::METHOD_NOT_FOUND,
        StatusCode::BAD_REQUEST => error.code == ErrorCode(-32000) && error.message.contains("No valid session ID"),
        _ => false,
    }
}

/// Cancels a request when it is dropped before its response.
struct CancelRequest<'a> {
    shared: &'a SessionShared,
    id: &'a RequestId,
    cause: DropCause,
}

impl Drop for CancelRequest<'_> {
    fn drop(&mut self) {
        let events = self.shared.with_session(|session| {
            if self.cause.is_timeout() {
                session.time_out(self.id)
            } else {
                session.cancel(self.id, self.cause.reason())
            };
        });
        events.into_iter().for_each(|event| self.shared.handle_event(event));
    }
}

pub(super) async fn wait_closed(ended: &mut watch::Receiver<Option<CloseInfo>>) {
    let _ = ended.wait_for(Option::is_some).await;
}
