//! Reads bodies that did not arrive together with their head.

use std::future::poll_fn;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::io::ConnectionIo;
use crate::framing::{ChunkDecoder, ChunkError};
use crate::server::request::body::BodyError;

/// Maximum number of bytes that are reserved at once, so that a large announced length costs nothing before its bytes
/// arrive.
const MAX_RESERVE: usize = 256 * 1024;

impl<I: AsyncRead + AsyncWrite + Send + Unpin> ConnectionIo<I> {
    /// Reads a body with a known length.
    pub(super) async fn read_exactly(&mut self, length: usize) -> Result<Bytes, BodyError> {
        let mut body = self.input.split();
        while body.len() < length {
            let rest = length - body.len();
            body.reserve(rest.min(body.len().max(MAX_RESERVE)));
            check_read(self.stream.read_buf(&mut (&mut body).limit(rest)).await)?;
        }
        Ok(body.freeze())
    }

    /// Reads a chunked body.
    pub(super) async fn read_chunks(&mut self, max_length: usize) -> Result<Bytes, BodyError> {
        let mut chunks = ChunkDecoder::default();
        let mut body = BytesMut::new();
        loop {
            match chunks.take(&mut self.input, &mut body, max_length) {
                Ok(true) => return Ok(body.freeze()),
                Ok(false) => {}
                Err(ChunkError::TooLong) => return Err(BodyError::TooLong(max_length)),
                Err(error) => return Err(invalid(error)),
            }
            check_read(poll_fn(|task| self.poll_fill(task)).await)?;
        }
    }
}

fn check_read(count: std::io::Result<usize>) -> Result<(), BodyError> {
    match count {
        Ok(0) => Err(invalid("the connection ended before the body did")),
        Ok(_) => Ok(()),
        Err(error) => Err(invalid(error)),
    }
}

fn invalid(reason: impl std::fmt::Display) -> BodyError {
    BodyError::Invalid(reason.to_string())
}
