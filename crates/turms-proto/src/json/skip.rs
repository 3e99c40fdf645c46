//! Functions that find the end of JSON values and validate them.
//!
//! They take a text and a position instead of a cursor: a position stays in a register, while a cursor must be written
//! back to memory. Every message passes through this code, so this matters.

use super::scanner::{LineBreaks, MAX_DEPTH, SyntaxError, SyntaxErrorKind};
use super::string::{Specials, plain_length, special_in};

/// Returns the byte at a position; 0, which no grammar rule allows, after the end.
#[inline(always)]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// Creates the error for an unexpected byte or the end of the text.
#[cold]
pub(super) fn unexpected(text: &[u8], at: usize) -> SyntaxError {
    let kind = if at >= text.len() { SyntaxErrorKind::UnexpectedEnd } else { SyntaxErrorKind::UnexpectedCharacter };
    SyntaxError { offset: at, kind }
}

/// Returns the end of the white space at a position. Between tokens there is usually none.
#[inline(always)]
pub(super) fn space(text: &[u8], at: usize, line_breaks: &mut LineBreaks) -> usize {
    if byte(text, at) > b' ' { at } else { spaces(text, at, line_breaks) }
}

#[inline(never)]
fn spaces(text: &[u8], mut at: usize, line_breaks: &mut LineBreaks) -> usize {
    while let Some(byte) = text.get(at) {
        match byte {
            b' ' | b'\t' => {}
            b'\n' | b'\r' => *line_breaks = LineBreaks::Present,
            _ => break,
        }
        at += 1;
    }
    at
}

/// Returns the end of the value at a position inside `depth` containers.
#[inline(always)]
pub(super) fn value(text: &[u8], at: usize, depth: usize, line_breaks: &mut LineBreaks) -> Result<usize, SyntaxError> {
    match byte(text, at) {
        b'"' => Ok(string(text, at)?.0),
        b'{' | b'[' => container(text, at, depth, line_breaks),
        _ => word_or_number(text, at),
    }
}

/// Skips the object at a position. For each member, `each` receives the key and the start of the value, and returns
/// the end of the value.
#[inline(always)]
pub(super) fn members(
    text: &[u8],
    open: usize,
    line_breaks: &mut LineBreaks,
    mut each: impl FnMut(KeyPlace, usize, &mut LineBreaks) -> Result<usize, SyntaxError>,
) -> Result<usize, SyntaxError> {
    let mut at = space(text, open + 1, line_breaks);
    if byte(text, at) == b'}' {
        return Ok(at + 1);
    }
    loop {
        let (place, start) = key(text, at, line_breaks)?;
        at = each(place, start, line_breaks)?;
        at = space(text, at, line_breaks);
        match byte(text, at) {
            b',' => at = space(text, at + 1, line_breaks),
            b'}' => return Ok(at + 1),
            _ => return Err(unexpected(text, at)),
        }
    }
}

/// Position of a key, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyPlace {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// Returns the key at a position, and the start of its value.
#[inline(always)]
pub(super) fn key(text: &[u8], at: usize, line_breaks: &mut LineBreaks) -> Result<(KeyPlace, usize), SyntaxError> {
    if byte(text, at) != b'"' {
        return Err(unexpected(text, at));
    }
    let (end, escaped) = string(text, at)?;
    let colon = space(text, end, line_breaks);
    if byte(text, colon) != b':' {
        return Err(unexpected(text, colon));
    }
    Ok((KeyPlace { start: at + 1, end: end - 1, escaped }, space(text, colon + 1, line_breaks)))
}

/// Length in bytes up to which checking eight bytes at a time is faster than calling the general function.
const SHORT: usize = 48;

/// Returns the end of the string at a position, and `true` if it has escapes.
#[inline(always)]
pub(super) fn string(text: &[u8], at: usize) -> Result<(usize, bool), SyntaxError> {
    match short_string(text, at) {
        Ok(end) => Ok((end, false)),
        Err(from) => any_string(text, from),
    }
}

