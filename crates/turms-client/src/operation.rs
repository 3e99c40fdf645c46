use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use turms_core::BoxFuture;
use turms_proto::types::{CallToolParams, Meta, ProgressParams};

use crate::call::error::CallError;
use crate::cancel::Cancel;
use crate::client::Client;
use crate::options::{CallOptions, Timeout};

/// A call that is about to be made: say how, then `.await` it.
///
/// Dropping the future of a call gives it up, and the server is told so in the way that its revision defines.
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
#[must_use = "a call is made when it is awaited"]
pub struct Operation<T, E = CallError> {
    client: Client,
    options: CallOptions,
    run: Run<T, E>,
}

type Run<T, E> = Box<dyn FnOnce(Client, CallOptions) -> Answer<T, E> + Send>;
type Answer<T, E> = BoxFuture<'static, Result<T, E>>;

/// What a tool is to be called with, or why it cannot be.
pub(crate) type ToolParams = Result<Arc<CallToolParams>, CallError>;

impl<T: 'static, E: 'static> Operation<T, E> {
    pub(crate) fn new<F>(client: &Client, run: impl FnOnce(Client, CallOptions) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let run: Run<T, E> = Box::new(move |client, options| Box::pin(run(client, options)));
        Self { client: client.clone(), options: CallOptions::default(), run }
    }

    pub(crate) fn options_mut(&mut self) -> &mut CallOptions {
        &mut self.options
    }

    /// Timeout for the answer, renewed by each report of progress. Waiting for a connection that is being made anew, each
    /// repetition, each round of questions, each page of a list and each question after a task count for themselves.
    /// [`max_duration`](Self::max_duration) limits what progress can add to it.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Timeout::After(timeout);
        self
    }

    /// Timeout for the answer that progress does not renew, rather than that of the client
    /// ([`ClientBuilder::max_duration`](crate::ClientBuilder::max_duration)). What counts for itself with
    /// [`timeout`](Self::timeout) does so here. It does not apply to a subscription, nor to how long a task takes.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.options.max_duration = Some(duration);
        self
    }

    /// Waits for ever, unless this call has a [`max_duration`](Self::max_duration).
    pub fn without_timeout(mut self) -> Self {
        self.options.timeout = Timeout::Never;
        self
    }

    /// Asks for reports of progress. `heard` is called where the connection is driven: it must be quick and must not wait.
    pub fn on_progress(mut self, heard: impl Fn(&ProgressParams) + Send + Sync + 'static) -> Self {
        self.options.on_progress = Some(Arc::new(heard));
        self
    }

    /// Sends something beside the subject, as `_meta`.
    pub fn meta(mut self, meta: impl Into<Meta>) -> Self {
        self.options.meta = Some(meta.into());
        self
    }

    /// Lets the call be cancelled from outside.
    pub fn cancel_with(mut self, cancel: &Cancel) -> Self {
        self.options.cancel = Some(cancel.clone());
        self
    }

    /// Asks the server even if an answer is at hand that may be reused.
    pub fn bypass_cache(mut self) -> Self {
        self.options.bypass_cache = true;
        self
    }

    /// Says whether the call may be made again when a loss of the connection leaves open whether it ran. Otherwise that is
    /// known of what only reads, and of tools that declare it.
    pub fn safe_to_repeat(mut self, safe: bool) -> Self {
        self.options.safe = Some(safe);
        self
    }
}

impl<T: 'static, E: 'static> IntoFuture for Operation<T, E> {
    type Output = Result<T, E>;
    type IntoFuture = OperationFuture<T, E>;

    fn into_future(self) -> Self::IntoFuture {
        OperationFuture(Stage::Unmade(Some(self)))
    }
}

/// An [`Operation`] that is waited for. The call is made when this is polled first.
#[must_use = "futures do nothing unless polled"]
pub struct OperationFuture<T, E = CallError>(Stage<T, E>);

enum Stage<T, E> {
    Unmade(Option<Operation<T, E>>),
    Made(Answer<T, E>),
}

/// An answer is never looked at where it stands.
impl<T, E> Unpin for OperationFuture<T, E> {}

impl<T: 'static, E: 'static> Future for OperationFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Unmade(unmade) = &mut self.0 {
            let Some(Operation { client, options, run }) = unmade.take() else {
                panic!("polled again after the answer was taken");
            };
            self.0 = Stage::Made(run(client, options));
        }
        match &mut self.0 {
            Stage::Made(waiting) => Pin::new(waiting).poll(task),
            Stage::Unmade(_) => Poll::Pending,
        }
    }
}

impl<T, E> fmt::Debug for OperationFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationFuture").finish_non_exhaustive()
    }
}

impl<T, E> fmt::Debug for Operation<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").finish_non_exhaustive()
    }
}
