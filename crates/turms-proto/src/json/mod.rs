//! JSON stored as text: exact, cheap to clone, and decoded on demand.

mod canonical;
mod decode;
mod error;
pub(crate) mod layout;
mod number;
mod object;
mod raw;
pub(crate) mod scanner;
mod scratch;
mod skip;
pub(crate) mod string;
mod string_map;
mod walk;
pub(crate) mod writer;

pub use self::canonical::CanonicalError;
pub(crate) use self::decode::decode_checked;
pub use self::decode::{decode, decode_value};
pub use self::error::{DecodeError, DecodeErrorKind, EncodeError};
pub use self::number::Number;
pub(crate) use self::object::ObjectBuilder;
pub use self::object::{Members, Object};
pub use self::raw::RawJson;
pub(crate) use self::raw::{RawMembers, StringSeed, find_member, find_members, object_members, on_one_line};
pub use self::scanner::{MAX_DEPTH, SyntaxError, SyntaxErrorKind};
pub use self::string_map::decode_strings;
pub use self::walk::JsonVisitor;
