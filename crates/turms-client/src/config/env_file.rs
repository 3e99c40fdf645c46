//! Files of environment variables, as in VS Code and Cursor (`envFile`).
//!
//! Every line is `NAME=value`, optionally preceded by `export`, or a comment that begins with `#`, or empty. A value in
//! single quotes is taken literally. In double quotes, `\n`, `\r`, `\"` and `\\` are escapes. Without quotes, `#`
//! begins a comment only after white space. Variables are not expanded.

use std::path::Path;

use super::error::EntryErrorKind;
use super::file;

/// Maximum size of a file.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Error for an invalid line. It does not contain the line, which may be a secret.
#[derive(Debug)]
pub(super) struct InvalidLine {
    /// The line number, starting at 1.
    pub(super) line: usize,
    pub(super) problem: &'static str,
}

impl InvalidLine {
    fn new(line: usize, problem: &'static str) -> Self {
        Self { line, problem }
    }

    fn no_assignment(line: usize) -> Self {
        Self::new(line, "expected NAME=value")
    }
}

/// Reads the variables of a file, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<(String, String)>, EntryErrorKind> {
    let text = file::read(path, MAX_FILE_BYTES)
        .map_err(|source| EntryErrorKind::ReadEnvFile { path: path.to_owned(), source })?;
    parse(&text).map_err(|InvalidLine { line, problem }| EntryErrorKind::EnvFileSyntax {
        path: path.to_owned(),
        line,
        problem,
    })
}

fn parse(text: &str) -> Result<Vec<(String, String)>, InvalidLine> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut variables = Vec::new();
    for (line, content) in (1..).zip(text.lines().map(str::trim)) {
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if content.contains('\0') {
            return Err(InvalidLine::new(line, "has a NUL character"));
        }
        let (name, rest) = content.split_once('=').ok_or_else(|| InvalidLine::no_assignment(line))?;
        let name = strip_export(name).trim_end();
        if name.is_empty() || name.contains(char::is_whitespace) {
            return Err(InvalidLine::no_assignment(line));
        }
        variables.push((name.to_owned(), value(rest.trim_start(), line)?));
    }
    Ok(variables)
}

fn strip_export(name: &str) -> &str {
    match name.strip_prefix("export") {
        Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim_start(),
        _ => name,
    }
}

fn value(text: &str, line: usize) -> Result<String, InvalidLine> {
    let (value, rest) = match text.as_bytes().first() {
        Some(b'\'') => text[1..].split_once('\'').map(|(value, rest)| (value.to_owned(), rest)),
        Some(b'"') => double_quoted(&text[1..]),
        _ => return Ok(unquoted(text).to_owned()),
    }
    .ok_or_else(|| InvalidLine::new(line, "a quote is not closed"))?;
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(value)
    } else {
        Err(InvalidLine::new(line, "text after the closing quote"))
    }
}

fn unquoted(text: &str) -> &str {
    let mut before = ' ';
    let comment = text.char_indices().find(|&(_, character)| {
        let begins = character == '#' && before.is_whitespace();
        before = character;
        begins
    });
    comment.map_or(text, |(at, _)| &text[..at]).trim_end()
}

/// Returns the value before the closing quote, and the text after it. A backslash before any other character is
/// literal.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => {
                let mut ahead = characters.clone();
                let escape = match ahead.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some(same @ ('"' | '\\')) => same,
                    _ => {
                        value.push('\\');
                        continue;
                    }
                };
                value.push(escape);
                characters = ahead;
            }
            character => value.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap()
    }

    fn one(line: &str) -> String {
        let mut pairs = pairs(line);
        assert_eq!(pairs.len(), 1, "{line}");
        pairs.remove(0).1
    }

    #[test]
    fn lines_are_names_and_values() {
        let text = "\u{feff}# comment\r\nA=1\r\n\n  B = two words  \nexport C=3\nexport=4\nD=\n";
        let expected = [("A", "1"), ("B", "two words"), ("C", "3"), ("export", "4"), ("D", "")];
        assert_eq!(pairs(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn only_a_hash_after_white_space_begins_a_comment() {
        assert_eq!(one("A=pass#word # comment"), "pass#word");
        assert_eq!(one("A= # nothing"), "");
        assert_eq!(one("A=b=c"), "b=c");
    }

    #[test]
    fn quotes_keep_what_they_enclose() {
        assert_eq!(one(r"A='a # \n ' # comment"), r"a # \n ");
        assert_eq!(one(r#"A=" a\n\"b\" \\ \d # " # comment"#), " a\n\"b\" \\ \\d # ");
        assert_eq!(one("A=''"), "");
        assert_eq!(one("A=it's"), "it's");
    }

    #[test]
    fn what_is_no_assignment_is_an_error_that_tells_only_the_line() {
        for (text, message) in [
            ("A=1\ns3cret", "line 2: expected NAME=value"),
            ("=s3cret", "line 1: expected NAME=value"),
            ("s3 cret=1", "line 1: expected NAME=value"),
            ("A=\"s3cret\\\"", "line 1: a quote is not closed"),
            ("A='s3cret", "line 1: a quote is not closed"),
            ("A='x's3cret", "line 1: text after the closing quote"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(format!("line {}: {}", error.line, error.problem), message);
            assert!(!format!("{error:?}").contains("s3"));
        }
    }
}
