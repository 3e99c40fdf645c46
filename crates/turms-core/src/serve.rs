use std::fmt;
use std::io;

use crate::connection::ConnectionError;
use crate::text::error_chain;

/// Why a server does not serve.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Something that was registered cannot be used.
    #[error("cannot be served: {0}")]
    Registered(String),
    /// Standard input or output cannot be had.
    #[error("standard input and output cannot be used")]
    Stdio(#[source] io::Error),
    /// The connection broke.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A certificate or its key cannot be used.
    #[error("the certificate cannot be used: {0}")]
    Certificate(String),
}

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_chain(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_is_the_message_with_its_causes() {
        let source = io::Error::other("address in use");
        let error = ServeError::Listen { address: "127.0.0.1:80".into(), source };
        assert_eq!(format!("{error:?}"), "cannot listen on 127.0.0.1:80: address in use");
    }
}
