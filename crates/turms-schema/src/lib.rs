//! JSON Schema: a schema is compiled once, and values are checked as the text that they are, within a bound on work.
//!
//! - [`Validator::new`] compiles a schema, [`Validator::check`] checks a value. Nothing is ever fetched: a schema has to be
//!   complete in itself.
//! - Work is counted in steps, for schema and value alike. A value that would take more than it may is
//!   [refused](ValidationError::TooExpensive), so that neither a schema nor a value of a peer can block a thread.
//!
//! It is our own because a bound on work cannot be added from outside: with `jsonschema` 0.60, a small schema and a value nested 100
//! deep ran for more than 20 s, and doubled with each level.

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
