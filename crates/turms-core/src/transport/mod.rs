//! Transports: standard input and output, child processes, byte streams, in-memory pipes, and services in this process.

mod child;
mod local;
mod stdio;
mod stream;

use tokio::io::{DuplexStream, ReadHalf, WriteHalf};

pub use self::child::{Child, ChildCommand, ChildExit, ChildProcess, ChildReader, ChildWriter, SpawnError};
pub use self::local::LocalConnector;
pub use self::stdio::{StdioReader, StdioWriter, stdio};
pub use self::stream::StreamConnector;

/// One end of an in-memory connection: a reader and a writer.
pub type MemoryEnd = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Creates the two ends of an in-memory connection.
#[must_use]
pub fn memory() -> (MemoryEnd, MemoryEnd) {
    let (one, other) = tokio::io::duplex(64 * 1024);
    (tokio::io::split(one), tokio::io::split(other))
}
