use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turms_core::{CallObserver, CancellationToken};
use turms_proto::session::RequestOptions;
use turms_proto::types::{Meta, ProgressParams};

use crate::connection::BatchTicket;
use crate::incoming::Callback;
use crate::layer::task::TaskWatch;
use crate::pool::MemberId;
use crate::tool_index::ToolIndex;

/// The options of a call. Allocates only if an option differs from its default.
#[derive(Clone, Default)]
pub(crate) struct CallOptions(Option<Arc<Options>>);

impl CallOptions {
    /// Returns the default options with this timeout.
    pub(crate) fn with_timeout(timeout: Timeout) -> Self {
        match timeout {
            Timeout::Default => Self::default(),
            timeout => Self::default().with(|options| options.timeout = timeout),
        }
    }

    /// Changes the options.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self);
        self
    }
}

impl Deref for CallOptions {
    type Target = Options;

    fn deref(&self) -> &Options {
        static DEFAULT: Options = Options::DEFAULT;
        self.0.as_deref().unwrap_or(&DEFAULT)
    }
}

impl DerefMut for CallOptions {
    fn deref_mut(&mut self) -> &mut Options {
        Arc::make_mut(self.0.get_or_insert_with(|| Arc::new(Options::DEFAULT)))
    }
}

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) timeout: Timeout,
    pub(crate) max_duration: Option<Duration>,
    pub(crate) on_progress: Option<Callback<ProgressParams>>,
    /// Receives all other messages that the server sends for the call.
    pub(crate) observer: Option<Arc<dyn CallObserver>>,
    pub(crate) meta: Option<Meta>,
    /// The caller's cancellation token, which other calls may share.
    pub(crate) cancellation: Option<CancellationToken>,
    pub(crate) bypass_cache: bool,
    /// Overrides the idempotency of the method or the tool.
    pub(crate) idempotent: Option<bool>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) task: TaskMode,
    /// Time to live of the task, for servers of 2025-11-25.
    pub(crate) task_ttl: Option<Duration>,
    /// `true` to return input requests to the caller instead of passing them to handlers.
    pub(crate) return_input: bool,
    /// `true` if the caller must choose the server, so that a group rejects the call.
    pub(crate) one_server: bool,
    /// `true` to skip the validation of structured output.
    pub(crate) unchecked_output: bool,
    /// The tool index of the pool that makes the call.
    pub(crate) tools: Option<Arc<ToolIndex>>,
    pub(crate) batch: Option<BatchTicket>,
}

impl Options {
    pub(crate) const DEFAULT: Self = Self {
        timeout: Timeout::Default,
        max_duration: None,
        on_progress: None,
        observer: None,
        meta: None,
        cancellation: None,
        bypass_cache: false,
        idempotent: None,
        affinity: None,
        task: TaskMode::Await,
        task_ttl: None,
        return_input: false,
        one_server: false,
        unchecked_output: false,
        tools: None,
        batch: None,
    };
}

/// The timeouts of a client for its calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTimeouts {
    pub(crate) timeout: Duration,
    pub(crate) max_duration: Option<Duration>,
}

impl CallTimeouts {
    /// Returns the timeouts of one request.
    pub(crate) fn request(&self, options: &Options) -> RequestOptions {
        let timeout = match options.timeout {
            Timeout::Default => self.timeout,
            Timeout::After(timeout) => timeout,
            Timeout::Never => return RequestOptions::default().timeout(None).max_timeout(options.max_duration),
        };
        // A default maximum never shortens a longer timeout; only an explicit one does.
        let max = options.max_duration.or(self.max_duration);
        let max = max.unwrap_or_else(|| timeout.max(RequestOptions::DEFAULT_MAX_TIMEOUT));
        RequestOptions::default().timeout(timeout).max_timeout(max)
    }

    /// Returns the time that a call waits for anything other than a response, such as a connection.
    pub(crate) fn wait(&self, options: &Options) -> Option<Duration> {
        let options = self.request(options);
        [options.timeout, options.max_timeout].into_iter().flatten().min()
    }
}

/// The handling of a task in the response, or an operation on an existing task.
#[derive(Debug, Clone, Default)]
pub(crate) enum TaskMode {
    /// Polls the task and returns its result.
    #[default]
    Await,
    /// Returns the task.
    Return,
    /// Does not offer tasks to the server.
    Refuse,
    /// Waits for an existing task. No call is sent.
    Wait(Arc<TaskWatch>),
    /// Reads the state of a task.
    Refresh(Arc<TaskWatch>),
    /// Cancels a task.
    Cancel(Arc<TaskWatch>),
}

/// Sends related calls, such as the pages of a list, to the same member of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Affinity(Arc<Mutex<Vec<MemberId>>>);

impl Affinity {
    /// Adds a member as the latest. Pools can be nested, so earlier members are kept.
    pub(crate) fn join(&self, member: MemberId) {
        let mut members = self.0.lock();
        members.retain(|known| *known != member);
        members.push(member);
    }

    /// Returns the number of members that were added after this one; `None` if it was never added.
    pub(crate) fn age(&self, member: MemberId) -> Option<usize> {
        self.0.lock().iter().rev().position(|known| *known == member)
    }
}

/// The timeout for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timeout {
    /// The timeout of the client.
    #[default]
    Default,
    After(Duration),
    Never,
}
