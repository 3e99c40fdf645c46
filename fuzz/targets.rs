//! What must hold whatever comes in. Each function takes any bytes; the fuzzer and `tests/it/fuzz.rs` of `turms-proto` call them.

#![allow(dead_code, unused_imports, reason = "each fuzz binary calls one of the functions")]

#[path = "targets/envelope.rs"]
mod envelope;
#[path = "targets/header_value.rs"]
mod header_value;
#[path = "targets/session.rs"]
mod session;
#[path = "targets/uri_template.rs"]
mod uri_template;

pub(crate) use self::envelope::envelope;
pub(crate) use self::header_value::header_value;
pub(crate) use self::session::session;
pub(crate) use self::uri_template::uri_template;
