//! What could stand in an argument (server/utilities/completion).

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use turms_proto_derive::ProtocolObject;

use crate::RawJson;
use crate::json::Object;
use crate::method::method;
use crate::types::{Meta, ResultType};

/// A prompt, as what an argument belongs to.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "ref/prompt"))]
#[non_exhaustive]
pub struct PromptReference {
    /// The prompt's name.
    pub name: String,
    /// Its name for people.
    #[object(since = V2025_06_18)]
    pub title: Option<String>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// A resource template, as what an argument belongs to.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(tag("type", "ref/resource"))]
#[non_exhaustive]
pub struct ResourceReference {
    /// The template, or the URI of one resource.
    pub uri: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What an argument belongs to.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Reference {
    /// A prompt.
    Prompt(PromptReference),
    /// A resource template.
    Resource(ResourceReference),
}

impl Reference {
    /// The prompt `name`.
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt(PromptReference::new(name))
    }

    /// The resource template `uri`.
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
        let kind = value.member("type").and_then(|kind| kind.text());
        match kind.as_deref() {
            Some("ref/prompt") => value.decode().map(Self::Prompt).map_err(D::Error::custom),
            Some("ref/resource") => value.decode().map(Self::Resource).map_err(D::Error::custom),
            _ => Err(D::Error::custom("\"type\" must be \"ref/prompt\" or \"ref/resource\"")),
        }
    }
}

/// The argument that is being written.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompletionArgument {
    /// Its name.
    pub name: String,
    /// What has been written so far.
    pub value: String,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What is known already.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompletionContext {
    /// The arguments that are decided.
    pub arguments: Option<BTreeMap<String, String>>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What to complete.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct CompleteParams {
    /// What the argument belongs to.
    #[object(rename = "ref")]
    pub reference: Reference,
    /// The argument.
    pub argument: CompletionArgument,
    /// What is known already.
    #[object(since = V2025_06_18)]
    pub context: Option<CompletionContext>,
    /// Beside the subject.
    #[object(rename = "_meta")]
    pub meta: Option<Meta>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

/// What could stand there.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[non_exhaustive]
pub struct Completion {
    /// At most a hundred values, the best first.
    pub values: Vec<String>,
    /// How many there are in all.
    pub total: Option<i64>,
    /// Whether there are more than these.
    pub has_more: Option<bool>,
    /// Unknown members, kept as received.
    #[object(unknown)]
    pub extra: Object,
}

impl Completion {
    /// How many values one answer may hold.
    pub const MAX_VALUES: usize = 100;

    /// The first hundred of `values`, saying whether there were more.
    pub fn of<T: Into<String>>(values: impl IntoIterator<Item = T>) -> Self {
        let mut values = values.into_iter().map(Into::into);
        let first: Vec<String> = values.by_ref().take(Self::MAX_VALUES).collect();
        let more = values.count();
        let total = i64::try_from(first.len() + more).unwrap_or(i64::MAX);
        Self::new(first).total(total).has_more(more > 0)
    }
}

/// The answer to `completion/complete`.
#[derive(Debug, Clone, PartialEq, ProtocolObject)]
#[object(custom_translate)]
#[non_exhaustive]
pub struct CompleteResult {
    /// What could stand there.
    pub completion: Completion,
    /// What kind of result this is.
    #[object(default = ResultType::Complete, since = V2026_07_28)]
    pub result_type: Option<ResultType>,
    /// Beside the subject.
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
        let completion = Completion::of((0..150).map(|n| n.to_string()));
        assert_eq!((completion.values.len(), completion.total, completion.has_more), (100, Some(150), Some(true)));
        assert_eq!(Completion::of(["a"]).has_more, Some(false));
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
