//! Where JSON values end, and whether they are any.
//!
//! These are functions of a text and a place in it rather than methods of a cursor: a place stays in a register, a cursor has
//! to be written back whenever somebody else looks at it. Every message goes through here once, so that counts.

use super::scanner::{LineBreaks, MAX_DEPTH, Problem, SyntaxError};
use super::string::{plain_length, special_in};

/// What stands at a place. Behind the end there is nothing that any grammar allows.
#[inline(always)]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

/// What is expected here is not there.
#[cold]
pub(super) fn unexpected(text: &[u8], at: usize) -> SyntaxError {
    let problem = if at >= text.len() { Problem::UnexpectedEnd } else { Problem::UnexpectedCharacter };
    SyntaxError { offset: at, problem }
}

/// Where the white space at a place ends. Between tokens there is mostly none.
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

/// Where the value at a place ends, which is inside `depth` containers.
#[inline(always)]
pub(super) fn value(text: &[u8], at: usize, depth: usize, line_breaks: &mut LineBreaks) -> Result<usize, SyntaxError> {
    match byte(text, at) {
        b'"' => Ok(string(text, at)?.0),
        b'{' | b'[' => container(text, at, depth, line_breaks),
        _ => word_or_number(text, at),
    }
}

/// Passes over the members of the object at a place. `each` is told where a key begins and ends, whether it has escapes and
/// where its value begins, and says where that ends.
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

/// Where a key is, without its quotes.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeyPlace {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// The key at a place, and where its value begins.
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

/// Up to how many bytes it costs less to look at eight of them than to call what looks at many.
const SHORT: usize = 48;

/// Where the string at a place ends, and whether it has escapes.
#[inline(always)]
pub(super) fn string(text: &[u8], at: usize) -> Result<(usize, bool), SyntaxError> {
    match short_string(text, at) {
        Ok(end) => Ok((end, false)),
        Err(from) => any_string(text, from),
    }
}

/// Where the string at a place ends if it is short and has no escapes; else a place that is before its end and any escape.
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

/// As [`string`], of one that is long, has escapes or is at the end of the text, from a place before any of that.
#[inline(never)]
fn any_string(text: &[u8], mut at: usize) -> Result<(usize, bool), SyntaxError> {
    let mut escaped = false;
    loop {
        at += plain_length(&text[at..]);
        match text.get(at) {
            None => return Err(SyntaxError { offset: at, problem: Problem::UnexpectedEnd }),
            Some(b'"') => return Ok((at + 1, escaped)),
            Some(b'\\') => {
                escaped = true;
                at = match text.get(at + 1) {
                    Some(b'"' | b'\\' | b'n') => at + 2,
                    _ => escape(text, at + 1)?,
                };
            }
            Some(_) => return Err(SyntaxError { offset: at, problem: Problem::ControlCharacter }),
        }
    }
}

/// Where an escape ends, of which this is the place behind the backslash.
pub(super) fn escape(text: &[u8], at: usize) -> Result<usize, SyntaxError> {
    let invalid = SyntaxError { offset: at, problem: Problem::InvalidEscape };
    match text.get(at) {
        None => Err(SyntaxError { offset: at, problem: Problem::UnexpectedEnd }),
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
        Some(b'u') => match text.get(at + 1..at + 5) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 5),
            _ => Err(invalid),
        },
        Some(_) => Err(invalid),
    }
}

/// Where an array or object ends, found without recursion: one bit per open container tells which of the two it is.
#[inline(never)]
fn container(text: &[u8], mut at: usize, outer: usize, line_breaks: &mut LineBreaks) -> Result<usize, SyntaxError> {
    let mut objects = 0_u128;
    let mut depth = 0;
    loop {
        // This is the place of a value.
        match byte(text, at) {
            open @ (b'{' | b'[') => {
                if outer + depth >= MAX_DEPTH {
                    return Err(SyntaxError { offset: at, problem: Problem::TooDeep });
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
        // A value is done: go on with its neighbour, or close containers until one has a neighbour.
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
    let invalid = |at| SyntaxError { offset: at, problem: Problem::InvalidNumber };
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
        // "01" and "1x" are not numbers followed by something; they are wrong numbers.
        b'0'..=b'9' | b'.' | b'a'..=b'z' | b'A'..=b'Z' => Err(invalid(at)),
        _ => Ok(at),
    }
}

/// Where the digits at a place end, if there are any.
#[inline]
fn digits(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while byte(text, at).is_ascii_digit() {
        at += 1;
    }
    (at > start).then_some(at)
}
