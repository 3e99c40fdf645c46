use clap::error::{ContextKind, ContextValue, ErrorKind};

/// What may have been meant by arguments that make no sense.
pub(crate) fn hint(error: &clap::Error, typed: &[String]) -> Option<String> {
    let invalid = match error.get(ContextKind::InvalidSubcommand).or_else(|| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::String(one)) => one.as_str(),
        Some(ContextValue::Strings(several)) => several.first().map_or("", String::as_str),
        _ => "",
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand if invalid.contains("://") => {
            Some("a command comes before the server, such as `turms info URL` or `turms shell URL`".to_owned())
        }
        ErrorKind::MissingRequiredArgument if invalid == "<TARGET>" => Some(
            "TARGET is `demo`, a URL, or a name that `turms servers` lists; a program comes last, after `--`"
                .to_owned(),
        ),
        // Whoever types a program in place of a server types its options, too.
        ErrorKind::UnknownArgument => {
            let program = typed.iter().skip(1).find(|word| !word.starts_with('-'))?;
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

    fn hinted(line: &str) -> Option<String> {
        let typed: Vec<String> = line.split_whitespace().map(ToOwned::to_owned).collect();
        let words = ["turms".to_owned()].into_iter().chain(typed.clone()).map(OsString::from);
        hint(&super::super::parse(words).unwrap_err(), &typed)
    }

    #[test]
    fn a_server_that_is_missing_or_in_the_wrong_place_is_hinted_at() {
        assert!(hinted("http://127.0.0.1/mcp").unwrap().starts_with("a command comes before the server"));
        assert!(hinted("call").unwrap().starts_with("TARGET is `demo`"));
        assert_eq!(hinted("call demo"), None);
        assert_eq!(hinted("tools demo -y"), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_without_dashes_is_hinted_at() {
        assert!(hinted("tools sh -y x").unwrap().ends_with("`-- sh ...`"));
    }
}
