//! Batches: calls that were made together meet here and go out as one message.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt as _;
use futures_util::future::Shared;
use parking_lot::Mutex;
use tokio::sync::SetOnce;
use turms_core::{BoxFuture, OutgoingRequest, Payload, PeerError};
use turms_proto::method::Method as _;
use turms_proto::session::RequestOptions;
use turms_proto::types::{EmptyParams, Ping};
use turms_proto::{Ability, MethodName};

use super::state::{Connected, ServerShared};

/// The gate at which the calls of a batch wait for each other. It opens when each has arrived or left.
pub(crate) struct BatchGate {
    size: usize,
    state: Mutex<GateState>,
    sent: SetOnce<Shared<BoxFuture<'static, Responses>>>,
}

struct GateState {
    /// The number of calls that have neither arrived nor left.
    expected: usize,
    connected: Option<Arc<Connected>>,
    requests: Vec<OutgoingRequest>,
}

type Responses = Arc<Vec<Mutex<Option<Result<Payload, PeerError>>>>>;

impl BatchGate {
    /// The tickets of a batch of `size` calls.
    pub(crate) fn tickets(size: usize) -> Vec<BatchTicket> {
        let state = GateState { expected: size, connected: None, requests: Vec::with_capacity(size) };
        let gate = Arc::new(Self { size, state: Mutex::new(state), sent: SetOnce::new() });
        (0..size).map(|_| BatchTicket(Arc::new(Ticket { gate: gate.clone(), used: AtomicBool::new(false) }))).collect()
    }

    /// Adds a request; its index among the responses, unless the batch is on another connection.
    fn arrive(&self, connected: &Arc<Connected>, request: OutgoingRequest) -> Result<usize, Box<OutgoingRequest>> {
        let mut state = self.state.lock();
        state.expected -= 1;
        let first = state.connected.get_or_insert_with(|| connected.clone());
        let arrived = if Arc::ptr_eq(first, connected) {
            state.requests.push(request);
            Ok(state.requests.len() - 1)
        } else {
            Err(Box::new(request))
        };
        self.open(&mut state);
        arrived
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        state.expected -= 1;
        self.open(&mut state);
    }

    fn open(&self, state: &mut GateState) {
        let (0, Some(connected)) = (state.expected, &state.connected) else { return };
        let (channel, requests) = (connected.channel.clone(), std::mem::take(&mut state.requests));
        let send = async move {
            let responses = channel.call_batch(requests).await;
            Arc::new(responses.into_iter().map(|response| Mutex::new(Some(response))).collect())
        };
        let send: BoxFuture<'static, Responses> = Box::pin(send);
        let _ = self.sent.set(send.shared());
    }
}

/// The place of one call in a batch. Dropped with the call, it leaves the batch.
#[derive(Clone)]
pub(crate) struct BatchTicket(Arc<Ticket>);

struct Ticket {
    gate: Arc<BatchGate>,
    /// The call has arrived or left. Later attempts go alone.
    used: AtomicBool,
}

impl BatchTicket {
    /// Returns `true` if the call waits for the others: at its first attempt, if the server accepts batches.
    pub(super) async fn joins(&self, shared: &ServerShared, connected: &Connected) -> bool {
        let Self(ticket) = self;
        if ticket.used.load(Ordering::Acquire) {
            return false;
        }
        let accepted = ticket.gate.size > 1 && accepts_batches(shared, connected).await;
        if !accepted && ticket.use_up() {
            ticket.gate.leave();
        }
        accepted
    }

    /// Sends a request with the others, or alone if they are on another connection.
    pub(super) async fn send(
        &self,
        connected: &Arc<Connected>,
        request: OutgoingRequest,
    ) -> Result<Payload, PeerError> {
        let Self(ticket) = self;
        let arrived = if ticket.use_up() { ticket.gate.arrive(connected, request) } else { Err(Box::new(request)) };
        let index = match arrived {
            Ok(index) => index,
            Err(request) => return connected.channel.call_in_time(*request).await,
        };
        let responses = ticket.gate.sent.wait().await.clone().await;
        let response = responses.get(index).and_then(|response| response.lock().take());
        response.unwrap_or(Err(PeerError::Closed))
    }
}

impl Ticket {
    fn use_up(&self) -> bool {
        !self.used.swap(true, Ordering::AcqRel)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.use_up() {
            self.gate.leave();
        }
    }
}

impl fmt::Debug for BatchTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchTicket").field("size", &self.0.gate.size).finish_non_exhaustive()
    }
}

/// Returns `true` if the server accepts batches. Where the revision has them, every server must; but those on the official SDKs
/// drop them silently. So a batch of pings is followed by a ping: if that is answered first, the batch was dropped.
async fn accepts_batches(shared: &ServerShared, connected: &Connected) -> bool {
    if !connected.version().has(Ability::Batching) {
        return false;
    }
    let options = RequestOptions::default().timeout(shared.settings.timeouts.timeout);
    let ping =
        || OutgoingRequest::new(MethodName::from_static(Ping::NAME), Payload::new(EmptyParams::new())).options(options);
    let probe = async || {
        let batch = connected.channel.call_batch(vec![ping(), ping()]);
        if !connected.control.info().is_ordered {
            return batch.await.iter().all(Result::is_ok);
        }
        tokio::select! {
            biased;
            responses = batch => responses.iter().all(Result::is_ok),
            _ = connected.channel.call_in_time(ping()) => false,
        }
    };
    *connected.batches.get_or_init(probe).await
}

#[cfg(test)]
mod tests {
    use turms_proto::types::Discover;

    use super::*;
    use crate::connection::tests::shared;

    fn discover(connected: &Connected) -> OutgoingRequest {
        let request = OutgoingRequest::new(MethodName::from_static(Discover::NAME), Payload::new(EmptyParams::new()));
        request.meta(connected.metadata())
    }

    #[tokio::test]
    async fn the_gate_opens_when_each_call_has_arrived_or_left() {
        let connected = shared(|builder| builder).await.current().unwrap();
        let mut tickets = BatchGate::tickets(3);
        let (left, two, one) = (tickets.pop().unwrap(), tickets.pop().unwrap(), tickets.pop().unwrap());
        let mut first = Box::pin(one.send(&connected, discover(&connected)));
        let mut second = Box::pin(two.send(&connected, discover(&connected)));
        assert!(futures_util::poll!(&mut first).is_pending() && futures_util::poll!(&mut second).is_pending());
        drop(left);
        let (first, second) = tokio::join!(first, second);
        assert!(first.is_ok() && second.is_ok());
        // A second attempt goes alone.
        assert!(one.send(&connected, discover(&connected)).await.is_ok());
    }

    #[tokio::test]
    async fn a_server_without_batches_is_sent_each_call_alone() {
        let shared = shared(|builder| builder).await;
        let connected = shared.current().unwrap();
        for ticket in BatchGate::tickets(2) {
            assert!(!ticket.joins(&shared, &connected).await);
            assert!(ticket.send(&connected, discover(&connected)).await.is_ok());
        }
    }
}
