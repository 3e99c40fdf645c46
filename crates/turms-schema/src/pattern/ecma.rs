//! Translation of ECMA-262 patterns into the syntax of `regex-syntax`, in one pass.
//!
//! `jsonschema-regex` has a translation too, but it parses the pattern again for every `\d`, which is quadratic, and
//! keeps the Rust meaning of `.` and `\b`. Only its syntax check is used here (see [`is_valid`]).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Reason why a valid pattern cannot be matched in linear time, or not in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsupported {
    LookAround,
    BackReference,
    Modifiers,
    Surrogate,
}

impl Unsupported {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Self::LookAround => "look-around ((?=…), (?!…), (?<=…), (?<!…))",
            Self::BackReference => "a back-reference",
            Self::Modifiers => "modifiers ((?i:…))",
            Self::Surrogate => "an unpaired surrogate",
        }
    }
}

/// Returns `true` for a regular expression of ECMA-262. As without the `u` flag, unmatched braces and brackets are
/// literals.
pub(crate) fn is_valid(pattern: &str) -> bool {
    jsonschema_regex::is_valid_ecma_regex(pattern)
        || pattern.contains(['{', '}', ']']) && jsonschema_regex::is_valid_ecma_regex(&escape_braces(pattern))
}

/// Returns the steps of [`is_valid`], which searches the name of a group among all open groups and all other names.
pub(crate) fn validity_steps(pattern: &str) -> u64 {
    let names = memchr::memmem::find_iter(pattern.as_bytes(), "?<").count() as u64;
    let groups = memchr::memchr_iter(b'(', pattern.as_bytes()).count() as u64;
    let references = memchr::memmem::find_iter(pattern.as_bytes(), "\\k").count() as u64;
    4 * pattern.len() as u64 + names.saturating_mul(groups + references)
}

/// Escapes braces and brackets that are literals.
fn escape_braces(pattern: &str) -> Cow<'_, str> {
    let mut escaped = String::with_capacity(pattern.len() + 16);
    let mut is_in_class = false;
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '\\' => length = escape_length(rest),
            '[' if !is_in_class => is_in_class = true,
            ']' if is_in_class => is_in_class = false,
            '{' if !is_in_class => match quantifier(rest) {
                Some(quantifier) => length = quantifier.len(),
                None => escaped.push('\\'),
            },
            '}' | ']' if !is_in_class => escaped.push('\\'),
            _ => {}
        }
        escaped.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Cow::Owned(escaped)
}

/// Maximum length of an escape with braces. Names of properties are shorter.
const MAX_NAME: usize = 128;

/// Returns the length of the escape at the start of a text, including its braces.
fn escape_length(text: &str) -> usize {
    let after = text[1..].chars().next().map_or(1, |letter| 1 + letter.len_utf8());
    let has_braces = matches!(text.as_bytes().get(1), Some(b'p' | b'P' | b'u')) && text[after..].starts_with('{');
    let end = text.bytes().take(MAX_NAME).position(|byte| byte == b'}').filter(|_| has_braces);
    end.map_or(after, |end| end + 1)
}

/// Returns the quantifier (`{2}`, `{2,}`, `{2,3}`) at the start of a text, if there is one.
fn quantifier(text: &str) -> Option<&str> {
    let inside = text.strip_prefix('{')?;
    let length = inside.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
    let (min, max) = inside[..length].split_once(',').unwrap_or((&inside[..length], ""));
    (!min.is_empty() && !max.contains(',') && inside[length..].starts_with('}')).then(|| &text[..length + 2])
}

/// Translates a valid pattern.
///
/// # Errors
/// If it requires more than a finite automaton.
pub(crate) fn translate(pattern: &str) -> Result<String, Unsupported> {
    let mut translator = Translator { rest: pattern, out: String::with_capacity(pattern.len() * 2) };
    while !translator.rest.is_empty() {
        if let Some(quantifier) = quantifier(translator.rest) {
            translator.out.push_str(quantifier);
            translator.rest = &translator.rest[quantifier.len()..];
        } else if let Some(first) = translator.next() {
            translator.outside_class(first)?;
        }
    }
    Ok(translator.out)
}

const DIGIT: &str = "0-9";
const WORD: &str = "A-Za-z0-9_";
const SPACE: &str = r"\x{9}-\x{d}\x{20}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}";
const LINE_END: &str = r"\x{a}\x{d}\x{2028}\x{2029}";
const ANY: &str = r"\x{0}-\x{10ffff}";

struct Translator<'a> {
    rest: &'a str,
    out: String,
}

/// An element of a class.
enum Atom {
    Char(u32),
    /// Several characters, as a nested class.
    Set(String),
}

impl<'a> Translator<'a> {
    fn next(&mut self) -> Option<char> {
        let first = self.rest.chars().next()?;
        self.rest = &self.rest[first.len_utf8()..];
        Some(first)
    }

