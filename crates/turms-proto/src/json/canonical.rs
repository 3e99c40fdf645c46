//! Canonical JSON of an object: equal members have the same text, however they are written.

use std::ops::Range;

use super::Object;
use super::scanner::{MAX_DEPTH, Scanner, SyntaxError};
use super::writer::write_string;

/// Error for an object without a canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CanonicalError {
    /// Two members of one object have the same name.
    #[error("the member {0:?} occurs twice")]
    DuplicateMember(String),
    /// A string or name contains an unpaired surrogate.
    #[error("a string contains a lone surrogate")]
    LoneSurrogate,
    /// The text is not valid, or nested deeper than [`MAX_DEPTH`].
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
}

impl Object {
    /// Returns the canonical JSON: without white space, members sorted by name, strings and names with the fewest
    /// escapes, and numbers as written (so that `1` and `1.0` differ, and no number is rounded).
    ///
    /// ```
    /// # mod turms { pub use turms_proto as types; }
    /// use turms::types::Object;
    ///
    /// let object = Object::parse(r#"{"b": 1e999, "a": "\u0041"}"#)?;
    /// assert_eq!(object.canonical().unwrap(), r#"{"a":"A","b":1e999}"#);
    /// # Ok::<(), turms_proto::SyntaxError>(())
    /// ```
    ///
    /// # Errors
    /// If a name occurs twice in an object, a string is not valid Unicode, or values are nested too deeply. Different
    /// parsers may read such an object differently.
    pub fn canonical(&self) -> Result<String, CanonicalError> {
        let mut out = Vec::with_capacity(self.as_str().len());
        write_value(&mut Scanner::new(self.as_str()), &mut out, 0)?;
        Ok(String::from_utf8(out).unwrap_or_default())
    }
}

fn write_value(scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), CanonicalError> {
    match scanner.peek() {
        Some(b'{' | b'[') if depth >= MAX_DEPTH => Err(scanner.error(super::SyntaxErrorKind::TooDeep).into()),
        Some(b'{') => write_object(scanner, out, depth),
        Some(b'[') => {
            scanner.enter_array();
            out.push(b'[');
            let start = out.len();
            while scanner.next_entry(out.len() == start, b']')? {
                if out.len() > start {
                    out.push(b',');
                }
                write_value(scanner, out, depth + 1)?;
            }
            out.push(b']');
            Ok(())
        }
        Some(b'"') => {
            let text = scanner.text()?.ok_or(CanonicalError::LoneSurrogate)?;
            write_string(out, &text);
            Ok(())
        }
        _ => {
            out.extend_from_slice(scanner.skip_value(depth)?.as_bytes());
            Ok(())
        }
    }
}

/// Writes the members in source order, and sorts them afterwards if necessary.
fn write_object(scanner: &mut Scanner<'_>, out: &mut Vec<u8>, depth: usize) -> Result<(), CanonicalError> {
    scanner.enter_object();
    out.push(b'{');
    let start = out.len();
    let mut members: Vec<(_, Range<usize>)> = Vec::new();
    while let Some(key) = scanner.next_key(members.is_empty())? {
        let name = key.text().ok_or(CanonicalError::LoneSurrogate)?;
        if !members.is_empty() {
            out.push(b',');
        }
        let member = out.len();
        write_string(out, &name);
        out.push(b':');
        write_value(scanner, out, depth + 1)?;
        members.push((name, member..out.len()));
    }
    if !members.is_sorted_by(|(one, _), (other, _)| one < other) {
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(CanonicalError::DuplicateMember(pair[0].0.clone().into_owned()));
        }
        let sorted: Vec<&[u8]> = members.iter().map(|(_, member)| &out[member.clone()]).collect();
        let sorted = sorted.join(&b',');
        out.truncate(start);
        out.extend_from_slice(&sorted);
    }
    out.push(b'}');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(text: &str) -> Result<String, CanonicalError> {
        Object::parse(text.to_owned()).unwrap().canonical()
    }

    #[test]
    fn order_space_and_escapes_do_not_matter() {
        let text = r#"{"a":[],"b":[1,{"c":{},"d":"é\n"},[true,null]],"é":1}"#;
        assert_eq!(canonical(text).unwrap(), text);
        let other =
            r#" { "\u00e9" : 1 , "b" : [ 1 , { "d" : "\u00E9\u000a" , "c" : { } } , [ true , null ] ] , "a" : [ ] } "#;
        assert_eq!(canonical(other).unwrap(), text);
        assert_eq!(canonical("{}").unwrap(), "{}");
        assert_eq!(canonical(r#"{"b":"\/","a":"\ud83d\ude00"}"#).unwrap(), r#"{"a":"😀","b":"/"}"#);
    }

    #[test]
    fn numbers_stay_as_written() {
        let text = r#"{"a":1e999,"b":1.0,"c":-0,"d":18446744073709551617,"e":1E+2}"#;
        assert_eq!(canonical(text).unwrap(), text);
    }

    #[test]
    fn ambiguous_json_is_refused() {
        let twice = |name: &str| Err(CanonicalError::DuplicateMember(name.into()));
        assert_eq!(canonical(r#"{"a":1,"a":1}"#), twice("a"));
        assert_eq!(canonical(r#"{"a":1,"b":2,"\u0061":3}"#), twice("a"));
        assert_eq!(canonical(r#"{"x":[{"b":1,"a":2,"b":3}]}"#), twice("b"));
        assert_eq!(canonical(r#"{"a":"\ud800"}"#), Err(CanonicalError::LoneSurrogate));
        assert_eq!(canonical(r#"{"\udc00":1}"#), Err(CanonicalError::LoneSurrogate));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(canonical(&nested(MAX_DEPTH - 1)).unwrap(), nested(MAX_DEPTH - 1));
        let trusted = Object::trusted(nested(MAX_DEPTH).into());
        assert!(matches!(trusted.canonical(), Err(CanonicalError::Syntax(_))));
    }
}
