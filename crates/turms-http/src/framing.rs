//! The framing of HTTP/1.1 bodies: lengths and chunks (RFC 9112, 6 and 7).

use bytes::{Buf as _, BytesMut};

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// A length in bytes.
    Length(u64),
    /// Chunks, ending with an empty one.
    Chunked,
}

/// Error for an invalid chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkError {
    #[error("the line before a chunk is longer than {MAX_LINE} bytes or does not begin with a hexadecimal size")]
    Size,
    #[error("a chunk extension contains a control character")]
    Extension,
    #[error("a line around a chunk ends in CR or LF alone: it must end in CR LF")]
    LineEnd,
    #[error("a chunk does not end where its size says")]
    End,
    #[error("the extensions of all chunks are longer than {MAX_EXTENSIONS} bytes")]
    Extensions,
    #[error("the trailers are longer than {MAX_TRAILERS} bytes or more than {MAX_TRAILER_FIELDS}")]
    Trailers,
    #[error("a line after the last chunk is not a trailer: it needs a name, a colon and a value")]
    Trailer,
    #[error("the chunks are longer than the limit for bodies")]
    TooLong,
}

/// Maximum length of the line before a chunk, in bytes.
const MAX_LINE: usize = 256;
/// Maximum length of the extensions of all chunks, in bytes.
const MAX_EXTENSIONS: usize = 16 * 1024;
/// Maximum length of the trailers, in bytes.
const MAX_TRAILERS: usize = 16 * 1024;

/// Maximum number of trailers, the same as that of headers.
const MAX_TRAILER_FIELDS: usize = 100;

/// Decodes a chunked body incrementally. Does no I/O.
#[derive(Debug, Default)]
pub(crate) struct ChunkDecoder {
    state: ChunkState,
    extensions: usize,
    trailers: usize,
    trailer_fields: usize,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Over,
}

impl ChunkDecoder {
    /// Decodes `input` into `body`. Returns `true` at the end of the body. Bytes after the end stay in `input`.
    pub(crate) fn take(&mut self, input: &mut BytesMut, body: &mut BytesMut, limit: usize) -> Result<bool, ChunkError> {
        loop {
            match self.state {
                ChunkState::Size => {
                    let Some(line) = line(input, MAX_LINE, ChunkError::Size)? else { return Ok(false) };
                    let (size, extensions) = chunk_size(&input[..line + 2])?;
                    self.extensions += extensions;
                    if self.extensions > MAX_EXTENSIONS {
                        return Err(ChunkError::Extensions);
                    }
                    if size > limit.saturating_sub(body.len()) as u64 {
                        return Err(ChunkError::TooLong);
                    }
                    input.advance(line + 2);
                    self.state = if size == 0 { ChunkState::Trailers } else { ChunkState::Data(size) };
                }
                ChunkState::Data(left) => {
                    let taken = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
                    if taken == 0 {
                        return Ok(false);
                    }
                    body.extend_from_slice(&input[..taken]);
                    input.advance(taken);
                    let left = left - taken as u64;
                    self.state = if left == 0 { ChunkState::DataEnd } else { ChunkState::Data(left) };
                }
                ChunkState::DataEnd => {
                    if !b"\r\n".starts_with(&input[..input.len().min(2)]) {
                        return Err(ChunkError::End);
                    }
                    if input.len() < 2 {
                        return Ok(false);
                    }
                    input.advance(2);
                    self.state = ChunkState::Size;
                }
                ChunkState::Trailers => {
                    let rest = MAX_TRAILERS - self.trailers;
                    let Some(line) = line(input, rest, ChunkError::Trailers)? else { return Ok(false) };
                    if line == 0 {
                        self.state = ChunkState::Over;
                    } else if !is_field(&input[..line]) {
                        // Most likely the empty line is missing, and this is the next message.
                        return Err(ChunkError::Trailer);
                    } else if self.trailer_fields == MAX_TRAILER_FIELDS {
                        return Err(ChunkError::Trailers);
                    }
                    // Trailers are dropped.
                    self.trailer_fields += 1;
                    self.trailers = (self.trailers + line + 2).min(MAX_TRAILERS);
                    input.advance(line + 2);
                }
                ChunkState::Over => return Ok(true),
            }
        }
    }
}

/// Returns the length of the first line without its CR LF. Returns `None` if the line is incomplete.
fn line(input: &[u8], limit: usize, too_long: ChunkError) -> Result<Option<usize>, ChunkError> {
    match memchr::memchr2(b'\r', b'\n', input) {
        Some(at) if at > limit => Err(too_long),
        Some(at) => match &input[at..] {
            [b'\r', b'\n', ..] => Ok(Some(at)),
            [b'\r'] => Ok(None),
            _ => Err(ChunkError::LineEnd),
        },
        None if input.len() > limit => Err(too_long),
        None => Ok(None),
    }
}

/// Returns `true` if a line is a header field: a name, a colon and a value (RFC 9112, 5).
fn is_field(line: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', line) else { return false };
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token) && !value.iter().any(is_control)
}

/// Reads the line before a chunk: the size, and the length of the extensions, which may be ignored (RFC 9112, 7.1.1).
fn chunk_size(line: &[u8]) -> Result<(u64, usize), ChunkError> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let extensions = &line[digits..line.len() - 2];
    // httparse accepts a missing size as 0, spaces without an extension, and any byte in an extension.
    let is_well_formed = digits > 0 && (extensions.is_empty() || extensions.contains(&b';'));
    match httparse::parse_chunk_size(line) {
        Ok(httparse::Status::Complete(_)) if extensions.iter().any(is_control) => Err(ChunkError::Extension),
        Ok(httparse::Status::Complete((_, size))) if is_well_formed => Ok((size, extensions.len())),
        _ => Err(ChunkError::Size),
    }
}

/// Returns `true` for control characters other than tab.
fn is_control(byte: &u8) -> bool {
    byte.is_ascii_control() && *byte != b'\t'
}
