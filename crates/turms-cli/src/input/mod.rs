//! Who answers what a server asks: the person at the terminal, a file, or nobody.

mod answers_file;
mod form;
mod terminal_prompt;

use std::path::Path;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use turms::Answers;
use turms::client::Roots;
use turms::types::Root;

pub(crate) use self::form::{Filled, ask_for};
pub(crate) use self::terminal_prompt::Person;
use crate::error::{Done, Failure};

/// Answers out of a file if there is one, or by the person if there is a terminal. Nobody is a fine answer, too: what is not
/// declared is not asked.
pub(crate) fn answers(file: Option<&Path>, person: Option<&Person>) -> Done<Answers> {
    Ok(match (file, person) {
        (Some(file), _) => answers_file::Script::read(file)?.answers(),
        (None, Some(person)) => person.answers(),
        (None, None) => Answers::new(),
    })
}

/// The roots that were named, by path or by URI.
pub(crate) fn roots(named: &[String]) -> Done<Roots> {
    Ok(Roots::new(named.iter().map(|name| root(name)).collect::<Done<Vec<_>>>()?))
}

/// The characters that are percent-encoded in the path of a `file:` URI.
const NOT_IN_PATH: AsciiSet =
    NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b':');

/// A root by its path, or by its URI.
pub(crate) fn root(name: &str) -> Done<Root> {
    if name.contains("://") {
        return Ok(Root::new(name));
    }
    let path =
        std::path::absolute(name).map_err(|error| Failure::usage(format!("{name:?} cannot be a root: {error}")))?;
    let Some(text) = path.to_str() else { return Err(Failure::usage(format!("{name:?} is not Unicode"))) };
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
    fn a_path_becomes_a_uri() {
        let root = root("/srv/my project").unwrap();
        assert_eq!((root.uri.as_str(), root.name.as_deref()), ("file:///srv/my%20project", Some("my project")));
        assert_eq!(super::root("file:///a").unwrap().uri, "file:///a");
    }
}
