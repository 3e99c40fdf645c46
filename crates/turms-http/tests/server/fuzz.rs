//! Runs the fuzz targets on their seeds and on the same small changes of each seed every time.

use turms_testkit::fuzz::{self, seeds, try_input};

#[test]
fn any_bytes_may_be_requests() {
    run("http_request", fuzz::http_request);
}

#[test]
fn any_bytes_may_be_chunks() {
    run("http_chunks", fuzz::http_chunks);
}

#[test]
fn any_bytes_may_be_challenges() {
    run("challenge", fuzz::challenge);
}

/// Replacements for a byte that change how the surrounding bytes are parsed.
const PIECES: [&[u8]; 8] = [b"", b"\r", b"\n", b"\r\n", b" ", b"\0", b"0", b","];

/// Runs the target on each seed, and on each seed with one byte replaced by each of [`PIECES`].
fn run(name: &str, target: fn(&[u8])) {
    for seed in seeds(name) {
        try_input(target, &seed);
        for at in 0..seed.len() {
            for piece in PIECES {
                let changed = [&seed[..at], piece, &seed[at + 1..]].concat();
                try_input(target, &changed);
            }
        }
    }
}
