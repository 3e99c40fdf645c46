//! Visitor for JSON that is already checked.

use std::ops::ControlFlow;

use super::raw::RawJson;
use super::skip;

/// Receives the parts of a JSON value in source order; see [`RawJson::walk`].
pub trait JsonVisitor<'a> {
    /// Visits the name of the next member, with its quotes. `escaped` is `true` if it has escapes.
    fn name(&mut self, quoted: &'a str, escaped: bool);

    /// Visits a value that is neither an array nor an object, as written. `escaped` is `true` for a string with
    /// escapes.
    fn scalar(&mut self, written: &'a str, escaped: bool) -> ControlFlow<()>;

    /// Enters an array or object. `from_bracket` is the text from its opening bracket to the end of the whole value.
    fn enter(&mut self, from_bracket: &'a str) -> ControlFlow<()>;

    /// Leaves the array or object that was entered last. `rest` is the text after it.
    fn leave(&mut self, rest: &'a str);
}

impl RawJson {
    /// Passes all parts of the value to a visitor, without recursion, until it breaks or the value ends.
    #[doc(hidden)]
    pub fn walk<'a>(&'a self, visitor: &mut impl JsonVisitor<'a>) {
        // The text is already checked, so the walk ends with a value or a break.
        let _ = walk(self.as_str(), visitor);
    }
}

/// Returns the byte at a position; 0, which no token begins with, after the end.
#[inline(always)]
fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or(0)
}

fn walk<'a>(text: &'a str, visitor: &mut impl JsonVisitor<'a>) -> ControlFlow<()> {
    let bytes = text.as_bytes();
    // One bit for each open container says whether it is an object. The visitor must reject deeper containers.
    let (mut objects, mut depth) = (0_u128, 0_usize);
    let mut at = space(bytes, 0);
    loop {
        match byte(bytes, at) {
            0 => return ControlFlow::Break(()),
            open @ (b'{' | b'[') => {
                visitor.enter(&text[at..])?;
                (objects, depth) = (objects << 1 | u128::from(open == b'{'), depth + 1);
                at = space(bytes, at + 1);
                if !matches!(byte(bytes, at), b'}' | b']') {
                    if open == b'{' {
                        at = name(text, at, visitor);
                    }
                    continue;
                }
            }
            b'"' => {
                let (end, escaped) = string(bytes, at);
                visitor.scalar(&text[at..end], escaped)?;
                at = end;
            }
            _ => {
                let end = word(bytes, at);
                visitor.scalar(&text[at..end], false)?;
                at = end;
            }
        }
        // A value ended, or a container was empty: continue with the next entry, or leave containers until one has a
        // next entry.
        loop {
            at = space(bytes, at);
            match byte(bytes, at) {
                _ if depth == 0 => return ControlFlow::Continue(()),
                b',' => {
                    at = space(bytes, at + 1);
                    if objects & 1 == 1 {
                        at = name(text, at, visitor);
                    }
                    break;
                }
                b'}' | b']' => {
                    at += 1;
                    visitor.leave(&text[at..]);
                    (objects, depth) = (objects >> 1, depth - 1);
                }
                _ => return ControlFlow::Break(()),
            }
        }
    }
}

/// Visits the name at a position, and returns the start of its value.
#[inline(always)]
fn name<'a>(text: &'a str, at: usize, visitor: &mut impl JsonVisitor<'a>) -> usize {
    let bytes = text.as_bytes();
    let (end, escaped) = string(bytes, at);
    visitor.name(&text[at..end], escaped);
    space(bytes, space(bytes, end) + 1)
}

#[inline(always)]
fn space(text: &[u8], mut at: usize) -> usize {
    while matches!(byte(text, at), b' ' | b'\t' | b'\n' | b'\r') {
        at += 1;
    }
    at
}

/// Returns the end of the string at a position, and `true` if it has escapes.
#[inline(always)]
fn string(text: &[u8], at: usize) -> (usize, bool) {
    match skip::short_string(text, at) {
        Ok(end) => (end, false),
        Err(from) => long_string(text, from),
    }
}

/// Returns the end of a string that is long or has escapes, from a position before both.
#[inline(never)]
fn long_string(text: &[u8], mut at: usize) -> (usize, bool) {
    let mut escaped = false;
    loop {
        match text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
            Some(ahead) if text[at + ahead] == b'"' => return (at + ahead + 1, escaped),
            Some(ahead) => {
                escaped = true;
                at += ahead + 2;
            }
            None => return (text.len(), escaped),
        }
    }
}

/// Returns the end of the number, `true`, `false` or `null` at a position.
#[inline(always)]
fn word(text: &[u8], mut at: usize) -> usize {
    at += 1;
    while !matches!(byte(text, at), b',' | b']' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | 0) {
        at += 1;
    }
    at.min(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Visited parts, one per line.
    struct Shown(Vec<String>);

    impl<'a> JsonVisitor<'a> for Shown {
        fn name(&mut self, quoted: &'a str, escaped: bool) {
            self.0.push(format!("name {quoted} {escaped}"));
        }

        fn scalar(&mut self, written: &'a str, escaped: bool) -> ControlFlow<()> {
            self.0.push(format!("scalar {written} {escaped}"));
            if written == "\"stop\"" { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }

        fn enter(&mut self, from_bracket: &'a str) -> ControlFlow<()> {
            self.0.push(format!("enter {}", &from_bracket[..1]));
            ControlFlow::Continue(())
        }

        fn leave(&mut self, rest: &'a str) {
            self.0.push(format!("leave {}", rest.len()));
        }
    }

    fn shown(text: &'static str) -> Vec<String> {
        let mut shown = Shown(Vec::new());
        RawJson::parse(text).unwrap().walk(&mut shown);
        shown.0
    }

    #[test]
    fn every_part_is_shown_in_its_order() {
        assert_eq!(shown(" -1.5e3 "), ["scalar -1.5e3 false"]);
        assert_eq!(shown("[ ]"), ["enter [", "leave 0"]);
        assert_eq!(
            shown(r#"{"a": [1, {"b" : null}, []] , "c\"d":"x\ty"} "#),
            [
                "enter {",
                "name \"a\" false",
                "enter [",
                "scalar 1 false",
                "enter {",
                "name \"b\" false",
                "scalar null false",
                "leave 22",
                "enter [",
                "leave 18",
                "leave 17",
                r#"name "c\"d" true"#,
                r#"scalar "x\ty" true"#,
                "leave 0",
            ]
        );
        let long = shown(r#"["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\","b"]"#);
        assert!(long[1].ends_with("\\\\\" true") && long[2] == "scalar \"b\" false");
    }

    #[test]
    fn a_visitor_may_end_the_walk() {
        assert_eq!(shown(r#"["stop",1]"#), ["enter [", "scalar \"stop\" false"]);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[\[{]("[a\\n\pL]{0,3}"[:,]|[0-9],|[\[\]{} ]){0,6}[\]}]"#) {
            if let Ok(value) = RawJson::parse(text) {
                value.walk(&mut Shown(Vec::new()));
            }
        }
    }
}
