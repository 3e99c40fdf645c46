//! Expressions, `{?x,y*}`, and what they expand to.

use super::atom::{Atom, Class, encode, encode_reserved};
use super::value::Value;

/// What is between `{` and `}`.
#[derive(Clone)]
pub(super) struct Expression {
    pub(super) operator: Operator,
    pub(super) variables: Vec<Variable>,
}

#[derive(Clone)]
pub(super) struct Variable {
    pub(super) name: String,
    /// The name as it stands in a URI, for the operators that write it.
    pub(super) key: Vec<Atom>,
    pub(super) modifier: Modifier,
    /// Characters at which a match should end this variable if it can.
    pub(super) stops: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modifier {
    None,
    Prefix(u16),
    Explode,
}

/// RFC 6570 §2.2; the table of what each does is in its appendix A.
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

/// Which URIs a match accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading {
    /// Exactly what expansion produces.
    Strict,
    /// Also what others write in its place.
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

    /// Appends the expansion; `values` are those of the variables, in order.
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
    pub(super) fn new(name: &str, key: Vec<Atom>, modifier: Modifier) -> Self {
        Self { name: name.to_owned(), key, modifier, stops: Vec::new() }
    }

    /// An empty list is undefined (RFC 6570 §2.3), and a prefix of a list has no meaning (§2.4.1).
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

    /// The name and `=`, for operators that write them.
    fn expand_pair(&self, operator: Operator, is_empty: bool, out: &mut String) {
        if !operator.is_named() {
            return;
        }
        for &atom in &self.key {
            atom.spell(out);
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

    /// How many characters of its value a variable may show.
    pub(super) fn limit(&self) -> usize {
        match self.modifier {
            Modifier::Prefix(length) => usize::from(length),
            // One less than the largest number, which stands for "never" where distances are compared with this.
            Modifier::None | Modifier::Explode => usize::MAX - 1,
        }
    }

    /// What the value consists of, including the separators of a list.
    pub(super) fn class(&self, operator: Operator, reading: Reading) -> Class {
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

    /// What an expansion begins with if any variable is defined.
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

    /// What stands between two variables, and between the items of an exploded list.
    pub(super) const fn separator(self) -> u8 {
        match self {
            Self::Simple | Self::Reserved | Self::Fragment => b',',
            Self::Label => b'.',
            Self::Path => b'/',
            Self::Parameter => b';',
            Self::Query | Self::Continuation => b'&',
        }
    }

    /// Whether names are written before values.
    pub(super) const fn is_named(self) -> bool {
        matches!(self, Self::Parameter | Self::Query | Self::Continuation)
    }

    pub(super) const fn is_query(self) -> bool {
        matches!(self, Self::Query | Self::Continuation)
    }

    pub(super) const fn is_reserved(self) -> bool {
        matches!(self, Self::Reserved | Self::Fragment)
    }

    const fn class(self, reading: Reading) -> Class {
        match (self, reading) {
            (Self::Reserved | Self::Fragment, _) => Class::RESERVED,
            (_, Reading::Strict) => Class::CANONICAL,
            (Self::Query | Self::Continuation, Reading::Lenient) => Class::QUERY,
            (_, Reading::Lenient) => Class::PATH,
        }
    }
}
