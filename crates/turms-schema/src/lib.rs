//! JSON Schema validation with a limit on work. Schemas are compiled once, and values are checked as JSON text.
//!
//! - [`Validator::new`] compiles a schema, [`Validator::check`] checks a value. Nothing is fetched: a schema must be
//!   self-contained.
//! - Work is counted in steps. A value that exceeds the maximum is [rejected](ValidationError::TooExpensive), so that
//!   neither a schema nor a value from a peer can block a thread.
//!
//! This crate exists because existing implementations have no such limit, and it cannot be added from outside: with
//! `jsonschema` 0.60, a small schema and a value nested 100 levels deep took more than 20 s, and the time doubles with
//! each further level.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod budget;
mod check;
mod compile;
mod cost;
mod equality;
mod evaluated;
mod explain;
mod format;
mod instance;
mod keyword;
mod node;
mod number;
mod pattern;
mod ref_index;
mod reference;
mod validator;

pub use self::budget::DEFAULT_MAX_VALIDATION_STEPS;
#[doc(hidden)]
pub use self::explain::shortened;
pub use self::validator::{SchemaError, Trust, ValidationError, Validator, Violation};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
