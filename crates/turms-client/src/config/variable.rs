//! `${…}` in the values of an entry.

use std::fmt;
use std::path::{MAIN_SEPARATOR_STR, PathBuf};
use std::sync::Arc;

use super::error::EntryErrorKind;

/// Finds a variable by its name.
type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The values of `${…}`.
#[derive(Clone)]
pub(super) struct Variables {
    lookup: Arc<Lookup>,
    pub(super) workspace: Option<PathBuf>,
}

impl Variables {
    /// Uses the environment of this process. A variable that is not Unicode counts as not set.
    pub(super) fn of_process() -> Self {
        Self { lookup: Arc::new(|name| std::env::var(name).ok()), workspace: None }
    }

    pub(super) fn replace_lookup(&mut self, lookup: impl Fn(&str) -> Option<String> + Send + Sync + 'static) {
        self.lookup = Arc::new(lookup);
    }

    /// Replaces every `${…}` in the text. Replaced values are not expanded again.
    pub(super) fn expand(&self, text: &str) -> Result<String, EntryErrorKind> {
        let mut expanded = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, after) = (&rest[..at], &rest[at + 2..]);
            if let Some(before) = before.strip_suffix('$') {
                expanded.extend([before, "${"]);
                rest = after;
                continue;
            }
            let (inside, after) = after.split_once('}').ok_or(EntryErrorKind::UnclosedReference)?;
            expanded.push_str(before);
            expanded.push_str(&self.resolve(inside)?);
            rest = after;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }

    fn resolve(&self, inside: &str) -> Result<String, EntryErrorKind> {
        // A nested reference: the brace closes the inner one.
        if inside.contains("${") {
            return Err(EntryErrorKind::NestedReference);
        }
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        match name.split_once(':') {
            None => self.plain(name, default),
            Some(("env", name)) => self.variable(name, default),
            Some(("input", id)) => Err(EntryErrorKind::NeedsPerson { id: id.to_owned() }),
            Some((kind, _)) => Err(EntryErrorKind::UnknownReference { kind: kind.to_owned() }),
        }
    }

    fn plain(&self, name: &str, default: Option<&str>) -> Result<String, EntryErrorKind> {
        let (value, missing) = match name {
            "userHome" => (self.home(), EntryErrorKind::NoHome),
            "workspaceFolder" => (self.folder(), EntryErrorKind::NoWorkspaceFolder),
            "workspaceFolderBasename" => (self.folder_name(), EntryErrorKind::NoWorkspaceFolder),
            "pathSeparator" | "/" => return Ok(MAIN_SEPARATOR_STR.to_owned()),
            _ => return self.variable(name, default),
        };
        value.or_else(|| default.map(str::to_owned)).ok_or(missing)
    }

    fn variable(&self, name: &str, default: Option<&str>) -> Result<String, EntryErrorKind> {
        if name.is_empty() {
            return Err(EntryErrorKind::EmptyReference);
        }
        (self.lookup)(name)
            .or_else(|| default.map(str::to_owned))
            .ok_or_else(|| EntryErrorKind::UnsetVariable { name: name.to_owned() })
    }

    fn home(&self) -> Option<String> {
        (self.lookup)(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
    }

    fn folder(&self) -> Option<String> {
        self.workspace.as_ref()?.to_str().map(str::to_owned)
    }

    fn folder_name(&self) -> Option<String> {
        self.workspace.as_ref()?.file_name()?.to_str().map(str::to_owned)
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Variables").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let mut variables = Variables::of_process();
        variables.replace_lookup(|name| match name {
            "A" => Some("a".to_owned()),
            "EMPTY" => Some(String::new()),
            "REFERENCE" => Some("${A}".to_owned()),
            "ProgramFiles(x86)" => Some("C:\\x86".to_owned()),
            "HOME" | "USERPROFILE" => Some("/home/ann".to_owned()),
            _ => None,
        });
        variables
    }

    fn expand(text: &str) -> String {
        variables().expand(text).unwrap()
    }

    fn refusal(text: &str) -> String {
        variables().expand(text).unwrap_err().to_string()
    }

    #[test]
    fn variables_are_replaced_wherever_they_stand() {
        assert_eq!(expand("${A}"), "a");
        assert_eq!(expand("é${A}-${env:A}$"), "éa-a$");
        assert_eq!(expand("${env:ProgramFiles(x86)}"), "C:\\x86");
        assert_eq!(expand("$A {A} $ {A} }"), "$A {A} $ {A} }");
    }

    #[test]
    fn a_default_counts_only_if_the_variable_is_not_set() {
        assert_eq!(expand("${A:-b}${NONE:-b}${env:NONE:-c}"), "abc");
        assert_eq!(expand("${EMPTY:-b}${NONE:-}"), "");
        assert_eq!(expand("${NONE:-a:-b}"), "a:-b");
    }

    #[test]
    fn what_a_variable_holds_is_not_looked_at_again() {
        assert_eq!(expand("${REFERENCE}"), "${A}");
    }

    #[test]
    fn two_dollars_are_an_escape() {
        assert_eq!(expand("$${A} ${A}"), "${A} a");
        assert_eq!(expand("$$${A}"), "$${A}");
        assert_eq!(expand("$${"), "${");
    }

    #[test]
    fn the_folders_of_the_editor_are_known() {
        let sep = MAIN_SEPARATOR_STR;
        assert_eq!(expand("${userHome}${/}x${pathSeparator}"), format!("/home/ann{sep}x{sep}"));
        let mut variables = variables();
        variables.workspace = Some("/src/turms".into());
        assert_eq!(variables.expand("${workspaceFolder}:${workspaceFolderBasename}").unwrap(), "/src/turms:turms");
    }

    #[test]
    fn what_cannot_be_replaced_says_why_without_its_default() {
        assert_eq!(refusal("${NONE}"), "the environment has no variable \"NONE\"");
        assert_eq!(refusal("${env:NO\nNE}"), "the environment has no variable \"NO\\nNE\"");
        assert_eq!(refusal("${workspaceFolder}"), "${workspaceFolder} needs a workspace folder, and there is none");
        assert_eq!(refusal("${input:token}"), "${input:…} \"token\" requires user input");
        assert_eq!(refusal("${command:x.y}"), "${…} of the kind \"command\" is not known; a literal ${ is written $${");
        assert_eq!(refusal("${A"), "${ is not closed; a literal ${ is written $${");
        assert_eq!(refusal("${}"), "${} names no variable");
        assert_eq!(refusal("${env:}"), "${} names no variable");
        assert_eq!(refusal("${:-s3cret}"), "${} names no variable");
        assert_eq!(refusal("${NONE:-${A}}"), "${…} within ${…} is not replaced");
    }

    #[test]
    fn without_a_home_folder_its_reference_is_an_error() {
        let mut variables = variables();
        variables.replace_lookup(|_| None);
        assert_eq!(
            variables.expand("${userHome}").unwrap_err().to_string(),
            "${userHome} needs a home folder, and there is none"
        );
    }
}
