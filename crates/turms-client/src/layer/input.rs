use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use turms_core::CancellationToken;
use turms_proto::revision::raise_url_elicitation;
use turms_proto::types::{InputRequests, InputRequiredResult, Outcome};
use turms_proto::{Ability, EncodeError, Object, RawJson};

use super::CallService;
use crate::call::error::{CallError, CallErrorKind, InputCause};
use crate::call::request::CallParams;
use crate::call::{CallOutput, CallRequest};
use crate::connection::ServerShared;
use crate::event::{Event, Events};
use crate::handlers::InputFailure;
use crate::incoming::IncomingHandler;

/// Maximum number of input requests in one round.
const MAX_INPUT_REQUESTS: usize = 64;

/// Responds to `input_required` results, and to the URL elicitations of 2025-11-25. This layer is inside of the
/// retries, because request state belongs to one connection.
pub(crate) struct InputRounds<S> {
    inner: S,
    shared: Arc<ServerShared>,
}

impl<S> InputRounds<S> {
    pub(crate) fn new(inner: S, shared: Arc<ServerShared>) -> Self {
        Self { inner, shared }
    }

    /// Subscribes to the events of a server that may require URL elicitations. Called before the call is sent, because
    /// the completion of an elicitation may arrive together with the error that requires it.
    fn elicitation_events(&self) -> Option<Events> {
        let connected = self.shared.current()?;
        connected.version().has(Ability::ElicitationIds).then(|| self.shared.incoming.events.subscribe())
    }
}

impl<S: CallService> CallService for InputRounds<S> {
    async fn call(&self, call: &CallRequest) -> Result<CallOutput, CallError> {
        let handles_urls = self.shared.incoming.handlers.handles_urls();
        let events = if handles_urls { self.elicitation_events() } else { None };
        match self.inner.call(call).await {
            outcome if call.options.return_input => outcome,
            Ok(output) if !matches!(output.outcome, Outcome::InputRequired(_)) => Ok(output),
            first => Box::pin(self.rounds(call, first, events)).await,
        }
    }
}

impl<S: CallService> InputRounds<S> {
    /// Repeats a call with the requested input until it has a result.
    async fn rounds(
        &self,
        call: &CallRequest,
        mut outcome: Result<CallOutput, CallError>,
        mut events: Option<Events>,
    ) -> Result<CallOutput, CallError> {
        let max = self.shared.settings.max_input_rounds;
        let mut round = 0;
        loop {
            let next = match outcome {
                Ok(CallOutput { outcome: Outcome::InputRequired(required), generation, .. }) => {
                    // Check the limit first, so that no input is collected that would not be sent.
                    if round >= max {
                        let kind = CallErrorKind::Input(InputCause::TooManyRounds(max));
                        return Err(CallError::answered(call.target(), kind));
                    }
                    let params = self.next_params(call, *required, round).await?;
                    CallRequest { params, generation: Some(generation), ..call.clone() }
                }
                Ok(output) => return Ok(CallOutput { took_input: round > 0, ..output }),
                Err(error) => {
                    let error = if round > 0 { error.maybe_sent() } else { error };
                    self.elicit_urls(call, error, events.filter(|_| round < max)).await?;
                    call.clone()
                }
            };
            round += 1;
            events = self.elicitation_events();
            outcome = self.inner.call(&next).await;
        }
    }

    /// Returns the parameters of the next round, with responses to all input requests.
    async fn next_params(
        &self,
        call: &CallRequest,
        required: InputRequiredResult,
        round: usize,
    ) -> Result<CallParams, CallError> {
        let requests = required.input_requests.unwrap_or_default();
        if requests.is_empty() {
            // A round without input requests means: try again later.
            tokio::time::sleep(Duration::from_millis(50).saturating_mul(1 << round.min(6))).await;
        }
        let responses = respond(&self.shared.incoming, call, requests).await?;
        let encode = |error: EncodeError| CallError::not_sent(call.target(), CallErrorKind::Encode(error.to_string()));
        let mut params = call.params.object().map_err(encode)?;
        params.insert_raw("inputResponses", &responses.into());
        match required.request_state {
            Some(state) => params.insert_raw("requestState", &RawJson::string(&state)),
            None => {
                params.remove("requestState");
            }
        }
        Ok(CallParams::Json(params.into()))
    }

    /// Handles an error of a server of 2025-11-25 that requires URL elicitations before the call, and waits for their
    /// completion. Returns the error if it is another one, or if an elicitation is not accepted and completed.
    async fn elicit_urls(&self, call: &CallRequest, error: CallError, events: Option<Events>) -> Result<(), CallError> {
        let required = error.error_response().and_then(raise_url_elicitation);
        let (Some(required), Some(mut events)) = (required, events) else { return Err(error) };
        let mut elicitations = required.input_requests.unwrap_or_default();
        for (_, elicitation) in &elicitations {
            let incoming = &self.shared.incoming;
            let running = RunningHandlers::new(call);
            let cx = incoming.input_context(running.token.clone());
            let response = incoming.handlers.respond(elicitation.clone(), cx).await.map_err(|_| error.clone())?;
            running.finish();
            if response.member("action").is_none_or(|action| action.as_str() != "\"accept\"") {
                return Err(error);
            }
        }
        let completed = async {
            while !elicitations.is_empty() {
                let id = events.find(|event| match event {
                    Event::ElicitationComplete { id } => Some(id),
                    _ => None,
                });
                match id.await {
                    Some(id) => elicitations.shift_remove(&id),
                    None => return false,
                };
            }
            true
        };
        let completed = match self.shared.wait_time(&call.options) {
            Some(timeout) => tokio::time::timeout(timeout, completed).await.unwrap_or(false),
            None => completed.await,
        };
        if completed { Ok(()) } else { Err(error) }
    }
}

