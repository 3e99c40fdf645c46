//! Decoders: convert the response of a server of any revision to a result of the newest revision.

use serde::Serialize;
use serde::de::DeserializeOwned;
use turms_core::Payload;
use turms_proto::revision::{Translate, task_of_core};
use turms_proto::types::{EmptyResult, MultiRound, Outcome, Task};
use turms_proto::{Ability, DecodeError, ProtocolVersion, RawJson};

/// Decodes the response to one request: complete, input required, or a task.
pub(crate) type Decode = fn(Payload, ProtocolVersion) -> Result<Outcome<Payload>, DecodeError>;

/// Decodes a result that is always complete.
pub(crate) fn complete<R>(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError>
where
    R: Serialize + DeserializeOwned + Translate + Send + Sync + 'static,
{
    match payload.as_raw().and_then(result_type).as_deref() {
        None | Some("complete") => result::<R>(payload, from),
        Some(other) => Err(DecodeError::custom(format_args!("unknown resultType {other:?}"))),
    }
}

/// Decodes a result, input requests or a task.
pub(crate) fn outcome<T>(mut payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError>
where
    T: MultiRound + Serialize + Translate + Send + Sync + 'static,
{
    if let Some(result) = payload.get_mut::<T>() {
        result.raise(from);
        return Ok(Outcome::Complete(payload));
    }
    let mut outcome = payload.take::<Outcome<T>>()?;
    outcome.raise(from);
    Ok(match outcome {
        Outcome::Complete(result) => Outcome::Complete(Payload::new(result)),
        Outcome::InputRequired(required) => Outcome::InputRequired(required),
        Outcome::Task(task) => Outcome::Task(task),
        _ => return Err(DecodeError::custom("a task of another revision")),
    })
}

/// Decodes the result of a method of an extension.
pub(crate) fn extension<R>(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError>
where
    R: Serialize + DeserializeOwned + Translate + Send + Sync + 'static,
{
    match raw(payload, from)? {
        Outcome::Complete(payload) => result::<R>(payload, from),
        input_required => Ok(input_required),
    }
}

/// Returns any result without changes.
pub(crate) fn raw(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError> {
    let outcome = any(payload, from)?;
    if let Outcome::Complete(payload) = &outcome
        && let Some(raw) = payload.as_raw()
        && result_type(raw).as_deref() == Some("input_required")
    {
        return Ok(Outcome::InputRequired(Box::new(raw.decode()?)));
    }
    Ok(outcome)
}

/// Returns any response without changes, even input requests.
pub(crate) fn any(payload: Payload, _: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError> {
    payload.into_raw().map(|raw| Outcome::Complete(Payload::json(raw))).map_err(DecodeError::custom)
}

/// Decodes a task, in the form of the extension of 2026-07-28. Only the response that creates a task has a
/// `resultType`.
pub(crate) fn task(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError> {
    let mut task = match from.has(Ability::CoreTasks) {
        true => task_of_core(payload.take()?, None),
        false => payload.take::<Task>()?,
    };
    task.result_type = None;
    Ok(Outcome::Complete(Payload::new(task)))
}

/// Decodes the response to `tasks/cancel`: empty, or the task.
pub(crate) fn cancelled_task(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError> {
    if from.has(Ability::CoreTasks) { task(payload, from) } else { complete::<EmptyResult>(payload, from) }
}

fn result<R>(payload: Payload, from: ProtocolVersion) -> Result<Outcome<Payload>, DecodeError>
where
    R: Serialize + DeserializeOwned + Translate + Send + Sync + 'static,
{
    let mut result: R = payload.take()?;
    result.raise(from);
    Ok(Outcome::Complete(Payload::new(result)))
}

fn result_type(raw: &RawJson) -> Option<String> {
    raw.member("resultType")?.decode().ok()
}

#[cfg(test)]
mod tests {
    use turms_proto::types::{CallToolResult, ListToolsResult};

    use super::*;

    const LATEST: ProtocolVersion = ProtocolVersion::LATEST;

    fn json(text: &'static str) -> Payload {
        Payload::json(RawJson::parse(text).unwrap())
    }

    #[test]
    fn a_list_is_complete_or_nothing() {
        let decode = complete::<ListToolsResult>;
        for text in [r#"{"tools":[]}"#, r#"{"tools":[],"resultType":"complete"}"#] {
            assert!(matches!(decode(json(text), LATEST), Ok(Outcome::Complete(_))));
        }
        let error = decode(json(r#"{"tools":[],"resultType":"poem"}"#), LATEST).err().unwrap();
        assert_eq!(error.to_string(), "unknown resultType \"poem\"");
    }

    #[test]
    fn input_requests_are_told_from_results() {
        let required = r#"{"resultType":"input_required","requestState":"s"}"#;
        for decode in [raw as Decode, extension::<EmptyResult>, outcome::<CallToolResult>] {
            assert!(matches!(decode(json(required), LATEST), Ok(Outcome::InputRequired(_))));
        }
        assert!(matches!(any(json(required), LATEST), Ok(Outcome::Complete(_))));
        let typed = outcome::<CallToolResult>(Payload::new(CallToolResult::from_text("a")), LATEST);
        assert!(matches!(typed, Ok(Outcome::Complete(payload)) if payload.get::<CallToolResult>().is_some()));
    }
}
