use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_proto::types::{
    CallTool, CallToolResult, GetPrompt, GetPromptResult, ListPrompts, ListPromptsResult, ListResources,
    ListResourcesResult, ListTools, ListToolsResult, ReadResource, ReadResourceParams, ReadResourceResult,
};
use turms_proto::{MethodName, RawJson};

use crate::call::options::{Affinity, CallOptions, Timeout};
use crate::call::request::{object, prompt_params, tool_params};
use crate::call::{CallError, CallOutput, CallRequest};
use crate::client::Client;
use crate::connection::BatchGate;
use crate::page;

/// Several calls that are sent together: as one JSON-RPC batch if the revision has batches (2025-03-26) and the server
/// accepts them, otherwise as concurrent requests. Each call has its own result.
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
#[must_use = "a batch is sent with `send`"]
pub struct Batch {
    client: Client,
    calls: Vec<Result<CallRequest, CallError>>,
    timeout: Timeout,
    max_duration: Option<Duration>,
}

/// A handle of one call in a batch, to take its result with [`BatchResults::take`].
pub struct BatchCall<T> {
    index: usize,
    result: PhantomData<fn() -> T>,
}

impl Batch {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, calls: Vec::new(), timeout: Timeout::Default, max_duration: None }
    }

    /// Timeout for each response, renewed by progress.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Timeout::After(timeout);
        self
    }

    /// Timeout for each response that progress does not renew.
    pub fn max_duration(mut self, duration: Duration) -> Self {
        self.max_duration = Some(duration);
        self
    }

    /// Returns the number of calls.
    #[must_use]
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns `true` if there are no calls.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds the call of a tool. Its output is not checked against its schema.
    pub fn call_tool(&mut self, name: impl Into<String>, arguments: impl Serialize) -> BatchCall<CallToolResult> {
        let params = tool_params(name.into(), &arguments);
        self.push(params.map(CallRequest::multi_round::<CallTool, _>))
    }

    /// Adds the read of a resource.
    pub fn read_resource(&mut self, uri: impl Into<String>) -> BatchCall<ReadResourceResult> {
        self.push(Ok(CallRequest::multi_round::<ReadResource, _>(ReadResourceParams::new(uri))))
    }

    /// Adds a prompt.
    pub fn get_prompt(&mut self, name: impl Into<String>, arguments: impl Serialize) -> BatchCall<GetPromptResult> {
        let params = prompt_params(name.into(), &arguments);
        self.push(params.map(CallRequest::multi_round::<GetPrompt, _>))
    }

    /// Adds the first page of tools.
    pub fn list_tools(&mut self) -> BatchCall<ListToolsResult> {
        self.push(Ok(page::request::<ListTools>(None)))
    }

    /// Adds the first page of resources.
    pub fn list_resources(&mut self) -> BatchCall<ListResourcesResult> {
        self.push(Ok(page::request::<ListResources>(None)))
    }

    /// Adds the first page of prompts.
    pub fn list_prompts(&mut self) -> BatchCall<ListPromptsResult> {
        self.push(Ok(page::request::<ListPrompts>(None)))
    }

    /// Adds a request of any method.
    pub fn request_raw(&mut self, method: impl Into<String>, params: impl Serialize) -> BatchCall<RawJson> {
        let method = method.into();
        let params = object(&params, &method);
        self.push(params.map(|params| CallRequest::raw(MethodName::from(method), params.unwrap_or_default().into())))
    }

    /// Sends all calls and waits for all of them.
    pub async fn send(self) -> BatchResults {
        let tickets = BatchGate::tickets(self.calls.len());
        let options = CallOptions::with_timeout(self.timeout).with(|options| {
            options.max_duration = self.max_duration;
            options.unchecked_output = true;
            options.bypass_cache = true;
            options.affinity = Some(Affinity::default());
        });
        let client = &self.client;
        let calls = self.calls.into_iter().zip(tickets).map(|(call, ticket)| {
            let options = options.clone().with(|options| options.batch = Some(ticket));
            async move {
                let call = call?.with_options(options);
                let output = client.backend().call(&call).await?;
                Ok((call.with_options(CallOptions::default()), output))
            }
        });
        BatchResults(join_all(calls).await.into_iter().map(Some).collect())
    }

    fn push<T>(&mut self, call: Result<CallRequest, CallError>) -> BatchCall<T> {
        self.calls.push(call);
        BatchCall { index: self.calls.len() - 1, result: PhantomData }
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("calls", &self.calls.len()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for BatchCall<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BatchCall").field(&self.index).finish()
    }
}

/// The results of the calls of a batch.
#[derive(Debug)]
pub struct BatchResults(Vec<Option<Result<(CallRequest, CallOutput), CallError>>>);

impl BatchResults {
    /// Takes the result of one call.
    ///
    /// # Errors
    /// Returns the error of the call.
    ///
    /// # Panics
    /// Panics if `slot` belongs to another batch, or its result was already taken.
    #[expect(clippy::needless_pass_by_value, reason = "a result is taken once")]
    pub fn take<T: DeserializeOwned + 'static>(&mut self, slot: BatchCall<T>) -> Result<T, CallError> {
        let outcome = self.0.get_mut(slot.index).and_then(Option::take).expect("the slot is of this batch");
        let (call, output) = outcome?;
        output.take(&call)
    }
}
