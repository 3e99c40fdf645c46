//! Input requests to the client: elicitation, sampling and roots, with one API for every revision.
//!
//! With an older client, the server sends a request and the handler waits. A client of 2026-07-28 does not accept
//! requests: the call ends with the input requests, the client repeats it with the responses, and the handler runs
//! again and finds them.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytestring::ByteString;
use turms_core::{CallResult, Payload, ServiceError};
use turms_proto::types::{InputRequest, InputRequests, InputRequiredResult, InputResponses, Meta};
use turms_proto::{ErrorObject, Object, RawJson};

use crate::router::attach_server_info;
use crate::seal::{InvalidRequestState, Sealer};
use crate::sync::Mutex;

/// The input rounds of one request. A round is opened on first use, because few handlers request input.
#[derive(Debug)]
pub(crate) struct InputRounds {
    request: InputRequestState,
    state: Mutex<RoundState>,
}

/// The parts of a request that are needed for its input rounds.
#[derive(Debug)]
pub(crate) struct InputRequestState {
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) method: &'static str,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(crate) target: ByteString,
    pub(crate) arguments: Option<Object>,
    /// The `requestState` that the client returned from the previous round.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
    /// The server info for the metadata of the result.
    pub(crate) server: Option<Meta>,
}

#[derive(Debug, Default)]
struct RoundState {
    /// The current round; `None` until the handler requests input or looks up a saved outcome.
    round: Option<Round>,
    waker: Option<Waker>,
    /// Set once an extractor has given the context to the handler, which can then request input.
    is_context_extracted: bool,
}

#[derive(Debug, Default)]
struct Round {
    /// Responses of all rounds, by key.
    answers: Object,
    /// Saved outcomes of side effects that must not happen twice, by key.
    outcomes: Object,
    /// Input requests of this round.
    asked: InputRequests,
    /// Number of input requests without an explicit key, by kind.
    counts: HashMap<&'static str, usize>,
    /// The data that a sealed state is bound to: method, parameters and caller.
    bound_to: Vec<u8>,
    /// The error that ends the call instead of the round.
    refused: Option<ErrorObject>,
}

impl Round {
    fn open(request: &InputRequestState, principal: Option<&str>) -> Self {
        let mut round = Self::default();
        match binding(request.method, &request.target, request.arguments.as_ref(), principal) {
            Ok(bound_to) => round.bound_to = bound_to,
            Err(error) => {
                round.refused = Some(error);
                return round;
            }
        }
        if let Some(sealed) = &request.state {
            match request.unseal_state(sealed, &round.bound_to) {
                Ok((answers, outcomes)) => (round.answers, round.outcomes) = (answers, outcomes),
                Err(error) => round.refused = Some(error),
            }
        }
        if let Some(responses) = &request.responses {
            round.answers.extend(responses);
        }
        round
    }
}

impl InputRequestState {
    /// Returns the responses and outcomes of earlier rounds, or -32602 if this server did not issue the state for this
    /// request.
    fn unseal_state(&self, sealed: &str, bound_to: &[u8]) -> Result<(Object, Object), ErrorObject> {
        let opened =
            self.sealer.open(sealed, bound_to).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        let broken = || ErrorObject::invalid_params("requestState cannot be read");
        let opened = Object::parse(String::from_utf8(opened).map_err(|_| broken())?).map_err(|_| broken())?;
        let part = |name| opened.get(name).and_then(|part| part.as_object()).unwrap_or_default();
        Ok((part("answers"), part("outcomes")))
    }
}

impl Round {
    /// Returns the result of the call if the round ends it.
    fn end(&mut self, request: &InputRequestState) -> Option<CallResult> {
        if let Some(error) = self.refused.clone() {
            return Some(Err(error.into()));
        }
        if self.asked.is_empty() {
            return None;
        }
        let mut round = InputRequiredResult::new().input_requests(std::mem::take(&mut self.asked));
        let carried: Object = [("answers", &self.answers), ("outcomes", &self.outcomes)]
            .into_iter()
            .map(|(name, part)| (name, RawJson::from(part.clone())))
            .collect();
        round.request_state = Some(request.sealer.seal(carried.as_str().as_bytes(), &self.bound_to));
        if let Some(server) = &request.server {
            attach_server_info(&mut round.meta, server.clone());
        }
        Some(Ok(Payload::new(round)))
    }
}

/// The future that a change of a round wakes.
#[derive(PartialEq)]
enum WakeTarget {
    None,
    /// The call, which ends the round.
    Call,
}

impl InputRounds {
    pub(crate) fn new(request: InputRequestState) -> Arc<Self> {
        Arc::new(Self { request, state: Mutex::default() })
    }

