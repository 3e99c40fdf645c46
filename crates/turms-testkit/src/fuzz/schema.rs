use std::time::Instant;

use serde_json::{Value, json};
use turms_proto::{Object, RawJson};
use turms_schema::{Trust, ValidationError, Validator};

/// Fuzz target for validation, with a schema on the first line and a value on the next: a validator does not panic, a schema that is
/// refused from a peer is refused as our own, both give the same verdict, more steps do not change a verdict, and messages are limited.
pub fn schema(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, value) = text.split_once('\n').unwrap_or((&text, "{}"));
    let Ok(schema) = Object::parse(schema.to_owned()) else { return };
    let (own, foreign) = (Validator::new(&schema, Trust::Own), Validator::new(&schema, Trust::Foreign));
    assert!(foreign.is_ok() || own.is_err());
    let (Ok(validator), Ok(value)) = (foreign, RawJson::parse(value.to_owned())) else { return };
    assert_steps_do_not_matter(&validator, &value);
    if let Ok(own) = own {
        // A validator that has matched a text before takes fewer steps, so one of them may have no verdict.
        let verdicts = (is_valid(&own, &value, STEPS), is_valid(&validator, &value, STEPS));
        assert!(verdicts.0.is_none() || verdicts.1.is_none() || verdicts.0 == verdicts.1, "{verdicts:?}");
    }
}

/// Fuzz target for patterns, with a pattern on the first line and a text on the next, which is repeated: as for any schema. If
/// `TURMS_FUZZ_NS` is set, it is the maximum number of nanoseconds for a step.
pub fn schema_pattern(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (pattern, text) = text.split_once('\n').unwrap_or((&text, "a"));
    let Ok(validator) = Validator::of_value(&json!({ "pattern": pattern }), Trust::Own) else { return };
    assert_steps_do_not_matter(&validator, &RawJson::string(text));
    if let Some(limit) = std::env::var("TURMS_FUZZ_NS").ok().and_then(|limit| limit.parse().ok()) {
        let long = RawJson::string(&text.repeat((16 << 10) / text.len().max(1)));
        assert_rate(pattern, &long, limit);
    }
    if let Value::String(name) = json!(pattern) {
        let members = Validator::of_value(&json!({ "patternProperties": { name: false } }), Trust::Own);
        assert!(members.is_ok(), "a pattern that is valid for values is invalid for names");
    }
}

/// Maximum number of steps: enough for any small value, and few enough for a fast target.
const STEPS: u64 = 400_000;

fn assert_steps_do_not_matter(validator: &Validator, value: &RawJson) {
    let few = is_valid(validator, value, STEPS / 20);
    let many = is_valid(validator, value, STEPS);
    assert!(few.is_none() || few == many, "{few:?} {many:?}");
}

/// Returns the verdict, if there is one.
fn is_valid(validator: &Validator, value: &RawJson, max_steps: u64) -> Option<bool> {
    match validator.check_within(value, max_steps) {
        Ok(warnings) => {
            assert!(warnings.len() <= Validator::MAX_VIOLATIONS);
            Some(true)
        }
        Err(ValidationError::Invalid(violations)) => {
            assert!((1..=Validator::MAX_VIOLATIONS).contains(&violations.len()));
            assert!(
                violations.iter().all(|violation| !violation.message.is_empty() && violation.message.len() < 10_000)
            );
            Some(false)
        }
        Err(_) => None,
    }
}

/// Asserts the maximum duration of a step, if there are enough steps to measure. A validator caches states, so each measurement uses a
/// new one.
fn assert_rate(pattern: &str, value: &RawJson, limit: f64) {
    const MIN_STEPS: u64 = 200_000;
    #[expect(clippy::disallowed_methods, reason = "the duration is measured")]
    let rate = || {
        let validator = Validator::of_value(&json!({ "pattern": pattern }), Trust::Own).ok()?;
        let start = Instant::now();
        let (steps, _) = validator.check_counted(value, 25_000_000);
        (steps >= MIN_STEPS).then(|| start.elapsed().as_secs_f64() * 1e9 / steps as f64)
    };
    // The fastest of several measurements, because the machine may be busy.
    let fastest = (0..8).map_while(|_| rate()).fold(f64::INFINITY, f64::min);
    assert!(fastest.is_infinite() || fastest <= limit, "{fastest:.1} ns for a step");
}
