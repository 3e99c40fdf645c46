//! JSON with comments and trailing commas.
//!
//! Both are overwritten with spaces before parsing, so that every byte keeps its offset and errors point at the right
//! line and column of the file. Existing crates for this are complete parsers, several times as long as this module,
//! and would need their own limit on nesting.

/// Error for a `/*` without `*/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UnclosedComment {
    /// The offset of the `/*` in bytes.
    pub(super) offset: usize,
}

/// Replaces comments and trailing commas by spaces. The length in bytes does not change.
///
/// Other syntax errors are left for the parser to report.
pub(super) fn blank(text: &str) -> Result<String, UnclosedComment> {
    let mut plain = String::with_capacity(text.len());
    // `last` is the last token that is not a comment; `comma` is the offset of a comma that may be a trailing one.
    let mut last = Token::Open;
    let mut comma = None;
    while let Some((token, length)) = next_token(&text[plain.len()..]) {
        let start = plain.len();
        let source = &text[start..start + length];
        match token {
            Token::Space => plain.push_str(source),
            Token::Comment => plain.extend(std::iter::repeat_n(' ', length)),
            Token::Unclosed => return Err(UnclosedComment { offset: start }),
            Token::Open | Token::Comma | Token::Close | Token::Other => {
                if let (Token::Close, Some(at)) = (token, comma) {
                    plain.replace_range(at..=at, " ");
                }
                // A comma needs an item before it: `[,]` is invalid.
                comma = (token == Token::Comma && matches!(last, Token::Close | Token::Other)).then_some(start);
                last = token;
                plain.push_str(source);
            }
        }
    }
    Ok(plain)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Space,
    Comment,
    /// A comment without an end.
    Unclosed,
    /// A bracket or a colon: something has to follow.
    Open,
    Comma,
    Close,
    /// A string, or a run of anything else.
    Other,
}

/// Returns the first token of `text` and its length, which is never 0; `None` at the end.
fn next_token(text: &str) -> Option<(Token, usize)> {
    let run = |end: Option<usize>| end.unwrap_or(text.len());
    Some(match text.as_bytes() {
        [] => return None,
        [b' ' | b'\t' | b'\n' | b'\r', ..] => {
            (Token::Space, run(text.find(|c| !matches!(c, ' ' | '\t' | '\n' | '\r'))))
        }
        [b'/', b'/', ..] => (Token::Comment, run(text.find(['\n', '\r']))),
        [b'/', b'*', ..] => match text[2..].find("*/") {
            Some(end) => (Token::Comment, end + 4),
            None => (Token::Unclosed, text.len()),
        },
        [b'"', ..] => (Token::Other, string_length(text)),
        [b'{' | b'[' | b':', ..] => (Token::Open, 1),
        [b'}' | b']', ..] => (Token::Close, 1),
        [b',', ..] => (Token::Comma, 1),
        // A single slash is not a comment. The JSON parser will reject it.
        [b'/', ..] => (Token::Other, 1),
        _ => (Token::Other, run(text.find([' ', '\t', '\n', '\r', '/', '"', '{', '}', '[', ']', ':', ',']))),
    })
}

/// Returns the length of the string literal at the beginning of `text`.
///
/// A line break also ends it: JSON strings cannot contain one, so the parser will report an error there.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '\n' | '\r' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn blanked(text: &str) -> String {
        blank(text).unwrap()
    }

    #[test]
    fn comments_become_spaces() {
        assert_eq!(blanked("1 // é\n"), "1      \n");
        assert_eq!(blanked("[/* a\nb */1/**/]"), "[         1    ]");
        assert_eq!(blanked("1 //"), "1   ");
        assert_eq!(blanked("/***/1/*/ */"), "     1      ");
    }

    #[test]
    fn trailing_commas_become_spaces() {
        assert_eq!(blanked("[1, 2 , ]"), "[1, 2   ]");
        assert_eq!(blanked("{\"a\": [1,],}"), "{\"a\": [1 ] }");
        assert_eq!(blanked("[1, // last\n]"), "[1         \n]");
    }

    #[test]
    fn other_commas_stay_for_the_parser_to_refuse() {
        for text in ["[,]", "{,}", "[1,,2]", "{\"a\":,}", ",", "[1],"] {
            assert_eq!(blanked(text), text);
        }
        assert_eq!(blanked("[1,,]"), "[1,,]");
    }

    #[test]
    fn what_looks_like_a_comment_in_a_string_is_text() {
        for text in [r#""http://x""#, r#""/* \" // */""#, r#"["a,]",",}"]"#, r#""\\""#] {
            assert_eq!(blanked(text), text);
        }
    }

    #[test]
    fn a_string_without_an_end_does_not_swallow_the_next_line() {
        assert_eq!(blanked("\"a // b\n1 // c"), "\"a // b\n1     ");
    }

    #[test]
    fn a_comment_without_an_end_is_an_error_at_its_start() {
        assert_eq!(blank("[1] /* *"), Err(UnclosedComment { offset: 4 }));
        assert_eq!(blank("/*/"), Err(UnclosedComment { offset: 0 }));
    }

    #[test]
    fn many_trailing_commas_take_no_longer_than_the_text() {
        let text = "[1,]".repeat(100_000);
        assert_eq!(blanked(&text), "[1 ]".repeat(100_000));
    }

    fn any_string() -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop::sample::select(vec!["/", "*", "//", "/*", "*/", "\"", "\\", ",", "]", "}", "\n", "é", "a", "{", ":"]),
            0..12,
        )
        .prop_map(|pieces| pieces.concat())
    }

    fn any_gap() -> impl Strategy<Value = String> {
        let piece = prop::sample::select(vec!["", " ", "\n", "// \" ,]\n", "/* \" */", "/**/", "// é\r\n", "/* // */"]);
        prop::collection::vec(piece, 0..3).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn strings_are_never_changed(
            items in prop::collection::vec((any_gap(), any_string(), any_gap()), 1..6),
            comma in any::<bool>(),
        ) {
            let mut text = String::from("[");
            for (at, (before, string, after)) in items.iter().enumerate() {
                let literal = serde_json::Value::from(string.as_str()).to_string();
                let comma = if comma || at + 1 < items.len() { "," } else { "" };
                text.extend([before, &literal, after, comma, before]);
            }
            text.push(']');
            let strings: Vec<String> = serde_json::from_str(&blanked(&text)).unwrap();
            prop_assert!(strings.iter().eq(items.iter().map(|(_, string, _)| string)), "{}", text);
        }

        #[test]
        fn plain_json_stays_as_it_is(strings in prop::collection::vec(any_string(), 0..6)) {
            let text = serde_json::json!({ "a": strings, "b": [[], {}, 1.5, null] }).to_string();
            prop_assert_eq!(blanked(&text), text);
        }

        #[test]
        fn every_byte_keeps_its_place(text in any_string(), tail in any_gap()) {
            let text = text + &tail;
            if let Ok(plain) = blank(&text) {
                prop_assert_eq!(plain.len(), text.len());
                prop_assert!(plain.bytes().zip(text.bytes()).all(|(new, old)| new == old || new == b' '));
            }
        }
    }
}
