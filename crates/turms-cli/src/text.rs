//! Text that goes to a terminal: spans with a style, whose content is shown and never obeyed.

use std::borrow::Cow;
use std::fmt::Write as _;

/// What a span looks like, where colours are shown. None of it carries meaning alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Style {
    #[default]
    Plain,
    Name,
    Faint,
    Warning,
    Bad,
    Hint,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Name => "\x1b[1m",
            Self::Faint => "\x1b[2m",
            Self::Warning => "\x1b[33m",
            Self::Bad => "\x1b[1;31m",
            Self::Hint => "\x1b[36m",
        }
    }
}

/// Spans of text, which may have several lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Text(Vec<(Style, String)>);

impl Text {
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
    pub(crate) fn faint(self, text: impl Into<String>) -> Self {
        self.with(Style::Faint, text)
    }

    /// As it is written to a terminal or a file: the only escape sequences in it are those of our own styles.
    pub(crate) fn render(&self, colour: bool) -> String {
        let mut rendered = String::new();
        for (style, text) in &self.0 {
            let shown = shown(text);
            match style.code() {
                code if colour && !code.is_empty() => {
                    // A style ends with its line, so that a reader that cuts lines cuts no style.
                    for (index, line) in shown.split('\n').enumerate() {
                        if index > 0 {
                            rendered.push('\n');
                        }
                        if !line.is_empty() {
                            let _ = write!(rendered, "{code}{line}\x1b[0m");
                        }
                    }
                }
                _ => rendered.push_str(&shown),
            }
        }
        rendered
    }
}

impl<T: Into<String>> From<T> for Text {
    fn from(text: T) -> Self {
        Self::new().plain(text)
    }
}

/// The text with everything escaped that a terminal would obey, or that a person would not see: control characters (all but
/// line feed and tab), marks that turn the direction of writing, and characters without a shape, with which instructions can
/// be hidden from people.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\r' => shown.push_str("\\r"),
            _ if is_harmless(character) => shown.push(character),
            _ => drop(write!(shown, "{}", character.escape_unicode())),
        }
    }
    Cow::Owned(shown)
}

/// The same on one line.
pub(crate) fn shown_line(text: &str) -> String {
    shown(text).replace('\n', "\\n").replace('\t', " ")
}

/// JSON with the same characters escaped as JSON escapes them: the value stays what it is.
pub(crate) fn shown_json(json: &str) -> Cow<'_, str> {
    if json.chars().all(is_harmless) {
        return Cow::Borrowed(json);
    }
    let mut shown = String::with_capacity(json.len() + 16);
    for character in json.chars() {
        // Between values JSON has carriage returns of its own.
        if is_harmless(character) || character == '\r' {
            shown.push(if character == '\r' { ' ' } else { character });
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        }
    }
    Cow::Owned(shown)
}

/// JSON on one line: without the space between values, if that has lines.
pub(crate) fn json_line(json: &str) -> Cow<'_, str> {
    let json = json.trim();
    if !json.contains(['\n', '\r']) {
        return Cow::Borrowed(json);
    }
    let (mut in_string, mut escaped) = (false, false);
    let stays = |character: &char| {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
        in_string || !character.is_ascii_whitespace()
    };
    Cow::Owned(json.chars().filter(stays).collect())
}

fn is_harmless(character: char) -> bool {
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
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(shown("\u{1b}[2Jhi\u{9b}1m\u{7f}\u{7}"), "\\u{1b}[2Jhi\\u{9b}1m\\u{7f}\\u{7}");
        assert_eq!(shown("over\rwritten"), "over\\rwritten");
        assert_eq!(shown("one\r\ntwo\tthree"), "one\ntwo\tthree");
        assert_eq!(shown("a\u{202e}b\u{e0041}"), "a\\u{202e}b\\u{e0041}");
        assert!(matches!(shown("caf\u{e9} \u{1f469}\u{200d}\u{1f680}"), Cow::Borrowed(_)));
        assert_eq!(shown_line("one\ntwo"), "one\\ntwo");
    }

    #[test]
    fn styles_end_with_their_lines_and_vanish_without_colour() {
        let text = Text::new().name("a\nb").plain("c");
        assert_eq!(text.render(true), "\u{1b}[1ma\u{1b}[0m\n\u{1b}[1mb\u{1b}[0mc");
        assert_eq!(text.render(false), "a\nbc");
    }

    proptest! {
        #[test]
        fn nothing_that_steers_a_terminal_gets_through(text in any::<String>()) {
            let shown = shown(&text);
            prop_assert!(shown.chars().all(is_harmless));
            prop_assert!(shown.chars().all(|character| !character.is_control() || matches!(character, '\n' | '\t')));
        }

        #[test]
        fn without_colour_no_text_can_bring_a_style(text in any::<String>()) {
            let rendered = Text::new().name(text).render(false);
            prop_assert!(!rendered.contains('\x1b'));
        }

        #[test]
        fn json_on_one_line_keeps_its_value(texts in proptest::collection::vec(any::<String>(), 0..4)) {
            let pretty = serde_json::to_string_pretty(&texts).unwrap();
            let line = json_line(&pretty);
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&line).unwrap(), texts);
        }

        #[test]
        fn json_keeps_its_value(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let shown = shown_json(&json);
            prop_assert!(shown.chars().all(is_harmless));
            prop_assert_eq!(serde_json::from_str::<String>(&shown).unwrap(), text);
        }
    }
}
