//! The Model Context Protocol without I/O: every revision from 2024-11-05 to 2026-07-28.
//!
//! - [`jsonrpc`]: ids, errors, envelopes and messages, decoded in one pass and encoded into the caller's buffer.
//! - [`types`]: parameters and results, one file per page of the specification, and a marker type for every [`method`].
//! - [`revision`]: the features of each revision, and the translation between the newest revision and older ones.
//! - [`header`] and [`uri_template`]: the rules for mirrored HTTP headers and for resource templates.
//! - [`session`]: the state machine of a connection, for both sides.
//! - `skill`, with the feature `skills`: the frontmatter of a `SKILL.md`, and file digests.
//!
//! The crate has no clock, no sockets and no tasks: bytes and messages go in, messages and events come out.
//!
//! ```
//! use turms_proto::types::{CallTool, CallToolParams, Outcome, CallToolResult};
//! use turms_proto::{Message, Request, Response, RawJson};
//!
//! // A client writes a request …
//! let request = Request::new::<CallTool>(1, &CallToolParams::new("add"))?;
//! let mut line = Vec::new();
//! request.encode(&mut line);
//! assert_eq!(line, br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"}}"#);
//!
//! // … and a server reads it and responds.
//! let Message::Request(request) = Message::decode(line)? else { panic!("not a request") };
//! let params = request.params::<CallTool>()?;
//! let result = Outcome::Complete(CallToolResult::from_text(format!("{} was called", params.name)));
//! let response = Response::new(request.id, Ok(RawJson::encode(&result)?));
//! # assert!(response.outcome.is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! | feature | default | enables |
//! |---|---|---|
//! | `skills` | | `skill`: the frontmatter of a `SKILL.md`, and file digests |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod duration;
pub mod header;
mod json;
pub mod jsonrpc;
pub mod method;
mod method_name;
mod object;
pub mod revision;
pub mod session;
#[cfg(feature = "skills")]
pub mod skill;
pub mod types;
pub mod uri_template;

/// For other crates of Turms. Not part of the API.
#[doc(hidden)]
pub mod __internal {
    pub use crate::json::JsonVisitor;
}

#[doc(hidden)]
pub use self::duration::format_duration;
pub use self::json::{
    CanonicalError, DecodeError, DecodeErrorKind, EncodeError, MAX_DEPTH, Members, Number, Object, RawJson,
    SyntaxError, SyntaxErrorKind, decode, decode_strings, decode_value,
};
pub use self::jsonrpc::{
    DEFAULT_BATCH_LIMIT, Envelope, Envelopes, ErrorCode, ErrorObject, Incoming, LineTooLong, Lines, Message,
    MessageError, MessageErrorKind, Notification, ProgressToken, Request, RequestId, Response,
};
pub use self::method_name::MethodName;
pub use self::revision::{Ability, ProtocolVersion};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
