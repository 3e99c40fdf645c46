//! Completion of arguments (server/utilities/completion).

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::RawJson;
use crate::json::Object;
use crate::method::method;
use crate::types::{Meta, ResultType};

/// Reference to a prompt, for the completion of its arguments.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "ref/prompt"))]
#[non_exhaustive]
pub struct PromptReference {
    /// Name of the prompt.
    pub name: String,
    /// Display name.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Reference to a resource template, for the completion of its variables.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "ref/resource"))]
#[non_exhaustive]
pub struct ResourceReference {
    /// The URI template, or the URI of a resource.
    pub uri: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// The prompt or resource template of a completed argument.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reference {
    /// A prompt.
    Prompt(PromptReference),
    /// A resource template.
    Resource(ResourceReference),
}

impl Reference {
    /// Creates a reference to the prompt `name`.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt(PromptReference::new(name))
    }

    /// Creates a reference to the resource template `uri`.
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource(ResourceReference::new(uri))
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Prompt(reference) => reference.serialize(serializer),
            Self::Resource(reference) => reference.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Reference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = RawJson::deserialize(deserializer)?;
        let kind = value.member("type").and_then(|kind| kind.shared_text());
        match kind.as_deref() {
            Some("ref/prompt") => value.decode().map(Self::Prompt).map_err(D::Error::custom),
            Some("ref/resource") => value.decode().map(Self::Resource).map_err(D::Error::custom),
            _ => Err(D::Error::custom("\"type\" must be \"ref/prompt\" or \"ref/resource\"")),
        }
    }
}

/// The argument to complete.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Name of the argument.
    pub name: String,
    /// The value as typed by the user, possibly empty.
    pub value: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Context of a completion.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompletionContext {
    /// Values of the other arguments that are already set.
    pub arguments: Option<BTreeMap<String, String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Parameters of `completion/complete`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompleteParams {
    /// The prompt or resource template.
    #[object(rename = "ref")]
    pub reference: Reference,
    /// The argument to complete.
    pub argument: CompletionArgument,
    /// Values of other arguments.
    #[object(since = V2025_06_18)]
    pub context: Option<CompletionContext>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// Suggested values for an argument.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Completion {
    /// The values, at most 100, the best first.
    pub values: Vec<String>,
    /// Number of all matching values.
    pub total: Option<i64>,
    /// `true` if there are more values than these.
    pub has_more: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl Completion {
    /// Maximum number of values in a result.
    pub const MAX_VALUES: usize = 100;

    /// Creates a completion of the first 100 values. `total` is the number of all values, and `has_more` says if some
    /// were cut off.
    pub fn from_values<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter().map(Into::into);
        let first: Vec<String> = values.by_ref().take(Self::MAX_VALUES).collect();
        let more = values.count();
        let total = i64::try_from(first.len() + more).unwrap_or(i64::MAX);
        Self::new(first).total(total).has_more(more > 0)
    }
}

/// Result of `completion/complete`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The suggested values.
    pub completion: Completion,
    /// Type of the result; absent before 2026-07-28, which means [`ResultType::Complete`].
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Protocol metadata (`_meta`).
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

method!(
    /// `completion/complete`.
    Complete = "completion/complete", CompleteParams => CompleteResult
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_a_hundred_values_are_given() {
        let completion = Completion::from_values((0..150).map(|n| n.to_string()));
        assert_eq!((completion.values.len(), completion.total, completion.has_more), (100, Some(150), Some(true)));
        assert_eq!(Completion::from_values(["a"]).has_more, Some(false));
    }

    #[test]
    fn a_reference_is_told_by_its_type_however_it_is_spelled() {
        for text in [r#"{"type":"ref/prompt","name":"a"}"#, r#"{"name":"a","type":"ref\/\u0070rompt"}"#] {
            assert_eq!(crate::decode::<Reference>(text).unwrap(), Reference::prompt("a"), "{text}");
        }
    }

    #[test]
    fn an_unknown_reference_is_refused_by_name() {
        let error = crate::decode::<CompleteParams>(r#"{"ref":{"type":"x"},"argument":{"name":"","value":""}}"#);
        assert_eq!(error.unwrap_err().to_string(), r#"ref: "type" must be "ref/prompt" or "ref/resource""#);
    }
}
