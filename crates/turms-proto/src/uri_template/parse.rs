//! Parsing of templates.

use super::Value;
use super::character::{CharacterClass, UriCharacter, encode, encode_reserved, triplet};
use super::matcher::Positions;

/// Maximum length of a template, in bytes.
pub const MAX_LEN: usize = 4096;

/// Maximum number of variables, and therefore expressions, in a template.
pub const MAX_VARIABLES: usize = 64;

/// Error of [`UriTemplate::parse`](super::UriTemplate::parse), with the problem and its position.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URI template at byte {position}: {problem}")]
pub struct TemplateError {
    position: usize,
    problem: TemplateProblem,
}

impl TemplateError {
    /// Returns the position of the problem in the template, in bytes.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum TemplateProblem {
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

impl TemplateProblem {
    const fn at(self, position: usize) -> TemplateError {
        TemplateError { position, problem: self }
    }
}

/// A literal or an expression of a template.
#[derive(Clone)]
pub(super) enum TemplatePart {
    Literal(Literal),
    Expression(Expression),
}

pub(super) fn parse(text: &str) -> Result<Vec<TemplatePart>, TemplateError> {
    if text.len() > MAX_LEN {
        return Err(TemplateProblem::TooLong.at(MAX_LEN));
    }
    let mut parts = Vec::new();
    let mut names = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with('{') {
            let len = rest.find('}').ok_or_else(|| TemplateProblem::Unclosed.at(at))?;
            parts.push(TemplatePart::Expression(expression(&rest[1..len], at + 1, &mut names)?));
            at += len + 1;
        } else {
            let len = rest.find('{').unwrap_or(rest.len());
            parts.push(TemplatePart::Literal(literal(&rest[..len], at)?));
            at += len;
        }
    }
    set_stops(&mut parts);
    Ok(parts)
}

fn literal(text: &str, start: usize) -> Result<Literal, TemplateError> {
    for (i, c) in text.char_indices() {
        match c {
            '}' => return Err(TemplateProblem::Unopened.at(start + i)),
            ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '|' => return Err(TemplateProblem::Character(c).at(start + i)),
            c if c.is_control() => return Err(TemplateProblem::Character(c).at(start + i)),
            _ => {}
        }
    }
    Ok(Literal::new(characters(text, start)?))
}

/// Reads text that is copied into the URI. A character must not be split between it and its neighbours, or the URI
/// could not be matched.
fn characters(text: &str, start: usize) -> Result<Vec<UriCharacter>, TemplateError> {
    let mut characters = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match UriCharacter::read(text, at) {
            None => return Err(TemplateProblem::Percent.at(start + at)),
            Some((UriCharacter::Byte(_), _)) => return Err(TemplateProblem::NotUtf8.at(start + at)),
            Some((character, end)) => {
                characters.push(character);
                at = end;
            }
        }
    }
    Ok(characters)
}

fn expression<'t>(text: &'t str, start: usize, names: &mut Vec<&'t str>) -> Result<Expression, TemplateError> {
    let operator = match text.chars().next() {
        Some(c @ ('=' | ',' | '!' | '@' | '|')) => return Err(TemplateProblem::Operator(c).at(start)),
        Some(c) => Operator::from_char(c),
        None => return Err(TemplateProblem::NoName.at(start)),
    };
    let mut at = usize::from(operator != Operator::Simple);
    let mut variables = Vec::new();
    for spec in text[at..].split(',') {
        let (name, modifier) = variable(spec, start + at)?;
        if names.contains(&name) {
            return Err(TemplateProblem::Repeated(name.to_owned()).at(start + at));
        }
        if names.len() == MAX_VARIABLES {
            return Err(TemplateProblem::TooManyVariables.at(start + at));
        }
        names.push(name);
        variables.push(Variable::new(name, characters(name, start + at)?, modifier));
        at += spec.len() + 1;
    }
    Ok(Expression { operator, variables })
}

fn variable(spec: &str, start: usize) -> Result<(&str, Modifier), TemplateError> {
    let (name, modifier) = if let Some((name, length)) = spec.split_once(':') {
        (name, prefix(length).ok_or_else(|| TemplateProblem::Prefix.at(start + name.len()))?)
    } else if let Some(name) = spec.strip_suffix('*') {
        (name, Modifier::Explode)
    } else {
        (spec, Modifier::None)
    };
    if name.is_empty() {
        return Err(TemplateProblem::NoName.at(start));
    }
    for (i, c) in name.char_indices() {
        match c {
            'A'..='Z' | 'a'..='z' | '0'..='9' | '_' => {}
            '%' if triplet(name, i).is_some() => {}
            '%' => return Err(TemplateProblem::Percent.at(start + i)),
            '.' if i > 0 && i + 1 < name.len() && !name[i + 1..].starts_with('.') => {}
            '.' => return Err(TemplateProblem::Dot.at(start + i)),
            c => return Err(TemplateProblem::Name(c).at(start + i)),
        }
    }
    Ok((name, modifier))
}

