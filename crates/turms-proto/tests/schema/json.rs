//! A JSON tree that, unlike `serde_json::Value`, keeps member order and the text of numbers, and rejects duplicate
//! members.
//!
//! Order matters because a decoder must not depend on the position of the tag; the text because no Rust type holds
//! every number; duplicates because an encoder that emits a member twice would not be detected otherwise.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::random::Rng;

#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    /// The number as written; its value is a [`Decimal`].
    Number(String),
    String(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    pub(crate) fn string(text: impl Into<String>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn integer(value: impl Into<Number>) -> Self {
        Self::Number(value.into().to_string())
    }

    /// Formats a number with a fraction or an exponent even if it is an integer.
    pub(crate) fn float(value: f64) -> Self {
        Self::Number(Number::from_f64(value).unwrap().to_string())
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let member = members.iter().find(|(candidate, _)| candidate == name);
        member.map(|(_, value)| value)
    }

    /// Returns the same object with an additional string member.
    pub(crate) fn with(&self, name: &str) -> Self {
        let Self::Object(members) = self else {
            return self.clone();
        };
        let added = (name.to_owned(), Self::string("given"));
        Self::Object(members.iter().cloned().chain([added]).collect())
    }

    /// Returns the direct children of this value.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        let (items, members): (&[Self], &[(String, Self)]) = match self {
            Self::Array(items) => (items, &[]),
            Self::Object(members) => (&[], members),
            _ => (&[], &[]),
        };
        items.iter().chain(members.iter().map(|(_, value)| value))
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::Number(text) => Value::Number(nearest(text)),
            Self::String(text) => Value::String(text.clone()),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(members) => {
                let members = members.iter();
                Value::Object(members.map(|(k, v)| (k.clone(), v.to_value())).collect())
            }
        }
    }

    pub(crate) fn to_text(&self) -> String {
        Writer::new(None).finish(self)
    }

    /// Formats the same JSON in an untidy way: white space, `\u` escapes, exponents.
    pub(crate) fn to_untidy_text(&self, seed: u64) -> String {
        Writer::new(Some(Rng::new(seed))).finish(self)
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.to_string()),
            Value::String(text) => Self::String(text.clone()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(members) => {
                let members = members.iter();
                Self::Object(members.map(|(k, v)| (k.clone(), v.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <&RawValue>::deserialize(deserializer)?.get();
        let inner = match text.as_bytes()[0] {
            b'n' => Ok(Self::Null),
            b't' | b'f' => Ok(Self::Bool(text == "true")),
            b'"' => serde_json::from_str(text).map(Self::String),
            b'[' => serde_json::from_str(text).map(Self::Array),
            b'{' => serde_json::from_str(text).map(|Members(members)| Self::Object(members)),
            _ => Ok(Self::Number(text.to_owned())),
        };
        inner.map_err(D::Error::custom)
    }
}

struct Members(Vec<(String, Json)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
        let mut members: Vec<(String, Json)> = Vec::new();
        while let Some((name, value)) = access.next_entry::<String, Json>()? {
            if members.iter().any(|(earlier, _)| *earlier == name) {
                return Err(A::Error::custom(format_args!("duplicate member {name:?}")));
            }
            members.push((name, value));
        }
        Ok(Members(members))
    }
}

/// The exact value of a number, equal for all of its formats, such as `50` and `5.00e1`.
#[derive(Debug, PartialEq)]
pub(crate) struct Decimal {
    negative: bool,
    /// Without leading and trailing zeros; empty for zero.
    digits: String,
    /// The power of ten of the last digit.
    exponent: i64,
}

impl Decimal {
    pub(crate) fn of(text: &str) -> Self {
        let (mantissa, power) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
        let significant = digits.trim_end_matches('0');
        let shift = (digits.len() - significant.len()) as i64 - fraction.len() as i64;
        let significant = significant.trim_start_matches('0');
        let is_zero = significant.is_empty();
        Self {
            negative: whole.starts_with('-') && !is_zero,
            digits: significant.to_owned(),
            exponent: if is_zero { 0 } else { power.parse::<i64>().unwrap() + shift },
        }
    }
}

/// Converts a number to `serde_json`. Numbers out of its range are only generated where the schema allows anything, so
/// an arbitrary replacement is valid.
fn nearest(text: &str) -> Number {
    text.parse().unwrap_or_else(|_| 0.into())
}

struct Writer {
    text: String,
    untidy: Option<Rng>,
}

impl Writer {
    fn new(untidy: Option<Rng>) -> Self {
        let text = String::new();
        Self { text, untidy }
    }

    fn finish(mut self, json: &Json) -> String {
        self.gap();
        self.value(json);
        self.gap();
        self.text
    }

    fn value(&mut self, json: &Json) {
        match json {
            Json::Null => self.text.push_str("null"),
            Json::Bool(value) => self.text.push_str(if *value { "true" } else { "false" }),
            Json::Number(number) => self.number(number),
            Json::String(text) => self.string(text),
            Json::Array(items) => self.list('[', ']', items, Self::value),
            Json::Object(members) => self.list('{', '}', members, |writer, (name, value)| {
                writer.string(name);
                writer.gap();
                writer.text.push(':');
                writer.gap();
                writer.value(value);
            }),
        }
    }

    fn list<T>(&mut self, open: char, close: char, items: &[T], write: impl Fn(&mut Self, &T)) {
        self.text.push(open);
        self.gap();
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.text.push(',');
                self.gap();
            }
            write(self, item);
            self.gap();
        }
        self.text.push(close);
    }

    fn gap(&mut self) {
        if let Some(rng) = &mut self.untidy {
            let space: &&str = rng.pick(&["", "", "", " ", "\n", "\t", "\r\n  "]);
            self.text.push_str(space);
        }
    }

    /// Exponents only for fractions: `1e2` is a valid integer, but no known peer writes it.
    fn number(&mut self, text: &str) {
        let respell = text.contains('.') && self.one_in(3);
        let respelled = text.parse().map(|value: f64| format!("{value:e}"));
        match respelled {
            Ok(other) if respell && Decimal::of(&other) == Decimal::of(text) => self.text.push_str(&other),
            _ => self.text.push_str(text),
        }
    }

    fn string(&mut self, text: &str) {
        let escape_freely = self.one_in(4);
        self.text.push('"');
        for char in text.chars() {
            let must_escape = char < ' ' || char == '"' || char == '\\';
            if must_escape || (escape_freely && self.one_in(2)) {
                self.escape(char);
            } else {
                self.text.push(char);
            }
        }
        self.text.push('"');
    }

    fn escape(&mut self, char: char) {
        let short = match char {
            '"' | '\\' | '/' => Some(char),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        match short {
            Some(letter) => self.text.extend(['\\', letter]),
            None => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    self.text.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }

    fn one_in(&mut self, odds: usize) -> bool {
        self.untidy.as_mut().is_some_and(|rng| rng.one_in(odds))
    }
}
