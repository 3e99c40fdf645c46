use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Commands that start no program.
const WITHOUT_PROGRAM: [&str; 6] = ["demo", "auth", "servers", "completions", "man", "help"];

/// Returns a hint for invalid arguments.
pub(crate) fn usage_hint(error: &clap::Error, typed: &[String]) -> Option<String> {
    let invalid = match error.get(ContextKind::InvalidSubcommand).or_else(|| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::String(one)) => one.as_str(),
        Some(ContextValue::Strings(several)) => several.first().map_or("", String::as_str),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if invalid.contains("://") => {
            Some("the command comes first, as in `turms info URL` or `turms shell URL`".to_owned())
        }
        ErrorKind::MissingRequiredArgument if invalid == "<TARGET>" && typed.iter().any(|word| word == "auth") => {
            Some("TARGET is a URL, or a name listed by `turms servers`".to_owned())
        }
        ErrorKind::MissingRequiredArgument if invalid == "<TARGET>" => Some(
            "TARGET is `demo`, a URL, or a name listed by `turms servers`; to start a program, put it last, after `--`"
                .to_owned(),
        ),
        // A program in place of TARGET comes with options that `turms` does not know.
        ErrorKind::UnknownArgument => {
            let mut words = typed.iter().filter(|word| !word.starts_with('-'));
            words.next().filter(|command| !WITHOUT_PROGRAM.contains(&command.as_str()))?;
            let program = words.next()?;
            crate::target::is_program(program)
                .then(|| format!("to start a program as the server, put it last, after `--`: `-- {program} ...`"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    fn hint_for(line: &str) -> Option<String> {
        let typed: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        let words = ["turms".to_owned()].into_iter().chain(typed.clone()).map(OsString::from);
        usage_hint(&super::super::parse(words).unwrap_err(), &typed)
    }

    #[test]
    fn a_missing_or_misplaced_server_has_a_hint() {
        assert!(hint_for("http://127.0.0.1/mcp").unwrap().starts_with("the command comes first"));
        assert!(hint_for("call").unwrap().starts_with("TARGET is `demo`"));
        assert!(hint_for("auth login").unwrap().starts_with("TARGET is a URL"));
        assert_eq!(hint_for("call demo"), None);
        assert_eq!(hint_for("tools demo -y"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_without_dashes_has_a_hint() {
        assert!(hint_for("tools sh -y x").unwrap().ends_with("`-- sh ...`"));
        // There is a program of this name.
        assert_eq!(hint_for("auth login http://a/mcp --transport sse"), None);
    }
}
