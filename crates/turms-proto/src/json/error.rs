//! Errors of decoding and encoding.

use std::fmt;

use serde::de::Error as _;

/// Error for JSON that does not match the expected type, with the path of the invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    path: String,
    problem: String,
    kind: DecodeErrorKind,
}

/// The kind of a [`DecodeError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The text is not valid JSON.
    Syntax,
    /// The text is nested deeper than [`MAX_DEPTH`](crate::MAX_DEPTH).
    Depth,
    /// The text is valid JSON, but a value in it is missing, unexpected or of the wrong type.
    Shape,
}

impl DecodeError {
    /// Creates an error for a value that does not match.
    pub fn custom(problem: impl fmt::Display) -> Self {
        Self { path: String::new(), problem: problem.to_string(), kind: DecodeErrorKind::Shape }
    }

    pub(crate) fn shape(path: String, error: &serde_json::Error) -> Self {
        Self::new(DecodeErrorKind::Shape, path, error)
    }

    pub(super) fn new(kind: DecodeErrorKind, path: String, error: &serde_json::Error) -> Self {
        let message = error.to_string();
        // The position is relative to a part of the message, so it would mislead the reader.
        let position = format!(" at line {} column {}", error.line(), error.column());
        let problem = message.strip_suffix(&position).unwrap_or(&message);
        Self { path, problem: problem.replace('`', "\""), kind }
    }

    /// Returns the path of the invalid value, such as `arguments.items[2].name`; empty for the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the description of the problem, without the path.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> DecodeErrorKind {
        self.kind
    }

    /// Prefixes the path with the member `outer`, for a value decoded from that member.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        self.path = match self.path.as_str() {
            "" => outer.to_owned(),
            path if path.starts_with('[') => format!("{outer}{path}"),
            path => format!("{outer}.{path}"),
        };
        self
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.problem),
            path => write!(f, "{path}: {}", self.problem),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Error for a value that cannot be encoded as JSON.
#[derive(Debug, thiserror::Error)]
#[error("cannot be written as JSON")]
pub struct EncodeError(#[source] pub(crate) serde_json::Error);

impl EncodeError {
    /// Creates an encode error with a reason.
    pub fn custom(reason: impl fmt::Display) -> Self {
        Self(serde_json::Error::custom(reason))
    }
}
