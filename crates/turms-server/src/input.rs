//! Asking the client in both dialects, with one way to write it in a handler.
//!
//! An older client is sent a request, and the handler waits. A client of 2026-07-28 cannot be sent anything: the call ends
//! with the questions, and when it is made again with the answers, the handler runs again and finds them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Waker};

use bytestring::ByteString;
use parking_lot::Mutex;
use turms_core::{Outcome as CallOutcome, Payload, Ready, ResponseFuture};
use turms_proto::types::{InputRequest, InputRequests, InputRequired, InputResponses, Meta};
use turms_proto::{ErrorObject, Object, RawJson};

use crate::router::say_who;
use crate::seal::{Sealer, Unsealable};

/// The rounds of one request so far. Few handlers ever ask, so that nothing is opened or read before one does, and programs
/// where none does have nothing of it in them.
#[derive(Debug)]
pub(crate) struct Rounds {
    request: RoundsOf,
    phase: Mutex<Phase>,
}

/// The request that may take several rounds.
#[derive(Debug)]
pub(crate) struct RoundsOf {
    pub(crate) sealer: Arc<Sealer>,
    pub(crate) method: &'static str,
    /// What is called, got or read.
    pub(crate) subject: ByteString,
    pub(crate) arguments: Option<Object>,
    /// What the client carried from the last round.
    pub(crate) state: Option<String>,
    pub(crate) responses: Option<InputResponses>,
    /// Who asks.
    pub(crate) server: Option<Meta>,
}

#[derive(Debug, Default)]
struct Phase {
    asking: Option<Box<dyn Asking>>,
    waker: Option<Waker>,
    /// Whether the handler may ask yet.
    may_ask: bool,
}

/// A round in which the handler has asked, or wanted to know what was answered earlier.
trait Asking: Any + fmt::Debug + Send {
    /// How the round ends, if it does.
    fn end(&mut self, request: &RoundsOf) -> Option<CallOutcome>;
}

#[derive(Debug, Default)]
struct Round {
    /// Answers of all rounds, by key.
    answers: Object,
    /// What came of side effects that must not happen twice.
    outcomes: Object,
    /// Questions of this round.
    asked: InputRequests,
    /// How often each kind of question was asked without a key of its own.
    counts: HashMap<&'static str, usize>,
    /// What a sealed state is good for: this method, these parameters, this caller.
    bound_to: Vec<u8>,
    /// Why the round cannot be.
    refused: Option<ErrorObject>,
}

