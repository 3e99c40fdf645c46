//! Getting a call done: retries, rounds of questions, batches, and what an answer says about the server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytestring::ByteString;
use futures_util::future::join_all;
use tokio::time::Instant;
use turms_core::{Connector, Outgoing, Payload, PeerError, Update, Updates};
use turms_proto::method::Method;
use turms_proto::revision::{method_info, raise_url_elicitation};
use turms_proto::session::{RequestError, RequestOptions};
use turms_proto::types::{CallTool, Discover, DiscoverResult, EmptyParams, InputRequests, InputRequired, Ping};
use turms_proto::{Ability, ErrorCode, Notification, Object, RawJson};

use super::connection::{LAST_WORDS, closed};
use super::task::{declaring_tasks, is_about_tasks, renouncing_tasks};
use super::{Live, Single};
use crate::call::error::{
    CallError, CallErrorKind, DecodeCause, Delivery, InputCause, TaskCause, TimeoutCause, UnsupportedCause,
};
use crate::event::{BreakerState, Event, Events};
use crate::job::{Decoded, Job, Performed};
use crate::options::CallOptions;
use crate::supervision::Admission;

/// How many questions one round may ask.
const MOST_QUESTIONS: usize = 64;

impl Single {
    /// Makes a call and follows it to its end.
    pub(super) async fn complete(&self, job: &Job) -> Result<Performed, CallError> {
        self.follow(job, self.attempt(job).await?).await
    }

    /// Makes a call, again if it was lost and that is safe.
    pub(super) async fn attempt(&self, job: &Job) -> Result<Performed, CallError> {
        // As the tools are known now: another connection forgets them. Without a budget nothing is repeated that has run.
        let safe = self.budget.is_some() && job.is_safe_to_repeat(Some(&self.ear.tools));
        // How a call ended that may have run. Whatever becomes of it later, it may have.
        let mut lost: Option<CallError> = None;
        let (mut attempt, mut renewed) = (0, false);
        let mut deadline = None;
        if let Some(budget) = &self.budget {
            deadline = self.patience(&job.options).and_then(|patience| Instant::now().checked_add(patience));
            budget.earn();
        }
        loop {
            let (outcome, next) = match self.try_once(job, safe).await {
                Ok(tried) => tried,
                Err(unsent) => return Err(lost.unwrap_or(unsent)),
            };
            let Err(error) = outcome else { return outcome };
            if next == Next::Anew || next == Next::Renewed && !renewed {
                renewed = next == Next::Renewed;
                continue;
            }
            attempt += 1;
            let error = if error.may_have_run() { lost.insert(error).clone() } else { error };
            if error.is_unsent() && Box::pin(self.comes_back(attempt, deadline)).await {
                tracing::debug!(target: "turms::client", %error, attempt, "nobody was there; trying again");
                self.ear.events.publish(&Event::Retrying { subject: job.subject().into(), attempt });
                continue;
            }
            if error.is_unsent() || !self.may_repeat(&error, safe, attempt) {
                return Err(if error.delivery() == Delivery::NotSent { lost.unwrap_or(error) } else { error });
            }
            tracing::debug!(target: "turms::client", %error, attempt, "trying again");
            self.ear.events.publish(&Event::Retrying { subject: job.subject().into(), attempt });
            // No connection is waited for that has not ended.
            if error.is_unreachable() {
                tokio::time::sleep(self.backoff_delay(attempt + 1).unwrap_or_default()).await;
            }
        }
    }

    /// Waits for a server that was not there to take a call. As where there is a connection to be made anew, that takes as long
    /// as the call may, and nothing of what is saved up for calls that were lost; false if it is not to be waited for.
    async fn comes_back(&self, attempt: u32, deadline: Option<Instant>) -> bool {
        if self.budget.is_none() || self.is_closed() {
            return false;
        }
        // Of a server that is back, a call must not be the last to know.
        const LONGEST: Duration = Duration::from_secs(3);
        let Some(delay) = self.backoff_delay(attempt + 1).map(|delay| delay.min(LONGEST)) else { return false };
        if deadline.is_some_and(|deadline| Instant::now() + delay >= deadline) {
            return false;
        }
        let mut link = self.link.subscribe();
        tokio::select! {
            () = tokio::time::sleep(delay) => true,
            () = closed(&mut link) => false,
        }
    }

