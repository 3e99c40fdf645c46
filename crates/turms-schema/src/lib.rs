//! JSON Schemas, compiled once. Nothing is ever fetched: a schema has to be complete in itself.

mod budget;
mod check;
mod compile;
mod equality;
mod evaluated;
mod format;
mod instance;
mod keyword;
mod message;
mod node;
mod number;
mod pattern;
mod reference;
mod survey;
mod weight;

use serde_json::Value;
use turms_proto::{Object, RawJson};

use self::budget::Budget;
pub use self::budget::DEFAULT_MAX_VALIDATION_STEPS;
use self::check::{At, Checker};
use self::instance::{Instance, ROOT};
#[doc(hidden)]
pub use self::message::shortened;
use self::message::{Complaints, not_of_format};
use self::node::Nodes;

/// A JSON Schema that values can be held against. The dialect is what `$schema` says, 2020-12 without.
///
/// - Drafts 4, 6, 7, 2019-09 and 2020-12 are known. Formats are checked; those that are not known are not.
/// - Patterns are those of ECMA-262. One that looks around or back (`(?!a)`, `\1`) would take time without bound; it is accepted
///   and logged, and nothing is held against it.
/// - If a value has several members of one name, each of them has to be valid.
#[derive(Debug)]
pub struct Validator {
    nodes: Nodes,
    formats_are_annotations: bool,
}

/// The origin of a schema, which decides about patterns that cannot be matched in linear time: those that look around, refer
/// back or are too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// The schema belongs to this program: such a pattern is an error.
    Own,
    /// The schema comes from a peer: such a pattern is logged once as a warning and not enforced.
    Foreign,
}

/// The outcome of a validation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Validation {
    /// What is wrong with the value; empty if it is valid.
    pub violations: Vec<String>,
    /// The formats that the value does not have, where formats are annotations.
    pub warnings: Vec<String>,
}

/// A schema that no validator can be made of.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct SchemaError(String);

impl Validator {
    /// Maximum number of violations that are reported (8).
    pub const MAX_VIOLATIONS: usize = 8;

    /// Compiles a schema.
    ///
    /// # Errors
    /// When it is not one, or refers to something outside itself.
    pub fn new(schema: &Object, trust: Trust) -> Result<Self, SchemaError> {
        let value: Value = schema.decode().map_err(|error| SchemaError(error.to_string()))?;
        Self::of_value(&value, trust)
    }

    /// As [`Validator::new`], of a schema that is at hand as a value.
    ///
    /// # Errors
    /// When it is not a schema, or refers to something outside itself.
    pub fn of_value(schema: &Value, trust: Trust) -> Result<Self, SchemaError> {
        Ok(Self { nodes: compile::compile(schema, trust)?, formats_are_annotations: false })
    }

    /// Takes `format` for the annotation that it is in 2019-09 and 2020-12 unless a schema says otherwise: a text of another
    /// format is a [warning](Validation::warnings) and no violation. In earlier drafts it is a violation all the same.
    #[must_use]
    pub fn formats_as_annotations(mut self) -> Self {
        self.formats_are_annotations = true;
        self
    }

    /// What is wrong with a value, in words that a person or a model can act on; empty if nothing is. `root` is what to call
    /// the value as a whole. As [`Validator::violations_within`] with [`DEFAULT_MAX_VALIDATION_STEPS`].
    #[must_use]
    pub fn violations(&self, value: &RawJson, root: &str) -> Vec<String> {
        self.violations_within(value, root, DEFAULT_MAX_VALIDATION_STEPS)
    }

    /// As [`Validator::violations`], in at most `max_steps` steps. A value that takes more is not valid, and the only violation
    /// says that it is too expensive to validate, where, and with which keyword.
    #[must_use]
    pub fn violations_within(&self, value: &RawJson, root: &str, max_steps: u64) -> Vec<String> {
        self.validate(value, root, max_steps).violations
    }

