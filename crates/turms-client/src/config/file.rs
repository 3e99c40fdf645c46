use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system said no.
    #[error(transparent)]
    Io(io::Error),
    /// It is larger than such a file ever is.
    #[error("the file is larger than {limit} bytes")]
    TooLarge {
        /// How large it may be.
        limit: usize,
    },
    /// It is not text in UTF-8.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
}

/// The text of a file of at most `limit` bytes; what has no end (a device, a pipe) is read no further than that.
pub(super) fn read(path: &Path, limit: usize) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(ReadError::Io)?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(ReadError::Io)?;
    if bytes.len() > limit {
        return Err(ReadError::TooLarge { limit });
    }
    String::from_utf8(bytes).map_err(|_| ReadError::NotUtf8)
}
