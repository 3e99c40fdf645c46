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

/// The options of a call; nothing is allocated as long as all have their defaults.
#[derive(Clone, Default)]
pub(crate) struct CallOptions(Option<Arc<Options>>);

impl CallOptions {
    /// The defaults with this timeout.
    pub(crate) fn with_timeout(timeout: Timeout) -> Self {
        match timeout {
            Timeout::Default => Self::default(),
            timeout => Self::default().with(|options| options.timeout = timeout),
        }
    }

    /// The same with changes.
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
    /// The receiver of all else that the server sends for the call.
    pub(crate) observer: Option<Arc<dyn CallObserver>>,
    pub(crate) meta: Option<Meta>,
    /// The token of the caller, which other calls may share.
    pub(crate) cancellation: Option<CancellationToken>,
    pub(crate) bypass_cache: bool,
    /// `None`: known by the method, or declared by the tool.
    pub(crate) idempotent: Option<bool>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) task: TaskMode,
    /// Time to keep the task, as requested from servers of 2025-11-25.
    pub(crate) task_ttl: Option<Duration>,
    /// Input requests of the server are returned, not answered.
    pub(crate) return_input: bool,
    /// Only one server may take the call, so a group refuses it.
    pub(crate) one_server: bool,
    /// Structured output is not checked.
    pub(crate) unchecked_output: bool,
    /// The tools that the pool of the call knows.
    pub(crate) tools: Option<Arc<ToolIndex>>,
    pub(crate) batch: Option<BatchTicket>,
}

impl Options {
    const DEFAULT: Self = Self {
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
    /// The timeouts of one request.
    pub(crate) fn request(&self, options: &Options) -> RequestOptions {
        let timeout = match options.timeout {
            Timeout::Default => self.timeout,
            Timeout::After(timeout) => timeout,
            Timeout::Never => return RequestOptions::default().timeout(None).max_timeout(options.max_duration),
        };
        // Only a limit that was set cuts a longer timeout short.
        let max = options.max_duration.or(self.max_duration);
        let max = max.unwrap_or_else(|| timeout.max(RequestOptions::DEFAULT_MAX_TIMEOUT));
        RequestOptions::default().timeout(timeout).max_timeout(max)
    }

    /// The time that a call waits for a connection, or for anything else but a response.
    pub(crate) fn wait(&self, options: &Options) -> Option<Duration> {
        let options = self.request(options);
        [options.timeout, options.max_timeout].into_iter().flatten().min()
    }
}

/// The treatment of a response that is a task, or a call about a task that is known.
#[derive(Debug, Clone, Default)]
pub(crate) enum TaskMode {
    /// Polls the task and returns its result.
    #[default]
    Await,
    /// Returns the task.
    Return,
    /// Does not offer tasks to the server.
    Refuse,
    /// Sends nothing, and waits for the task of an earlier call.
    Wait(Arc<TaskWatch>),
    /// Reads the state of a task.
    Refresh(Arc<TaskWatch>),
    /// Cancels a task.
    Cancel(Arc<TaskWatch>),
}

/// Keeps calls that belong together, such as the pages of a list, with one member of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Affinity(Arc<Mutex<Vec<MemberId>>>);

impl Affinity {
    /// Moves the calls to this member. A member of an outer pool stays known.
    pub(crate) fn join(&self, member: MemberId) {
        let mut members = self.0.lock();
        members.retain(|known| *known != member);
        members.push(member);
    }

    /// The number of members that were joined after this one; `None` if it never was.
    pub(crate) fn age(&self, member: MemberId) -> Option<usize> {
        self.0.lock().iter().rev().position(|known| *known == member)
    }
}

/// The timeout for a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timeout {
    /// That of the client.
    #[default]
    Default,
    After(Duration),
    Never,
}
