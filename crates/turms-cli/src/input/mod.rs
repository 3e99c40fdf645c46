//! Handlers for the server's input requests: from a file, or at the terminal.

mod answers_file;
mod form;
mod terminal_prompt;

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use turms::ClientBuilder;
use turms::client::Roots;
use turms::types::Root;

pub(crate) use self::form::{FormOutcome, fill_form};
pub(crate) use self::terminal_prompt::TerminalPrompt;
use crate::error::{CliError, CliResult};

/// Returns the handlers: from the answers file if there is one, or at the terminal. Without either there are none, and the
/// client does not declare the capabilities.
pub(crate) fn with_handlers(
    builder: ClientBuilder,
    file: Option<&Path>,
    terminal: Option<&TerminalPrompt>,
) -> CliResult<ClientBuilder> {
    Ok(match (file, terminal) {
        (Some(file), _) => answers_file::AnswersFile::read(file)?.with_handlers(builder),
        (None, Some(terminal)) => terminal.with_handlers(builder),
        (None, None) => builder,
    })
}

/// Returns the roots for paths or URIs.
pub(crate) fn roots(named: &[String]) -> CliResult<Roots> {
    Ok(Roots::new(named.iter().map(|name| root(name)).collect::<CliResult<Vec<_>>>()?))
}

/// The characters that are percent-encoded in the path of a `file:` URI.
const NOT_IN_PATH: AsciiSet =
    NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// Returns the root for a path or a URI.
pub(crate) fn root(name: &str) -> CliResult<Root> {
    if name.contains("://") {
        return Ok(Root::new(name));
    }
    let path = std::path::absolute(name)
        .map_err(|error| CliError::usage(format!("cannot use {name:?} as a root: {error}")))?;
    let Some(text) = path.to_str() else {
        return Err(CliError::usage(format!("cannot use {name:?} as a root: the path is not UTF-8")));
    };
    let mut uri = String::from("file://");
    if !text.starts_with('/') {
        uri.push('/');
    }
    uri.extend(utf8_percent_encode(&text.replace('\\', "/"), &NOT_IN_PATH));
    let root = Root::new(uri);
    Ok(match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.name(name),
        None => root,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_path_becomes_a_file_uri() {
        let root = root("/srv/my project").unwrap();
        assert_eq!((root.uri.as_str(), root.name.as_deref()), ("file:///srv/my%20project", Some("my project")));
        assert_eq!(super::root("file:///a").unwrap().uri, "file:///a");
    }
}
