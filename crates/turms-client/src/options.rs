//! How a call is made.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use turms_proto::session::RequestOptions;
use turms_proto::types::{Meta, ProgressParams, TaskSupport};

use crate::cancel::Cancel;
use crate::ear::Callback;
use crate::pool::MemberId;

/// How a call is made. Nearly all are made as usual, and carry nothing of it along.
#[derive(Clone, Default)]
pub(crate) struct CallOptions(Option<Box<Choices>>);

impl CallOptions {
    /// As usual, but for how long an answer is waited for.
    pub(crate) fn within(timeout: Timeout) -> Self {
        match timeout {
            Timeout::Usual => Self::default(),
            timeout => Self::default().with(|it| it.timeout = timeout),
        }
    }

    /// The same with other choices.
    pub(crate) fn with(mut self, choose: impl FnOnce(&mut Choices)) -> Self {
        choose(&mut self);
        self
    }
}

impl Deref for CallOptions {
    type Target = Choices;

    fn deref(&self) -> &Choices {
        static USUAL: Choices = Choices::USUAL;
        self.0.as_deref().unwrap_or(&USUAL)
    }
}

impl DerefMut for CallOptions {
    fn deref_mut(&mut self) -> &mut Choices {
        self.0.get_or_insert_with(|| Box::new(Choices::USUAL))
    }
}

/// What may be chosen of how a call is made.
#[derive(Clone)]
pub(crate) struct Choices {
    pub(crate) timeout: Timeout,
    pub(crate) max_duration: Option<Duration>,
    pub(crate) on_progress: Option<Callback<ProgressParams>>,
    pub(crate) meta: Option<Meta>,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) bypass_cache: bool,
    pub(crate) safe: Option<bool>,
    pub(crate) near: Option<Affinity>,
    pub(crate) task: Tasking,
}

impl Choices {
    const USUAL: Self = Self {
        timeout: Timeout::Usual,
        max_duration: None,
        on_progress: None,
        meta: None,
        cancel: None,
        bypass_cache: false,
        safe: None,
        near: None,
        task: Tasking { wanted: false, refused: false, ttl: None, support: None },
    };
}

/// What is said of a call becoming a task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tasking {
    /// Whether the caller wants the task, and not what comes of it.
    pub(crate) wanted: bool,
    /// Whether the caller could not do anything with one.
    pub(crate) refused: bool,
    /// For how long the server is to keep it.
    pub(crate) ttl: Option<Duration>,
    /// Whether the tool runs as one, where that is known and the server's own client may not know it.
    pub(crate) support: Option<TaskSupport>,
}

/// Keeps calls that belong together, such as those for the pages of a list, with one member of a pool.
#[derive(Debug, Clone, Default)]
pub(crate) struct Affinity(Arc<Mutex<Vec<MemberId>>>);

impl Affinity {
    /// The calls are with this member from now on. One of another pool may lie on the way to it, and stays.
    pub(crate) fn join(&self, member: MemberId) {
        let mut members = self.0.lock();
        members.retain(|known| *known != member);
        members.push(member);
    }

    /// How long ago the calls were with a member, as far as others have come since; `None` if they never were.
    pub(crate) fn age(&self, member: MemberId) -> Option<usize> {
        self.0.lock().iter().rev().position(|known| *known == member)
    }
}

/// How long to wait for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timeout {
    /// As long as the client usually does.
    #[default]
    Usual,
    After(Duration),
    Never,
}

impl Choices {
    /// The timeouts of one request, where these are those of the client.
    pub(crate) fn request_options(&self, usual: Duration, max_duration: Option<Duration>) -> RequestOptions {
        let options = RequestOptions::default();
        let timeout = match self.timeout {
            Timeout::Usual => usual,
            Timeout::After(timeout) => timeout,
            Timeout::Never => return options.timeout(None).max_timeout(self.max_duration),
        };
        // Only a limit that was set cuts a longer timeout short.
        let set = self.max_duration.or(max_duration);
        options.timeout(timeout).max_timeout(set.unwrap_or_else(|| timeout.max(RequestOptions::DEFAULT_MAX_TIMEOUT)))
    }
}
