//! Safe display of text from other sources.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;

/// Escapes control characters, so that a terminal shows them instead of executing them: those below U+0020 except for tabs, and those
/// from U+007F to U+009F, which JSON does not escape.
#[must_use]
pub fn escape_control(text: &str) -> Cow<'_, str> {
    if !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character.is_control() && character != '\t' {
            true => drop(write!(shown, "{}", character.escape_unicode())),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Returns the message of an error and those of its causes: `a: b: c`. A cause that the text before it contains is not repeated.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&error| error.source()) {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape_control("\u{1b}[2Jhi\u{9b}1m\u{7f}"), "\\u{1b}[2Jhi\\u{9b}1m\\u{7f}");
        assert!(matches!(escape_control("caf\u{e9}"), Cow::Borrowed(_)));
        assert_eq!(escape_control("a\tb"), "a\tb");
    }

    #[derive(Debug, thiserror::Error)]
    enum Layered {
        #[error("cannot start")]
        Outer(#[source] Box<Self>),
        #[error("cannot read the index: {0}")]
        Repeated(#[source] std::num::ParseIntError),
    }

    #[test]
    fn causes_are_named_once() {
        let cause = "x".parse::<u8>().unwrap_err();
        let error = Layered::Outer(Box::new(Layered::Repeated(cause)));
        assert_eq!(error_chain(&error), "cannot start: cannot read the index: invalid digit found in string");
    }
}
