//! How a request that may need several rounds ends (basic/index, "Result types", since 2026-07-28).

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Object;
use crate::object::{Members, Name, string_enum};
use crate::revision::Translate;
use crate::types::{InputRequired, Task};

string_enum! {
    /// What kind of result a result is. Absent before 2026-07-28, which means [`ResultType::Complete`].
    open ResultType {
        /// What was asked for.
        Complete = "complete",
        /// Questions to be answered first.
        InputRequired = "input_required",
        /// A task that will have it (extension).
        Task = "task",
    }
}

/// How a request ends that may need several rounds, or time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome<T> {
    /// With what was asked for.
    Complete(T),
    /// With questions: answer them and ask again.
    InputRequired(Box<InputRequired>),
    /// With a task that goes on (only `tools/call`, only where both sides declared the extension).
    Task(Box<Task>),
}

impl<T> Outcome<T> {
    /// What was asked for, if that is what this is.
    pub fn complete(self) -> Option<T> {
        match self {
            Self::Complete(result) => Some(result),
            Self::InputRequired(_) | Self::Task(_) => None,
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
        }
    }
}

impl<T: Translate> Translate for Outcome<T> {
    fn lower(&mut self, to: crate::ProtocolVersion) {
        match self {
            Self::Complete(result) => result.lower(to),
            Self::InputRequired(round) => round.lower(to),
            Self::Task(task) => task.lower(to),
        }
    }

    fn raise(&mut self, from: crate::ProtocolVersion) {
        match self {
            Self::Complete(result) => result.raise(from),
            Self::InputRequired(round) => round.raise(from),
            Self::Task(task) => task.raise(from),
        }
    }
}

/// A result whose place questions or a task may take.
pub trait MultiRound: Members {
    /// What kind of result the members read so far say it is.
    fn kind(partial: &Self::Partial) -> Option<&ResultType>;

    /// What has been read that is not this type's own: the members of whatever it is instead.
    fn into_other(partial: Self::Partial) -> Object;
}

macro_rules! multi_round {
    ($Name:ident) => {
        impl $crate::types::MultiRound for $Name {
            fn kind(partial: &Self::Partial) -> Option<&ResultType> {
                partial.result_type.as_ref()?.as_ref()
            }

            fn into_other(partial: Self::Partial) -> $crate::Object {
                let mut other = $crate::types::Meta::from(partial.unknown.into_object());
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

/// Reads into `T` until it knows better: nearly every result is complete, and `resultType` often comes last.
struct OutcomeVisitor<T>(PhantomData<T>);

impl<'de, T: MultiRound> Visitor<'de> for OutcomeVisitor<T> {
    type Value = Outcome<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcome<T>, A::Error> {
        let mut partial = T::Partial::default();
        while let Some(name) = map.next_key_seed(Name)? {
            T::accept(&mut partial, &name, &mut map)?;
        }
        let outcome = match T::kind(&partial) {
            None | Some(ResultType::Complete) => return T::finish(partial).map(Outcome::Complete),
            Some(ResultType::InputRequired) => T::into_other(partial).decode().map(Outcome::InputRequired),
            Some(ResultType::Task) => T::into_other(partial).decode().map(Outcome::Task),
            Some(ResultType::Other(kind)) => {
                return Err(A::Error::custom(format_args!("unknown resultType {kind:?}")));
            }
        };
        outcome.map_err(A::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Content, ToolResult};

    fn decode(text: &str) -> Outcome<ToolResult> {
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
    fn a_kind_nobody_declared_is_invalid() {
        let error = crate::decode::<Outcome<ToolResult>>(r#"{"content":[],"resultType":"poem"}"#).unwrap_err();
        assert_eq!(error.to_string(), "unknown resultType \"poem\"");
    }
}
