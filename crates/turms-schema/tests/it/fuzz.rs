//! The fuzz targets over their seeds and simple mutations of these, the same each time.

use std::time::Instant;

use serde_json::json;
use turms_proto::RawJson;
use turms_schema::{Trust, Validator};
use turms_testkit::fuzz::{self, seeds, try_input};

#[test]
fn any_schema_and_value_may_meet() {
    run("schema", fuzz::schema);
}

#[test]
fn any_pattern_and_text_may_meet() {
    run("schema_pattern", fuzz::schema_pattern);
}

/// The time for a step, over all that `cargo fuzz` has kept: `cargo test --profile bench -p turms-schema -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement, for a quiet machine"]
#[expect(clippy::disallowed_methods, reason = "it is the time that is measured")]
fn the_time_for_a_step() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/schema_pattern");
    let mut rates = Vec::new();
    for entry in std::fs::read_dir(corpus).unwrap() {
        let input = String::from_utf8_lossy(&std::fs::read(entry.unwrap().path()).unwrap()).into_owned();
        let (pattern, text) = input.split_once('\n').unwrap_or((&input, "a"));
        let long = RawJson::string(&text.repeat((16 << 10) / text.len().max(1)));
        let rate = || {
            let validator = Validator::of_value(&json!({ "pattern": pattern }), Trust::Own).ok()?;
            let start = Instant::now();
            let (steps, _) = validator.check_counted(&long, 25_000_000);
            (steps > 100_000).then(|| start.elapsed().as_secs_f64() * 1e9 / steps as f64)
        };
        let fastest = (0..10).map_while(|_| rate()).fold(f64::INFINITY, f64::min);
        rates.extend(fastest.is_finite().then_some((fastest, input)));
    }
    rates.sort_by(|one, other| other.0.total_cmp(&one.0));
    eprintln!("{} patterns of many steps", rates.len());
    rates.iter().take(8).for_each(|(rate, input)| eprintln!("{rate:.2} ns for a step: {input:?}"));
}

/// Each seed as it is, and with pieces of each other seed in each of eight places.
fn run(name: &str, target: fn(&[u8])) {
    let seeds = seeds(name);
    for seed in &seeds {
        try_input(target, seed);
        for other in &seeds {
            for eighth in 0..8 {
                let (at, from) = (seed.len() * eighth / 8, other.len() * ((eighth * 5 + 3) % 8) / 8);
                let to = (from + 1 + 7 * eighth).min(other.len());
                let input = [&seed[..at], &other[from..to], &seed[(at + eighth % 3).min(seed.len())..]].concat();
                try_input(target, &input);
            }
        }
    }
}
