//! A call: its request, its options, its result and its error.

pub(crate) mod decode;
pub(crate) mod error;
pub(crate) mod options;
pub(crate) mod request;
mod session;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::de::DeserializeOwned;
use turms_core::{BoxFuture, CancellationToken, Payload};
use turms_proto::method::Method as _;
use turms_proto::types::{EmptyResult, Listen, Meta, Outcome, ProgressParams};

pub(crate) use self::error::CallError;
use self::error::{CallErrorKind, TaskCause};
pub(crate) use self::options::{CallOptions, Timeout};
pub(crate) use self::request::{CallRequest, CallTarget};
pub(crate) use self::session::SessionCall;
use crate::client::Client;
use crate::subscription::Subscription;
use crate::task::TaskOwner;

/// A call that is sent when it is awaited. Set its options first.
///
/// Dropping the future of a call cancels it: the server is notified in the way that its revision defines.
///
/// ```no_run
/// # async fn example(client: turms_client::Client) -> Result<(), turms_client::CallError> {
/// use std::time::Duration;
///
/// let report = client
///     .call_tool("report", serde_json::json!({ "year": 2026 }))
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T, E = CallError> {
    client: Client,
    options: CallOptions,
    plan: Plan<T, E>,
}

enum Plan<T, E> {
    Request(Result<CallRequest, CallError>, Finish<T>),
    Steps(Steps<T, E>),
}

/// Makes the result of a call.
pub(crate) type Finish<T> = fn(&CallRequest, CallOutput) -> Result<T, CallError>;

type Steps<T, E> = Box<dyn FnOnce(Client, CallOptions) -> BoxFuture<'static, Result<T, E>> + Send>;

impl<T, E> Call<T, E> {
    /// A call that is one request.
    pub(crate) fn new(client: &Client, request: Result<CallRequest, CallError>, finish: Finish<T>) -> Self {
        Self { client: client.clone(), options: CallOptions::default(), plan: Plan::Request(request, finish) }
    }

    /// A call that is several requests, such as the pages of a list.
    pub(crate) fn steps<F>(client: &Client, steps: impl FnOnce(Client, CallOptions) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let steps: Steps<T, E> = Box::new(move |client, options| Box::pin(steps(client, options)));
        Self { client: client.clone(), options: CallOptions::default(), plan: Plan::Steps(steps) }
    }

    /// The same call with a changed request. Calls of several requests stay as they are.
    pub(crate) fn map_request(mut self, change: impl FnOnce(CallRequest) -> Result<CallRequest, CallError>) -> Self {
        self.plan = match self.plan {
            Plan::Request(request, finish) => Plan::Request(request.and_then(change), finish),
            steps @ Plan::Steps(_) => steps,
        };
        self
    }

    pub(crate) fn options_mut(&mut self) -> &mut CallOptions {
        &mut self.options
    }

    /// Timeout for the response, renewed by each report of progress. Each attempt, each input round, each page of a list, each
    /// poll of a task and the wait for a connection has this time. [`max_duration`](Self::max_duration) limits what progress can
    /// add to it.
    #[doc(alias = "deadline")]
    #[doc(alias = "max_total_timeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Timeout::After(timeout);
        self
    }

    /// Timeout for the response that progress does not renew, in place of that of the client
    /// ([`ClientBuilder::max_duration`](crate::ClientBuilder::max_duration)). It starts anew where [`timeout`](Self::timeout)
    /// does. It does not apply to subscriptions, nor to the time that a task takes.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.options.max_duration = Some(duration);
        self
    }

    /// Waits without a timeout, unless this call has a [`max_duration`](Self::max_duration).
    pub fn without_timeout(mut self) -> Self {
        self.options.timeout = Timeout::Never;
        self
    }

    /// Requests reports of progress. The callback runs where the connection is driven: it must be quick and must not block.
    pub fn on_progress(mut self, callback: impl Fn(&ProgressParams) + Send + Sync + 'static) -> Self {
        self.options.on_progress = Some(Arc::new(callback));
        self
    }

    /// Adds metadata to the request, as `_meta`.
    pub fn meta(mut self, meta: impl Into<Meta>) -> Self {
        self.options.meta = Some(meta.into());
        self
    }

    /// Cancels the call when this token is cancelled. Any number of calls can share one; its reason is sent to the server in
    /// `notifications/cancelled`.
    #[doc(alias = "cancel_with")]
    pub fn cancellation_token(mut self, token: &CancellationToken) -> Self {
        self.options.cancellation = Some(token.clone());
        self
    }

    /// Sends the request even if a cached response exists.
    pub fn bypass_cache(mut self) -> Self {
        self.options.bypass_cache = true;
        self
    }

    /// Allows a retry although the call may have run, because running it twice does no harm. By default this is known of methods that
    /// only read, and of tools that declare it. See [`ClientBuilder::retry`](crate::ClientBuilder::retry).
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = Some(true);
        self
    }

    /// Disables retries of a call that may have run.
    pub fn without_retry(mut self) -> Self {
        self.options.idempotent = Some(false);
        self
    }
}

