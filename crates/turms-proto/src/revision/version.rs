use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Ability;

/// A revision of the protocol.
///
/// The variants are ordered by date, but code should check for an [`Ability`] instead of comparing versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// The first revision: HTTP+SSE, no structured output, no elicitation.
    V2024_11_05,
    /// Streamable HTTP, batching, audio, tool annotations, completions capability.
    V2025_03_26,
    /// Structured output, resource links, elicitation, titles; no batching.
    V2025_06_18,
    /// Icons, URL elicitation, sampling with tools, experimental tasks, SSE polling.
    V2025_11_25,
    /// Stateless: no handshake, `input_required` instead of server requests, caching.
    V2026_07_28,
}

impl ProtocolVersion {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25, Self::V2026_07_28];

    /// The newest revision, which the crates use internally.
    pub const LATEST: Self = Self::V2026_07_28;

    /// The newest revision with a handshake.
    pub const LATEST_WITH_HANDSHAKE: Self = Self::V2025_11_25;

    /// Version that a server assumes for an HTTP request without a version.
    pub const ASSUMED_OVER_HTTP: Self = Self::V2025_03_26;

    /// Returns the wire format.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Returns `true` for the newest revision.
    #[must_use]
    pub const fn is_latest(self) -> bool {
        matches!(self, Self::LATEST)
    }

    /// Returns `true` if the revision has the feature.
    #[must_use]
    pub const fn has(self, ability: Ability) -> bool {
        ability.span().contains(self)
    }

    /// Returns the revisions with a handshake, oldest first.
    #[must_use]
    pub fn with_handshake() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.into_iter().filter(|version| version.has(Ability::Handshake))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Error for an unknown version string.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("protocol version {0:?} is not one of {known}", known = ProtocolVersion::ALL.map(ProtocolVersion::as_str).join(", "))]
#[non_exhaustive]
pub struct UnknownVersionError(pub String);

impl FromStr for ProtocolVersion {
    type Err = UnknownVersionError;

    fn from_str(text: &str) -> Result<Self, UnknownVersionError> {
        let known = Self::ALL.into_iter().find(|version| version.as_str() == text);
        known.ok_or_else(|| UnknownVersionError(text.to_owned()))
    }
}

impl Serialize for ProtocolVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ProtocolVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::DeserializeSeed as _;
        let text = crate::json::StringSeed.deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_back_as_written() {
        for version in ProtocolVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        assert_eq!(
            "v999".parse::<ProtocolVersion>().unwrap_err().to_string(),
            "protocol version \"v999\" is not one of 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28"
        );
    }

    #[test]
    fn the_handshake_ends_with_2025_11_25() {
        assert_eq!(ProtocolVersion::with_handshake().next_back(), Some(ProtocolVersion::LATEST_WITH_HANDSHAKE));
    }
}
