//! Translation by method name, for whoever passes messages on without knowing their types.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Ability, ProtocolVersion, Translate};
use crate::json::{DecodeError, RawJson};
use crate::method::{Method, Notification};
use crate::types;

/// Fits the parameters of a request of the newest revision to another one. Methods nobody here knows pass as they are.
///
/// # Errors
/// When they are not what the method takes.
pub fn lower_params(method: &str, params: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    params_of(method, params, Step::Lower(to))
}

/// Completes the parameters of a request of an older revision.
///
/// # Errors
/// When they are not what the method takes.
pub fn raise_params(method: &str, params: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    params_of(method, params, Step::Raise(from))
}

/// Fits the result of a request to another revision.
///
/// # Errors
/// When it is not what the method gives, or asks something of a client whose revision wants to be asked by requests.
pub fn lower_result(method: &str, result: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    let asks = result.member("resultType").is_some_and(|kind| kind.as_str() == "\"input_required\"");
    if asks && !to.has(Ability::InputRequired) {
        return Err(DecodeError::custom(format_args!("a client of {to} has to be asked by requests, not by a result")));
    }
    result_of(method, result, Step::Lower(to))
}

/// Completes the result of a request of an older revision.
///
/// # Errors
/// When it is not what the method gives.
pub fn raise_result(method: &str, result: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    result_of(method, result, Step::Raise(from))
}

/// Fits the parameters of a notification to another revision.
///
/// # Errors
/// When they are not what the notification carries.
pub fn lower_notification(method: &str, params: &RawJson, to: ProtocolVersion) -> Result<RawJson, DecodeError> {
    notification_of(method, params, Step::Lower(to))
}

/// Completes the parameters of a notification of an older revision.
///
/// # Errors
/// When they are not what the notification carries.
pub fn raise_notification(method: &str, params: &RawJson, from: ProtocolVersion) -> Result<RawJson, DecodeError> {
    notification_of(method, params, Step::Raise(from))
}

#[derive(Clone, Copy)]
enum Step {
    Lower(ProtocolVersion),
    Raise(ProtocolVersion),
}

impl Step {
    fn take<T: Translate + Serialize + DeserializeOwned>(self, raw: &RawJson) -> Result<RawJson, DecodeError> {
        let mut value: T = raw.decode()?;
        match self {
            Self::Lower(to) => value.lower(to),
            Self::Raise(from) => value.raise(from),
        }
        Ok(RawJson::encode(&value).unwrap_or_else(|_| raw.clone()))
    }
}

macro_rules! by_name {
    ($name:expr, $raw:expr, $step:expr, $Kind:ident :: $Part:ident, [$($Marker:ident),+ $(,)?]) => {
        match $name {
            $( <types::$Marker as $Kind>::NAME => $step.take::<<types::$Marker as $Kind>::$Part>($raw), )+
            _ => Ok($raw.clone()),
        }
    };
}

fn params_of(method: &str, params: &RawJson, step: Step) -> Result<RawJson, DecodeError> {
    by_name!(
        method,
        params,
        step,
        Method::Params,
        [
            CallTool,
            ListTools,
            ReadResource,
            ListResources,
            ListResourceTemplates,
            GetPrompt,
            ListPrompts,
            Complete,
            Discover,
            Listen,
            Initialize,
            Ping,
            Subscribe,
            Unsubscribe,
            SetLevel,
            GetTask,
            CancelTask,
            UpdateTask,
            ListSkills,
            GetSkill,
            ReadDirectory,
            GetCoreTaskResult,
            ListCoreTasks,
            CreateMessage,
            ListRoots,
            Elicit,
        ]
    )
}

/// `tasks/*` has results of another shape in each revision that has it: see [`super::task_of_core`].
fn result_of(method: &str, result: &RawJson, step: Step) -> Result<RawJson, DecodeError> {
    by_name!(
        method,
        result,
        step,
        Method::Result,
        [
            CallTool,
            ListTools,
            ReadResource,
            ListResources,
            ListResourceTemplates,
            GetPrompt,
            ListPrompts,
            Complete,
            Discover,
            Listen,
            Initialize,
            Ping,
            Subscribe,
            Unsubscribe,
            SetLevel,
            ListSkills,
            GetSkill,
            ReadDirectory,
            CreateMessage,
            ListRoots,
            Elicit,
        ]
    )
}

fn notification_of(method: &str, params: &RawJson, step: Step) -> Result<RawJson, DecodeError> {
    by_name!(
        method,
        params,
        step,
        Notification::Params,
        [
            Cancelled,
            Progress,
            Log,
            ResourceUpdated,
            ResourceListChanged,
            ToolListChanged,
            PromptListChanged,
            Initialized,
            RootsListChanged,
            CoreTaskStatus,
            ElicitationComplete,
            Acknowledged,
            TaskChanged,
        ]
    )
}

#[cfg(test)]
mod tests {
    use super::super::ProtocolVersion::*;
    use super::*;

    #[test]
    fn a_call_is_fitted_by_its_name() {
        let params = r#"{"name":"a","arguments":{},"requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","mine":1}}"#;
        let lowered = lower_params("tools/call", &RawJson::parse(params).unwrap(), V2025_11_25).unwrap();
        assert_eq!(lowered.as_str(), r#"{"name":"a","arguments":{},"_meta":{"mine":1}}"#);
        let result = RawJson::parse(r#"{"tools":[]}"#).unwrap();
        assert_eq!(
            raise_result("tools/list", &result, V2024_11_05).unwrap().as_str(),
            r#"{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"}"#
        );
    }

    #[test]
    fn questions_do_not_reach_whom_they_mean_nothing_to() {
        let round = RawJson::parse(r#"{"resultType":"input_required","requestState":"s"}"#).unwrap();
        assert!(lower_result("tools/call", &round, V2026_07_28).is_ok());
        let error = lower_result("tools/call", &round, V2025_11_25).unwrap_err();
        assert_eq!(error.to_string(), "a client of 2025-11-25 has to be asked by requests, not by a result");
    }

    #[test]
    fn unknown_methods_pass_as_they_are() {
        let params = RawJson::parse(r#"{"a":1}"#).unwrap();
        assert_eq!(lower_params("mine/method", &params, V2024_11_05).unwrap(), params);
        assert!(lower_params("tools/call", &params, V2024_11_05).is_err());
    }
}
