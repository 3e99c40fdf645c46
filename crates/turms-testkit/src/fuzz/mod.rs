//! Fuzz targets: properties that hold for any input. Each takes bytes; `fuzz/` and ordinary tests call them.

#[cfg(feature = "fuzz-http")]
mod challenge;
mod envelope;
mod header_value;
#[cfg(feature = "fuzz-http")]
mod http;
#[cfg(feature = "fuzz-schema")]
mod schema;
mod session;
#[cfg(feature = "fuzz-http")]
mod sse;
mod uri_template;

use std::fs;
use std::path::Path;

#[cfg(feature = "fuzz-http")]
pub use self::challenge::challenge;
pub use self::envelope::envelope;
pub use self::header_value::header_value;
#[cfg(feature = "fuzz-http")]
pub use self::http::{http_chunks, http_request};
#[cfg(feature = "fuzz-schema")]
pub use self::schema::{schema, schema_pattern};
pub use self::session::session;
#[cfg(feature = "fuzz-http")]
pub use self::sse::sse;
pub use self::uri_template::uri_template;

/// Reads the seeds of a target, in the order of their names. Inputs that `cargo fuzz` has added locally are skipped.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "seed"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no seeds", directory.display());
    paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect()
}

/// Calls a target; if it panics, the input is printed.
pub fn try_input(target: fn(&[u8]), input: &[u8]) {
    let input = PrintedOnPanic(input);
    target(input.0);
}

struct PrintedOnPanic<'a>(&'a [u8]);

impl Drop for PrintedOnPanic<'_> {
    #[expect(clippy::print_stderr, reason = "the output of a failed test")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the input was: b\"{}\"", self.0.escape_ascii());
        }
    }
}
