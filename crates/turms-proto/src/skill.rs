//! Parsing and digests for the skills extension: the frontmatter of a `SKILL.md`, and the digest of a file.

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// Maximum length of the frontmatter, in bytes.
const MAX_HEADER: usize = 64 * 1024;

/// Maximum nesting depth of the frontmatter.
const MAX_DEPTH: usize = 32;

/// Returns the digest of a file in the format of skill entries: `sha256:` and the hash in hexadecimal.
#[must_use]
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(half.into(), 16));
        }
    }
    text
}

/// Error in the frontmatter of a `SKILL.md`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkillHeaderError {
    /// The file has no frontmatter.
    #[error("it does not begin with a header between two lines of ---")]
    Missing,
    /// The frontmatter exceeds the size limit.
    #[error("the header has more than {MAX_HEADER} bytes")]
    TooLong,
    /// The frontmatter is not a mapping, or uses unsupported YAML.
    #[error("line {line}: {problem}")]
    Invalid {
        /// Line number in the file, starting at 1.
        line: usize,
        /// The problem on that line.
        problem: String,
    },
}

/// Parses the frontmatter of a `SKILL.md`, the YAML between the first two lines of `---`, as JSON.
///
/// The frontmatter is YAML 1.2. Anchors and aliases are rejected, because a short text can expand without bound.
/// Repeated keys are rejected, because two readers could see different values.
///
/// # Errors
/// If the frontmatter is missing, too long or invalid.
pub fn parse_header(text: &str) -> Result<Map<String, Value>, SkillHeaderError> {
    let yaml = header_text(text).ok_or(SkillHeaderError::Missing)?;
    if yaml.len() > MAX_HEADER {
        return Err(SkillHeaderError::TooLong);
    }
    let mut reader = Reader { events: Parser::new_from_str(yaml), line: 1 };
    match reader.document()? {
        Value::Object(map) => Ok(map),
        _ => Err(reader.invalid("the header must be a mapping, such as name: and description:")),
    }
}

/// Returns `true` if two values are equal. `1` and `1.0` are the same number.
#[must_use]
pub fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        // Different large integers may have the same nearest floating-point number, so only floats are compared as
        // floats.
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, value)| other.get(name).is_some_and(|other| is_same(value, other)))
        }
        (one, other) => one == other,
    }
}

/// Returns the text between the first two lines of `---`.
fn header_text(text: &str) -> Option<&str> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let is_fence =
        |line: &str| line.strip_prefix("---").is_some_and(|rest| rest.trim_matches([' ', '\t', '\r', '\n']).is_empty());
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().filter(|line| is_fence(line))?;
    let mut end = first.len();
    for line in lines {
        if is_fence(line) {
            return Some(&text[first.len()..end]);
        }
        end += line.len();
    }
    None
}

/// Reads YAML event by event.
struct Reader<'a> {
    events: Parser<'a, saphyr_parser::StrInput<'a>>,
    /// Current line of the frontmatter.
    line: usize,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Value, SkillHeaderError> {
        let mut value = None;
        loop {
            match self.next()? {
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if value.is_none() => {
                    let first = self.next()?;
                    value = Some(self.value(first, 0)?);
                }
                Event::StreamEnd => return Ok(value.unwrap_or(Value::Null)),
                _ => return Err(self.invalid("there is more than one document")),
            }
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, SkillHeaderError> {
        if depth > MAX_DEPTH {
            return Err(self.invalid(format!("nested more than {MAX_DEPTH} levels deep")));
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.refuse_anchor(anchor)?;
                self.scalar(&text, style, tag.as_deref())
            }
            Event::SequenceStart(anchor, tag) => {
                self.refuse_anchor(anchor)?;
                self.refuse_tag(tag.as_deref())?;
                self.sequence(depth)
            }
            Event::MappingStart(anchor, tag) => {
                self.refuse_anchor(anchor)?;
                self.refuse_tag(tag.as_deref())?;
                self.mapping(depth)
            }
            Event::Alias(_) => Err(self.invalid("anchors and aliases are not supported")),
            _ => Err(self.invalid("the YAML ends too soon")),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, SkillHeaderError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                Event::SequenceEnd => return Ok(Value::Array(items)),
                item => items.push(self.value(item, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, SkillHeaderError> {
        let mut members = Map::new();
        loop {
            let name = match self.next()? {
                Event::MappingEnd => return Ok(Value::Object(members)),
                Event::Scalar(name, _, 0, None) => name.into_owned(),
                _ => return Err(self.invalid("a key must be a plain string")),
            };
            let value = self.next()?;
            let value = self.value(value, depth + 1)?;
            if members.contains_key(&name) {
                return Err(self.invalid(format!("duplicate key {name:?}")));
            }
            members.insert(name, value);
        }
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, SkillHeaderError> {
        let is_text = tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == "str");
        if !is_text {
            self.refuse_tag(tag)?;
        }
        if is_text || style != ScalarStyle::Plain {
            return Ok(Value::String(text.to_owned()));
        }
        plain(text).ok_or_else(|| self.invalid(format!("{text} cannot be written as JSON")))
    }

    fn next(&mut self) -> Result<Event<'a>, SkillHeaderError> {
        match self.events.next() {
            Some(Ok((event, place))) => {
                self.line = place.start.line();
                Ok(event)
            }
            Some(Err(error)) => {
                self.line = error.marker().line();
                Err(self.invalid(error.info()))
            }
            None => Ok(Event::StreamEnd),
        }
    }

    fn refuse_anchor(&self, anchor: usize) -> Result<(), SkillHeaderError> {
        if anchor == 0 { Ok(()) } else { Err(self.invalid("anchors and aliases are not supported")) }
    }

    fn refuse_tag(&self, tag: Option<&Tag>) -> Result<(), SkillHeaderError> {
        if tag.is_none() { Ok(()) } else { Err(self.invalid("tags other than !!str are not supported")) }
    }

    fn invalid(&self, problem: impl Into<String>) -> SkillHeaderError {
        // The first line of the file is the `---` line.
        SkillHeaderError::Invalid { line: self.line + 1, problem: problem.into() }
    }
}

/// Resolves a plain scalar by the core schema of YAML 1.2; `None` for numbers that JSON cannot represent.
fn plain(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    Some(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") => return None,
        _ if is_digits(unsigned) => integer(text)?,
        _ if text.starts_with("0o") => radix(text, 8),
        _ if text.starts_with("0x") => radix(text, 16),
        _ if is_float(unsigned) => Value::Number(Number::from_f64(text.parse().ok()?)?),
        text => Value::String(text.to_owned()),
    })
}

fn integer(text: &str) -> Option<Value> {
    let exact = text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from)).ok();
    Some(Value::Number(exact.or_else(|| Number::from_f64(text.parse().ok()?))?))
}

