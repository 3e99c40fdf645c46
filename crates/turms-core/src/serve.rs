use std::fmt;
use std::io;

use crate::connection::ConnectionError;
use crate::text::error_chain;

/// Error of building or serving a server.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The server cannot be built: a tool, prompt, resource or extension is invalid.
    #[error(transparent)]
    Build(Box<dyn std::error::Error + Send + Sync>),
    /// Standard input or output cannot be used.
    #[error("cannot use standard input and output")]
    Stdio(#[source] io::Error),
    /// The connection failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    /// The server cannot listen on the address.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A TLS certificate or its key is invalid.
    #[error("cannot use the TLS certificate: {0}")]
    Certificate(String),
}

/// Prints the message with its causes, so that an error returned from `main` is readable.
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
