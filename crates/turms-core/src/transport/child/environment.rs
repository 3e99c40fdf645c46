use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The variables with which a child is started.
#[derive(Clone, Default)]
pub(super) struct Environment {
    pub(super) inherited: Inherited,
    /// Those that were named: with their values, or to be left out.
    pub(super) given: BTreeMap<OsString, Option<OsString>>,
}

/// What a child is given of our own variables.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Inherited {
    /// What programs need to find their way about, and nothing else: a host keeps secrets in its environment, and not
    /// every server is to know them.
    #[default]
    Harmless,
    All,
}

impl Environment {
    pub(super) fn apply(&self, command: &mut tokio::process::Command) {
        if matches!(self.inherited, Inherited::Harmless) {
            command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_harmless(name)));
        }
        for (name, value) in &self.given {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

#[cfg(not(windows))]
const HARMLESS: &[&str] = &["PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR"];

#[cfg(windows)]
const HARMLESS: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATH",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TZ",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

fn is_harmless(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let listed = |harmless: &&str| if cfg!(windows) { name.eq_ignore_ascii_case(harmless) } else { name == *harmless };
    name.starts_with("LC_") || HARMLESS.iter().any(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_on_the_list_are_harmless() {
        for name in ["PATH", "TZ", "LC_ALL", "LC_TIME"] {
            assert!(is_harmless(OsStr::new(name)), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "PATH_TO_KEY", "XLC_ALL", "SSH_AUTH_SOCK", ""] {
            assert!(!is_harmless(OsStr::new(name)), "{name}");
        }
    }
}