fn radix(text: &str, radix: u32) -> Value {
    let digits = text.get(2..).filter(|digits| !digits.starts_with('+')).unwrap_or_default();
    u64::from_str_radix(digits, radix).map_or_else(|_| Value::String(text.to_owned()), Value::from)
}

/// Returns `true` for digits with a decimal point or an exponent.
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (text, None),
    };
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    is_digits(whole)
        && is_digits(part)
        && !(whole.is_empty() && part.is_empty())
        && exponent.is_none_or(|exponent| !exponent.is_empty() && is_digits(exponent))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(yaml: &str) -> Value {
        Value::Object(parse_header(&format!("---\n{yaml}\n---\nbody\n")).unwrap())
    }

    fn refused(yaml: &str) -> String {
        parse_header(&format!("---\n{yaml}\n---\n")).unwrap_err().to_string()
    }

    #[test]
    fn a_digest_is_written_as_skills_list_it() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest(b""), empty);
    }

    #[test]
    fn a_header_is_read_as_yaml_1_2_has_it() {
        let yaml = "name: a\ndescription: >\n  two\n  lines\nlicense: 'it''s'\nmetadata:\n  n: 12\n  big: 18446744073709551615\n  f: 1.5\n  \
                    e: 1e3\n  yes: yes\n  t: True\n  none:\n  h: 0x1f\n  date: 2026-01-02\n  version: 1.2.3\n  s: !!str 5\nlist: [a, \"b\", - 1]\n";
        let yaml = yaml.replace("- 1", "-1");
        assert_eq!(
            read(&yaml),
            json!({
                "name": "a", "description": "two lines\n", "license": "it's", "list": ["a", "b", -1],
                "metadata": {
                    "n": 12, "big": 18_446_744_073_709_551_615_u64, "f": 1.5, "e": 1000.0, "yes": "yes", "t": true,
                    "none": null, "h": 31, "date": "2026-01-02", "version": "1.2.3", "s": "5",
                },
            })
        );
        assert_eq!(parse_header("\u{feff}---\r\nname: a\r\n--- \r\nbody").unwrap()["name"], "a");
    }

    #[test]
    fn what_is_no_header_is_refused_with_its_line() {
        assert_eq!(parse_header("name: a\n"), Err(SkillHeaderError::Missing));
        assert_eq!(parse_header("---\nname: a\n"), Err(SkillHeaderError::Missing));
        assert_eq!(parse_header("---x\nname: a\n---\n"), Err(SkillHeaderError::Missing));
        assert_eq!(refused("a: 1\nb: 2\na: 3"), r#"line 4: duplicate key "a""#);
        assert!(refused("- a").contains("must be a mapping"));
        assert!(refused("a: .inf").contains(".inf cannot be written as JSON"));
        assert!(refused("a: !mine 1").contains("tags other than !!str"));
        assert!(refused("a: [1").starts_with("line "));
        assert_eq!(parse_header(&format!("---\na: {}\n---\n", "x".repeat(MAX_HEADER))), Err(SkillHeaderError::TooLong));
    }

    #[test]
    fn a_header_cannot_grow_or_go_deep() {
        assert!(refused("a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]").contains("anchors and aliases"));
        assert!(refused(&format!("a: {}{}", "[".repeat(100), "]".repeat(100))).contains("more than 32"));
        let wide = format!("a: {}", "[".repeat(20_000));
        assert!(refused(&wide).starts_with("line "));
    }

    #[test]
    fn numbers_are_the_same_however_they_are_written() {
        assert!(is_same(&json!({ "a": [1, { "b": 2.0 }] }), &json!({ "a": [1.0, { "b": 2 }] })));
        for (one, other) in [
            (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992_i64)),
            (json!(1), json!("1")),
            (json!({ "a": 1 }), json!({ "a": 1, "b": 2 })),
            (json!([1]), json!([])),
        ] {
            assert!(!is_same(&one, &other));
        }
    }
}
