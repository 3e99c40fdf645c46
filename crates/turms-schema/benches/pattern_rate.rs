//! Time per step of the budget, over the patterns in the corpus of the fuzz target: `cargo bench -p turms-schema
//! --bench pattern_rate`. The bound of a validation assumes at most 4 ns.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark prints what it has timed")]

use std::time::Instant;

use serde_json::json;
use turms_proto::RawJson;
use turms_schema::{Trust, Validator};
use turms_testkit::fuzz::seeds;

fn main() {
    let mut rates = Vec::new();
    for seed in seeds("schema_pattern") {
        let input = String::from_utf8_lossy(&seed).into_owned();
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
    println!("{} patterns of many steps", rates.len());
    for (rate, input) in rates.iter().take(8) {
        println!("{rate:.2} ns for a step: {input:?}");
    }
}
