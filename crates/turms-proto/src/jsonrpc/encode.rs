//! Encoding of messages. Each function appends one complete message to a buffer of the caller, and nothing on failure.

use serde::Serialize;

use crate::json::{EncodeError, writer};
use crate::jsonrpc::{ErrorObject, Message, RequestId};

/// Appends a request.
///
/// # Errors
/// If the parameters cannot be encoded as JSON. The buffer is then unchanged.
pub fn request<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &str,
    params: Option<&P>,
) -> Result<(), EncodeError> {
    write_or_undo(out, |out| {
        begin_call(out, Some(id), method)?;
        last_member(out, b"\"params\":", params)
    })
}

/// Appends a request, with parameters written by `write`. If it writes nothing, the request has no parameters.
///
/// # Errors
/// If `write` fails. The buffer is then unchanged.
pub fn request_with(
    out: &mut Vec<u8>,
    id: &RequestId,
    method: &str,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    begin_call(out, Some(id), method).map_err(EncodeError)?;
    let end_without_params = out.len();
    out.extend_from_slice(b",\"params\":");
    let params_start = out.len();
    write(out).inspect_err(|_| out.truncate(start))?;
    if out.len() == params_start {
        out.truncate(end_without_params);
    }
    out.push(b'}');
    Ok(())
}

/// Appends a notification.
///
/// # Errors
/// If the parameters cannot be encoded as JSON. The buffer is then unchanged.
pub fn notification<P: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    method: &str,
    params: Option<&P>,
) -> Result<(), EncodeError> {
    write_or_undo(out, |out| {
        begin_call(out, None, method)?;
        last_member(out, b"\"params\":", params)
    })
}

/// Appends a response with a result.
///
/// # Errors
/// If the result cannot be encoded as JSON. The buffer is then unchanged.
pub fn success<R: Serialize + ?Sized>(out: &mut Vec<u8>, id: &RequestId, result: &R) -> Result<(), EncodeError> {
    write_or_undo(out, |out| {
        begin_message(out, Some(id))?;
        last_member(out, b"\"result\":", Some(result))
    })
}

/// Appends a response, with a result written by `write`.
///
/// # Errors
/// If `write` fails. The buffer is then unchanged.
pub fn success_with(
    out: &mut Vec<u8>,
    id: &RequestId,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    begin_message(out, Some(id)).map_err(EncodeError)?;
    out.extend_from_slice(b",\"result\":");
    write(out).inspect_err(|_| out.truncate(start))?;
    out.push(b'}');
    Ok(())
}

/// Appends a JSON value.
///
/// # Errors
/// If it cannot be encoded as JSON. The buffer is then unchanged.
pub fn value<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) -> Result<(), EncodeError> {
    write_or_undo(out, |out| writer::write(out, value))
}

/// Appends a response with an error. Without an id, the member is omitted, as in revisions since 2025-11-25.
pub fn failure(out: &mut Vec<u8>, id: Option<&RequestId>, error: &ErrorObject) {
    let written = write_or_undo(out, |out| {
        begin_message(out, id)?;
        last_member(out, b"\"error\":", Some(error))
    });
    debug_assert!(written.is_ok(), "error objects are always encodable");
}

/// Appends an error response with the id `null`, for revisions that require the member even if the id is unknown.
pub fn failure_with_null_id(out: &mut Vec<u8>, error: &ErrorObject) {
    let written = write_or_undo(out, |out| {
        out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":null");
        last_member(out, b"\"error\":", Some(error))
    });
    debug_assert!(written.is_ok(), "error objects are always encodable");
}

/// Appends messages as one JSON array: a batch, which exists only in 2025-03-26.
pub fn batch<'a>(out: &mut Vec<u8>, messages: impl IntoIterator<Item = &'a Message>) {
    out.push(b'[');
    for (index, message) in messages.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        message.encode(out);
    }
    out.push(b']');
}

/// Appends a request or notification with parameters that are already JSON.
pub(crate) fn raw_call(out: &mut Vec<u8>, id: Option<&RequestId>, method: &str, params: Option<&str>) {
    // Writing an id and a string to memory cannot fail.
    let _ = begin_call(out, id, method);
    if let Some(params) = params {
        out.extend_from_slice(b",\"params\":");
        out.extend_from_slice(params.as_bytes());
    }
    out.push(b'}');
}

/// Appends a response with a result that is already JSON.
pub(crate) fn raw_success(out: &mut Vec<u8>, id: &RequestId, result: &str) {
    let _ = begin_message(out, Some(id));
    out.extend_from_slice(b",\"result\":");
    out.extend_from_slice(result.as_bytes());
    out.push(b'}');
}

/// Runs `write` and removes its partial output if it fails.
fn write_or_undo(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<(), serde_json::Error>,
) -> Result<(), EncodeError> {
    let start = out.len();
    write(out).map_err(|error| {
        out.truncate(start);
        EncodeError(error)
    })
}

/// Appends a request or a notification up to its parameters, without the closing brace.
fn begin_call(out: &mut Vec<u8>, id: Option<&RequestId>, method: &str) -> Result<(), serde_json::Error> {
    begin_message(out, id)?;
    out.extend_from_slice(b",\"method\":");
    writer::write_string(out, method);
    Ok(())
}

/// Appends the beginning of any message: the version, and the id if it has one.
fn begin_message(out: &mut Vec<u8>, id: Option<&RequestId>) -> Result<(), serde_json::Error> {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    match id {
        Some(id) => {
            out.extend_from_slice(b",\"id\":");
            writer::write(out, id)
        }
        None => Ok(()),
    }
}

/// Appends the last member, unless it is `None`, and the closing brace.
fn last_member<T: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    name: &[u8],
    value: Option<&T>,
) -> Result<(), serde_json::Error> {
    if let Some(value) = value {
        out.push(b',');
        out.extend_from_slice(name);
        writer::write(out, value)?;
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_value_that_cannot_be_written_leaves_the_buffer_alone() {
        let mut out = b"before".to_vec();
        let not_json = BTreeMap::from([((1, 2), 3)]);
        assert!(request(&mut out, &1.into(), "m", Some(&not_json)).is_err());
        assert_eq!(out, b"before");
    }

    #[test]
    fn parameters_that_write_nothing_are_left_out() {
        let written = |params: &'static str| {
            let mut out = Vec::new();
            let write = |out: &mut Vec<u8>| {
                out.extend_from_slice(params.as_bytes());
                Ok(())
            };
            request_with(&mut out, &1.into(), "m", write).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(""), r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        assert_eq!(written("{}"), r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{}}"#);
        let mut out = b"before".to_vec();
        assert!(request_with(&mut out, &1.into(), "m", |_| Err(EncodeError::custom("no"))).is_err());
        assert_eq!(out, b"before");
    }

    #[test]
    fn an_unknown_id_is_left_out_or_null() {
        let (mut absent, mut null) = (Vec::new(), Vec::new());
        let error = ErrorObject::parse_error("?");
        failure(&mut absent, None, &error);
        failure_with_null_id(&mut null, &error);
        assert_eq!(absent, br#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"?"}}"#);
        assert_eq!(null, br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#);
    }
}
