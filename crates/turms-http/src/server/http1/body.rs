//! Reading bodies that are yet to come.

use std::future::poll_fn;

use bytes::{BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};

use super::io::Io;
use crate::framing::{BadChunk, Chunks};
use crate::server::request::body::BodyProblem;

impl<I: AsyncRead + AsyncWrite + Send + Unpin> Io<I> {
    /// As many bytes, read as they come: what was announced costs nothing before it is there.
    pub(super) async fn read_exactly(&mut self, length: usize) -> Result<Bytes, BodyProblem> {
        let mut body = self.input.split();
        while body.len() < length {
            let rest = length - body.len();
            body.reserve(rest.min(body.len().max(SOME)));
            match self.stream.read_buf(&mut (&mut body).limit(rest)).await {
                Ok(0) => return Err(broken("the connection ended before the body did")),
                Ok(_) => {}
                Err(error) => return Err(broken(error)),
            }
        }
        Ok(body.freeze())
    }

    pub(super) async fn read_chunks(&mut self, limit: usize) -> Result<Bytes, BodyProblem> {
        let mut chunks = Chunks::default();
        let mut body = BytesMut::new();
        loop {
            match chunks.take(&mut self.input, &mut body, limit) {
                Ok(true) => return Ok(body.freeze()),
                Ok(false) => {}
                Err(BadChunk::TooLong) => return Err(BodyProblem::TooLong(limit)),
                Err(bad) => return Err(broken(bad)),
            }
            match poll_fn(|task| self.poll_fill(task)).await {
                Ok(0) => return Err(broken("the connection ended before the body did")),
                Ok(_) => {}
                Err(error) => return Err(broken(error)),
            }
        }
    }
}

/// How much room is made at once for a body that is longer than what is there.
const SOME: usize = 64 * 1024;

fn broken(problem: impl std::fmt::Display) -> BodyProblem {
    BodyProblem::Broken(problem.to_string())
}
