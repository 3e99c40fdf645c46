//! From the text of a template to its parts.

use std::fmt;

use super::atom::{Atom, triplet};
use super::expression::{Expression, Modifier, Operator, Variable};
use super::literal::Literal;

/// The longest template, in bytes, that [`UriTemplate::parse`](super::UriTemplate::parse) accepts.
pub const MAX_LEN: usize = 4096;

/// The most variables, and therefore expressions, that one template may have.
pub const MAX_VARIABLES: usize = 64;

/// Why a text is not a URI template we can use.
///
/// Returned by [`UriTemplate::parse`](super::UriTemplate::parse); its message says where and what in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URI template at byte {position}: {problem}")]
pub struct TemplateError {
    position: usize,
    problem: Problem,
}

impl TemplateError {
    /// Where in the template the problem is, in bytes from its beginning.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("the template is longer than {MAX_LEN} bytes")]
    TooLong,
    #[error("the template has more than {MAX_VARIABLES} variables")]
    TooManyVariables,
    #[error("\"{{\" is never closed by \"}}\"")]
    Unclosed,
    #[error("\"}}\" closes nothing")]
    Unopened,
    #[error("the character {0:?} must be percent-encoded outside of an expression")]
    Character(char),
    #[error("\"%\" is not followed by two hexadecimal digits")]
    Percent,
    #[error("the percent-encoded bytes are not UTF-8")]
    NotUtf8,
    #[error("the operator {0:?} is reserved for future use")]
    Operator(char),
    #[error("a variable name is missing")]
    NoName,
    #[error("the character {0:?} cannot be part of a variable name")]
    Name(char),
    #[error("\".\" can only stand between two characters of a variable name")]
    Dot,
    #[error("a prefix length is a number from 1 to 9999 and ends the variable")]
    Prefix,
    #[error("the variable {0:?} appears a second time")]
    Repeated(String),
}

impl Problem {
    const fn at(self, position: usize) -> TemplateError {
        TemplateError { position, problem: self }
    }
}

/// A stretch of a template.
#[derive(Clone)]
pub(super) enum Part {
    Literal(Literal),
    Expression(Expression),
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Literal(_) => "Literal",
            Self::Expression(_) => "Expression",
        })
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Part>, TemplateError> {
    if text.len() > MAX_LEN {
        return Err(Problem::TooLong.at(MAX_LEN));
    }
    let mut parts = Vec::new();
    let mut names = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with('{') {
            let len = rest.find('}').ok_or_else(|| Problem::Unclosed.at(at))?;
            parts.push(Part::Expression(expression(&rest[1..len], at + 1, &mut names)?));
            at += len + 1;
        } else {
            let len = rest.find('{').unwrap_or(rest.len());
            parts.push(Part::Literal(literal(&rest[..len], at)?));
            at += len;
        }
    }
    set_stops(&mut parts);
    Ok(parts)
}

fn literal(text: &str, start: usize) -> Result<Literal, TemplateError> {
    for (i, c) in text.char_indices() {
        match c {
            '}' => return Err(Problem::Unopened.at(start + i)),
            ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '|' => return Err(Problem::Character(c).at(start + i)),
            c if c.is_control() => return Err(Problem::Character(c).at(start + i)),
            _ => {}
        }
    }
    Ok(Literal::new(atoms(text, start)?))
}

/// Reads text that is copied into the URI. A character must not be split between it and its neighbours, or the URI
/// could not be taken apart again.
fn atoms(text: &str, start: usize) -> Result<Vec<Atom>, TemplateError> {
    let mut atoms = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match Atom::read(text, at) {
            None => return Err(Problem::Percent.at(start + at)),
            Some((Atom::Byte(_), _)) => return Err(Problem::NotUtf8.at(start + at)),
            Some((atom, end)) => {
                atoms.push(atom);
                at = end;
            }
        }
    }
    Ok(atoms)
}

fn expression<'t>(text: &'t str, start: usize, names: &mut Vec<&'t str>) -> Result<Expression, TemplateError> {
    let operator = match text.chars().next() {
        Some(c @ ('=' | ',' | '!' | '@' | '|')) => return Err(Problem::Operator(c).at(start)),
        Some(c) => Operator::from_char(c),
        None => return Err(Problem::NoName.at(start)),
    };
    let mut at = usize::from(operator != Operator::Simple);
    let mut variables = Vec::new();
    for spec in text[at..].split(',') {
        let (name, modifier) = variable(spec, start + at)?;
        if names.contains(&name) {
            return Err(Problem::Repeated(name.to_owned()).at(start + at));
        }
        if names.len() == MAX_VARIABLES {
            return Err(Problem::TooManyVariables.at(start + at));
        }
        names.push(name);
        variables.push(Variable::new(name, atoms(name, start + at)?, modifier));
        at += spec.len() + 1;
    }
    Ok(Expression { operator, variables })
}

fn variable(spec: &str, start: usize) -> Result<(&str, Modifier), TemplateError> {
    let (name, modifier) = if let Some((name, length)) = spec.split_once(':') {
        (name, prefix(length).ok_or_else(|| Problem::Prefix.at(start + name.len()))?)
    } else if let Some(name) = spec.strip_suffix('*') {
        (name, Modifier::Explode)
    } else {
        (spec, Modifier::None)
    };
    if name.is_empty() {
        return Err(Problem::NoName.at(start));
    }
    for (i, c) in name.char_indices() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => {}
            '%' if triplet(name, i).is_some() => {}
            '%' => return Err(Problem::Percent.at(start + i)),
            '.' if i > 0 && i + 1 < name.len() && !name[i + 1..].starts_with('.') => {}
            '.' => return Err(Problem::Dot.at(start + i)),
            c => return Err(Problem::Name(c).at(start + i)),
        }
    }
    Ok((name, modifier))
}

fn prefix(digits: &str) -> Option<Modifier> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let length = digits.parse().ok().filter(|_| plain && !digits.starts_with('0'))?;
    Some(Modifier::Prefix(length))
}

/// Tells each variable at which characters it should rather make way for what follows, given the choice.
fn set_stops(parts: &mut [Part]) {
    for i in 0..parts.len() {
        let (head, tail) = parts.split_at_mut(i + 1);
        if let Some(Part::Expression(expression)) = head.last_mut() {
            expression.set_stops(&following_stops(tail));
        }
    }
}

/// The first characters of the expressions that follow directly, and a later query or fragment.
fn following_stops(tail: &[Part]) -> Vec<u8> {
    let mut stops = Vec::new();
    let mut adjacent = true;
    for part in tail {
        match part {
            Part::Literal(_) => adjacent = false,
            Part::Expression(next) => {
                stops.extend(next.operator.first().filter(|&first| adjacent || matches!(first, b'?' | b'#')));
            }
        }
    }
    stops
}
