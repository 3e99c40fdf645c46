//! Decoding of JSON text. Errors contain the path of the invalid value.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::scanner::{self, SyntaxError, SyntaxErrorKind};
use super::{DecodeError, DecodeErrorKind, RawJson};

/// Decodes JSON text.
///
/// # Errors
/// If the text is not valid JSON, is nested too deeply or does not match `T`. The error contains the path.
pub fn decode<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, DecodeError> {
    // `serde_json` has no limit for the depth of values that it skips.
    match scanner::check(text) {
        Ok(_) => decode_checked(text),
        Err(SyntaxError { kind: SyntaxErrorKind::TooDeep, .. }) => {
            Err(explain::<T>(DecodeErrorKind::Depth, text, &serde::de::Error::custom("recursion limit exceeded")))
        }
        Err(_) => serde_json::from_str(text).map_err(|error| explain::<T>(DecodeErrorKind::Syntax, text, &error)),
    }
}

/// Decodes JSON text that has passed the scanner.
pub(crate) fn decode_checked<'de, T: Deserialize<'de>>(text: &'de str) -> Result<T, DecodeError> {
    serde_json::from_str(text).map_err(|error| explain::<T>(DecodeErrorKind::Shape, text, &error))
}

/// Decodes a `serde_json::Value`.
///
/// # Errors
/// If the value does not match `T`.
pub fn decode_value<T: DeserializeOwned>(value: serde_json::Value) -> Result<T, DecodeError> {
    RawJson::from(value).decode()
}

/// Finds the path of an error by decoding again. Tracking the path in every message would be slower.
#[cold]
fn explain<'de, T: Deserialize<'de>>(kind: DecodeErrorKind, text: &'de str, error: &serde_json::Error) -> DecodeError {
    let path = match kind {
        DecodeErrorKind::Syntax | DecodeErrorKind::Depth => String::new(),
        DecodeErrorKind::Shape => {
            let mut deserializer = serde_json::Deserializer::from_str(text);
            serde_path_to_error::deserialize::<_, T>(&mut deserializer)
                .err()
                .map_or_else(String::new, |found| path_of(found.path()))
        }
    };
    DecodeError::new(kind, path, error)
}

/// Formats a path. `serde_path_to_error` writes `.` for the root.
pub(super) fn path_of(path: &serde_path_to_error::Path) -> String {
    if path.iter().len() == 0 { String::new() } else { path.to_string() }
}
