//! Splits a line into words as shells do, with quotes and backslashes.

/// Splits a line into words.
///
/// # Errors
/// A quote that is not closed.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let tokens = tokenize(line);
    match tokens.open_quote {
        Some(quote) => Err(format!("missing closing quote {quote}")),
        None => Ok(tokens.words.into_iter().map(|word| word.text).collect()),
    }
}

/// The word at the cursor, and the words before it.
pub(super) struct CursorWords {
    pub(super) before: Vec<String>,
    pub(super) word: String,
    /// Byte offset of the word.
    pub(super) start: usize,
}

/// Returns the words up to a position.
pub(super) fn at_cursor(line: &str, position: usize) -> CursorWords {
    let line = line.get(..position).unwrap_or(line);
    let mut words = tokenize(line).words;
    let current = words.pop_if(|word| word.end == line.len());
    CursorWords {
        before: words.into_iter().map(|word| word.text).collect(),
        start: current.as_ref().map_or(line.len(), |word| word.start),
        word: current.map(|word| word.text).unwrap_or_default(),
    }
}

/// Quotes a word so that `split` returns it unchanged.
pub(super) fn quote(word: &str) -> String {
    let plain = |character: char| !character.is_whitespace() && !matches!(character, '\'' | '"' | '\\');
    match word.chars().all(plain) {
        true => word.to_owned(),
        false if word.contains('\'') => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => format!("'{word}'"),
    }
}

struct Tokens {
    words: Vec<ShellToken>,
    /// A quote that is not closed.
    open_quote: Option<char>,
}

struct ShellToken {
    text: String,
    start: usize,
    end: usize,
}

fn tokenize(line: &str) -> Tokens {
    let mut words = Vec::new();
    let mut word: Option<ShellToken> = None;
    let mut quote = None;
    let mut escaped = false;
    for (offset, character) in line.char_indices() {
        if quote.is_none() && !escaped && character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let current = word.get_or_insert_with(|| ShellToken { text: String::new(), start: offset, end: offset });
        current.end = offset + character.len_utf8();
        match (character, quote) {
            _ if escaped => {
                current.text.push(character);
                escaped = false;
            }
            ('\\', None | Some('"')) => escaped = true,
            (quote_mark, Some(open)) if quote_mark == open => quote = None,
            ('\'' | '"', None) => quote = Some(character),
            _ => current.text.push(character),
        }
    }
    words.extend(word);
    Tokens { words, open_quote: quote }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quotes_and_backslashes_keep_words_together() {
        assert_eq!(
            split(r#"call add  a=1 'b=x y' "c=\"z\"" d\ e"#).unwrap(),
            ["call", "add", "a=1", "b=x y", "c=\"z\"", "d e"]
        );
        assert_eq!(split("").unwrap(), [""; 0]);
        assert_eq!(split("''").unwrap(), [""]);
        assert_eq!(split("say \"oh").unwrap_err(), "missing closing quote \"");
    }

    #[test]
    fn the_word_at_the_cursor_is_separate() {
        let words_of = |line: &str| {
            let typed = at_cursor(line, line.len());
            (typed.before.join("|"), typed.word, typed.start)
        };
        assert_eq!(words_of("ca"), (String::new(), "ca".to_owned(), 0));
        assert_eq!(words_of("call ad"), ("call".to_owned(), "ad".to_owned(), 5));
        assert_eq!(words_of("call add "), ("call|add".to_owned(), String::new(), 9));
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word(word in "\\PC+") {
            prop_assert_eq!(split(&quote(&word)).unwrap(), [word]);
        }

        #[test]
        fn any_line_is_split(line in any::<String>(), position in 0..64_usize) {
            let _ = split(&line);
            let _ = at_cursor(&line, position);
        }
    }
}