impl<T: 'static, E: From<CallError> + 'static> IntoFuture for Call<T, E> {
    type Output = Result<T, E>;
    type IntoFuture = CallFuture<T, E>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { client, options, plan } = self;
        CallFuture(match plan {
            Plan::Request(request, finish) => Box::pin(async move {
                let request = request?.with_options(options);
                let output = client.backend().call(&request).await?;
                Ok(finish(&request, output)?)
            }),
            Plan::Steps(steps) => Box::pin(async move { steps(client, options).await }),
        })
    }
}

/// The future of a [`Call`]. The request is sent when it is first polled.
#[must_use = "futures do nothing unless polled"]
pub struct CallFuture<T, E = CallError>(BoxFuture<'static, Result<T, E>>);

impl<T, E> Future for CallFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(task)
    }
}

impl<T, E> fmt::Debug for CallFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture").finish_non_exhaustive()
    }
}

impl<T, E> fmt::Debug for Call<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// The result of one call, as it passes the layers.
#[derive(Debug)]
pub(crate) struct CallOutput {
    pub(crate) outcome: Outcome<Payload>,
    /// The number of the connection that it came from.
    pub(crate) generation: u64,
    /// The server was given input of this client, so that another call may get another result.
    pub(crate) took_input: bool,
    /// The owner of the task that the result is, if the caller wants the task.
    pub(crate) task: Option<Box<TaskOwner>>,
    /// The open stream of a `subscriptions/listen`.
    pub(crate) subscription: Option<Box<Subscription>>,
}

impl CallOutput {
    pub(crate) fn new(outcome: Outcome<Payload>) -> Self {
        Self { outcome, generation: 0, took_input: false, task: None, subscription: None }
    }

    pub(crate) fn complete(payload: Payload) -> Self {
        Self::new(Outcome::Complete(payload))
    }

    /// A result without contents.
    pub(crate) fn empty() -> Self {
        Self::complete(Payload::new(EmptyResult::new()))
    }

    pub(crate) fn subscription(subscription: Subscription) -> Self {
        Self { subscription: Some(Box::new(subscription)), ..Self::empty() }
    }

    /// The stream of changes that was opened.
    pub(crate) fn into_subscription(self) -> Result<Subscription, CallError> {
        let stream = self.subscription.ok_or_else(|| CallError::not_connected(Listen::NAME, None))?;
        Ok(*stream)
    }

    /// The complete result.
    pub(crate) fn payload(self, call: &CallRequest) -> Result<Payload, CallError> {
        match self.outcome {
            Outcome::Complete(payload) => Ok(payload),
            Outcome::Task(task) => Ok(Payload::new(*task)),
            _ => Err(CallError::answered(call.target(), CallErrorKind::Task(TaskCause::Unexpected))),
        }
    }

    /// The complete result as a `T`.
    pub(crate) fn take<T: DeserializeOwned + 'static>(self, call: &CallRequest) -> Result<T, CallError> {
        self.payload(call)?.take().map_err(|error| call.invalid(error))
    }
}