    /// As [`Validator::violations_within`], with what is no violation but worth a warning.
    #[must_use]
    pub fn validate(&self, value: &RawJson, root: &str, max_steps: u64) -> Validation {
        let budget = &mut Budget::new(max_steps);
        let invalid = |violations| Validation { violations, warnings: Vec::new() };
        let instance = match Instance::read(value.as_str(), root, budget) {
            Ok(instance) => instance,
            Err(problem) => return invalid(vec![problem]),
        };
        let at = At { instance: &instance, place: ROOT };
        let mut checker = Checker::new(&self.nodes, budget);
        checker.formats_are_annotations = self.formats_are_annotations;
        let holds = checker.holds(0, at);
        match checker.failure(root) {
            Some(failure) => invalid(vec![failure]),
            None if holds => {
                let warnings = checker.warnings.iter().map(|(format, place)| {
                    format!("{}: {}", instance.path(*place, root), not_of_format(instance.part(*place).raw, *format))
                });
                let warnings = warnings.collect();
                Validation { violations: Vec::new(), warnings }
            }
            None => invalid(Self::complaints(&mut checker, at, root)),
        }
    }

    /// Only values that are not valid pay for words, out of the steps that are left.
    fn complaints(checker: &mut Checker<'_>, at: At<'_>, root: &str) -> Vec<String> {
        let mut complaints = Complaints { root, most: Self::MAX_VIOLATIONS, found: Vec::new() };
        checker.complain(0, at, &mut complaints);
        if complaints.found.is_empty() {
            complaints.found.push(format!("{root}: is not valid, and why is too expensive to find out"));
        }
        complaints.found
    }
}

impl SchemaError {
    /// A problem at a place, which is a JSON pointer.
    fn at(pointer: impl std::fmt::Display, problem: impl AsRef<str>) -> Self {
        let (pointer, problem) = (pointer.to_string(), problem.as_ref());
        Self(if pointer.is_empty() { problem.to_owned() } else { format!("{pointer}: {problem}") })
    }

    /// The same problem, seen from a schema that holds this one.
    fn within(mut self, pointer: &str) -> Self {
        self.0.insert_str(0, pointer);
        self
    }

    fn too_heavy() -> Self {
        Self("what it refers to makes it too large or too deep".to_owned())
    }

    fn endless() -> Self {
        Self("something in it refers to itself and to nothing else".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validator(text: &'static str) -> Result<Validator, SchemaError> {
        Validator::new(&Object::parse(text).unwrap(), Trust::Own)
    }

    #[test]
    fn the_dialect_is_what_the_schema_says() {
        // In draft 7 `items` may be a list; since 2020-12 that is `prefixItems`.
        let old = r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"#;
        let violations = validator(old).unwrap().violations(&RawJson::parse("[1]").unwrap(), "list");
        assert_eq!(violations, ["list[0]: 1 is not of type \"string\""]);
        let new = r#"{"prefixItems":[{"type":"string"}]}"#;
        assert_eq!(validator(new).unwrap().violations(&RawJson::parse("[1]").unwrap(), "list").len(), 1);
    }

    #[test]
    fn a_schema_that_stands_for_endless_work_is_refused() {
        let doubling = |last: &str| {
            let mut defs = serde_json::Map::new();
            for level in 0..40 {
                let next = serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) });
                defs.insert(format!("d{level}"), serde_json::json!({ "allOf": [next, next] }));
            }
            defs.insert("d40".into(), serde_json::json!({ "type": last }));
            serde_json::json!({ "$ref": "#/$defs/d0", "$defs": defs })
        };
        let error = Validator::of_value(&doubling("string"), Trust::Foreign).unwrap_err();
        assert_eq!(error.to_string(), "not a usable JSON Schema: what it refers to makes it too large or too deep");
        let mut chain = serde_json::Map::new();
        for level in 0..100_000 {
            chain.insert(format!("d{level}"), serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) }));
        }
        assert!(
            Validator::of_value(&serde_json::json!({ "$ref": "#/$defs/d0", "$defs": chain }), Trust::Foreign).is_err()
        );
    }

    #[test]
    fn a_schema_that_holds_itself_is_as_good_as_any() {
        let tree = validator(
            r##"{"$defs":{"tree":{"type":"object","properties":{"sons":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}"##,
        );
        let tree = tree.unwrap();
        assert!(tree.violations(&RawJson::parse(r#"{"sons":[{"sons":[]}]}"#).unwrap(), "tree").is_empty());
        assert_eq!(tree.violations(&RawJson::parse(r#"{"sons":[1]}"#).unwrap(), "tree").len(), 1);
    }

    #[test]
    fn nothing_is_fetched() {
        assert!(validator(r#"{"$ref":"https://example.com/schema.json"}"#).is_err());
        assert!(validator(r#"{"$ref":"file:///etc/passwd"}"#).is_err());
    }
}
