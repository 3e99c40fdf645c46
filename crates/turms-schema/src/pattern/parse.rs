//! Patterns as they are written (ECMA-262, 22.2.1).

use std::sync::Arc;

use super::PatternError;
use super::class::{Item, Set};

/// A pattern, or a part of one.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Empty,
    /// Shared by all that repeat it.
    Class(Arc<[Item]>, Negated),
    Start,
    End,
    WordBoundary(Negated),
    Sequence(Vec<Self>),
    Choice(Vec<Self>),
    Repeat(Box<Self>, u32, Option<u32>),
}

pub(super) type Negated = bool;

pub(super) struct Parsed {
    pub(super) whole: Expression,
    /// Whether it looks around or back.
    pub(super) needs_more: bool,
}

pub(super) fn parse(source: &str) -> Result<Parsed, PatternError> {
    let mut parser = Parser { source, at: 0, depth: 0, needs_more: false };
    let whole = parser.choice()?;
    match parser.peek() {
        None => Ok(Parsed { whole, needs_more: parser.needs_more }),
        Some(_) => Err(parser.error("\")\" closes nothing")),
    }
}

struct Parser<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
    needs_more: bool,
}

/// Deeper than this, groups are only skipped, so that the stack is bounded.
const DEEPEST: usize = 100;

/// Whatever is asked for more often is too large anyway.
const MOST: u32 = 100_000;

impl<'a> Parser<'a> {
    fn choice(&mut self) -> Result<Expression, PatternError> {
        let mut choices = vec![self.sequence()?];
        while self.take("|") {
            choices.push(self.sequence()?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { Expression::Choice(choices) })
    }

    fn sequence(&mut self) -> Result<Expression, PatternError> {
        let mut sequence = Vec::new();
        while let Some(next) = self.peek() {
            if matches!(next, '|' | ')') {
                break;
            }
            let term = self.term()?;
            match self.repeated(term)? {
                // Nothing is not repeated, or there would be no end to it.
                Expression::Empty => {}
                term => sequence.push(term),
            }
        }
        Ok(match sequence.len() {
            0 => Expression::Empty,
            1 => sequence.remove(0),
            _ => Expression::Sequence(sequence),
        })
    }

    fn term(&mut self) -> Result<Expression, PatternError> {
        let start = self.at;
        let Some(next) = self.next() else { return Ok(Expression::Empty) };
        Ok(match next {
            '^' => Expression::Start,
            '$' => Expression::End,
            '.' => Expression::Class([Item::Set(Set::LineEnd)].into(), true),
            '(' => return self.group(start),
            '[' => return self.class(),
            '\\' => return self.escape(start),
            '*' | '+' | '?' => return Err(PatternError { offset: start, problem: "nothing to repeat" }),
            '{' if self.bounds().is_some() => {
                return Err(PatternError { offset: start, problem: "nothing to repeat" });
            }
            character => single(character),
        })
    }

    fn group(&mut self, start: usize) -> Result<Expression, PatternError> {
        if self.take("?") {
            if ["=", "!", "<=", "<!"].into_iter().any(|look| self.take(look)) {
                self.needs_more = true;
            } else if self.take("<") {
                let name = self.until('>').filter(|name| is_name(name));
                name.ok_or(PatternError { offset: start, problem: "no such group" })?;
            } else if !self.take(":") {
                return Err(PatternError { offset: start, problem: "no such group" });
            }
        }
        self.depth += 1;
        let within = if self.depth > DEEPEST { self.skip_group()? } else { self.choice()? };
        self.depth -= 1;
        if self.take(")") { Ok(within) } else { Err(self.error("a group is not closed")) }
    }

    /// Passes over a group that is too deep to be understood.
    fn skip_group(&mut self) -> Result<Expression, PatternError> {
        self.needs_more = true;
        let mut open = 0_usize;
        while let Some(next) = self.peek() {
            match next {
                '(' => open += 1,
                ')' if open == 0 => break,
                ')' => open -= 1,
                '\\' => drop(self.next()),
                _ => {}
            }
            self.next();
        }
        Ok(Expression::Empty)
    }

    fn repeated(&mut self, term: Expression) -> Result<Expression, PatternError> {
        let start = self.at;
        let (least, most) = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => {
                self.at += 1;
                let Some(bounds) = self.bounds() else {
                    // A brace that bounds nothing is a brace.
                    self.at = start;
                    return Ok(term);
                };
                // Back onto the last character, which is stepped over below.
                self.at -= 1;
                bounds
            }
            _ => return Ok(term),
        };
        self.at += 1;
        self.take("?");
        if most.is_some_and(|most| most < least) {
            return Err(PatternError { offset: start, problem: "the numbers are out of order" });
        }
        if term == Expression::Empty || most == Some(0) {
            return Ok(Expression::Empty);
        }
        Ok(Expression::Repeat(Box::new(term), least, most))
    }