fn prefix(digits: &str) -> Option<Modifier> {
    let plain = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let length = digits.parse().ok().filter(|_| plain && !digits.starts_with('0'))?;
    Some(Modifier::Prefix(length))
}

/// Sets the characters at which a match prefers to end each variable.
fn set_stops(parts: &mut [TemplatePart]) {
    for i in 0..parts.len() {
        let (head, tail) = parts.split_at_mut(i + 1);
        if let Some(TemplatePart::Expression(expression)) = head.last_mut() {
            expression.set_stops(&following_stops(tail));
        }
    }
}

/// Returns the first characters of the expressions that follow directly, and of a later query or fragment.
fn following_stops(tail: &[TemplatePart]) -> Vec<u8> {
    let mut stops = Vec::new();
    let mut adjacent = true;
    for part in tail {
        match part {
            TemplatePart::Literal(_) => adjacent = false,
            TemplatePart::Expression(next) => {
                stops.extend(next.operator.first().filter(|&first| adjacent || matches!(first, b'?' | b'#')));
            }
        }
    }
    stops
}

/// Text that a URI must contain unchanged.
#[derive(Clone)]
pub(super) struct Literal {
    characters: Vec<UriCharacter>,
    /// For each prefix of the literal, the length of its longest border (Knuth–Morris–Pratt), so that the search in a
    /// URI takes linear time.
    borders: Vec<usize>,
}

impl Literal {
    /// Creates a literal. `characters` must not be empty.
    pub(super) fn new(characters: Vec<UriCharacter>) -> Self {
        let mut borders = vec![0; characters.len()];
        let mut border = 0;
        for i in 1..characters.len() {
            while border > 0 && characters[border] != characters[i] {
                border = borders[border - 1];
            }
            border += usize::from(characters[border] == characters[i]);
            borders[i] = border;
        }
        Self { characters, borders }
    }

    pub(super) const fn len(&self) -> usize {
        self.characters.len()
    }

    /// Returns the text up to the first percent-encoded character.
    pub(super) fn plain_prefix(&self) -> String {
        let plain = self.characters.iter().map_while(|&character| match character {
            UriCharacter::Plain(byte) => Some(char::from(byte)),
            UriCharacter::Encoded(_) | UriCharacter::Byte(_) => None,
        });
        plain.collect()
    }

    pub(super) fn expand(&self, out: &mut String) {
        for &character in &self.characters {
            character.spell(out);
        }
    }

    /// Returns the positions in `uri` where the literal begins such that it ends at one of `after`.
    pub(super) fn starts(&self, uri: &[UriCharacter], after: &Positions) -> Positions {
        let len = self.characters.len();
        let mut starts = Positions::new(uri.len());
        let mut matched = 0;
        for (i, character) in uri.iter().enumerate() {
            while matched > 0 && self.characters.get(matched) != Some(character) {
                matched = self.borders[matched - 1];
            }
            matched += usize::from(self.characters.get(matched) == Some(character));
            if matched == len && after.contains(i + 1) {
                starts.insert(i + 1 - len);
            }
        }
        starts
    }
}

/// An expression between `{` and `}`.
#[derive(Clone)]
pub(super) struct Expression {
    pub(super) operator: Operator,
    pub(super) variables: Vec<Variable>,
}

#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The name as written in a URI, for operators that write it.
    pub(super) key: Vec<UriCharacter>,
    pub(super) modifier: Modifier,
    /// Characters at which a match prefers to end this variable.
    pub(super) stops: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    None,
    Prefix(u16),
    Explode,
}

/// Operators of RFC 6570 §2.2. Appendix A has a table of their effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Simple,
    Reserved,
    Fragment,
    Label,
    Path,
    Parameter,
    Query,
    Continuation,
}

/// Strictness of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Matches only expansions.
    Strict,
    /// Also matches the spellings of other implementations.
    Lenient,
}

impl Expression {
    pub(super) fn set_stops(&mut self, following: &[u8]) {
        let separator = self.operator.separator();
        let last = self.variables.len() - 1;
        for (i, variable) in self.variables.iter_mut().enumerate() {
            variable.stops = following.to_vec();
            variable.stops.extend((i < last).then_some(separator));
        }
    }

