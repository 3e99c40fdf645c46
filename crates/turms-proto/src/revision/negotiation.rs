//! Version negotiation.

use super::{Ability, ProtocolVersion};

/// Returns the newest revision in both lists. Unknown version strings are ignored.
pub fn newest_common<'a>(
    theirs: impl IntoIterator<Item = &'a str>,
    ours: &[ProtocolVersion],
) -> Option<ProtocolVersion> {
    let known = theirs.into_iter().filter_map(|version| version.parse().ok());
    known.filter(|version| ours.contains(version)).max()
}

/// Returns the version with which a server responds to `initialize`: the requested version if it is supported and has
/// a handshake, else the newest supported version with a handshake. `None` if no supported version has a handshake.
#[must_use]
pub fn version_for_initialize(requested: &str, ours: &[ProtocolVersion]) -> Option<ProtocolVersion> {
    let with_handshake = ours.iter().copied().filter(|version| version.has(Ability::Handshake));
    with_handshake.clone().find(|version| version.as_str() == requested).or_else(|| with_handshake.max())
}

/// Returns `true` if the string names a revision without a handshake, including future revisions.
#[must_use]
pub fn names_stateless(named: &str) -> bool {
    let is_date = named.len() == 10 && named.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match named.parse::<ProtocolVersion>() {
        Ok(version) => version.has(Ability::Stateless),
        // Revisions are dates, which sort lexicographically.
        Err(_) => is_date && named > ProtocolVersion::LATEST.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProtocolVersion::*;
    use super::*;

    #[test]
    fn the_newest_common_revision_is_chosen() {
        let ours = ProtocolVersion::ALL;
        assert_eq!(newest_common(["2024-11-05", "2025-06-18", "2099-01-01"], &ours), Some(V2025_06_18));
        assert_eq!(newest_common(["2099-01-01"], &ours), None);
        assert_eq!(newest_common(["2026-07-28"], &[V2025_11_25]), None);
    }

    #[test]
    fn initialize_never_leads_to_a_revision_without_it() {
        let ours = ProtocolVersion::ALL;
        assert_eq!(version_for_initialize("2025-03-26", &ours), Some(V2025_03_26));
        assert_eq!(version_for_initialize("2026-07-28", &ours), Some(V2025_11_25));
        assert_eq!(version_for_initialize("1.0", &ours), Some(V2025_11_25));
        assert_eq!(version_for_initialize("2024-11-05", &[V2025_06_18]), Some(V2025_06_18));
        assert_eq!(version_for_initialize("2025-11-25", &[V2026_07_28]), None);
    }
}
