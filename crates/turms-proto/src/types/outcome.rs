//! Outcomes of a request that may need several rounds (basic/index, "Result types", since 2026-07-28).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Object;
use crate::object::{DecodeObject, decode_members, string_enum};
use crate::types::{CreateTaskResult, InputRequiredResult, Task};

string_enum! {
    /// Type of a result. Absent before 2026-07-28, which means [`ResultType::Complete`].
    open ResultType {
        /// The complete result.
        Complete = "complete",
        /// Input requests that the client must fulfil first.
        InputRequired = "input_required",
        /// A task that will have the result (extension).
        Task = "task",
    }
}

/// Outcome of a request that may need input or run as a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// The complete result.
    Complete(T),
    /// Input requests. The client responds to them and retries the request.
    InputRequired(Box<InputRequiredResult>),
    /// A running task (only `tools/call`, and only if both sides declared the extension).
    Task(Box<Task>),
    /// A task in the format of 2025-11-25. Raising converts it to [`Outcome::Task`].
    CoreTask(Box<CreateTaskResult>),
}

impl<T> Outcome<T> {
    /// Returns the complete result; `None` for other outcomes.
    pub fn complete(self) -> Option<T> {
        match self {
            Self::Complete(result) => Some(result),
            Self::InputRequired(_) | Self::Task(_) | Self::CoreTask(_) => None,
        }
    }
}

impl<T> From<T> for Outcome<T> {
    fn from(result: T) -> Self {
        Self::Complete(result)
    }
}

impl<T: Serialize> Serialize for Outcome<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Complete(result) => result.serialize(serializer),
            Self::InputRequired(round) => round.serialize(serializer),
            Self::Task(task) => task.serialize(serializer),
            Self::CoreTask(created) => created.serialize(serializer),
        }
    }
}

/// A result type that input requests or a task may replace.
pub trait MultiRound: DecodeObject {
    /// Returns the result type according to the members decoded so far.
    fn kind(partial: &Self::Partial) -> Option<&ResultType>;

    /// Returns `true` if the decoded members are not those of this type.
    fn is_other(partial: &Self::Partial) -> bool;

    /// `true` if a task may replace the result.
    const MAY_BE_TASK: bool;

    /// Returns the decoded members as an object of another type.
    fn into_other(partial: Self::Partial) -> Object;
}

macro_rules! multi_round {
    ($Name:ident without $body:ident, may be a task: $task:literal) => {
        impl $crate::types::MultiRound for $Name {
            const MAY_BE_TASK: bool = $task;

            fn is_other(partial: &Self::Partial) -> bool {
                partial.$body.is_none()
            }

            fn kind(partial: &Self::Partial) -> Option<&ResultType> {
                partial.result_type.as_ref()?.as_ref()
            }

            fn into_other(partial: Self::Partial) -> $crate::Object {
                let mut other = $crate::types::Meta::from(partial.extra.into_object());
                if let Some(Some(kind)) = &partial.result_type {
                    other.set("resultType", kind);
                }
                if let Some(Some(meta)) = &partial.meta {
                    other.set("_meta", meta);
                }
                other.into()
            }
        }
    };
}
pub(crate) use multi_round;

impl<'de, T: MultiRound> Deserialize<'de> for Outcome<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OutcomeVisitor(PhantomData))
    }
}

struct OutcomeVisitor<T>(PhantomData<T>);

/// Decodes into `T` until the members show another type. Nearly every result is complete, and `resultType` often comes
/// last.
impl<'de, T: MultiRound> Visitor<'de> for OutcomeVisitor<T> {
    type Value = Outcome<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome<T>, A::Error> {
        let mut partial = T::Partial::default();
        decode_members::<T, A>(&mut partial, &mut map)?;
        let outcome = match T::kind(&partial) {
            // 2025-11-25 has no `resultType`: a task is a result with only the member `task`.
            None if T::MAY_BE_TASK && T::is_other(&partial) => match T::into_other(partial) {
                other if other.contains("task") => other.decode().map(Outcome::CoreTask),
                _ => return T::finish(T::Partial::default()).map(Outcome::Complete),
            },
            None | Some(ResultType::Complete) => return T::finish(partial).map(Outcome::Complete),
            Some(ResultType::InputRequired) => T::into_other(partial).decode().map(Outcome::InputRequired),
            Some(ResultType::Task) if T::MAY_BE_TASK => T::into_other(partial).decode().map(Outcome::Task),
            Some(kind) => return Err(A::Error::custom(format_args!("unknown resultType {:?}", kind.as_str()))),
        };
        outcome.map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{CallToolResult, Content};

    fn decode(text: &str) -> Outcome<CallToolResult> {
        crate::decode(text).unwrap()
    }

    #[test]
    fn a_result_without_a_type_is_complete() {
        for text in [
            r#"{"content":[{"type":"text","text":"a"}],"status":"mine"}"#,
            r#"{"content":[{"type":"text","text":"a"}],"resultType":"complete"}"#,
        ] {
            let outcome = decode(text);
            assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
            assert_eq!(outcome.complete().unwrap().content, [Content::text("a")]);
        }
    }

    #[test]
    fn questions_and_tasks_are_recognised_wherever_the_type_stands() {
        let round = decode(r#"{"requestState":"s","_meta":{"a":1},"future":2,"resultType":"input_required"}"#);
        let Outcome::InputRequired(round) = round else { panic!("{round:?}") };
        assert_eq!(round.request_state.as_deref(), Some("s"));
        assert_eq!(round.meta.unwrap().as_str(), r#"{"a":1}"#);
        assert_eq!(round.extra.as_str(), r#"{"future":2}"#);

        let task =
            r#"{"resultType":"task","taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttlMs":null}"#;
        assert!(matches!(decode(task), Outcome::Task(task) if task.task_id == "t" && task.ttl_ms.is_none()));
    }

    #[test]
    fn a_task_of_the_older_kind_is_recognised() {
        let text = r#"{"task":{"taskId":"t","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null}}"#;
        let outcome = decode(text);
        assert!(matches!(&outcome, Outcome::CoreTask(created) if created.task.task_id == "t"), "{outcome:?}");
        assert_eq!(serde_json::to_string(&outcome).unwrap(), text);
        let error = crate::decode::<Outcome<CallToolResult>>("{}").unwrap_err();
        assert_eq!(error.to_string(), "missing field \"content\"");
    }

    #[test]
    fn an_unknown_result_type_is_invalid() {
        let error = crate::decode::<Outcome<CallToolResult>>(r#"{"content":[],"resultType":"poem"}"#).unwrap_err();
        assert_eq!(error.to_string(), "unknown resultType \"poem\"");
        let error = crate::decode::<Outcome<crate::types::GetPromptResult>>(r#"{"resultType":"task"}"#).unwrap_err();
        assert_eq!(error.to_string(), "unknown resultType \"task\"");
    }
}