    /// Makes a call on whatever connection there is. The outer error is one of not having come so far.
    async fn try_once(&self, job: &Job, safe: bool) -> Result<(Result<Performed, CallError>, Next), CallError> {
        let trial = self.admit(job)?;
        let live = match self.live_now() {
            Some(live) => live,
            // Boxed, as all that seldom happens: calls that fare well do not carry room for it.
            None => match Box::pin(self.live(job, self.patience(&job.options))).await {
                Ok(live) => live,
                Err(error) => {
                    trial.end(Some(&error));
                    return Err(error);
                }
            },
        };
        let outcome = self.rounds(&live, job).await;
        trial.end(outcome.as_ref().err());
        // It was spoken to in the wrong revision. The next connection is not opened by memory. A tool may have run all the same: only
        // -32022 is never a tool's own, because it is about the revision of a request.
        let misunderstood =
            outcome.as_ref().err().and_then(CallError::error_response).is_some_and(|error| {
                error.code == ErrorCode::UNSUPPORTED_VERSION || safe || job.is_safe_to_repeat(None)
            });
        let expired = live.ended.get().is_some_and(|ended| ended.renewable);
        let unsent = outcome.as_ref().is_err_and(|error| error.delivery() == Delivery::NotSent);
        let next = match (misunderstood && live.mistaken.load(Ordering::Relaxed), unsent && expired) {
            (true, _) => Next::Anew,
            (false, true) => Next::Renewed,
            (false, false) => Next::Perhaps,
        };
        Ok((outcome, next))
    }

    fn may_repeat(&self, error: &CallError, safe: bool, attempt: u32) -> bool {
        if !error.is_disconnected() || self.is_closed() {
            return false;
        }
        let safe = safe || !error.may_have_run();
        safe && self.budget.as_ref().is_some_and(|budget| budget.spend(attempt))
    }