    /// Applies `work` to the round, which is opened for `principal` on first use. Returns `None` if the round has an
    /// error: the call ends with that error, and the handler must not continue. Wakes the call if `work` requests it,
    /// after releasing the lock.
    fn with_round<T>(&self, principal: Option<&str>, work: impl FnOnce(&mut Round) -> (T, WakeTarget)) -> Option<T> {
        let mut state = self.state.lock();
        let RoundState { round, waker, .. } = &mut *state;
        let round = round.get_or_insert_with(|| Round::open(&self.request, principal));
        let worked = if round.refused.is_some() { None } else { Some(work(round)) };
        let (value, wake) = match worked {
            Some((value, wake)) => (Some(value), wake),
            None => (None, WakeTarget::Call),
        };
        let waker = if wake == WakeTarget::Call { waker.take() } else { None };
        drop(state);
        waker.into_iter().for_each(Waker::wake);
        value
    }

    /// Checks that this server issued the `requestState` for this request, if there is one.
    pub(crate) fn check(&self, principal: Option<&str>) -> Result<(), ErrorObject> {
        if self.request.state.is_none() {
            return Ok(());
        }
        let mut state = self.state.lock();
        let round = state.round.get_or_insert_with(|| Round::open(&self.request, principal));
        round.refused.clone().map_or(Ok(()), Err)
    }

    /// Records that the handler has the context, and can request input.
    pub(crate) fn set_context_extracted(&self) {
        self.state.lock().is_context_extracted = true;
    }

