//! What carries bytes: standard input and output, and a pair of pipes within one process.

mod stdio;

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

pub use self::stdio::{StdioReader, StdioWriter, stdio};

/// One end of a connection within one process.
pub type MemoryEnd = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Two ends of a connection within one process, each a reader and a writer.
#[must_use]
pub fn memory() -> (MemoryEnd, MemoryEnd) {
    let (one, other) = tokio::io::duplex(64 * 1024);
    (tokio::io::split(one), tokio::io::split(other))
}