    fn eat(&mut self, expected: &str) -> bool {
        let rest = self.rest.strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Returns the text up to a character, and skips both.
    fn until(&mut self, end: char) -> &'a str {
        let (inside, rest) = self.rest.split_once(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        inside
    }

    fn outside_class(&mut self, first: char) -> Result<(), Unsupported> {
        match first {
            '\\' => return self.escape_outside_class(),
            '[' => return self.class(),
            '(' => return self.group(),
            '.' => self.class_of(true, LINE_END),
            '{' | '}' | ']' => self.char(first.into()),
            other => self.out.push(other),
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), Unsupported> {
        self.out.push_str("(?:");
        if !self.eat("?") || self.eat(":") {
            return Ok(());
        }
        if ["=", "!", "<=", "<!"].iter().any(|start| self.rest.starts_with(start)) {
            return Err(Unsupported::LookAround);
        }
        if !self.eat("<") {
            return Err(Unsupported::Modifiers);
        }
        self.until('>');
        Ok(())
    }

    fn escape_outside_class(&mut self) -> Result<(), Unsupported> {
        match self.rest.as_bytes().first() {
            Some(b'b') => self.out.push_str(r"(?-u:\b)"),
            Some(b'B') => self.out.push_str(r"(?-u:\B)"),
            Some(b'k' | b'1'..=b'9') => return Err(Unsupported::BackReference),
            _ => {
                match self.escape()? {
                    Atom::Char(code) => self.char(code),
                    Atom::Set(set) => self.out.push_str(&set),
                }
                return Ok(());
            }
        }
        self.next();
        Ok(())
    }

    fn class(&mut self) -> Result<(), Unsupported> {
        let is_negated = self.eat("^");
        if self.eat("]") {
            self.class_of(!is_negated, ANY);
            return Ok(());
        }
        self.out.push_str(if is_negated { "[^" } else { "[" });
        while !self.rest.is_empty() && !self.eat("]") {
            let from = self.atom()?;
            let is_range = self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
            if !is_range {
                self.add(from);
                continue;
            }
            self.next();
            match (from, self.atom()?) {
                (Atom::Char(from), Atom::Char(to)) => {
                    self.char(from);
                    self.out.push('-');
                    self.char(to);
                }
                (from, to) => [from, Atom::Char('-'.into()), to].into_iter().for_each(|atom| self.add(atom)),
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn atom(&mut self) -> Result<Atom, Unsupported> {
        match self.next() {
            Some('\\') if self.eat("b") => Ok(Atom::Char(8)),
            Some('\\') => self.escape(),
            first => Ok(Atom::Char(first.map_or(0, u32::from))),
        }
    }

    fn add(&mut self, atom: Atom) {
        match atom {
            Atom::Char(code) => self.char(code),
            Atom::Set(set) => self.out.push_str(&set),
        }
    }

    /// Translates an escape with the same meaning inside and outside of a class.
    fn escape(&mut self) -> Result<Atom, Unsupported> {
        let set = |is_negated, inside: &str| Ok(Atom::Set(format!("[{}{inside}]", if is_negated { "^" } else { "" })));
        let code = match self.next() {
            Some(class @ ('d' | 'D')) => return set(class == 'D', DIGIT),
            Some(class @ ('w' | 'W')) => return set(class == 'W', WORD),
            Some(class @ ('s' | 'S')) => return set(class == 'S', SPACE),
            Some(class @ ('p' | 'P')) => {
                self.eat("{");
                return Ok(Atom::Set(format!("\\{class}{{{}}}", self.until('}'))));
            }
            Some('c') => self.next().map_or(0, |letter| u32::from(letter) % 32),
            Some('0') => 0,
            Some('f') => 0xc,
            Some('n') => 0xa,
            Some('r') => 0xd,
            Some('t') => 9,
            Some('v') => 0xb,
            Some('x') => self.hex(2),
            Some('u') => return self.unicode().map(Atom::Char),
            other => other.map_or(0, u32::from),
        };
        Ok(Atom::Char(code))
    }

    fn unicode(&mut self) -> Result<u32, Unsupported> {
        if self.eat("{") {
            let code = u32::from_str_radix(self.until('}'), 16).unwrap_or(u32::MAX);
            return char::from_u32(code).map(u32::from).ok_or(Unsupported::Surrogate);
        }
        let code = self.hex(4);
        if !(0xd800..0xe000).contains(&code) {
            return Ok(code);
        }
        if code < 0xdc00 && self.eat("\\u") {
            let low = self.hex(4);
            if (0xdc00..0xe000).contains(&low) {
                return Ok(0x1_0000 + ((code - 0xd800) << 10) + (low - 0xdc00));
            }
        }
        Err(Unsupported::Surrogate)
    }

    fn hex(&mut self, digits: usize) -> u32 {
        let (number, rest) = self.rest.split_at_checked(digits).unwrap_or((self.rest, ""));
        self.rest = rest;
        u32::from_str_radix(number, 16).unwrap_or_default()
    }

    fn char(&mut self, code: u32) {
        // Writing to a `String` cannot fail.
        let _ = write!(self.out, "\\x{{{code:x}}}");
    }

    fn class_of(&mut self, is_negated: bool, inside: &str) {
        self.out.push_str(if is_negated { "[^" } else { "[" });
        self.out.push_str(inside);
        self.out.push(']');
    }
}
