use std::time::Instant;

use serde_json::{Value, json};
use turms_proto::{Object, RawJson};
use turms_schema::{Trust, ValidationError, Validator};

/// A schema on the first line, a value on the next: neither makes a validator panic, own schemas are refused where those of
/// peers are, both have the same verdict, more steps do not change a verdict, and messages are bounded.
pub fn schema(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (schema, value) = text.split_once('\n').unwrap_or((&text, "{}"));
    let Ok(schema) = Object::parse(schema.to_owned()) else { return };
    let (own, foreign) = (Validator::new(&schema, Trust::Own), Validator::new(&schema, Trust::Foreign));
    assert!(foreign.is_ok() || own.is_err());
    let (Ok(validator), Ok(value)) = (foreign, RawJson::parse(value.to_owned())) else { return };
    assert_steps_do_not_matter(&validator, &value);
    if let Ok(own) = own {
        // A validator that has matched a text before takes fewer steps, so that one of them may have no verdict.
        let verdicts = (is_valid(&own, &value, STEPS), is_valid(&validator, &value, STEPS));
        assert!(verdicts.0.is_none() || verdicts.1.is_none() || verdicts.0 == verdicts.1, "{verdicts:?}");
    }
}

/// A pattern on the first line, a text on the next, which is made longer: the same as for any schema. If `TURMS_FUZZ_NS` is
/// set, a step takes at most as many nanoseconds.
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
        assert!(members.is_ok(), "a pattern for values is one for names");
    }
}

/// Enough for any small value, and few enough for a fast target.
const STEPS: u64 = 400_000;

fn assert_steps_do_not_matter(validator: &Validator, value: &RawJson) {
    let few = is_valid(validator, value, STEPS / 20);
    let many = is_valid(validator, value, STEPS);
    assert!(few.is_none() || few == many, "{few:?} {many:?}");
}

/// The verdict, if there is one.
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

/// Checks that steps are not longer than they should be, where there are enough of them to tell. A validator remembers states, so
/// each measurement takes another one.
fn assert_rate(pattern: &str, value: &RawJson, limit: f64) {
    const ENOUGH: u64 = 200_000;
    #[expect(clippy::disallowed_methods, reason = "it is the time that is measured")]
    let rate = || {
        let validator = Validator::of_value(&json!({ "pattern": pattern }), Trust::Own).ok()?;
        let start = Instant::now();
        let (steps, _) = validator.check_counted(value, 25_000_000);
        (steps >= ENOUGH).then(|| start.elapsed().as_secs_f64() * 1e9 / steps as f64)
    };
    // A busy machine makes single measurements long.
    let slowest = (0..8).map_while(|_| rate()).fold(f64::INFINITY, f64::min);
    assert!(slowest.is_infinite() || slowest <= limit, "{slowest:.1} ns for a step");
}
