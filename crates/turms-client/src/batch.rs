use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytestring::ByteString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::Payload;
use turms_proto::RawJson;
use turms_proto::types::{
    CallTool, GetPrompt, ListPrompts, ListPromptsResult, ListResources, ListResourcesResult, ListTools,
    ListToolsResult, PaginatedParams, PromptResult, ReadResource, ReadResourceParams, ReadResourceResult, ToolResult,
};

use crate::call::error::{CallError, CallErrorKind, ClosedCause, DecodeCause};
use crate::client::{Arguments, Client, call_tool_params, get_prompt_params, look_at_tools};
use crate::job::Job;
use crate::options::{CallOptions, Timeout};

/// Several calls that are made at once: in one batch where the revision has batches (2025-03-26) and the server takes them,
/// side by side elsewhere. Each has an outcome of its own.
///
/// ```no_run
/// # async fn example(client: turms_client::Client) -> Result<(), turms_client::CallError> {
/// let mut batch = client.batch();
/// let sum = batch.call_tool("add", serde_json::json!({ "a": 1, "b": 2 }));
/// let notes = batch.read_resource("memo://notes");
/// let mut outcomes = batch.send().await;
/// println!("{}", outcomes.take(sum)?.text());
/// println!("{} parts", outcomes.take(notes)?.contents.len());
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch is made when it is sent"]
pub struct Batch {
    client: Client,
    jobs: Vec<Result<Job, CallError>>,
    timeout: Timeout,
    max_duration: Option<Duration>,
}

/// The place of one call in a batch.
pub struct Slot<T> {
    index: usize,
    result: PhantomData<fn() -> T>,
}

impl Batch {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, jobs: Vec::new(), timeout: Timeout::Usual, max_duration: None }
    }

    /// Timeout for each answer, renewed by progress.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Timeout::After(timeout);
        self
    }

    /// Timeout for each answer that progress does not renew.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.max_duration = Some(duration);
        self
    }

    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// One more: a tool. Its output is not held against its schema.
    pub fn call_tool(&mut self, name: impl Into<String>, arguments: impl Serialize) -> Slot<ToolResult> {
        let (name, options) = (name.into(), CallOptions::default());
        let params = call_tool_params(name, Arguments::of(&arguments));
        self.push(params.map(|params| Job::in_rounds::<CallTool, _>(params, options)))
    }

    /// One more: a resource.
    pub fn read_resource(&mut self, uri: impl Into<String>) -> Slot<ReadResourceResult> {
        let job = Job::in_rounds::<ReadResource, _>(ReadResourceParams::new(uri), CallOptions::default());
        self.push(Ok(job))
    }

    /// One more: a prompt.
    pub fn get_prompt(&mut self, name: impl Into<String>, arguments: impl Serialize) -> Slot<PromptResult> {
        let (name, options) = (name.into(), CallOptions::default());
        let params = get_prompt_params(&name, Arguments::of(&arguments));
        self.push(params.map(|params| Job::in_rounds::<GetPrompt, _>(params, options)))
    }

    /// One more: the first page of tools.
    pub fn list_tools(&mut self) -> Slot<ListToolsResult> {
        let job = Job::new::<ListTools>(PaginatedParams::new(), CallOptions::default());
        self.push(Ok(job))
    }

    /// One more: the first page of resources.
    pub fn list_resources(&mut self) -> Slot<ListResourcesResult> {
        let job = Job::new::<ListResources>(PaginatedParams::new(), CallOptions::default());
        self.push(Ok(job))
    }

    /// One more: the first page of prompts.
    pub fn list_prompts(&mut self) -> Slot<ListPromptsResult> {
        let job = Job::new::<ListPrompts>(PaginatedParams::new(), CallOptions::default());
        self.push(Ok(job))
    }

    /// One more, of any method.
    pub fn request_raw(&mut self, method: impl Into<String>, params: impl Serialize) -> Slot<RawJson> {
        let (method, options) = (method.into(), CallOptions::default());
        let params = Arguments::of(&params).object(|| method.clone());
        self.push(params.map(|params| Job::raw(ByteString::from(method), params.unwrap_or_default().into(), options)))
    }

    /// Makes all the calls and waits for all of them.
    pub async fn send(self) -> BatchOutcomes {
        let mut places = Vec::with_capacity(self.jobs.len());
        let mut jobs = Vec::with_capacity(self.jobs.len());
        for job in self.jobs {
            match job {
                Ok(job) => {
                    places.push(Ok(job.subject()));
                    jobs.push(job);
                }
                Err(error) => places.push(Err(error)),
            }
        }
        for job in &mut jobs {
            if self.timeout != Timeout::Usual {
                job.options.timeout = self.timeout;
            }
            if self.max_duration.is_some() {
                job.options.max_duration = self.max_duration;
            }
        }
        let mut answers = self.client.engine().perform_all(jobs).await.into_iter();
        let outcomes = places.into_iter().map(|place| {
            let subject = place?;
            match answers.next() {
                Some(outcome) => outcome.map(|mut performed| {
                    if let Some(tools) = performed.payload.get_mut::<ListToolsResult>() {
                        look_at_tools(&self.client, tools);
                    }
                    (subject, performed.payload)
                }),
                None => Err(CallError::not_sent(subject, CallErrorKind::Closed(ClosedCause::NotConnected(None)))),
            }
        });
        BatchOutcomes(outcomes.map(Some).collect())
    }

    fn push<T>(&mut self, job: Result<Job, CallError>) -> Slot<T> {
        self.jobs.push(job);
        Slot { index: self.jobs.len() - 1, result: PhantomData }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("calls", &self.jobs.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slot").field(&self.index).finish()
    }
}

/// What came of the calls of a batch.
#[derive(Debug)]
pub struct BatchOutcomes(Vec<Option<Result<(String, Payload), CallError>>>);

impl BatchOutcomes {
    /// What came of one call.
    ///
    /// # Errors
    /// When it failed.
    ///
    /// # Panics
    /// When the slot belongs to another batch.
    #[expect(clippy::needless_pass_by_value, reason = "an outcome is taken once")]
    pub fn take<T: DeserializeOwned + 'static>(&mut self, slot: Slot<T>) -> Result<T, CallError> {
        let outcome = self.0.get_mut(slot.index).and_then(Option::take).expect("the slot is of this batch");
        let (subject, payload) = outcome?;
        payload.take().map_err(|error| CallError::answered(subject, CallErrorKind::Decode(DecodeCause::Invalid(error))))
    }
}