/// Returns the end of a short string without escapes; else, as an error, a position before its end and its first
/// escape.
#[inline(always)]
pub(super) fn short_string(text: &[u8], at: usize) -> Result<usize, usize> {
    let mut from = at + 1;
    for _ in 0..SHORT / 8 {
        let Some(word) = text.get(from..).and_then(|rest| rest.first_chunk()) else { break };
        let word = u64::from_le_bytes(*word);
        let special = special_in(word);
        if special != 0 {
            let bits = special.trailing_zeros() - 7;
            if (word >> bits) as u8 == b'"' {
                return Ok(from + 1 + bits as usize / 8);
            }
            break;
        }
        from += 8;
    }
    Err(from)
}

/// Finds the end of any string, from a position before its end and its first escape.
#[inline(never)]
fn any_string(text: &[u8], from: usize) -> Result<(usize, bool), SyntaxError> {
    let at = from + plain_length(&text[from..]);
    match text.get(at) {
        Some(b'"') => Ok((at + 1, false)),
        _ => Ok((escaped_string(text, at)?, true)),
    }
}

/// Finds the end of a string with escapes, from the position of its first escape.
#[inline(never)]
fn escaped_string(text: &[u8], mut at: usize) -> Result<usize, SyntaxError> {
    let mut specials = Specials::new(text);
    loop {
        let after = match text.get(at) {
            None => return Err(SyntaxError { offset: at, kind: SyntaxErrorKind::UnexpectedEnd }),
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => match text.get(at + 1) {
                Some(b'"' | b'\\' | b'n') => at + 2,
                _ => escape(text, at + 1)?,
            },
            Some(_) => return Err(SyntaxError { offset: at, kind: SyntaxErrorKind::ControlCharacter }),
        };
        at = specials.find(after);
    }
}

/// Returns the end of an escape, from the position after the backslash.
pub(super) fn escape(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let invalid = SyntaxError { offset: at, kind: SyntaxErrorKind::InvalidEscape };
    match text.get(at) {
        None => Err(SyntaxError { offset: at, kind: SyntaxErrorKind::UnexpectedEnd }),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match text.get(at + 1..at + 5) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 5),
            _ => Err(invalid),
        },
        Some(_) => Err(invalid),
    }
}

/// Returns the end of an array or object, without recursion: one bit per open container says whether it is an object.
#[inline(never)]
fn container(text: &[u8], mut at: usize, outer: usize, line_breaks: &mut LineBreaks) -> Result<usize, SyntaxError> {
    let mut objects = 0_u128;
    let mut depth = 0;
    loop {
        // A value begins here.
        match byte(text, at) {
            open @ (b'{' | b'[') => {
                if outer + depth >= MAX_DEPTH {
                    return Err(SyntaxError { offset: at, kind: SyntaxErrorKind::TooDeep });
                }
                let is_object = open == b'{';
                at = space(text, at + 1, line_breaks);
                if byte(text, at) != (if is_object { b'}' } else { b']' }) {
                    depth += 1;
                    objects = objects << 1 | u128::from(is_object);
                    if is_object {
                        at = key(text, at, line_breaks)?.1;
                    }
                    continue;
                }
                at += 1;
            }
            b'"' => at = string(text, at)?.0,
            _ => at = word_or_number(text, at)?,
        }
        // A value ended: continue with the next entry, or close containers until one has a next entry.
        loop {
            if depth == 0 {
                return Ok(at);
            }
            let in_object = objects & 1 == 1;
            at = space(text, at, line_breaks);
            match byte(text, at) {
                b',' => {
                    at = space(text, at + 1, line_breaks);
                    if in_object {
                        at = key(text, at, line_breaks)?.1;
                    }
                    break;
                }
                b'}' if in_object => {}
                b']' if !in_object => {}
                _ => return Err(unexpected(text, at)),
            }
            at += 1;
            depth -= 1;
            objects >>= 1;
        }
    }
}

