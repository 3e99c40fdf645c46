//! The names of tools and prompts in a group.

/// The naming scheme of a group.
#[derive(Debug, Clone)]
pub(super) enum Naming {
    /// The name of the server, the separator, and the name that the server gave.
    Prefixed { separator: String },
    /// The name that the server gave.
    Bare,
}

impl Naming {
    pub(super) fn separated_by(separator: &str) -> Self {
        Self::Prefixed { separator: separator.chars().map(replace_invalid).collect() }
    }

    /// Returns the prefix of the tools and prompts of a server.
    pub(super) fn prefix_of(&self, server: &str) -> String {
        match self {
            Self::Prefixed { separator } => format!("{}{separator}", sanitize(server)),
            Self::Bare => String::new(),
        }
    }

    pub(super) fn is_prefixed(&self) -> bool {
        matches!(self, Self::Prefixed { .. })
    }
}

impl Default for Naming {
    fn default() -> Self {
        Self::separated_by("_")
    }
}

/// Returns the name of a server as a valid part of a tool name.
fn sanitize(server: &str) -> String {
    if server.chars().all(|letter| replace_invalid(letter) == letter) && !server.is_empty() {
        return server.to_owned();
    }
    let mut sanitized = String::with_capacity(server.len());
    for letter in server.chars().map(replace_invalid) {
        if letter != '-' || !sanitized.ends_with('-') {
            sanitized.push(letter);
        }
    }
    match sanitized.trim_matches('-') {
        "" => "server".to_owned(),
        sanitized => sanitized.to_owned(),
    }
}

/// Replaces a character that is not valid in a tool name by `-`. Letters, digits, `_`, `-` and `.` are valid
/// (server/tools, "Tool Names").
fn replace_invalid(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') { letter } else { '-' }
}

#[cfg(test)]
mod tests {
    use turms_proto::types::Tool;

    use super::*;

    #[test]
    fn valid_names_do_not_change() {
        for name in ["math", "my-server", "-a-", "a__b", "v1.2"] {
            assert_eq!(sanitize(name), name);
        }
    }

    #[test]
    fn invalid_characters_become_hyphens() {
        for (name, sanitized) in [
            ("My Server", "My-Server"),
            ("files (home)", "files-home"),
            ("@scope/package", "scope-package"),
            ("Übung", "bung"),
            ("日本", "server"),
            ("", "server"),
        ] {
            assert_eq!(sanitize(name), sanitized);
            let name = format!("{}add", Naming::separated_by("::").prefix_of(name));
            assert_eq!(name, format!("{sanitized}--add"));
            assert!(Tool::is_valid_name(&name), "{name}");
        }
    }

    #[test]
    fn bare_names_have_no_prefix() {
        assert_eq!(Naming::Bare.prefix_of("math"), "");
        assert_eq!(Naming::default().prefix_of("math"), "math_");
    }
}