    fn admit(&self, job: &Job) -> Result<Trial<'_>, CallError> {
        let Some(breaker) = &self.breaker else { return Ok(Trial { single: self, undecided: false }) };
        let admission = breaker.admit();
        match admission {
            Admission::Go => {}
            Admission::Try => self.ear.events.publish(&Event::Breaker(BreakerState::HalfOpen)),
            Admission::Wait(rest) => {
                return Err(CallError::not_sent(job.subject(), CallErrorKind::CircuitOpen(rest)));
            }
        }
        Ok(Trial { single: self, undecided: admission == Admission::Try })
    }

    /// Makes a call on one connection, answering what the server asks in between.
    async fn rounds(&self, live: &Arc<Live>, job: &Job) -> Result<Performed, CallError> {
        let most = self.settings.max_rounds;
        let too_many = || CallError::answered(job.subject(), CallErrorKind::Input(InputCause::TooManyRounds(most)));
        let visits = self.visits_pages(live);
        let mut params = job.params.payload();
        for round in 0..=most {
            // That a page was visited may be told together with the error that wants it.
            let events = visits.then(|| self.ear.events.subscribe());
            params = match self.exchange(live, job, params).await {
                Ok(Decoded::Complete(payload)) => {
                    return Ok(Performed { answered: round > 0, ..Performed::new(payload) });
                }
                Ok(Decoded::Task(task)) if self.offered_task(job) => {
                    return Ok(Performed { answered: round > 0, ..Performed::new(Payload::new(*task)) });
                }
                Ok(Decoded::Task(_)) => {
                    return Err(CallError::answered(job.subject(), CallErrorKind::Task(TaskCause::Unexpected)));
                }
                // Nobody is asked for what would not be sent any more.
                Ok(Decoded::Input(_)) if round == most => return Err(too_many()),
                Ok(Decoded::Input(required)) => Box::pin(self.answer(job, *required, round)).await?,
                Err(error) => {
                    let error = if round > 0 { error.begun() } else { error };
                    Box::pin(self.visit_pages(job, error, events.filter(|_| round < most))).await?;
                    job.params.payload()
                }
            };
        }
        Err(too_many())
    }

    /// Whether a server may want pages to be visited that we would.
    pub(super) fn visits_pages(&self, live: &Live) -> bool {
        live.version().has(Ability::ElicitationIds) && self.ear.answers.visits_pages()
    }

    /// Answers everything that a round asks, and makes of it the parameters of the next.
    async fn answer(&self, job: &Job, required: InputRequired, round: usize) -> Result<Payload, CallError> {
        let questions = required.input_requests.unwrap_or_default();
        if questions.is_empty() {
            // "Come back later" means later.
            let pause = Duration::from_millis(50).saturating_mul(1 << round.min(6));
            tokio::time::sleep(pause).await;
        }
        let responses = self.responses(&job.subject(), questions).await?;
        let unwritable = |error: turms_proto::EncodeError| {
            CallError::not_sent(job.subject(), CallErrorKind::Encode(error.to_string()))
        };
        let mut params = job.params.object().map_err(unwritable)?;
        params.insert_raw("inputResponses", &responses.into());
        match required.request_state {
            Some(state) => params.insert_raw("requestState", &RawJson::string(&state)),
            None => {
                params.remove("requestState");
            }
        }
        Ok(Payload::json(params.into()))
    }

    /// The answers to questions, all or none.
    pub(super) async fn responses(&self, subject: &str, questions: InputRequests) -> Result<Object, CallError> {
        let unanswered = |method: &str, reason| {
            let kind = CallErrorKind::Input(InputCause::Refused { method: method.to_owned(), reason });
            CallError::answered(subject, kind)
        };
        if questions.len() > MOST_QUESTIONS {
            let reason = format!("{} more at once, where {MOST_QUESTIONS} are answered", questions.len() - 1);
            let method = questions.values().next().map(|question| question.method()).unwrap_or_default();
            return Err(unanswered(method, reason));
        }
        let answers = questions.into_iter().map(|(key, question)| {
            let answering = self.ear.answers.clone();
            async move { (key, answering.answer(question).await) }
        });
        let mut responses = Object::new();
        for (key, answer) in join_all(answers).await {
            let answer = answer.map_err(|none| unanswered(none.method(), none.reason()))?;
            responses.insert_raw(&key, &answer);
        }
        Ok(responses)
    }

    /// A server of 2025-11-25 may want pages to be visited before it does what it is asked. Any other error stays one.
    async fn visit_pages(&self, job: &Job, error: CallError, events: Option<Events>) -> Result<(), CallError> {
        let required = error.error_response().and_then(raise_url_elicitation);
        let (Some(required), Some(mut events)) = (required, events) else { return Err(error) };
        let mut pages = required.input_requests.unwrap_or_default();
        for (_, page) in &mut pages {
            let question = page.clone();
            let answer = self.ear.answers.answer(question).await.map_err(|_| error.clone())?;
            let accepted = answer.member("action").is_some_and(|action| action.as_str() == "\"accept\"");
            if !accepted {
                return Err(error);
            }
        }
        let all_visited = async {
            while !pages.is_empty() {
                let visited = events.find(|event| match event {
                    Event::ElicitationComplete { id } => Some(id),
                    _ => None,
                });
                match visited.await {
                    Some(id) => pages.shift_remove(&id),
                    None => return false,
                };
            }
            true
        };
        let visited = match self.patience(&job.options) {
            Some(patience) => tokio::time::timeout(patience, all_visited).await.unwrap_or(false),
            None => all_visited.await,
        };
        if visited { Ok(()) } else { Err(error) }
    }

    /// One request and its answer.
    async fn exchange(&self, live: &Arc<Live>, job: &Job, params: Payload) -> Result<Decoded, CallError> {
        let request = self.outgoing(live, job, params)?;
        self.answered(live, job, live.channel.request(request).await).await
    }

    /// What an answer means.
    async fn answered(
        &self,
        live: &Arc<Live>,
        job: &Job,
        answer: Result<Payload, PeerError>,
    ) -> Result<Decoded, CallError> {
        match answer.map_err(|error| CallError::of_peer(job.subject(), error)) {
            Ok(payload) => {
                self.note_answer(live);
                self.look_twice(live, &payload).await;
                read(live, job, payload)
            }
            Err(error) => {
                if error.delivery() == Delivery::Answered {
                    self.note_answer(live);
                }
                Err(Box::pin(self.judge(live, job, error)).await)
            }
        }
    }

    /// The revision was only remembered: an answer shows whether it is still the right one. Some older servers answer even
    /// without a handshake, but they do not say what kind of result it is.
    async fn look_twice(&self, live: &Arc<Live>, answer: &Payload) {
        if live.verified.load(Ordering::Relaxed) {
            return;
        }
        let kind = !live.version().has(Ability::ResultType);
        if kind || answer.as_raw().is_none_or(|raw| raw.member("resultType").is_some()) {
            live.verified.store(true, Ordering::Relaxed);
        } else {
            Box::pin(self.verify(live)).await;
        }
    }

    /// What a failure on one connection means.
    pub(super) async fn judge(&self, live: &Arc<Live>, job: &Job, error: CallError) -> CallError {
        if error.is_disconnected() && !error.is_unreachable() {
            let ended = tokio::time::timeout(LAST_WORDS, live.channel.closed()).await.unwrap_or_default();
            // Whoever tries again must not find this connection, even if nobody else has noticed yet.
            self.lost(live, ended.clone());
            return error.with_end(|| live.ended.get().cloned().unwrap_or(ended));
        }
        let invalid = matches!(error.kind(), CallErrorKind::Decode(DecodeCause::Invalid(_)));
        let doubtful = error.error_response().is_some() || error.is_timeout() || invalid;
        if doubtful && !live.verified.load(Ordering::Relaxed) && &*job.method != Discover::NAME {
            self.verify(live).await;
        }
        error
    }

    /// The revision was only remembered, and the first call has failed: see whether it is still the right one.
    async fn verify(&self, live: &Arc<Live>) {
        let options = RequestOptions::default().timeout(self.settings.probe_timeout);
        let probe = Outgoing::new(ByteString::from_static(Discover::NAME), Payload::new(EmptyParams::new()));
        let probe = probe.meta(live.meta.lock().clone()).options(options);
        let answer = live.channel.request(probe).await;
        // Trouble on the way says nothing about what the server speaks, nor does trouble that the server has. Silence does so on
        // a pipe, but not over HTTP.
        let says_nothing = match &answer {
            Err(PeerError::Request(RequestError::Peer(error))) => !is_of_older_server(error.code),
            Err(PeerError::Unreachable { .. } | PeerError::Unauthorized(_)) => true,
            Err(PeerError::Request(RequestError::TimedOut(_))) => !live.channel.is_ordered(),
            _ => false,
        };
        if says_nothing {
            return;
        }
        if answer.ok().and_then(|found| found.take::<DiscoverResult>().ok()).is_none() {
            if let Some(server) = self.connector.identity() {
                self.settings.memory.forget(&server);
            }
            live.mistaken.store(true, Ordering::Relaxed);
            self.abandon(live, "does not speak the revision that it did before");
        }
        live.verified.store(true, Ordering::Relaxed);
    }

    pub(super) fn outgoing(&self, live: &Arc<Live>, job: &Job, mut params: Payload) -> Result<Outgoing, CallError> {
        let version = live.version();
        if method_info(&job.method).is_some_and(|method| !method.is_defined_in(version)) {
            let what = job.method.to_string();
            return Err(CallError::not_sent(
                job.subject(),
                CallErrorKind::Unsupported(UnsupportedCause::Revision { what, version }),
            ));
        }
        self.ask_for_task(live, job, &mut params);
        if !version.has(Ability::Stateless) {
            params
                .lower_params(&job.method, version)
                .map_err(|error| CallError::not_sent(job.subject(), CallErrorKind::Encode(error.to_string())))?;
        }
        let mut meta = live.meta.lock().clone();
        if job.options.task.wanted || is_about_tasks(&job.method) {
            meta = meta.map(declaring_tasks);
        } else if job.options.task.refused {
            meta = meta.map(renouncing_tasks);
        }
        if let Some(own) = &job.options.meta {
            meta.get_or_insert_default().extend(own);
        }
        let mut options = self.request_options(&job.options);
        let wanted = self.ear.on_progress.is_some() && &*job.method == CallTool::NAME;
        let updates = (job.options.on_progress.is_some() || wanted).then(|| self.progress_updates(job));
        options.progress = updates.is_some();
        Ok(Outgoing::new(job.method.clone(), params).meta(meta).options(options).updates(updates))
    }

    fn progress_updates(&self, job: &Job) -> Updates {
        let (ear, own) = (self.ear.clone(), job.options.on_progress.clone());
        Arc::new(move |update| {
            if let Update::Progress(params) = update {
                if let Some(heard) = &own {
                    heard(&params);
                }
                ear.hear_progress(params);
            }
        })
    }

    /// Whether a server takes batches. Where the revision has them, every server must; but those on the official SDKs drop
    /// them without a word. So a batch of pings is followed by a ping, and if that is answered first, the batch was dropped.
    pub(super) async fn takes_batches(&self, live: &Live) -> bool {
        if !live.version().has(Ability::Batching) {
            return false;
        }
        let options = RequestOptions::default().timeout(self.settings.timeout);
        let ping =
            || Outgoing::new(ByteString::from_static(Ping::NAME), Payload::new(EmptyParams::new())).options(options);
        let find_out = async || {
            if !live.channel.is_ordered() {
                return live.channel.batch(vec![ping(), ping()]).await.iter().all(Result::is_ok);
            }
            tokio::select! {
                biased;
                answers = live.channel.batch(vec![ping(), ping()]) => answers.iter().all(Result::is_ok),
                _ = live.channel.request(ping()) => false,
            }
        };
        *live.batches.get_or_init(find_out).await
    }

    pub(super) async fn tell(&self, notification: Notification) -> Result<(), CallError> {
        let subject = notification.method.to_string();
        let live = self.live(subject.as_str(), Some(self.settings.timeout)).await?;
        live.channel.notify(notification).await.map_err(|error| CallError::of_peer(subject, error))
    }

    /// Does something that is more than one request, for as long as its options allow.
    pub(super) async fn within<T>(
        &self,
        subject: &str,
        options: &CallOptions,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let cancel = options.cancel.clone().unwrap_or_default();
        if cancel.is_cancelled() {
            return Err(CallError::not_sent(subject, CallErrorKind::Cancelled));
        }
        let given_up = |kind| Err(CallError::new(subject, kind, Delivery::Unknown));
        let patience = self.request_options(options).timeout;
        let patiently = async {
            match patience {
                Some(patience) => tokio::time::timeout(patience, work)
                    .await
                    .unwrap_or_else(|_| given_up(CallErrorKind::Timeout(TimeoutCause::Response(patience)))),
                None => work.await,
            }
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => given_up(CallErrorKind::Cancelled),
            outcome = patiently => outcome,
        }
    }
}

