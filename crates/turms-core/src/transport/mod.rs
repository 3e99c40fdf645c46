//! What carries calls: standard input and output, those of a program that we start, any byte stream, a pair of pipes within
//! one process, or nothing at all.

mod child;
mod local;
mod stdio;
mod stream;

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

pub use self::child::{Child, ChildCommand, ChildExit, ChildProcess, ChildReader, ChildWriter, SpawnError};
pub use self::local::{LocalChannel, LocalConnector};
pub use self::stdio::{StdioReader, StdioWriter, stdio};
pub use self::stream::StreamConnector;

/// One end of a connection within one process.
pub type MemoryEnd = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Two ends of a connection within one process, each a reader and a writer.
#[must_use]
pub fn memory() -> (MemoryEnd, MemoryEnd) {
    let (one, other) = tokio::io::duplex(64 * 1024);
    (tokio::io::split(one), tokio::io::split(other))
}
