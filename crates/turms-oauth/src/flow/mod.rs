//! The steps of each flow.

mod code;

pub use self::code::Callback;
