//! Matching of URIs.
//!
//! The first pass goes backwards, and finds the positions from which the rest of the template matches the rest of the
//! URI, with one scan of the URI for each literal and variable. The second pass goes forwards, and chooses the end of
//! each variable among these positions. There is no backtracking, so time and memory are bounded by the length of the
//! URI times the number of variables.

use super::character::{UriCharacter, decode, decode_reserved};
use super::parse::{Expression, Modifier, Operator, Reading, TemplatePart, Variable};
use super::{Captures, Value};

/// Returns values with which `parts` expand to `uri`; `None` if there are none.
pub(super) fn captures(parts: &[TemplatePart], uri: &[UriCharacter], reading: Reading) -> Option<Captures> {
    let mut after = Positions::new(uri.len());
    after.insert(uri.len());
    let mut tables = Vec::new();
    for part in parts.iter().rev() {
        after = match part {
            TemplatePart::Literal(literal) => literal.starts(uri, &after),
            TemplatePart::Expression(expression) => {
                let (table, before) = ExpressionTable::new(expression, uri, reading, after);
                tables.push(table);
                before
            }
        };
        if after.is_empty() {
            return None;
        }
    }
    if !after.contains(0) {
        return None;
    }
    let mut captures = Captures::default();
    let mut at = 0;
    for part in parts {
        at = match part {
            TemplatePart::Literal(literal) => at + literal.len(),
            TemplatePart::Expression(_) => tables.pop()?.read(at, &mut captures)?,
        };
    }
    Some(captures)
}

/// Sorts the query parameters of `uri` in template order, after those that the template does not name.
pub(super) fn sort_query(parts: &[TemplatePart], uri: &[UriCharacter]) -> Option<Vec<UriCharacter>> {
    let expressions = parts.iter().filter_map(|part| match part {
        TemplatePart::Expression(expression) if expression.operator.is_query() => Some(expression),
        TemplatePart::Expression(_) | TemplatePart::Literal(_) => None,
    });
    let keys: Vec<&[UriCharacter]> = expressions.flat_map(|e| &e.variables).map(|v| v.key.as_slice()).collect();
    let start = uri.iter().position(|character| character.is(b'?'))? + 1;
    let len = uri[start..].iter().position(|character| character.is(b'#'));
    let (query, rest) = uri[start..].split_at(len.unwrap_or(uri.len() - start));
    let mut pairs: Vec<&[UriCharacter]> = query.split(|character| character.is(b'&')).collect();
    pairs.sort_by_cached_key(|pair| {
        let key = pair.split(|character| character.is(b'=')).next();
        keys.iter().position(|&known| Some(known) == key).map_or(0, |i| i + 1)
    });
    Some([&uri[..start], &pairs.join(&UriCharacter::Plain(b'&')), rest].concat())
}

/// The positions in a URI where the variables of one expression can begin and end.
struct ExpressionTable<'a> {
    expression: &'a Expression,
    uri: &'a [UriCharacter],
    reading: Reading,
    /// For each variable, the positions where its text (or its name) can begin.
    starts: Vec<Positions>,
    /// For each variable, the positions where its text can end.
    ends: Vec<Positions>,
}

impl<'a> ExpressionTable<'a> {
    /// Returns the table and the positions where the expression can begin, if the rest of the template can begin at `after`.
    fn new(
        expression: &'a Expression,
        uri: &'a [UriCharacter],
        reading: Reading,
        after: Positions,
    ) -> (Self, Positions) {
        let mut table = Self { expression, uri, reading, starts: Vec::new(), ends: Vec::new() };
        let mut before = after.clone();
        let mut end = after;
        for variable in expression.variables.iter().rev() {
            let start = if expression.operator.is_named() {
                table.named_starts(variable, &end)
            } else {
                table.value_starts(variable, &end)
            };
            match expression.operator.first() {
                Some(first) => before.extend_before(uri, first, &start),
                None => before.extend(&start),
            }
            let mut earlier_end = end.clone();
            earlier_end.extend_before(uri, expression.operator.separator(), &start);
            table.starts.push(start);
            table.ends.push(end);
            end = earlier_end;
        }
        table.starts.reverse();
        table.ends.reverse();
        (table, before)
    }