/// Returns `true` if servers that do not know `server/discover` answer it with this code.
fn is_of_older_server(code: ErrorCode) -> bool {
    const SERVER_ERROR: ErrorCode = ErrorCode(-32000);
    let not_understood = [
        ErrorCode::PARSE_ERROR,
        ErrorCode::INVALID_REQUEST,
        ErrorCode::METHOD_NOT_FOUND,
        ErrorCode::UNSUPPORTED_VERSION,
    ];
    let not_initialized = [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND, SERVER_ERROR];
    not_understood.contains(&code) || not_initialized.contains(&code)
}

/// What may become of a call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// It has not even been understood: once more, as if nothing had happened.
    Anew,
    /// It came too late for its session, and there is another: once more, but not again and again.
    Renewed,
    /// Once more if that is safe.
    Perhaps,
}

/// A call that the breaker wants to hear of.
struct Trial<'a> {
    single: &'a Single,
    undecided: bool,
}

impl Trial<'_> {
    pub(super) fn end(mut self, error: Option<&CallError>) {
        self.undecided = false;
        let Some(breaker) = &self.single.breaker else { return };
        let failed = error.is_some_and(|error| error.is_disconnected() || error.is_timeout());
        if let Some(state) = breaker.note(!failed) {
            self.single.ear.events.publish(&Event::Breaker(state));
        }
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        if let Some(breaker) = self.single.breaker.as_ref().filter(|_| self.undecided) {
            breaker.try_again();
        }
    }
}

pub(super) fn read(live: &Live, job: &Job, payload: Payload) -> Result<Decoded, CallError> {
    let invalid = |error| CallError::answered(job.subject(), CallErrorKind::Decode(DecodeCause::Invalid(error)));
    (job.decode)(payload, live.version()).map_err(invalid)
}
