//! The fuzz targets, run over their seeds and deterministic mutations of them.

use turms_testkit::fuzz::{self, seeds, try_input};

#[test]
fn schemas_and_values() {
    run("schema", fuzz::schema);
}

#[test]
fn patterns_and_texts() {
    run("schema_pattern", fuzz::schema_pattern);
}

/// Returns each seed unchanged, and with pieces of each other seed in eight positions.
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