    /// The rest of `{2}`, `{2,}` or `{2,3}`; the cursor stays if it is none of them.
    fn bounds(&mut self) -> Option<(u32, Option<u32>)> {
        let rest = &self.source[self.at..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
        let inside = &rest[..rest[length..].starts_with('}').then_some(length)?];
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            digits.then(|| text.parse().unwrap_or(MOST).min(MOST))
        };
        let bounds = match inside.split_once(',') {
            None => number(inside).map(|least| (least, Some(least)))?,
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        self.at += inside.len() + 1;
        Some(bounds)
    }

    fn escape(&mut self, start: usize) -> Result<Expression, PatternError> {
        match self.peek() {
            Some('b' | 'B') => Ok(Expression::WordBoundary(self.next() == Some('B'))),
            Some('1'..='9') => {
                self.needs_more = true;
                while self.peek().is_some_and(|next| next.is_ascii_digit()) {
                    self.at += 1;
                }
                Ok(Expression::Empty)
            }
            Some('k') => {
                self.at += 1;
                self.needs_more = true;
                let name = if self.take("<") { self.until('>') } else { None };
                name.map(|_| Expression::Empty).ok_or(PatternError { offset: start, problem: "no such escape" })
            }
            _ => self.class_escape(start).map(|item| Expression::Class([item].into(), false)),
        }
    }

    fn class(&mut self) -> Result<Expression, PatternError> {
        let negated = self.take("^");
        let mut items = Vec::new();
        loop {
            let start = self.at;
            match self.next() {
                None => return Err(self.error("a class is not closed")),
                Some(']') => return Ok(Expression::Class(items.into(), negated)),
                Some(first) => {
                    let first = self.class_item(first, start)?;
                    items.push(self.range(first, start)?);
                }
            }
        }
    }

    /// An item, or the range that begins with it.
    fn range(&mut self, first: Item, start: usize) -> Result<Item, PatternError> {
        let rest = &self.source[self.at..];
        let Item::Range(from, _) = first else { return Ok(first) };
        if !rest.starts_with('-') || rest.starts_with("-]") || rest == "-" {
            return Ok(first);
        }
        let dash = self.at;
        self.at += 1;
        let (end, Some(next)) = (self.at, self.next()) else { return Ok(first) };
        match self.class_item(next, end)? {
            Item::Range(to, _) if from <= to => Ok(Item::Range(from, to)),
            Item::Range(..) => Err(PatternError { offset: start, problem: "the range is out of order" }),
            // `[a-\d]`: the dash is one of them.
            Item::Set(_) | Item::Not(_) => {
                self.at = dash;
                Ok(first)
            }
        }
    }

    fn class_item(&mut self, first: char, start: usize) -> Result<Item, PatternError> {
        match first {
            '\\' if self.take("b") => Ok(Item::Range('\u{8}', '\u{8}')),
            '\\' if self.take("-") => Ok(Item::Range('-', '-')),
            '\\' => self.class_escape(start),
            character => Ok(Item::Range(character, character)),
        }
    }

    /// What may be escaped within classes and without.
    fn class_escape(&mut self, start: usize) -> Result<Item, PatternError> {
        let error = |problem| PatternError { offset: start, problem };
        let escaped = self.next().ok_or_else(|| error("\"\\\" escapes nothing"))?;
        let character = match escaped {
            'd' => return Ok(Item::Set(Set::Digit)),
            'D' => return Ok(Item::Not(Set::Digit)),
            'w' => return Ok(Item::Set(Set::Word)),
            'W' => return Ok(Item::Not(Set::Word)),
            's' => return Ok(Item::Set(Set::Space)),
            'S' => return Ok(Item::Not(Set::Space)),
            'p' | 'P' => return self.property(escaped == 'P').ok_or_else(|| error("no such property")),
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'f' => '\u{c}',
            'v' => '\u{b}',
            '0' => '\0',
            'c' => {
                let letter = self.next().filter(char::is_ascii_alphabetic);
                letter.map(|letter| char::from(letter as u8 % 32)).ok_or_else(|| error("no such escape"))?
            }
            'x' => self.hexadecimal(2).and_then(char::from_u32).ok_or_else(|| error("no such escape"))?,
            'u' => self.unicode().ok_or_else(|| error("no such escape"))?,
            letter if letter.is_ascii_alphanumeric() => return Err(error("no such escape")),
            other => other,
        };
        Ok(Item::Range(character, character))
    }

    /// The rest of `\p{…}`. What is a property, but not one that we know, needs more than we have.
    fn property(&mut self, negated: bool) -> Option<Item> {
        if !self.take("{") {
            return None;
        }
        let name = self.until('}')?;
        let set = Set::of_property(name).or_else(|| {
            let known = name.contains('=') || name.len() <= 2 || name.ends_with("_Letter") || name.ends_with("Mark");
            self.needs_more |= known;
            known.then_some(Set::Any)
        })?;
        Some(if negated { Item::Not(set) } else { Item::Set(set) })
    }

    /// The rest of `\u0041`, `\u{41}` or a pair of surrogates.
    fn unicode(&mut self) -> Option<char> {
        if self.take("{") {
            return u32::from_str_radix(self.until('}')?, 16).ok().and_then(char::from_u32);
        }
        let first = self.hexadecimal(4)?;
        let behind = self.at;
        if (0xd800..0xdc00).contains(&first) && self.take("\\u") {
            let second = self.hexadecimal(4).filter(|second| (0xdc00..0xe000).contains(second));
            if let Some(second) = second {
                return char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
            self.at = behind;
        }
        // Half a character, which no text has. The next one that there is stands for it, for the order of ranges.
        self.needs_more |= (0xd800..0xe000).contains(&first);
        char::from_u32(first).or(Some('\u{e000}'))
    }

    fn hexadecimal(&mut self, digits: usize) -> Option<u32> {
        let text = self.source.get(self.at..self.at + digits)?;
        self.at += digits;
        text.bytes().all(|byte| byte.is_ascii_hexdigit()).then(|| u32::from_str_radix(text, 16).ok())?
    }

    fn until(&mut self, end: char) -> Option<&'a str> {
        let inside = self.source[self.at..].split_once(end)?.0;
        self.at += inside.len() + end.len_utf8();
        Some(inside)
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.source[self.at..].starts_with(text);
        self.at += if found { text.len() } else { 0 };
        found
    }

    fn peek(&self) -> Option<char> {
        self.source[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn error(&self, problem: &'static str) -> PatternError {
        PatternError { offset: self.at, problem }
    }
}

fn single(character: char) -> Expression {
    Expression::Class([Item::Range(character, character)].into(), false)
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    let starts = |character: char| character.is_alphabetic() || matches!(character, '_' | '$');
    characters.next().is_some_and(starts) && characters.all(|next| starts(next) || next.is_numeric())
}