    /// Appends the expansion. `values` are those of the variables, in order.
    pub(super) fn expand(&self, values: &[Option<Value>], out: &mut String) {
        let mut next = self.operator.first();
        for (variable, value) in self.variables.iter().zip(values) {
            let Some(value) = value.as_ref().filter(|value| variable.accepts(value)) else {
                continue;
            };
            out.extend(next.map(char::from));
            variable.expand(self.operator, value, out);
            next = Some(self.operator.separator());
        }
    }
}

impl Variable {
    pub(super) fn new(name: &str, key: Vec<UriCharacter>, modifier: Modifier) -> Self {
        Self { name: name.to_owned(), key, modifier, stops: Vec::new() }
    }

    /// An empty list is undefined (RFC 6570 §2.3), and a prefix of a list is not defined (§2.4.1).
    fn accepts(&self, value: &Value) -> bool {
        match value {
            Value::Text(_) => true,
            Value::List(items) => !items.is_empty() && !matches!(self.modifier, Modifier::Prefix(_)),
        }
    }

    fn expand(&self, operator: Operator, value: &Value, out: &mut String) {
        let mut items = value.items().iter();
        if self.modifier == Modifier::Explode {
            let mut separator = None;
            for item in items {
                out.extend(separator.map(char::from));
                self.expand_pair(operator, item.is_empty(), out);
                self.expand_item(operator, item, out);
                separator = Some(operator.separator());
            }
        } else if let Some(first) = items.next() {
            self.expand_pair(operator, first.is_empty() && items.len() == 0, out);
            self.expand_item(operator, first, out);
            for item in items {
                out.push(',');
                self.expand_item(operator, item, out);
            }
        }
    }

    /// Appends the name and `=`, for operators that write them.
    fn expand_pair(&self, operator: Operator, is_empty: bool, out: &mut String) {
        if !operator.is_named() {
            return;
        }
        for &character in &self.key {
            character.spell(out);
        }
        if !(is_empty && operator == Operator::Parameter) {
            out.push('=');
        }
    }

    fn expand_item(&self, operator: Operator, item: &str, out: &mut String) {
        if operator.is_reserved() {
            encode_reserved(item, self.limit(), out);
        } else {
            encode(item.chars().take(self.limit()), out);
        }
    }

    /// Returns the maximum number of characters of the value that are expanded.
    pub(super) fn limit(&self) -> usize {
        match self.modifier {
            Modifier::Prefix(length) => usize::from(length),
            // `usize::MAX` is the distance `NEVER`, so use one less.
            Modifier::None | Modifier::Explode => usize::MAX - 1,
        }
    }

    /// Returns the allowed characters of the value, including the separators of a list.
    pub(super) fn class(&self, operator: Operator, reading: Reading) -> CharacterClass {
        let class = operator.class(reading);
        match self.modifier {
            Modifier::None => class.with(b','),
            Modifier::Explode if !operator.is_named() => class.with(operator.separator()),
            Modifier::Explode | Modifier::Prefix(_) => class,
        }
    }
}

impl Operator {
    pub(super) const fn from_char(c: char) -> Self {
        match c {
            '+' => Self::Reserved,
            '#' => Self::Fragment,
            '.' => Self::Label,
            '/' => Self::Path,
            ';' => Self::Parameter,
            '?' => Self::Query,
            '&' => Self::Continuation,
            _ => Self::Simple,
        }
    }

    /// Returns the first character of an expansion with at least one defined variable.
    pub(super) const fn first(self) -> Option<u8> {
        match self {
            Self::Simple | Self::Reserved => None,
            Self::Fragment => Some(b'#'),
            Self::Label => Some(b'.'),
            Self::Path => Some(b'/'),
            Self::Parameter => Some(b';'),
            Self::Query => Some(b'?'),
            Self::Continuation => Some(b'&'),
        }
    }

    /// Returns the separator of variables, and of the items of an exploded list.
    pub(super) const fn separator(self) -> u8 {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => b',',
            Self::Label => b'.',
            Self::Path => b'/',
            Self::Parameter => b';',
            Self::Query | Self::Continuation => b'&',
        }
    }

    /// Returns `true` if names are written before values.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Parameter | Self::Query | Self::Continuation)
    }

    pub(super) const fn is_query(self) -> bool {
        matches!(self, Self::Query | Self::Continuation)
    }

    pub(super) const fn is_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    const fn class(self, reading: Reading) -> CharacterClass {
        match (self, reading) {
            (Self::Reserved | Self::Fragment, _) => CharacterClass::RESERVED,
            (_, Reading::Strict) => CharacterClass::CANONICAL,
            (Self::Query | Self::Continuation, Reading::Lenient) => CharacterClass::QUERY,
            (_, Reading::Lenient) => CharacterClass::PATH,
        }
    }
}
