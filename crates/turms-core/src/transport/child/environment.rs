use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

/// The environment variables of a child process.
#[derive(Clone, Default)]
pub(super) struct Environment {
    pub(super) inherited: InheritedVariables,
    /// The variables that were set, or removed (`None`).
    pub(super) explicit: BTreeMap<OsString, Option<OsString>>,
}

/// The variables of this process that a child inherits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum InheritedVariables {
    /// Those on a list of harmless ones, because the environment of a host may contain secrets.
    #[default]
    Harmless,
    All,
}

impl Environment {
    pub(super) fn apply(&self, command: &mut tokio::process::Command) {
        if matches!(self.inherited, InheritedVariables::Harmless) {
            command.env_clear().envs(std::env::vars_os().filter(|(name, _)| is_harmless(name)));
        }
        for (name, value) in &self.explicit {
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
