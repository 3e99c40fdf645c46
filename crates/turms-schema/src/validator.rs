//! Validators and the results of validation.

use std::fmt;

use serde_json::Value;
use turms_proto::{MAX_DEPTH, Object, RawJson};

use crate::budget::{Budget, DEFAULT_MAX_VALIDATION_STEPS};
use crate::check::{Checker, Position};
use crate::compile;
use crate::explain::{Explanation, not_of_format};
use crate::instance::{Instance, ROOT};
use crate::node::Nodes;

/// A compiled JSON Schema. The dialect is declared by `$schema`; without it, the dialect is 2020-12.
///
/// - Supports drafts 4, 6, 7, 2019-09 and 2020-12. Formats are checked; unknown formats are ignored.
/// - Patterns are ECMA-262 regular expressions. For look-around and back-references (`(?!a)`, `\1`), see [`Trust`].
/// - If a name occurs several times in an object, each of its members must be valid.
#[derive(Debug)]
pub struct Validator {
    nodes: Nodes,
    formats_are_annotations: bool,
}

/// Origin of a schema. It determines the handling of patterns that cannot be matched in linear time: patterns with
/// look-around or back-references, and patterns that are too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trust {
    /// The schema belongs to this program: such a pattern is an error.
    Own,
    /// The schema comes from a peer: such a pattern is logged once as a warning and not enforced.
    Foreign,
}

/// Error of a validation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidationError {
    /// The value violates the schema. Contains the first [`Validator::MAX_VIOLATIONS`] violations.
    Invalid(Vec<Violation>),
    /// The value needs more than the maximum number of steps. There is no verdict.
    TooExpensive {
        /// Path to the part of the value that was being checked.
        path: String,
        /// The keyword that was being checked; `None` while the value was read.
        keyword: Option<&'static str>,
    },
    /// The value is nested deeper than messages may be.
    ValueTooDeep,
    /// The references of the schema are nested too deeply.
    SchemaTooDeep,
}

/// A violation of a schema. The text consists of the path and the message, to be appended to the name of the value:
/// `.items[1]: 0 is less than the minimum of 1`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// Path to the invalid part, such as `.items[1]`; empty for the value itself.
    pub path: String,
    /// The violated keyword of the schema.
    pub keyword: &'static str,
    /// Description of the violation for users and models.
    pub message: String,
}

/// Error for an invalid or unsupported schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct SchemaError(String);

impl SchemaError {
    /// Returns the reason, without the prefix "not a usable JSON Schema".
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.0
    }
}

impl Validator {
    /// Maximum number of reported violations.
    pub const MAX_VIOLATIONS: usize = 8;

    /// Maximum length of a value that should be checked on the current thread. Longer values should be
    /// checked on a separate thread, and may take [ten times](Self::LARGE_FACTOR) as many steps there.
    pub const MAX_INLINE_BYTES: usize = 64 << 10;

    /// Factor for the maximum number of steps of values beyond [`Self::MAX_INLINE_BYTES`].
    pub const LARGE_FACTOR: u64 = 10;

    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is invalid, has external references, causes too much work, or has a pattern that `trust` forbids.
    pub fn new(schema: &Object, trust: Trust) -> Result<Self, SchemaError> {
        let value: Value = schema.decode().map_err(|error| SchemaError(error.to_string()))?;
        Self::of_value(&value, trust)
    }

    /// Compiles a schema from a `serde_json` value; see [`Validator::new`].
    ///
    /// # Errors
    /// Same as [`Validator::new`].
    pub fn of_value(schema: &Value, trust: Trust) -> Result<Self, SchemaError> {
        Ok(Self { nodes: compile::compile(schema, trust)?, formats_are_annotations: false })
    }

    /// Treats `format` as an annotation in 2019-09 and 2020-12, which is the default of these drafts: a string that
    /// does not have the format causes a warning, not a violation. In earlier drafts, it stays a violation.
    #[must_use]
    pub fn formats_as_annotations(mut self) -> Self {
        self.formats_are_annotations = true;
        self
    }

    /// Checks a value, in at most [`DEFAULT_MAX_VALIDATION_STEPS`] steps.
    ///
    /// # Errors
    /// If it is invalid, or needs too many steps.
    pub fn check(&self, value: &RawJson) -> Result<(), ValidationError> {
        self.check_within(value, DEFAULT_MAX_VALIDATION_STEPS).map(drop)
    }

    /// Checks a value in at most `max_steps` steps. Returns violated formats as warnings, where formats are
    /// [annotations](Self::formats_as_annotations).
    ///
    /// # Errors
    /// If it is invalid, or needs too many steps.
    pub fn check_within(&self, value: &RawJson, max_steps: u64) -> Result<Vec<Violation>, ValidationError> {
        self.check_counted(value, max_steps).1
    }

    /// Checks a value like [`Validator::check_within`], and also returns the number of steps.
    #[allow(clippy::missing_errors_doc, reason = "returns a tuple; the errors are those of `check_within`")]
    pub fn check_counted(&self, value: &RawJson, max_steps: u64) -> (u64, Result<Vec<Violation>, ValidationError>) {
        let mut budget = Budget::new(max_steps);
        let checked = self.check_with(value, &mut budget);
        (max_steps - budget.left(), checked)
    }

