//! Finds comparisons of protocol versions outside `turms-proto/src/revision/`. Other code asks for a named ability.

use std::error::Error;
use std::fs;

use crate::sources;

const REVISION: &str = "crates/turms-proto/src/revision";

/// Checks the sources of all crates. Tests may compare: they state what the abilities must be.
pub(crate) fn check() -> Result<(), Box<dyn Error>> {
    let root = sources::root();
    let mut found = Vec::new();
    for file in sources::of_crates()?.iter().filter(|file| !file.starts_with(root.join(REVISION))) {
        let text = fs::read_to_string(file)?;
        let lines = text.lines().enumerate().filter(|(_, line)| compares_versions(line));
        let name = file.strip_prefix(&root)?.display();
        found.extend(lines.map(|(number, line)| format!("{name}:{}: {}", number + 1, line.trim())));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(format!("protocol versions are compared outside {REVISION}; add an ability there:\n{}", found.join("\n"))
        .into())
}

/// Returns `true` if a line compares something with a constant of `ProtocolVersion`, or matches it against one.
fn compares_versions(line: &str) -> bool {
    const TYPE: &str = "ProtocolVersion::";
    let code = line.split("//").next().unwrap_or_default();
    code.match_indices(TYPE).any(|(start, _)| {
        let constant = &code[start + TYPE.len()..];
        let length = constant.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let (constant, after) = constant.split_at(length);
        let before = code[..start].trim_end_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':'));
        let is_version = ["V20", "LATEST", "ASSUMED"].iter().any(|start| constant.starts_with(start));
        is_version && (ends_in_comparison(before) || begins_with_comparison(after) || before.contains("matches!("))
    })
}

fn ends_in_comparison(before: &str) -> bool {
    let before = before.trim_end_matches([' ', '&', '*', '(']);
    let is_arrow = before.ends_with("=>") || before.ends_with("->");
    !is_arrow && ["==", "!=", "<=", ">=", "<", ">"].iter().any(|operator| before.ends_with(operator))
}

/// An arm of a `match` is a comparison, too.
fn begins_with_comparison(after: &str) -> bool {
    let after = after.trim_start_matches([' ', ')']);
    ["==", "!=", "<=", ">=", "< ", "> ", "=>", "|"].iter().any(|operator| after.starts_with(operator))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_with_a_version_is_found() {
        for line in [
            "if version == ProtocolVersion::LATEST {",
            "if version >= turms_proto::ProtocolVersion::V2025_06_18 {",
            "ProtocolVersion::V2025_06_18 <= version",
            "ProtocolVersion::V2025_06_18 => true,",
            "Some(ProtocolVersion::V2025_06_18) => true,",
            "ProtocolVersion::V2025_06_18 | ProtocolVersion::V2025_11_25",
            "matches!(version, ProtocolVersion::V2025_06_18)",
            "versions.iter().filter(|version| **version < ProtocolVersion::V2025_06_18)",
        ] {
            assert!(compares_versions(line), "{line}");
        }
    }

    #[test]
    fn other_uses_of_a_version_are_not() {
        for line in [
            "let version = ProtocolVersion::LATEST;",
            "_ => ProtocolVersion::ASSUMED_OVER_HTTP,",
            "fn newest() -> ProtocolVersion::LATEST",
            "if ours.len() == ProtocolVersion::ALL.len() {",
            "version.unwrap_or(ProtocolVersion::LATEST)",
            "// not version == ProtocolVersion::LATEST",
            "[ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_03_26]",
        ] {
            assert!(!compares_versions(line), "{line}");
        }
    }

    #[test]
    fn the_sources_compare_no_versions() {
        check().unwrap();
    }
}
