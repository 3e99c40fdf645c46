use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::{CancellationToken, Payload};
use turms_proto::method::Method;
use turms_proto::revision::Translate;
use turms_proto::types::{
    CallTool, CallToolParams, Complete, Discover, GetCoreTaskResult, GetPrompt, GetPromptParams, GetSkill,
    GetSkillParams, GetTask, ListCoreTasks, ListPrompts, ListResourceTemplates, ListResources, ListSkills, ListTools,
    MultiRound, Outcome, Ping, ReadDirectory, ReadDirectoryParams, ReadResource, ReadResourceParams, ResourceParams,
    TaskParams, UpdateTask, UpdateTaskParams,
};
use turms_proto::{EncodeError, MethodName, Object, RawJson};

use super::decode::{self, Decode};
use super::error::{CallError, CallErrorKind, DecodeCause};
use super::options::CallOptions;
use crate::tool_index::ToolIndex;

/// A request in the newest revision. It is cloned for each attempt.
#[derive(Clone)]
pub(crate) struct CallRequest {
    pub(crate) method: MethodName,
    pub(crate) params: CallParams,
    pub(crate) options: CallOptions,
    pub(crate) decode: Decode,
    /// Cancels only this call.
    pub(crate) cancellation: CancellationToken,
    /// The number of the connection that the request must be sent on; `None` for any.
    pub(crate) generation: Option<u64>,
}

impl CallRequest {
    /// Creates a request with a response that is always complete.
    pub(crate) fn new<M: Method>(params: M::Params) -> Self
    where
        M::Params: Clone,
    {
        Self::typed::<M>(params, decode::complete::<M::Result>)
    }

    /// Creates a request with a response that may be input requests or a task.
    pub(crate) fn multi_round<M, T>(params: M::Params) -> Self
    where
        M: Method<Result = Outcome<T>>,
        M::Params: Clone,
        T: MultiRound + Serialize + Translate + Send + Sync + 'static,
    {
        Self::typed::<M>(params, decode::outcome::<T>)
    }

    /// Creates a request with its own decoder.
    pub(crate) fn typed<M: Method>(params: M::Params, decode: Decode) -> Self
    where
        M::Params: Clone,
    {
        Self {
            method: MethodName::from_static(M::NAME),
            params: CallParams::Typed(Arc::new(params)),
            options: CallOptions::default(),
            decode,
            cancellation: CancellationToken::new(),
            generation: None,
        }
    }

    /// Creates a request with any method name.
    pub(crate) fn raw(method: MethodName, params: RawJson) -> Self {
        let params = CallParams::Json(params);
        let (options, cancellation) = (CallOptions::default(), CancellationToken::new());
        Self { method, params, options, decode: decode::raw, cancellation, generation: None }
    }

    /// Sets the options.
    pub(crate) fn with_options(mut self, options: CallOptions) -> Self {
        self.options = options;
        self
    }

    /// Returns the same request with other parameters.
    pub(crate) fn with_params<P: Params + 'static>(&self, params: P) -> Self {
        Self { params: CallParams::Typed(Arc::new(params)), ..self.clone() }
    }

    pub(crate) fn target(&self) -> CallTarget<'_> {
        CallTarget { method: &self.method, name: self.name() }
    }

    /// Returns the name of the tool or prompt, the URI or the task id.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.params {
            CallParams::Typed(params) => params.name(),
            CallParams::Json(_) => None,
        }
    }

    pub(crate) fn is_raw(&self) -> bool {
        matches!(self.params, CallParams::Json(_))
    }

    /// Returns the parameters, decoded as a `P`.
    pub(crate) fn params_as<P: DeserializeOwned + 'static>(&self) -> Result<P, CallError> {
        self.params
            .payload()
            .take()
            .map_err(|error| CallError::not_sent(self.target(), CallErrorKind::Encode(format!("params: {error}"))))
    }

    /// Creates the error of an invalid response.
    pub(crate) fn invalid(&self, problem: turms_proto::DecodeError) -> CallError {
        CallError::answered(self.target(), CallErrorKind::Decode(DecodeCause::Invalid(problem)))
    }

    /// Returns the tool index for this call: that of the pool that makes it, or `own`.
    pub(crate) fn tools<'a>(&'a self, own: &'a Arc<ToolIndex>) -> &'a Arc<ToolIndex> {
        self.options.tools.as_ref().unwrap_or(own)
    }

    /// Returns `true` if the call may be repeated although it may have run.
    pub(crate) fn is_idempotent(&self, tools: Option<&ToolIndex>) -> bool {
        if let Some(idempotent) = self.options.idempotent {
            return idempotent;
        }
        match &*self.method {
            CallTool::NAME => {
                let known = self.name().and_then(|name| tools?.get(name));
                known.is_some_and(|tool| tool.is_idempotent())
            }
            Ping::NAME
            | Discover::NAME
            | ListTools::NAME
            | ListResources::NAME
            | ListResourceTemplates::NAME
            | ListPrompts::NAME
            | ReadResource::NAME
            | GetPrompt::NAME
            | Complete::NAME
            | GetTask::NAME
            // The server ignores a repeated response (extension io.modelcontextprotocol/tasks, "Task Update Requests").
            | UpdateTask::NAME
            | GetCoreTaskResult::NAME
            | ListCoreTasks::NAME
            | ListSkills::NAME
            | GetSkill::NAME
            | ReadDirectory::NAME => true,
            _ => false,
        }
    }
}

impl fmt::Debug for CallRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallRequest").field("target", &format_args!("{}", self.target())).finish_non_exhaustive()
    }
}

