//! Combinations of revisions and transports.

use super::ProtocolVersion::{self, *};

/// A transport for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Pipes of a child process, or any other byte stream, with one message per line.
    Stdio,
    /// HTTP+SSE of 2024-11-05: an SSE stream and an endpoint for POST requests.
    HttpSse,
    /// Streamable HTTP.
    StreamableHttp,
    /// A WebSocket with one message per text frame.
    WebSocket,
    /// In-process.
    Memory,
}

/// Support of a revision by a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fit {
    /// The revision cannot be used.
    Impossible,
    /// Not in the specification, but used in practice.
    Tolerated,
    /// Defined by the specification, or by Turms for custom transports.
    Defined,
}

impl Transport {
    /// Returns how well the transport supports a revision.
    #[must_use]
    pub fn fit(self, version: ProtocolVersion) -> Fit {
        match (self, version) {
            (Self::HttpSse, V2024_11_05) => Fit::Defined,
            // Deprecated since 2025-03-26, but still offered by many servers.
            (Self::HttpSse, V2025_03_26 | V2025_06_18 | V2025_11_25) => Fit::Tolerated,
            (Self::HttpSse, V2026_07_28) => Fit::Impossible,
            // Servers that support both accept a client that requests 2024-11-05 here.
            (Self::StreamableHttp, V2024_11_05) => Fit::Tolerated,
            (Self::StreamableHttp | Self::Stdio | Self::WebSocket | Self::Memory, _) => Fit::Defined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stateless_revision_does_not_travel_over_http_sse() {
        assert_eq!(Transport::HttpSse.fit(V2026_07_28), Fit::Impossible);
        assert_eq!(Transport::HttpSse.fit(V2024_11_05), Fit::Defined);
        assert_eq!(Transport::StreamableHttp.fit(V2024_11_05), Fit::Tolerated);
        assert!(ProtocolVersion::ALL.iter().all(|version| Transport::Stdio.fit(*version) == Fit::Defined));
    }
}
