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

/// A call with options. It is sent when it is awaited.
///
/// Dropping the future cancels the call and notifies the server as the revision defines.
///
/// ```no_run
/// # async fn example(client: turms_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// let report = client
///     .call_tool("report", serde_json::json!({ "year": 2026 }))
///     .timeout(Duration::from_secs(120))
///     .on_progress(|progress| println!("{}", progress.progress))
///     .await?
///     .into_result()?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T, E = CallError> {
    client: Client,
    options: CallOptions,
    plan: Plan<T, E>,
}

/// The requests of a call.
enum Plan<T, E> {
    /// One request. An error of encoding it is returned when the call is awaited.
    Request(Result<CallRequest, CallError>, Finish<T>),
    /// Several requests.
    Steps(Steps<T, E>),
}

/// Converts the output of a call to its result.
pub(crate) type Finish<T> = fn(&CallRequest, CallOutput) -> Result<T, CallError>;

type Steps<T, E> = Box<dyn FnOnce(Client, CallOptions) -> BoxFuture<'static, Result<T, E>> + Send>;

impl<T, E> Call<T, E> {
    /// Creates a call that is one request.
    pub(crate) fn new(client: &Client, request: Result<CallRequest, CallError>, finish: Finish<T>) -> Self {
        Self { client: client.clone(), options: CallOptions::default(), plan: Plan::Request(request, finish) }
    }

    /// Creates a call that is several requests, such as the pages of a list.
    pub(crate) fn steps<F>(client: &Client, steps: impl FnOnce(Client, CallOptions) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let steps: Steps<T, E> = Box::new(move |client, options| Box::pin(steps(client, options)));
        Self { client: client.clone(), options: CallOptions::default(), plan: Plan::Steps(steps) }
    }

    /// Changes the request of the call. Has no effect on calls of several requests.
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

    /// Sets the timeout for the response. Each progress notification restarts it. It applies separately to each
    /// attempt, input round, page of a list, poll of a task, and to the wait for a connection.
    /// [`max_duration`](Self::max_duration) limits the extension by progress.
    #[doc(alias = "deadline")]
    #[doc(alias = "max_total_timeout")]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Timeout::After(timeout);
        self
    }

    /// Sets the maximum duration of the wait for a response, which progress does not extend. Overrides
    /// [`ClientBuilder::max_duration`](crate::ClientBuilder::max_duration). Like [`timeout`](Self::timeout), it applies
    /// separately to each attempt, input round, page and poll. It does not apply to subscriptions, nor to the duration
    /// of a task.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.options.max_duration = Some(duration);
        self
    }

    /// Waits without a timeout, unless this call has a [`max_duration`](Self::max_duration).
    pub fn without_timeout(mut self) -> Self {
        self.options.timeout = Timeout::Never;
        self
    }

    /// Requests progress notifications. The callback runs on the task of the connection: it must be quick and must not
    /// block.
    pub fn on_progress(mut self, callback: impl Fn(&ProgressParams) + Send + Sync + 'static) -> Self {
        self.options.on_progress = Some(Arc::new(callback));
        self
    }

    /// Adds metadata to the request, as `_meta`.
    pub fn meta(mut self, meta: impl Into<Meta>) -> Self {
        self.options.meta = Some(meta.into());
        self
    }

    /// Cancels the call when this token is cancelled. Any number of calls can share one; its reason is sent to the
    /// server in `notifications/cancelled`.
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

    /// Declares that the call may be retried even if it may have run. By default, this applies to methods that only
    /// read, and to tools that are annotated as idempotent or read-only, if the client has listed them since it connected.
    /// See [`RetryPolicy`](crate::RetryPolicy).
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

/// The result of one call, as passed through the layers.
#[derive(Debug)]
pub(crate) struct CallOutput {
    pub(crate) outcome: Outcome<Payload>,
    /// The number of the connection that the result came from.
    pub(crate) generation: u64,
    /// `true` if the result depends on input of this client, so that it must not be cached.
    pub(crate) took_input: bool,
    /// The owner of the task, if the caller asked for the task instead of its result.
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

    /// Creates an empty result.
    pub(crate) fn empty() -> Self {
        Self::complete(Payload::new(EmptyResult::new()))
    }

    pub(crate) fn subscription(subscription: Subscription) -> Self {
        Self { subscription: Some(Box::new(subscription)), ..Self::empty() }
    }

    /// Returns the subscription that was opened.
    pub(crate) fn into_subscription(self) -> Result<Subscription, CallError> {
        let stream = self.subscription.ok_or_else(|| CallError::not_connected(Listen::NAME, None))?;
        Ok(*stream)
    }

    /// Returns the complete result, or the task if the caller asked for it.
    pub(crate) fn payload(self, call: &CallRequest) -> Result<Payload, CallError> {
        match self.outcome {
            Outcome::Complete(payload) => Ok(payload),
            Outcome::Task(task) => Ok(Payload::new(*task)),
            _ => Err(CallError::answered(call.target(), CallErrorKind::Task(TaskCause::Unexpected))),
        }
    }

    /// Returns the [payload](Self::payload), decoded as a `T`.
    pub(crate) fn take<T: DeserializeOwned + 'static>(self, call: &CallRequest) -> Result<T, CallError> {
        self.payload(call)?.take().map_err(|error| call.invalid(error))
    }
}