    fn check_with(&self, value: &RawJson, budget: &mut Budget) -> Result<Vec<Violation>, ValidationError> {
        let instance = Instance::read(value, budget)?;
        let at = Position { instance: &instance, place: ROOT };
        let mut checker = Checker::new(&self.nodes, budget);
        checker.formats_are_annotations = self.formats_are_annotations;
        let holds = checker.holds(0, at);
        if let Some(failure) = checker.failure() {
            return Err(failure);
        }
        if !holds {
            return Err(ValidationError::Invalid(explain(&mut checker, at)));
        }
        let warnings = checker.warnings.iter().map(|(format, place)| Violation {
            path: instance.path(*place),
            keyword: "format",
            message: not_of_format(instance.part(*place).raw, *format),
        });
        Ok(warnings.collect())
    }

    /// Returns the maximum number of steps for a value of this length, given the maximum for small values.
    #[must_use]
    pub fn steps_for(length: usize, max_steps: u64) -> u64 {
        if length > Self::MAX_INLINE_BYTES { max_steps.saturating_mul(Self::LARGE_FACTOR) } else { max_steps }
    }
}

/// Finds the violations of an invalid value, with the remaining steps.
fn explain(checker: &mut Checker<'_>, at: Position<'_>) -> Vec<Violation> {
    let mut explanation = Explanation { max: Validator::MAX_VIOLATIONS, found: Vec::new() };
    checker.explain(0, at, &mut explanation);
    if explanation.found.is_empty() {
        let message = "is not valid; it would take too many steps to find the violations".to_owned();
        explanation.found.push(Violation { path: String::new(), keyword: "", message });
    }
    explanation.found
}

impl ValidationError {
    /// Returns the messages of the error, one for each violation. `root` is the name of the value, as in
    /// `arguments.items[1]: 0 is less than the minimum of 1`.
    #[must_use]
    pub fn messages(&self, root: &str) -> Vec<String> {
        match self {
            Self::Invalid(violations) => violations.iter().map(|violation| format!("{root}{violation}")).collect(),
            other => vec![format!("{root}{}", FailureText(other))],
        }
    }
}

/// Formats an error without violations, without the name of the value.
struct FailureText<'a>(&'a ValidationError);

impl fmt::Display for FailureText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            ValidationError::TooExpensive { path, keyword } => {
                write!(f, "{path}: is too expensive to validate")?;
                keyword.map_or(Ok(()), |keyword| write!(f, " with {keyword:?}"))?;
                f.write_str(", see `max_validation_steps`")
            }
            ValidationError::ValueTooDeep => write!(f, ": nested deeper than {MAX_DEPTH} levels"),
            _ => f.write_str(": the references of the schema are nested too deeply"),
        }
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.messages("value").join("; "))
    }
}

impl std::error::Error for ValidationError {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl SchemaError {
    /// Creates an error at a JSON pointer.
    pub(crate) fn at(pointer: impl fmt::Display, problem: impl AsRef<str>) -> Self {
        let (pointer, problem) = (pointer.to_string(), problem.as_ref());
        Self(if pointer.is_empty() { problem.to_owned() } else { format!("{pointer}: {problem}") })
    }

    /// Prefixes the pointer, for a schema inside another one.
    pub(crate) fn within(mut self, pointer: &str) -> Self {
        self.0.insert_str(0, pointer);
        self
    }

    pub(crate) fn too_large() -> Self {
        Self("its references make it too large or too deep".to_owned())
    }

    pub(crate) fn infinite_recursion() -> Self {
        Self("infinite recursion of references".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(validator: &Validator, text: &'static str) -> Vec<String> {
        let checked = validator.check(&RawJson::parse(text).unwrap());
        checked.map_or_else(|error| error.messages("it"), |()| Vec::new())
    }

    fn validator(text: &'static str) -> Result<Validator, SchemaError> {
        Validator::new(&Object::parse(text).unwrap(), Trust::Own)
    }

    #[test]
    fn the_schema_declares_its_dialect() {
        // In draft 7, `items` may be a list. In 2020-12, that is `prefixItems`.
        let old = r#"{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}"#;
        let violations = violations(&validator(old).unwrap(), "[1]");
        assert_eq!(violations, ["it[0]: 1 is not of type \"string\""]);
        let new = r#"{"prefixItems":[{"type":"string"}]}"#;
        assert_eq!(self::violations(&validator(new).unwrap(), "[1]").len(), 1);
    }

    #[test]
    fn a_schema_with_exponential_work_is_rejected() {
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
        assert_eq!(error.to_string(), "not a usable JSON Schema: its references make it too large or too deep");
        let mut chain = serde_json::Map::new();
        for level in 0..100_000 {
            chain.insert(format!("d{level}"), serde_json::json!({ "$ref": format!("#/$defs/d{}", level + 1) }));
        }
        assert!(
            Validator::of_value(&serde_json::json!({ "$ref": "#/$defs/d0", "$defs": chain }), Trust::Foreign).is_err()
        );
    }

    #[test]
    fn recursive_schemas_are_supported() {
        let tree = validator(
            r##"{"$defs":{"tree":{"type":"object","properties":{"sons":{"type":"array","items":{"$ref":"#/$defs/tree"}}}}},"$ref":"#/$defs/tree"}"##,
        );
        let tree = tree.unwrap();
        assert!(violations(&tree, r#"{"sons":[{"sons":[]}]}"#).is_empty());
        assert_eq!(violations(&tree, r#"{"sons":[1]}"#).len(), 1);
    }

    #[test]
    fn external_references_are_rejected() {
        assert!(validator(r#"{"$ref":"https://example.com/schema.json"}"#).is_err());
        assert!(validator(r#"{"$ref":"file:///etc/passwd"}"#).is_err());
    }
}
