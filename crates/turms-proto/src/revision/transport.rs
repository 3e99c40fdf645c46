//! Which revision travels over what.

use super::ProtocolVersion::{self, *};

/// A way for messages to travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Transport {
    /// Pipes of a child process, and any other byte stream: one message per line.
    Stdio,
    /// The transport pair of 2024-11-05: an SSE stream and an address to post to.
    HttpSse,
    /// Streamable HTTP.
    StreamableHttp,
    /// A WebSocket, one message per text frame.
    WebSocket,
    /// Within one process.
    Memory,
}

/// How well a revision and a transport go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Fit {
    /// The revision cannot travel so.
    Impossible,
    /// Not as the specification has it, but peers do it and it works.
    Tolerated,
    /// As the specification has it, or as we define it where it leaves that to us.
    Defined,
}

impl Transport {
    /// How well a revision travels over this.
    #[must_use]
    pub fn fit(self, version: ProtocolVersion) -> Fit {
        match (self, version) {
            (Self::HttpSse, V2024_11_05) => Fit::Defined,
            // Deprecated since 2025-03-26, yet many servers kept it.
            (Self::HttpSse, V2025_03_26 | V2025_06_18 | V2025_11_25) => Fit::Tolerated,
            (Self::HttpSse, V2026_07_28) => Fit::Impossible,
            // A client that asks for 2024-11-05 here gets it from every server that speaks both.
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