/// The target of a call: its method and name. Formatted only for errors and lists of pending calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallTarget<'a> {
    pub(crate) method: &'a str,
    pub(crate) name: Option<&'a str>,
}

impl<'a> CallTarget<'a> {
    pub(crate) fn new<M: Method>(name: &'a str) -> Self {
        Self { method: M::NAME, name: Some(name) }
    }
}

impl fmt::Display for CallTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            Some(name) => write!(f, "{} {name:?}", self.method),
            None => f.write_str(self.method),
        }
    }
}

/// Parameters that can be sent more than once.
#[derive(Clone)]
pub(crate) enum CallParams {
    Typed(Arc<dyn Params>),
    Json(RawJson),
}

impl CallParams {
    pub(crate) fn payload(&self) -> Payload {
        match self {
            Self::Typed(params) => params.clone().payload(),
            Self::Json(params) => Payload::json(params.clone()),
        }
    }

    pub(crate) fn object(&self) -> Result<Object, EncodeError> {
        match self {
            Self::Typed(params) => params.object(),
            Self::Json(params) => {
                params.as_object().ok_or_else(|| EncodeError::custom("the parameters of a request must be an object"))
            }
        }
    }
}

/// Parameters of one type.
pub(crate) trait Params: Send + Sync {
    fn payload(self: Arc<Self>) -> Payload;
    fn object(&self) -> Result<Object, EncodeError>;
    fn name(&self) -> Option<&str>;
}

impl<P: Serialize + Translate + Clone + Send + Sync + 'static> Params for P {
    fn payload(self: Arc<Self>) -> Payload {
        Payload::shared(self)
    }

    fn object(&self) -> Result<Object, EncodeError> {
        Object::encode(self)
    }

    fn name(&self) -> Option<&str> {
        let params: &dyn Any = self;
        macro_rules! name {
            ($($Params:ty: $name:ident),+) => {
                $(if let Some(params) = params.downcast_ref::<$Params>() {
                    return Some(&params.$name);
                })+
            };
        }
        name!(CallToolParams: name, GetPromptParams: name, ReadResourceParams: uri);
        name!(ResourceParams: uri, TaskParams: task_id, UpdateTaskParams: task_id);
        name!(GetSkillParams: uri, ReadDirectoryParams: uri);
        None
    }
}

/// Returns the parameters of `tools/call`. The arguments are anything that serializes to a JSON object, or `()`.
pub(crate) fn tool_params(name: String, arguments: &impl Serialize) -> Result<CallToolParams, CallError> {
    let arguments = object(arguments, CallTarget::new::<CallTool>(&name))?;
    let mut params = CallToolParams::new(name);
    params.arguments = arguments;
    Ok(params)
}

/// Returns the parameters of `prompts/get`. A field that is `None` is omitted.
pub(crate) fn prompt_params(name: String, arguments: &impl Serialize) -> Result<GetPromptParams, CallError> {
    let arguments = string_arguments(arguments, CallTarget::new::<GetPrompt>(&name))?;
    let mut params = GetPromptParams::new(name);
    params.arguments = arguments;
    Ok(params)
}

/// Converts a value to the arguments of a prompt, which are strings; `None` for `()`. Fields that are `None` are
/// omitted.
pub(crate) fn string_arguments(
    arguments: &impl Serialize,
    target: CallTarget<'_>,
) -> Result<Option<BTreeMap<String, String>>, CallError> {
    let Some(arguments) = object(arguments, target)? else { return Ok(None) };
    let arguments: BTreeMap<String, Option<String>> = arguments.decode().map_err(|error| {
        let problem = format!("arguments must be strings: {error}");
        CallError::not_sent(target, CallErrorKind::Encode(problem))
    })?;
    Ok(Some(arguments.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()))
}

/// Converts a value to a JSON object; `None` for `()`.
pub(crate) fn object(value: &impl Serialize, target: impl fmt::Display) -> Result<Option<Object>, CallError> {
    let encode = |problem: String| CallError::not_sent(&target, CallErrorKind::Encode(problem));
    let json = RawJson::encode(value).map_err(|error| {
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        encode(cause.unwrap_or_else(|| error.to_string()))
    })?;
    if json.is_null() {
        return Ok(None);
    }
    if !json.is_object() {
        return Err(encode(format!("arguments must be an object, not {}", type_name(&json))));
    }
    Ok(json.into_object())
}

/// Returns the JSON type of a value, for errors that must not contain the value.
fn type_name(json: &RawJson) -> &'static str {
    match json.as_str().as_bytes().first() {
        Some(b'[') => "a list",
        Some(b'"') => "text",
        Some(b't' | b'f') => "true or false",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_names_what_is_called() {
        let call = CallRequest::multi_round::<CallTool, _>(CallToolParams::new("add"));
        assert_eq!(call.target().to_string(), "tools/call \"add\"");
        assert_eq!(CallRequest::new::<Ping>(turms_proto::types::EmptyParams::new()).target().to_string(), "ping");
        let raw = CallRequest::raw("tools/call".into(), RawJson::parse(r#"{"name":"add"}"#).unwrap());
        assert_eq!(raw.target().to_string(), "tools/call");
    }

    #[test]
    fn arguments_are_objects_or_nothing() {
        assert_eq!(tool_params("a".into(), &()).unwrap().arguments, None);
        let error = tool_params("a".into(), &["secret"]).unwrap_err().to_string();
        assert_eq!(error, "tools/call \"a\": cannot be written as JSON: arguments must be an object, not a list");
        let given = prompt_params("a".into(), &serde_json::json!({ "b": "1", "c": null })).unwrap().arguments.unwrap();
        assert_eq!(given.len(), 1);
    }
}