#[inline(never)]
fn word_or_number(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match byte(text, at) {
        b'-' | b'0'..=b'9' => number(text, at),
        b't' => word(text, at, b"true"),
        b'f' => word(text, at, b"false"),
        b'n' => word(text, at, b"null"),
        _ => Err(unexpected(text, at)),
    }
}

fn word(text: &[u8], at: usize, word: &[u8]) -> Result<usize, SyntaxError> {
    match word.iter().enumerate().find(|(index, expected)| byte(text, at + index) != **expected) {
        Some((index, _)) => Err(unexpected(text, at + index)),
        None => Ok(at + word.len()),
    }
}

fn number(text: &[u8], start: usize) -> Result<usize, SyntaxError> {
    let invalid = |at| SyntaxError { offset: at, kind: SyntaxErrorKind::InvalidNumber };
    let mut at = start + usize::from(byte(text, start) == b'-');
    at = if byte(text, at) == b'0' { at + 1 } else { digits(text, at).ok_or_else(|| invalid(at))? };
    if byte(text, at) == b'.' {
        at = digits(text, at + 1).ok_or_else(|| invalid(at + 1))?;
    }
    if matches!(byte(text, at), b'e' | b'E') {
        at += 1 + usize::from(matches!(byte(text, at + 1), b'+' | b'-'));
        at = digits(text, at).ok_or_else(|| invalid(at))?;
    }
    match byte(text, at) {
        // "01" and "1x" are invalid numbers, not numbers followed by something else.
        b'0'..=b'9' | b'.' | b'a'..=b'z' | b'A'..=b'Z' => Err(invalid(at)),
        _ => Ok(at),
    }
}

/// Returns the end of the digits at a position; `None` if there are none.
#[inline]
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while byte(text, at).is_ascii_digit() {
        at += 1;
    }
    (at > start).then_some(at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Finds the end of a string byte by byte.
    fn end_of_string(text: &[u8]) -> Result<usize, SyntaxError> {
        let mut at = 1;
        loop {
            at = match text.get(at) {
                None => return Err(SyntaxError { offset: at, kind: SyntaxErrorKind::UnexpectedEnd }),
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => escape(text, at + 1)?,
                Some(0..0x20) => return Err(SyntaxError { offset: at, kind: SyntaxErrorKind::ControlCharacter }),
                Some(_) => at + 1,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn strings_of_any_length_end_where_serde_json_ends_them(
            pieces in prop::collection::vec(prop_oneof![
                4 => "[a-z é😀]{1,40}",
                8 => prop::sample::select(vec![
                    r#"\""#, r"\\", r"\/", r"\b", r"\f", r"\n", r"\r", r"\t", r"\u0041", r"\u000a", r"\u0022",
                    r"\ud83d\ude00", r"\ud800", r"\udc00",
                ]).prop_map(str::to_owned),
            ], 0..60),
            last in prop::sample::select(vec![
                "", "\"", "\u{0}", "\u{1f}", "\n", r"\", r"\x", r"\u12", r"\u12g4", r"\U0041",
            ]),
            rest in "[a-z\"]{0,80}",
        ) {
            let text = format!("\"{}{last}{rest}", pieces.concat());
            let found = string(text.as_bytes(), 0);
            prop_assert_eq!(found.map(|(end, _)| end), end_of_string(text.as_bytes()));
            let end = found.map_or(text.len(), |(end, _)| end);
            let theirs = serde_json::from_str::<&serde_json::value::RawValue>(&text[..end]);
            prop_assert_eq!(found.is_ok(), theirs.is_ok());
            prop_assert!(found.is_ok_and(|(_, escaped)| escaped == text[..end].contains('\\')) || found.is_err());
        }
    }
}