    /// Returns the positions where a value can begin that ends at one of `end`.
    fn value_starts(&self, variable: &Variable, end: &Positions) -> Positions {
        let class = variable.class(self.expression.operator, self.reading);
        let mut starts = Positions::new(self.uri.len());
        let mut distance = Distance::NEVER;
        for at in (0..=self.uri.len()).rev() {
            let continues = self.uri.get(at).is_some_and(|&character| class.admits(character));
            distance = if end.contains(at) { Distance::HERE } else { distance.further(continues) };
            if distance.is_within(variable.limit()) {
                starts.insert(at);
            }
        }
        starts
    }

    /// Returns the positions where a name can begin that is followed by a value, or by several such pairs if the variable is
    /// exploded, up to one of `end`.
    fn named_starts(&self, variable: &Variable, end: &Positions) -> Positions {
        let class = variable.class(self.expression.operator, self.reading);
        let mut starts = Positions::new(self.uri.len());
        let mut values = Positions::new(self.uri.len());
        let mut distance = Distance::NEVER;
        for at in (0..=self.uri.len()).rev() {
            let continues = self.uri.get(at).is_some_and(|&character| class.admits(character));
            let further = distance.further(continues);
            distance = if self.pair_can_end(variable, at, end, &starts) { Distance::HERE } else { further };
            let value = if self.min_value_len() == 0 { distance } else { further };
            if value.is_within(variable.limit()) {
                values.insert(at);
            }
            if self.is_after_delimiter(at) && self.uri[at..].starts_with(&variable.key) {
                let key_end = at + variable.key.len();
                let is_bare = self.may_omit_equals() && self.pair_can_end(variable, key_end, end, &starts);
                if is_bare || self.is_at(key_end, b'=') && values.contains(key_end + 1) {
                    starts.insert(at);
                }
            }
        }
        starts
    }

    /// Returns `true` if a pair of `variable` can end here, before other text or the next pair of a list.
    fn pair_can_end(&self, variable: &Variable, at: usize, end: &Positions, starts: &Positions) -> bool {
        end.contains(at) || self.is_before_next_pair(variable, at, starts)
    }

    fn is_before_next_pair(&self, variable: &Variable, at: usize, starts: &Positions) -> bool {
        let separator = self.expression.operator.separator();
        variable.modifier == Modifier::Explode && self.is_at(at, separator) && starts.contains(at + 1)
    }

    /// Names cannot contain a delimiter, so searching for them only after one keeps the search linear.
    fn is_after_delimiter(&self, at: usize) -> bool {
        let operator = self.expression.operator;
        let is_delimiter = |character: &UriCharacter| {
            character.is(operator.separator()) || operator.first().is_some_and(|f| character.is(f))
        };
        at.checked_sub(1).and_then(|before| self.uri.get(before)).is_some_and(is_delimiter)
    }

    fn is_at(&self, at: usize, plain: u8) -> bool {
        self.uri.get(at).is_some_and(|character| character.is(plain))
    }

    /// An empty path parameter is written as `;x`.
    fn may_omit_equals(&self) -> bool {
        self.expression.operator == Operator::Parameter || self.reading == Reading::Lenient
    }

    fn min_value_len(&self) -> usize {
        usize::from(self.expression.operator == Operator::Parameter && self.reading == Reading::Strict)
    }

    /// Reads the expression at `at`, a position where it can begin, and returns its end.
    fn read(&self, at: usize, captures: &mut Captures) -> Option<usize> {
        let operator = self.expression.operator;
        let mut start = match operator.first() {
            Some(first) if self.is_at(at, first) => at + 1,
            Some(_) => return Some(at),
            None => at,
        };
        let mut next = self.variable_at(0, start);
        let mut end = at;
        while let Some(i) = next {
            let variable = &self.expression.variables[i];
            let value;
            (value, end) = self.read_variable(i, start)?;
            start = end + 1;
            next = self.is_at(end, operator.separator()).then(|| self.variable_at(i + 1, start)).flatten();
            let is_nothing = end == at && next.is_none();
            if !is_nothing {
                captures.push(&variable.name, value);
            }
        }
        Some(end)
    }

    /// Returns the first variable, from index `from` on, that can begin here.
    fn variable_at(&self, from: usize, at: usize) -> Option<usize> {
        (from..self.starts.len()).find(|&i| self.starts[i].contains(at))
    }

