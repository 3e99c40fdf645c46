//! Asking the client in both dialects, with one way to write it in a handler.
//!
//! An older client is sent a request, and the handler waits. A client of 2026-07-28 cannot be sent anything: the call ends
//! with the questions, and when it is made again with the answers, the handler runs again and finds them.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};

use serde_json::Value;
use turms_core::{CallFuture, Outcome as CallOutcome, Ready};
use turms_proto::types::{InputRequest, InputRequests, InputRequired, InputResponses, Outcome};
use turms_proto::{ErrorObject, Object, RawJson};

use crate::seal::Sealer;
use crate::session::lock;

/// The rounds of one request so far.
#[derive(Debug)]
pub(crate) struct Rounds {
    state: Mutex<State>,
    sealer: Arc<Sealer>,
    /// What a sealed state is good for: this method, these parameters, this caller.
    bound_to: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    /// Answers of all rounds, by key.
    answers: Object,
    /// What came of side effects that must not happen twice.
    outcomes: Object,
    /// Questions of this round.
    asked: InputRequests,
    /// How often each kind of question was asked without a key of its own.
    counts: HashMap<&'static str, usize>,
    waker: Option<Waker>,
}

impl Rounds {
    /// # Errors
    /// -32602 when the state is not one that this server gave for this request.
    pub(crate) fn new(
        sealer: Arc<Sealer>,
        bound_to: Vec<u8>,
        request_state: Option<&str>,
        responses: Option<&InputResponses>,
    ) -> Result<Self, ErrorObject> {
        let mut state = State::default();
        if let Some(sealed) = request_state {
            let opened =
                sealer.open(sealed, &bound_to).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
            let broken = || ErrorObject::invalid_params("requestState cannot be read");
            let opened = Object::parse(String::from_utf8(opened).map_err(|_| broken())?).map_err(|_| broken())?;
            let part = |name| opened.get(name).and_then(|part| part.as_object()).unwrap_or_default();
            (state.answers, state.outcomes) = (part("answers"), part("outcomes"));
        }
        if let Some(responses) = responses {
            state.answers.extend(responses);
        }
        Ok(Self { state: Mutex::new(state), sealer, bound_to })
    }

    /// A key for a question that has none of its own. Handlers ask in the same order each time, so the keys agree.
    pub(crate) fn next_key(&self, kind: &'static str) -> String {
        let mut state = lock(&self.state);
        let count = state.counts.entry(kind).or_default();
        *count += 1;
        format!("{kind}-{count}")
    }

    /// The answer to a question, if it came already. If not, the question is put, and the handler never wakes up again in
    /// this round.
    pub(crate) async fn ask(&self, key: &str, request: InputRequest) -> RawJson {
        let mut request = Some(request);
        poll_fn(|_| {
            let mut state = lock(&self.state);
            if let Some(answer) = state.answers.get(key) {
                return Poll::Ready(answer);
            }
            if let Some(request) = request.take() {
                state.asked.insert(key.to_owned(), request);
                if let Some(waker) = state.waker.take() {
                    waker.wake();
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Throws away an answer that makes no sense, so that it is asked for again.
    pub(crate) fn forget(&self, key: &str) {
        lock(&self.state).answers.remove(key);
    }

    pub(crate) fn outcome(&self, key: &str) -> Option<RawJson> {
        lock(&self.state).outcomes.get(key)
    }

    pub(crate) fn keep_outcome(&self, key: &str, outcome: &RawJson) {
        lock(&self.state).outcomes.insert_raw(key, outcome);
    }

    /// The end of a round, if the handler has put questions.
    pub(crate) fn take_questions(&self, waker: &Waker) -> Option<InputRequired> {
        let mut state = lock(&self.state);
        if state.asked.is_empty() {
            state.waker = Some(waker.clone());
            return None;
        }
        let mut round = InputRequired::new().input_requests(std::mem::take(&mut state.asked));
        let carried: Object = [("answers", &state.answers), ("outcomes", &state.outcomes)]
            .into_iter()
            .map(|(name, part)| (name, RawJson::from(part.clone())))
            .collect();
        round.request_state = Some(self.sealer.seal(carried.as_str().as_bytes(), &self.bound_to));
        Some(round)
    }
}

/// What a request has to be the same in for its state to be good.
pub(crate) fn binding(method: &str, subject: &str, arguments: Option<&Object>, principal: Option<&str>) -> Vec<u8> {
    let arguments: Option<Value> = arguments.and_then(|arguments| arguments.decode().ok());
    serde_json::to_vec(&(method, subject, arguments.map(sorted), principal)).unwrap_or_default()
}

/// Clients may write the same arguments in another order.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Array(members.into_iter().map(|(name, value)| Value::Array(vec![name.into(), value])).collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(sorted).collect()),
        scalar => scalar,
    }
}

/// Runs a handler until it answers or has put its questions; `finish` makes an answer of either.
pub(crate) fn run<T: Send + Unpin + 'static>(
    handler: Ready<Result<T, ErrorObject>>,
    rounds: Option<Arc<Rounds>>,
    finish: impl FnOnce(Result<Outcome<T>, ErrorObject>) -> CallOutcome + Send + 'static,
) -> CallFuture {
    match rounds {
        Some(rounds) if !handler.is_now() => Ready::later(async move { finish(Round { handler, rounds }.await) }),
        _ => handler.map(|result| finish(result.map(Outcome::Complete))),
    }
}

struct Round<T> {
    handler: Ready<Result<T, ErrorObject>>,
    rounds: Arc<Rounds>,
}

impl<T: Unpin> Future for Round<T> {
    type Output = Result<Outcome<T>, ErrorObject>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = Pin::new(&mut self.handler).poll(task) {
            return Poll::Ready(result.map(Outcome::Complete));
        }
        match self.rounds.take_questions(task.waker()) {
            Some(round) => Poll::Ready(Ok(Outcome::InputRequired(Box::new(round)))),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_arguments_does_not_matter_but_everything_else_does() {
        let arguments = |text: &str| Object::parse(text.to_owned()).unwrap();
        let one = binding("m", "t", Some(&arguments(r#"{"a":1,"b":{"c":2,"d":3}}"#)), None);
        assert_eq!(one, binding("m", "t", Some(&arguments(r#"{"b":{"d":3,"c":2},"a":1}"#)), None));
        assert_ne!(one, binding("m", "t", Some(&arguments(r#"{"a":1,"b":{"c":2,"d":4}}"#)), None));
        assert_ne!(one, binding("m", "t", None, None));
        assert_ne!(binding("m", "t", None, None), binding("m", "t", None, Some("ann")));
        assert_ne!(binding("m", "t", None, None), binding("n", "t", None, None));
    }
}