impl Round {
    fn open(request: &RoundsOf, principal: Option<&str>) -> Self {
        let mut round = Self::default();
        match binding(request.method, &request.subject, request.arguments.as_ref(), principal) {
            Ok(bound_to) => round.bound_to = bound_to,
            Err(error) => {
                round.refused = Some(error);
                return round;
            }
        }
        if let Some(sealed) = &request.state {
            match request.opened(sealed, &round.bound_to) {
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

impl RoundsOf {
    /// The answers and outcomes of earlier rounds; -32602 when the state is not one that this server gave for this request.
    fn opened(&self, sealed: &str, bound_to: &[u8]) -> Result<(Object, Object), ErrorObject> {
        let opened =
            self.sealer.open(sealed, bound_to).map_err(|error| ErrorObject::invalid_params(error.to_string()))?;
        let broken = || ErrorObject::invalid_params("requestState cannot be read");
        let opened = Object::parse(String::from_utf8(opened).map_err(|_| broken())?).map_err(|_| broken())?;
        let part = |name| opened.get(name).and_then(|part| part.as_object()).unwrap_or_default();
        Ok((part("answers"), part("outcomes")))
    }
}

impl Asking for Round {
    fn end(&mut self, request: &RoundsOf) -> Option<CallOutcome> {
        if let Some(error) = self.refused.clone() {
            return Some(Err(error.into()));
        }
        if self.asked.is_empty() {
            return None;
        }
        let mut round = InputRequired::new().input_requests(std::mem::take(&mut self.asked));
        let carried: Object = [("answers", &self.answers), ("outcomes", &self.outcomes)]
            .into_iter()
            .map(|(name, part)| (name, RawJson::from(part.clone())))
            .collect();
        round.request_state = Some(request.sealer.seal(carried.as_str().as_bytes(), &self.bound_to));
        if let Some(server) = &request.server {
            say_who(&mut round.meta, server.clone());
        }
        Some(Ok(Payload::new(round)))
    }
}

impl Rounds {
    pub(crate) fn of(request: RoundsOf) -> Arc<Self> {
        Arc::new(Self { request, phase: Mutex::default() })
    }

    /// Works on the round, which is opened for `principal` at first. `None` if that cannot be: the call ends with the reason,
    /// and its handler must not go on.
    fn with<T>(&self, principal: Option<&str>, work: impl FnOnce(&mut Round, &mut Option<Waker>) -> T) -> Option<T> {
        let Phase { asking, waker, .. } = &mut *self.phase.lock();
        let asking = asking.get_or_insert_with(|| Box::new(Round::open(&self.request, principal)));
        let round = (&mut **asking as &mut dyn Any).downcast_mut::<Round>()?;
        if round.refused.is_some() {
            waker.take().into_iter().for_each(Waker::wake);
            return None;
        }
        Some(work(round, waker))
    }

    /// Whether the client carried a state that this server gave for this request, if it carried any.
    pub(crate) fn check(&self, principal: Option<&str>) -> Result<(), ErrorObject> {
        if self.request.state.is_none() {
            return Ok(());
        }
        let Phase { asking, .. } = &mut *self.phase.lock();
        let round = Round::open(&self.request, principal);
        let refused = round.refused.clone();
        *asking = Some(Box::new(round));
        refused.map_or(Ok(()), Err)
    }

    /// Somebody has got hold of what the client can be asked with.
    pub(crate) fn may_be_asked(&self) {
        self.phase.lock().may_ask = true;
    }

    /// Who cannot ask has never given a state to carry.
    pub(crate) fn check_of_who_cannot_ask(&self) -> Result<(), ErrorObject> {
        let phase = self.phase.lock();
        match self.request.state {
            Some(_) if phase.asking.is_none() && !phase.may_ask => {
                Err(ErrorObject::invalid_params(Unsealable.to_string()))
            }
            _ => Ok(()),
        }
    }

    /// A key for a question that has none of its own. Handlers ask in the same order each time, so the keys agree.
    pub(crate) fn next_key(&self, principal: Option<&str>, kind: &'static str) -> String {
        let count = self.with(principal, |round, _| {
            let count = round.counts.entry(kind).or_default();
            *count += 1;
            *count
        });
        format!("{kind}-{}", count.unwrap_or_default())
    }

    /// The answer to a question, if it came already. If not, the question is put, and the handler never wakes up again in
    /// this round.
    pub(crate) async fn ask(&self, principal: Option<&str>, key: &str, request: InputRequest) -> RawJson {
        let mut request = Some(request);
        poll_fn(|_| {
            let answer = self.with(principal, |round, waker| {
                let answer = round.answers.get(key);
                if let (None, Some(request)) = (&answer, request.take()) {
                    round.asked.insert(key.to_owned(), request);
                    waker.take().into_iter().for_each(Waker::wake);
                }
                answer
            });
            answer.flatten().map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Throws away an answer that makes no sense, so that it is asked for again.
    pub(crate) fn forget(&self, key: &str) {
        self.with(None, |round, _| round.answers.remove(key));
    }

    /// What came of a side effect in an earlier round.
    pub(crate) async fn outcome(&self, principal: Option<&str>, key: &str) -> Option<RawJson> {
        let look = || self.with(principal, |round, _| round.outcomes.get(key));
        poll_fn(|_| look().map_or(Poll::Pending, Poll::Ready)).await
    }

    pub(crate) fn keep_outcome(&self, key: &str, outcome: &RawJson) {
        self.with(None, |round, _| round.outcomes.insert_raw(key, outcome));
    }

    /// The end of a round, if the handler has put questions.
    pub(crate) fn end(&self, waker: &Waker) -> Option<CallOutcome> {
        let mut phase = self.phase.lock();
        let end = phase.asking.as_mut().and_then(|asking| asking.end(&self.request));
        if end.is_none() {
            phase.waker = Some(waker.clone());
        }
        end
    }
}

/// The parts of a request that must be the same when its state comes back, with the arguments in canonical text: clients may
/// write them in another order, but every number and every string counts.
///
/// # Errors
/// -32602 if the arguments have no canonical text. They must not pass for others, or for none.
fn binding(
    method: &str,
    subject: &str,
    arguments: Option<&Object>,
    principal: Option<&str>,
) -> Result<Vec<u8>, ErrorObject> {
    let arguments = arguments.map(Object::canonical).transpose().map_err(|error| {
        ErrorObject::invalid_params(format!(
            "arguments: a call that asks for input cannot be repeated with these: {error}"
        ))
    })?;
    let mut bound_to = serde_json::to_vec(&(method, subject, principal)).unwrap_or_default();
    bound_to.extend_from_slice(arguments.unwrap_or_default().as_bytes());
    Ok(bound_to)
}

/// Runs a handler until it answers, of which `finish` makes an outcome, or has put its questions.
pub(crate) fn run<T: Send + Unpin + 'static>(
    handler: Ready<Result<T, ErrorObject>>,
    rounds: Option<Arc<Rounds>>,
    finish: impl FnOnce(Result<T, ErrorObject>) -> CallOutcome + Send + 'static,
) -> ResponseFuture {
    match rounds {
        Some(rounds) if !handler.is_now() => Ready::later(async move {
            match (UntilAsked { handler, rounds }).await {
                Ok(result) => finish(result),
                Err(asked) => asked,
            }
        }),
        _ => handler.map(finish),
    }
}

struct UntilAsked<T> {
    handler: Ready<Result<T, ErrorObject>>,
    rounds: Arc<Rounds>,
}

impl<T: Unpin> Future for UntilAsked<T> {
    /// What the handler answered, or how the call ends without.
    type Output = Result<Result<T, ErrorObject>, CallOutcome>;

    fn poll(mut self: Pin<&mut Self>, task: &mut TaskContext<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = Pin::new(&mut self.handler).poll(task) {
            return Poll::Ready(Ok(result));
        }
        match self.rounds.end(task.waker()) {
            Some(asked) => Poll::Ready(Err(asked)),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let text = "arguments: a call that asks for input cannot be repeated with these: ";
            assert_eq!(error.message, format!("{text}{reason}"));
        }
    }
}