/// Returns the responses to all input requests of a round, by key, or the first error.
pub(super) async fn respond(
    incoming: &IncomingHandler,
    call: &CallRequest,
    requests: InputRequests,
) -> Result<Object, CallError> {
    let refused = |method: &str, reason| {
        let cause = InputCause::Refused { method: method.to_owned(), reason };
        CallError::answered(call.target(), CallErrorKind::Input(cause))
    };
    if requests.len() > MAX_INPUT_REQUESTS {
        let reason =
            format!("{} input requests in one response, at most {MAX_INPUT_REQUESTS} are allowed", requests.len());
        let method = requests.values().next().map(|request| request.method()).unwrap_or_default();
        return Err(refused(method, reason));
    }
    let running = RunningHandlers::new(call);
    let responses = requests.into_iter().map(|(key, request)| {
        let (handlers, cx) = (incoming.handlers.clone(), incoming.input_context(running.token.clone()));
        async move { (key, handlers.respond(request, cx).await) }
    });
    let responses = join_all(responses).await;
    running.finish();
    let mut object = Object::new();
    for (key, response) in responses {
        let response = response.map_err(|failure| match failure {
            InputFailure::InvalidForm { method, reason } => {
                let cause = InputCause::InvalidForm { method: method.to_owned(), reason };
                CallError::answered(call.target(), CallErrorKind::Input(cause))
            }
            failure => refused(failure.method(), failure.reason()),
        })?;
        object.insert_raw(&key, &response);
    }
    Ok(object)
}

/// The running handlers of input requests. They are dropped if the call is cancelled or dropped. That cancels their token, for
/// work that they have started outside of themselves.
struct RunningHandlers<'a> {
    token: CancellationToken,
    call: &'a CallRequest,
}

impl<'a> RunningHandlers<'a> {
    fn new(call: &'a CallRequest) -> Self {
        Self { token: CancellationToken::new(), call }
    }

    /// Drops the value without cancelling the token: the handlers have returned.
    fn finish(mut self) {
        self.token = CancellationToken::new();
    }
}

impl Drop for RunningHandlers<'_> {
    fn drop(&mut self) {
        self.token.cancel_as(&self.call.cancellation);
    }
}

#[cfg(test)]
mod tests {
    use turms_core::Payload;
    use turms_proto::types::{
        CallTool, CallToolParams, CallToolResult, ElicitForm, ElicitParams, FormSchema, InputRequest,
    };

    use super::*;
    use crate::call::error::{ClosedCause, Delivery};
    use crate::connection::tests::shared;
    use crate::layer::scripted::Scripted;

    fn call() -> CallRequest {
        CallRequest::multi_round::<CallTool, _>(CallToolParams::new("a"))
    }

    fn required(_: &CallRequest) -> Result<CallOutput, CallError> {
        let form = ElicitParams::Form(ElicitForm::new("Who?", FormSchema::new()));
        let mut required = InputRequiredResult::new().request_state("s");
        required.input_requests = Some([("q".to_owned(), InputRequest::from(form))].into_iter().collect());
        Ok(CallOutput { generation: 7, ..CallOutput::new(Outcome::InputRequired(Box::new(required))) })
    }

    fn done(_: &CallRequest) -> Result<CallOutput, CallError> {
        Ok(CallOutput::complete(Payload::new(CallToolResult::from_text("done"))))
    }

    async fn rounds(inner: Scripted) -> InputRounds<Scripted> {
        InputRounds::new(inner, shared(|builder| builder.decline_elicitation().max_input_rounds(2)).await)
    }

    #[tokio::test]
    async fn input_is_sent_with_the_state_on_the_same_connection() {
        let rounds = rounds(Scripted::default().then(required).then(done)).await;
        let output = rounds.call(&call()).await.unwrap();
        assert!(output.took_input);
        let calls = rounds.inner.calls.lock();
        assert_eq!((calls[0].generation, calls[1].generation), (None, Some(7)));
        let params = calls[1].params.object().unwrap();
        let expected = r#"{"name":"a","inputResponses":{"q":{"action":"decline"}},"requestState":"s"}"#;
        assert_eq!(params.as_str(), expected);
    }

    #[tokio::test]
    async fn input_requests_are_returned_on_request() {
        let rounds = rounds(Scripted::default().then(required)).await;
        let mut call = call();
        call.options.return_input = true;
        assert!(matches!(rounds.call(&call).await.unwrap().outcome, Outcome::InputRequired(_)));
    }

    #[tokio::test]
    async fn a_result_without_input_is_passed_on() {
        let rounds = rounds(Scripted::default().then(done)).await;
        assert!(!rounds.call(&call()).await.unwrap().took_input);
    }

    #[tokio::test]
    async fn a_failure_after_the_first_round_may_have_run() {
        let lost = |call: &CallRequest| Err(CallError::not_connected(call.target(), None));
        let rounds = rounds(Scripted::default().then(required).then(lost)).await;
        let error = rounds.call(&call()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Closed(ClosedCause::NotConnected(_))));
        assert_eq!(error.delivery(), Delivery::Unknown);
    }

    #[tokio::test]
    async fn the_number_of_rounds_is_limited() {
        let rounds = rounds(Scripted::default().then(required).then(required).then(required)).await;
        let error = rounds.call(&call()).await.unwrap_err();
        assert!(matches!(error.kind(), CallErrorKind::Input(InputCause::TooManyRounds(2))), "{error}");
    }
}
