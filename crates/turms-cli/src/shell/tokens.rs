//! A line, cut into words as shells do: quotes and backslashes keep spaces together.

/// The words of a line.
///
/// # Errors
/// When a quote is not closed.
pub(super) fn split(line: &str) -> Result<Vec<String>, String> {
    let cut = cut(line);
    match cut.open {
        Some(quote) => Err(format!("the quote {quote} is not closed")),
        None => Ok(cut.words.into_iter().map(|word| word.text).collect()),
    }
}

/// The words before a place in a line, and the one that is being typed there.
pub(super) struct Typed {
    pub(super) before: Vec<String>,
    pub(super) word: String,
    /// Where the word begins.
    pub(super) start: usize,
}

/// What has been typed up to a place.
pub(super) fn typed(line: &str, position: usize) -> Typed {
    let line = line.get(..position).unwrap_or(line);
    let mut words = cut(line).words;
    let within = words.pop_if(|word| word.end == line.len());
    Typed {
        before: words.into_iter().map(|word| word.text).collect(),
        start: within.as_ref().map_or(line.len(), |word| word.start),
        word: within.map(|word| word.text).unwrap_or_default(),
    }
}

/// A word that `split` reads as one.
pub(super) fn quoted(word: &str) -> String {
    let plain = |character: char| !character.is_whitespace() && !matches!(character, '\'' | '"' | '\\');
    match word.chars().all(plain) {
        true => word.to_owned(),
        false if word.contains('\'') => format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")),
        false => format!("'{word}'"),
    }
}

struct Cut {
    words: Vec<Word>,
    /// A quote that is not closed.
    open: Option<char>,
}

struct Word {
    text: String,
    start: usize,
    end: usize,
}

fn cut(line: &str) -> Cut {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    let mut escaped = false;
    for (at, character) in line.char_indices() {
        if quote.is_none() && !escaped && character.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let current = word.get_or_insert_with(|| Word { text: String::new(), start: at, end: at });
        current.end = at + character.len_utf8();
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
    Cut { words, open: quote }
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
        assert_eq!(split("say \"oh").unwrap_err(), "the quote \" is not closed");
    }

    #[test]
    fn the_word_that_is_being_typed_is_told_from_those_before() {
        let typed_at = |line: &str| {
            let typed = typed(line, line.len());
            (typed.before.join("|"), typed.word, typed.start)
        };
        assert_eq!(typed_at("ca"), (String::new(), "ca".to_owned(), 0));
        assert_eq!(typed_at("call ad"), ("call".to_owned(), "ad".to_owned(), 5));
        assert_eq!(typed_at("call add "), ("call|add".to_owned(), String::new(), 9));
    }

    proptest! {
        #[test]
        fn a_quoted_word_is_one_word(word in "\\PC+") {
            prop_assert_eq!(split(&quoted(&word)).unwrap(), [word]);
        }

        #[test]
        fn no_line_is_too_odd_to_be_cut(line in any::<String>(), position in 0..64_usize) {
            let _ = split(&line);
            let _ = typed(&line, position);
        }
    }
}
