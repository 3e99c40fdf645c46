//! Errors of stores.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use turms_proto::format_duration;

/// Error of a store. Shows paths, and never a token or a key.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The directory for logins is unknown.
    #[error("cannot find the directory for logins: {0} is not set; set it, or use FileStore::at")]
    NoDirectory(&'static str),
    /// Another task or process holds the lock of the login.
    #[error("cannot lock the login: another task or process has held the lock for {}; try again when it has finished", format_duration(*.0))]
    Locked(Duration),
    /// The encryption key is invalid.
    #[error("invalid encryption key of the login store: {0}")]
    Key(String),
    /// A file or directory has an owner, type or permissions that are not safe.
    #[error("{}: {reason}", path.display())]
    Unsafe {
        /// The path.
        path: PathBuf,
        /// The reason, and the remedy.
        reason: &'static str,
    },
    /// An operation on a file failed.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// The operation: "read", "write".
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// Another error, of a store that is not part of this crate.
    #[error("the login store failed")]
    Other(#[source] Arc<dyn Error + Send + Sync>),
}

impl StoreError {
    /// Wraps an error of another store. Its text must not contain tokens.
    pub fn other(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other(Arc::from(error.into()))
    }

    /// Returns a function for `map_err` that adds the operation and the path.
    pub(super) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::File { operation, path: path.to_owned(), source: Arc::new(error) }
    }
}
