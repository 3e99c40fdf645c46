//! Text that somebody else wrote, made fit to be shown.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text with its control characters escaped, so that a terminal shows them instead of obeying them. Both kinds are: those
/// below the space, and those from U+007F to U+009F, which JSON does not escape.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(escape_control("\u{1b}[2Jhi\u{9b}1m\u{7f}"), "\\u{1b}[2Jhi\\u{9b}1m\\u{7f}");
        assert!(matches!(escape_control("caf\u{e9}"), Cow::Borrowed(_)));
        assert_eq!(escape_control("a\tb"), "a\tb");
    }
}