    fn read_variable(&self, i: usize, start: usize) -> Option<(Value, usize)> {
        let variable = &self.expression.variables[i];
        if !self.expression.operator.is_named() {
            let end = self.value_end(variable, start, 0, |at| self.ends[i].contains(at))?;
            return Some((self.value(variable, &self.uri[start..end]), end));
        }
        let mut items = Vec::new();
        let mut at = start;
        loop {
            let (text, end) = self.read_pair(i, at)?;
            if variable.modifier != Modifier::Explode {
                return Some((self.value(variable, text), end));
            }
            items.push(decode(text));
            if !self.is_before_next_pair(variable, end, &self.starts[i]) {
                return Some((Value::List(items), end));
            }
            at = end + 1;
        }
    }

    /// Reads `name=value` or `name`.
    fn read_pair(&self, i: usize, start: usize) -> Option<(&[UriCharacter], usize)> {
        let variable = &self.expression.variables[i];
        let can_end = |at: usize| self.pair_can_end(variable, at, &self.ends[i], &self.starts[i]);
        let key_end = start + variable.key.len();
        if self.is_at(key_end, b'=') {
            let value = key_end + 1;
            if let Some(end) = self.value_end(variable, value, self.min_value_len(), can_end) {
                return Some((&self.uri[value..end], end));
            }
        }
        (self.may_omit_equals() && can_end(key_end)).then_some((&[], key_end))
    }

    /// Returns the end of a value that begins at `start`: the last possible one, but before a stop character of the
    /// variable if possible.
    fn value_end(
        &self,
        variable: &Variable,
        start: usize,
        min_len: usize,
        can_end: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let class = variable.class(self.expression.operator, self.reading);
        let mut best = None;
        for at in start..=self.uri.len() {
            let len = at - start;
            if len >= min_len && can_end(at) {
                best = Some(at);
            }
            let Some(&character) = self.uri.get(at) else { break };
            let stops = best.is_some() && variable.stops.iter().any(|&stop| character.is(stop));
            if stops || len == variable.limit() || !class.admits(character) {
                break;
            }
        }
        best
    }

    fn value(&self, variable: &Variable, text: &[UriCharacter]) -> Value {
        let operator = self.expression.operator;
        let decode = if operator.is_reserved() { decode_reserved } else { decode };
        let list = |separator| Value::List(text.split(|character| character.is(separator)).map(decode).collect());
        match variable.modifier {
            Modifier::Explode => list(operator.separator()),
            Modifier::None if !operator.is_reserved() && text.iter().any(|character| character.is(b',')) => list(b','),
            Modifier::None | Modifier::Prefix(_) => Value::Text(decode(text)),
        }
    }
}

/// Number of characters until a value can end.
#[derive(Clone, Copy)]
struct Distance(usize);

impl Distance {
    const HERE: Self = Self(0);
    const NEVER: Self = Self(usize::MAX);

    /// Returns the distance one character earlier, if that character belongs to the value.
    const fn further(self, continues: bool) -> Self {
        if continues { Self(self.0.saturating_add(1)) } else { Self::NEVER }
    }

    const fn is_within(self, limit: usize) -> bool {
        self.0 <= limit
    }
}

/// A set of positions, from before the first character to after the last.
#[derive(Clone)]
pub(super) struct Positions {
    words: Vec<u64>,
}

impl Positions {
    /// Creates an empty set for a URI of `len` characters.
    pub(super) fn new(len: usize) -> Self {
        Self { words: vec![0; len / 64 + 1] }
    }

    pub(super) fn insert(&mut self, position: usize) {
        self.words[position / 64] |= 1 << (position % 64);
    }

    pub(super) fn contains(&self, position: usize) -> bool {
        self.words.get(position / 64).is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|&word| word == 0)
    }

    /// Adds all of `other`, a set over the same URI.
    pub(super) fn extend(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Adds the positions at which `plain` is followed by one of `next`.
    pub(super) fn extend_before(&mut self, uri: &[UriCharacter], plain: u8, next: &Self) {
        for (i, character) in uri.iter().enumerate() {
            if character.is(plain) && next.contains(i + 1) {
                self.insert(i);
            }
        }
    }
}
