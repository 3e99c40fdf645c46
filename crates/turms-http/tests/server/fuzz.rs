//! The fuzz targets over their seeds and over small changes of these, the same each time.

#[path = "../../../../fuzz/targets/http.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn any_bytes_may_be_requests() {
    run("http_request", targets::http_request);
}

#[test]
fn any_bytes_may_be_chunks() {
    run("http_chunks", targets::http_chunks);
}

/// What changes the meaning of what stands around it.
const PIECES: [&[u8]; 8] = [b"", b"\r", b"\n", b"\r\n", b" ", b"\0", b"0", b","];

/// Each seed, and each seed with one byte replaced by each of the pieces.
fn run(name: &str, target: fn(&[u8])) {
    for seed in seeds(name) {
        target(&seed);
        for at in 0..seed.len() {
            for piece in PIECES {
                let changed = [&seed[..at], piece, &seed[at + 1..]].concat();
                let shown = ShownOnPanic(&changed);
                target(shown.0);
            }
        }
    }
}

fn seeds(name: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seed"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", directory.display());
    paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect()
}

/// Prints the input of a target that panics.
struct ShownOnPanic<'a>(&'a [u8]);

impl Drop for ShownOnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "a test that fails says why")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was: b\"{}\"", self.0.escape_ascii());
        }
    }
}
