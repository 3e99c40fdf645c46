//! Reads request bodies that another HTTP implementation receives, within limits.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use turms_proto::format_duration;

/// Error for a body that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The body is longer than the limit, in bytes.
    #[error("the body is longer than {0} bytes")]
    TooLong(usize),
    /// The body did not arrive in time.
    #[error("the body did not arrive within {}", format_duration(*.0))]
    Timeout(Duration),
    /// The body ended early, or its framing is invalid.
    #[error("the body is invalid: {0}")]
    Invalid(String),
}

impl BodyError {
    pub(in crate::server) fn status(&self) -> StatusCode {
        match self {
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Timeout(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
        }
    }
}

pub(in crate::server) async fn read<B>(body: B, limit: usize, timeout: Duration) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: fmt::Display,
{
    // Rejected by its announced length.
    if body.size_hint().lower() > limit as u64 {
        return Err(BodyError::TooLong(limit));
    }
    let mut reading = pin!(collect(body, limit));
    // Most bodies have already arrived and need no timer.
    if let std::task::Poll::Ready(read) = poll_fn(|task| std::task::Poll::Ready(reading.as_mut().poll(task))).await {
        return read;
    }
    tokio::time::timeout(timeout, reading).await.unwrap_or(Err(BodyError::Timeout(timeout)))
}

async fn collect<B>(body: B, limit: usize) -> Result<Bytes, BodyError>
where
    B: Body,
    B::Error: fmt::Display,
{
    let mut body = pin!(body);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|task| body.as_mut().poll_frame(task)).await {
        let frame = frame.map_err(|error| BodyError::Invalid(error.to_string()))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.remaining() > limit {
            return Err(BodyError::TooLong(limit));
        }
        // Most bodies arrive in one buffer and need no copy.
        if first.is_empty() && all.is_empty() {
            first = data.copy_to_bytes(data.remaining());
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&std::mem::take(&mut first));
        }
        all.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}
