//! What could stand in an argument (server/utilities/completion).

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::RawJson;
use crate::method::method;
use crate::object::object;
use crate::types::{Meta, ResultType};

object! {
    /// A prompt, as what an argument belongs to.
    pub struct PromptReference {
        tag "type" = "ref/prompt";
        required {
            /// The prompt's name.
            name: String => "name",
        }
        optional {
            /// Its name for people.
            title: String => "title",
        }
    }
}

object! {
    /// A resource template, as what an argument belongs to.
    pub struct ResourceReference {
        tag "type" = "ref/resource";
        required {
            /// The template, or the URI of one resource.
            uri: String => "uri",
        }
    }
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

object! {
    /// The argument that is being written.
    pub struct CompletionArgument {
        required {
            /// Its name.
            name: String => "name",
            /// What has been written so far.
            value: String => "value",
        }
    }
}

object! {
    /// What is known already.
    pub struct CompletionContext {
        optional {
            /// The arguments that are decided.
            arguments: BTreeMap<String, String> => "arguments",
        }
    }
}

object! {
    /// What to complete.
    pub struct CompleteParams {
        required {
            /// What the argument belongs to.
            reference: Reference => "ref",
            /// The argument.
            argument: CompletionArgument => "argument",
        }
        optional {
            /// What is known already.
            context: CompletionContext => "context",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
}

object! {
    /// What could stand there.
    pub struct Completion {
        required {
            /// At most a hundred values, the best first.
            values: Vec<String> => "values",
        }
        optional {
            /// How many there are in all.
            total: i64 => "total",
            /// Whether there are more than these.
            has_more: bool => "hasMore",
        }
    }
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

object! {
    /// The answer to `completion/complete`.
    pub struct CompleteResult (custom) {
        required {
            /// What could stand there.
            completion: Completion => "completion",
        }
        optional {
            /// What kind of result this is.
            result_type: ResultType = ResultType::Complete => "resultType",
            /// Beside the subject.
            meta: Meta => "_meta",
        }
    }
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