    /// Rejects a `requestState` if the handler cannot request input: it never issued one.
    pub(crate) fn check_without_context(&self) -> Result<(), ErrorObject> {
        let state = self.state.lock();
        match self.request.state {
            Some(_) if state.round.is_none() && !state.is_context_extracted => {
                Err(ErrorObject::invalid_params(InvalidRequestState.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// Returns a key for an input request without an explicit key. A handler makes its requests in the same order each
    /// time, so the keys are stable.
    pub(crate) fn next_key(&self, principal: Option<&str>, kind: &'static str) -> String {
        let count = self.with_round(principal, |round| {
            let count = round.counts.entry(kind).or_default();
            *count += 1;
            (*count, WakeTarget::None)
        });
        format!("{kind}-{}", count.unwrap_or_default())
    }

    /// Returns the response to an input request if there is one. Otherwise adds the request to this round and never
    /// resolves: the call ends, and the handler is dropped.
    pub(crate) async fn ask(&self, principal: Option<&str>, key: &str, request: InputRequest) -> RawJson {
        let mut request = Some(request);
        poll_fn(|_| {
            let answer = self.with_round(principal, |round| match (round.answers.get(key), request.take()) {
                (None, Some(request)) => {
                    round.asked.insert(key.to_owned(), request);
                    (None, WakeTarget::Call)
                }
                (answer, _) => (answer, WakeTarget::None),
            });
            answer.flatten().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Removes an invalid response, so that the client is asked again.
    pub(crate) fn discard_response(&self, key: &str) {
        self.with_round(None, |round| (round.answers.remove(key), WakeTarget::None));
    }

    /// Returns the outcome of a side effect from an earlier round.
    pub(crate) async fn outcome(&self, principal: Option<&str>, key: &str) -> Option<RawJson> {
        let look = || self.with_round(principal, |round| (round.outcomes.get(key), WakeTarget::None));
        poll_fn(|_| look().map_or(Poll::Pending, Poll::Ready)).await
    }

    pub(crate) fn save_outcome(&self, key: &str, outcome: &RawJson) {
        self.with_round(None, |round| (round.outcomes.insert_raw(key, outcome), WakeTarget::None));
    }

    /// Returns the result that ends the call if the handler has requested input. Otherwise registers `waker`.
    pub(crate) fn end(&self, waker: &Waker) -> Option<CallResult> {
        let mut state = self.state.lock();
        let end = state.round.as_mut().and_then(|round| round.end(&self.request));
        if end.is_none() && !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        end
    }
}

/// Encodes the parts of a request that must be the same when the client returns its state. The arguments are in
/// canonical form: the order of members is ignored, every number and string counts.
///
/// # Errors
/// -32602 if the arguments have no canonical form. They must not be equal to other arguments, or to none.
fn binding(
    method: &str,
    target: &str,
    arguments: Option<&Object>,
    principal: Option<&str>,
) -> Result<Vec<u8>, ErrorObject> {
    let arguments = arguments.map(Object::canonical).transpose().map_err(|error| {
        ErrorObject::invalid_params(format!(
            "arguments: a call that requests input cannot be repeated with these arguments: {error}"
        ))
    })?;
    let mut bound_to = serde_json::to_vec(&(method, target, principal)).unwrap_or_default();
    bound_to.extend_from_slice(arguments.unwrap_or_default().as_bytes());
    Ok(bound_to)
}

/// The end of a round: the handler has returned, or the call requires input.
pub(crate) enum RoundEnd<T> {
    Finished(Result<T, ServiceError>),
    InputRequired(CallResult),
}

/// Runs a handler until it returns or has requested input.
pub(crate) fn run_round<T, F>(
    mut handler: Pin<&mut F>,
    rounds: Option<&InputRounds>,
) -> impl Future<Output = RoundEnd<T>>
where
    F: Future<Output = Result<T, ServiceError>> + ?Sized,
{
    poll_fn(move |task| {
        if let Poll::Ready(result) = handler.as_mut().poll(task) {
            return Poll::Ready(RoundEnd::Finished(result));
        }
        match rounds.and_then(|rounds| rounds.end(task.waker())) {
            Some(result) => Poll::Ready(RoundEnd::InputRequired(result)),
            None => Poll::Pending,
        }
    })
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::task::{Context as TaskContext, Wake};
    use std::time::Duration;

    use turms_loom::{block_on, model, spawn};
    use turms_proto::types::EmptyParams;

    use super::*;

    fn rounds() -> Arc<InputRounds> {
        InputRounds::new(InputRequestState {
            sealer: Arc::new(Sealer::new(Vec::new(), Duration::from_secs(60))),
            method: "m",
            target: "t".into(),
            arguments: None,
            state: None,
            responses: None,
            server: None,
        })
    }

    /// Requests input without getting a response in this round.
    fn ask(rounds: &InputRounds) {
        let asking = pin!(rounds.ask(None, "k", InputRequest::Roots(EmptyParams::new())));
        assert!(asking.poll(&mut TaskContext::from_waker(Waker::noop())).is_pending());
    }

    #[test]
    fn a_call_is_woken_in_the_task_that_polled_last() {
        model(|| {
            let rounds = rounds();
            assert!(rounds.end(Waker::noop()).is_none());
            let handler = spawn({
                let rounds = rounds.clone();
                move || ask(&rounds)
            });
            let waiting = pin!(pending::<Result<(), ServiceError>>());
            assert!(matches!(block_on(run_round(waiting, Some(&rounds))), RoundEnd::InputRequired(Ok(_))));
            handler.join();
        });
    }

    #[test]
    fn a_call_is_woken_without_the_lock() {
        /// A waker that uses the rounds at once.
        struct Inline(Arc<InputRounds>);

        impl Wake for Inline {
            fn wake(self: Arc<Self>) {
                assert!(self.0.end(Waker::noop()).is_some());
            }
        }

        model(|| {
            let rounds = rounds();
            assert!(rounds.end(&Waker::from(Arc::new(Inline(rounds.clone())))).is_none());
            ask(&rounds);
        });
    }

    fn bound(arguments: &str) -> Result<Vec<u8>, ErrorObject> {
        binding("m", "t", Some(&Object::parse(arguments.to_owned()).unwrap()), None)
    }

    #[test]
    fn the_order_of_arguments_does_not_matter_but_everything_else_does() {
        let one = bound(r#"{"a":1,"b":{"c":2,"d":3}}"#).unwrap();
        assert_eq!(one, bound(r#"{"b":{"d":3,"c":2},"a":1}"#).unwrap());
        assert_ne!(one, bound(r#"{"a":1,"b":{"c":2,"d":4}}"#).unwrap());
        let without = |method, principal| binding(method, "t", None, principal).unwrap();
        assert_ne!(one, without("m", None));
        assert_ne!(bound("{}").unwrap(), without("m", None));
        assert_ne!(without("m", None), without("m", Some("ann")));
        assert_ne!(without("m", None), without("n", None));
    }

    #[test]
    fn no_number_is_taken_for_another() {
        for (one, other) in [
            (r#"{"amount":1,"x":1e999}"#, r#"{"amount":1000000,"x":1e999}"#),
            (r#"{"x":1e999}"#, r#"{"x":1e998}"#),
            (r#"{"x":18446744073709551617}"#, r#"{"x":18446744073709551618}"#),
            (r#"{"x":0.1}"#, r#"{"x":0.1000000000000000000001}"#),
        ] {
            assert_ne!(bound(one).unwrap(), bound(other).unwrap(), "{one} {other}");
        }
    }

    #[test]
    fn what_cannot_be_bound_is_refused() {
        for (arguments, reason) in [
            (r#"{"x":"\ud800"}"#, "a string contains a lone surrogate"),
            (r#"{"x":1,"x":2}"#, "the member \"x\" occurs twice"),
        ] {
            let error = bound(arguments).unwrap_err();
            assert_eq!(error.code.0, -32602);
            let text = "arguments: a call that requests input cannot be repeated with these arguments: ";
            assert_eq!(error.message, format!("{text}{reason}"));
        }
    }
}
