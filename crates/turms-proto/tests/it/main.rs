//! The public API of the protocol types: decoding, URI templates, headers, and the fuzz targets.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod decode;
mod envelope;
mod fuzz;
mod header;
mod json_suite;
mod uri_template;
