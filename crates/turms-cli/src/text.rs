//! Styled text for a terminal, with control characters escaped.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Style of a span. Colours never carry meaning alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    #[default]
    Plain,
    Name,
    Dim,
    Warning,
    Error,
    Hint,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => "\x1b[1m",
            Self::Dim => "\x1b[2m",
            Self::Warning => "\x1b[33m",
            Self::Error => "\x1b[1;31m",
            Self::Hint => "\x1b[36m",
        }
    }
}

/// Text of styled spans, which may have several lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct StyledText(Vec<(Style, String)>);

impl StyledText {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    #[must_use]
    pub(crate) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    #[must_use]
    pub(crate) fn plain(self, text: impl Into<String>) -> Self {
        self.with(Style::Plain, text)
    }

    #[must_use]
    pub(crate) fn name(self, text: impl Into<String>) -> Self {
        self.with(Style::Name, text)
    }

    #[must_use]
    pub(crate) fn dim(self, text: impl Into<String>) -> Self {
        self.with(Style::Dim, text)
    }

    /// Renders the text. The only escape sequences in it are those of the styles.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut rendered = String::new();
        for (style, text) in &self.0 {
            let escaped = escape(text);
            match style.code() {
                code if colour && !code.is_empty() => {
                    // A style ends with its line, so that tools that process single lines keep it intact.
                    for (index, line) in escaped.split('\n').enumerate() {
                        if index > 0 {
                            rendered.push('\n');
                        }
                        if !line.is_empty() {
                            let _ = write!(rendered, "{code}{line}\x1b[0m");
                        }
                    }
                }
                _ => rendered.push_str(&escaped),
            }
        }
        rendered
    }
}

impl<T: Into<String>> From<T> for StyledText {
    fn from(text: T) -> Self {
        Self::new().plain(text)
    }
}

/// Escapes characters that control a terminal or are invisible: control characters except line feed and tab, bidirectional
/// formatting characters, and zero-width and tag characters, which can hide instructions from people.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => escaped.push_str("\\r"),
            _ if is_printable(character) => escaped.push(character),
            _ => drop(write!(escaped, "{}", character.escape_unicode())),
        }
    }
    Cow::Owned(escaped)
}

/// Escapes text as [`escape`] does, on one line.
pub(crate) fn escape_line(text: &str) -> String {
    escape(text).replace('\n', "\\n").replace('\t', " ")
}

/// Escapes the same characters in JSON, as `\uXXXX`. The value does not change.
pub(crate) fn escape_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_printable) {
        return Cow::Borrowed(json);
    }
    let mut escaped = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        // Carriage returns between values are whitespace.
        if is_printable(character) || character == '\r' {
            escaped.push(if character == '\r' { ' ' } else { character });
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(escaped)
}

/// Returns JSON on one line. Whitespace between values is removed if it contains line breaks.
pub(crate) fn json_line(json: &str) -> Cow<'_, str> {
    let json = json.trim();
    if !json.contains(['\n', '\r']) {
        return Cow::Borrowed(json);
    }
    let (mut in_string, mut escaped) = (false, false);
    let keep = |character: &char| {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
        in_string || !character.is_ascii_whitespace()
    };
    Cow::Owned(json.chars().filter(keep).collect())
}

fn is_printable(character: char) -> bool {
    match character {
        '\n' | '\t' => true,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}' => false,
        '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fff9}'..='\u{fffb}' => false,
        '\u{e0000}'..='\u{e007f}' => false,
        _ => !character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escape("\u{1b}[2Jhi\u{9b}1m\u{7f}\u{7}"), "\\u{1b}[2Jhi\\u{9b}1m\\u{7f}\\u{7}");
        assert_eq!(escape("over\rwritten"), "over\\rwritten");
        assert_eq!(escape("one\r\ntwo\tthree"), "one\ntwo\tthree");
        assert_eq!(escape("a\u{202e}b\u{e0041}"), "a\\u{202e}b\\u{e0041}");
        assert!(matches!(escape("caf\u{e9} \u{1f469}\u{200d}\u{1f680}"), Cow::Borrowed(_)));
        assert_eq!(escape_line("one\ntwo"), "one\\ntwo");
    }

    #[test]
    fn styles_end_at_line_breaks_and_need_colour() {
        let text = StyledText::new().name("a\nb").plain("c");
        assert_eq!(text.render(true), "\u{1b}[1ma\u{1b}[0m\n\u{1b}[1mb\u{1b}[0mc");
        assert_eq!(text.render(false), "a\nbc");
    }

    proptest! {
        #[test]
        fn escaped_text_has_no_control_characters(text in any::<String>()) {
            let escaped = escape(&text);
            prop_assert!(escaped.chars().all(is_printable));
            prop_assert!(escaped.chars().all(|character| !character.is_control() || matches!(character, '\n' | '\t')));
        }

        #[test]
        fn without_colour_there_are_no_escape_sequences(text in any::<String>()) {
            let rendered = StyledText::new().name(text).render(false);
            prop_assert!(!rendered.contains('\x1b'));
        }

        #[test]
        fn json_on_one_line_has_the_same_value(texts in proptest::collection::vec(any::<String>(), 0..4)) {
            let pretty = serde_json::to_string_pretty(&texts).unwrap();
            let line = json_line(&pretty);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), texts);
        }

        #[test]
        fn escaped_json_has_the_same_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let escaped = escape_json(&json);
            prop_assert!(escaped.chars().all(is_printable));
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
