//! The names of tools and prompts in a group.

/// The rule for names.
#[derive(Debug, Clone)]
pub(super) enum Naming {
    /// The name of the server, the separator, and the name that the server gave.
    Prefixed { separator: String },
    /// As the server has them.
    Bare,
}

impl Naming {
    pub(super) fn separated_by(separator: &str) -> Self {
        Self::Prefixed { separator: separator.chars().map(allowed).collect() }
    }

    /// The prefix of the names of a server.
    pub(super) fn prefix_of(&self, server: &str) -> String {
        match self {
            Self::Prefixed { separator } => format!("{}{separator}", clean(server)),
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

/// The name of a server, without what the name of a tool may not have.
fn clean(server: &str) -> String {
    if server.chars().all(|letter| allowed(letter) == letter) && !server.is_empty() {
        return server.to_owned();
    }
    let mut cleaned = String::with_capacity(server.len());
    for letter in server.chars().map(allowed) {
        if letter != '-' || !cleaned.ends_with('-') {
            cleaned.push(letter);
        }
    }
    match cleaned.trim_matches('-') {
        "" => "server".to_owned(),
        cleaned => cleaned.to_owned(),
    }
}

/// Letters, digits, `_`, `-` and `.` are all that the name of a tool may have (server/tools, "Tool Names").
fn allowed(letter: char) -> char {
    if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') { letter } else { '-' }
}

#[cfg(test)]
mod tests {
    use turms_proto::types::Tool;

    use super::*;

    #[test]
    fn a_name_that_tools_may_have_stays_as_it_is() {
        for name in ["math", "my-server", "-a-", "a__b", "v1.2"] {
            assert_eq!(clean(name), name);
        }
    }

    #[test]
    fn what_tools_may_not_have_becomes_a_hyphen() {
        for (name, cleaned) in [
            ("My Server", "My-Server"),
            ("files (home)", "files-home"),
            ("@scope/package", "scope-package"),
            ("Übung", "bung"),
            ("日本", "server"),
            ("", "server"),
        ] {
            assert_eq!(clean(name), cleaned);
            let name = format!("{}add", Naming::separated_by("::").prefix_of(name));
            assert_eq!(name, format!("{cleaned}--add"));
            assert!(Tool::is_valid_name(&name), "{name}");
        }
    }

    #[test]
    fn names_may_stay_bare() {
        assert_eq!(Naming::Bare.prefix_of("math"), "");
        assert_eq!(Naming::default().prefix_of("math"), "math_");
    }
}
