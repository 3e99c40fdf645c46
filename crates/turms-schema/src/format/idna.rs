//! Encoded labels of internationalized host names (`xn--…`, RFC 5891): decoding, and the contextual rules for their
//! characters (RFC 5892).

use std::sync::LazyLock;

use regex_syntax::hir::{ClassUnicode, HirKind};

/// Returns `true` if the text after `xn--` encodes a valid label.
pub(crate) fn is_encoded_label(encoded: &str) -> bool {
    decode(&encoded.to_ascii_lowercase()).is_some_and(|label| is_label(&label))
}

fn is_label(label: &[char]) -> bool {
    let has_hyphens = label.get(2..4) == Some(&['-', '-']) || label.first() == Some(&'-') || label.last() == Some(&'-');
    let is_ascii = label.iter().all(char::is_ascii);
    let begins_with_mark = label.first().is_none_or(|first| MARK.has(*first));
    !has_hyphens && !is_ascii && !begins_with_mark && (0..label.len()).all(|at| is_allowed(label, at))
}

/// Returns `true` if a character is allowed at this position of a label. For some characters it depends on their
/// neighbours (the contextual rules, RFC 5892, appendix A).
fn is_allowed(label: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| label[before]);
    let after = label.get(at + 1).copied();
    let is = |neighbour: Option<char>, class: &Class| neighbour.is_some_and(|neighbour| class.has(neighbour));
    match label[at] {
        // Disallowed, regardless of their category.
        '\u{640}' | '\u{7fa}' | '\u{302e}' | '\u{302f}' | '\u{3031}'..='\u{3035}' | '\u{303b}' => false,
        // Middle dot in Catalan.
        '\u{b7}' => before == Some('l') && after == Some('l'),
        // Greek keraia.
        '\u{375}' => is(after, &GREEK),
        // Hebrew geresh and gershayim.
        '\u{5f3}' | '\u{5f4}' => is(before, &HEBREW),
        // Katakana middle dot.
        '\u{30fb}' => label.iter().any(|other| *other != '\u{30fb}' && JAPANESE.has(*other)),
        '\u{660}'..='\u{669}' => !label.iter().any(|other| ('\u{6f0}'..='\u{6f9}').contains(other)),
        '\u{6f0}'..='\u{6f9}' => !label.iter().any(|other| ('\u{660}'..='\u{669}').contains(other)),
        // Zero width joiner, and non-joiner, which is also allowed between letters that would join.
        '\u{200d}' => is(before, &VIRAMA),
        '\u{200c}' => is(before, &VIRAMA) || is(before, &JOINING) && is(after, &JOINING),
        other => ALLOWED.has(other),
    }
}

/// Decodes Punycode (RFC 3492).
fn decode(encoded: &str) -> Option<Vec<char>> {
    const BASE: u32 = 36;
    let (basic, digits) = encoded.rsplit_once('-').unwrap_or(("", encoded));
    let mut label: Vec<char> = basic.chars().collect();
    let (mut code, mut index, mut bias) = (128_u32, 0_u32, 72_u32);
    let mut digits = digits.bytes();
    while digits.len() > 0 {
        let (start, mut weight) = (index, 1_u32);
        for threshold in (1..).map(|digit: u32| (digit * BASE).saturating_sub(bias).clamp(1, 26)) {
            let digit = match digits.next()? {
                letter @ b'a'..=b'z' => u32::from(letter - b'a'),
                number @ b'0'..=b'9' => u32::from(number - b'0') + 26,
                _ => return None,
            };
            index = digit.checked_mul(weight)?.checked_add(index)?;
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
        }
        let length = u32::try_from(label.len()).ok()? + 1;
        bias = adapt(index - start, length, start == 0);
        code = code.checked_add(index / length)?;
        index %= length;
        label.insert(index as usize, char::from_u32(code)?);
        index += 1;
    }
    Some(label)
}

/// Computes the bias for the next character.
fn adapt(delta: u32, length: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / 700 } else { delta / 2 };
    delta += delta / length;
    let mut steps = 0;
    while delta > 455 {
        delta /= 35;
        steps += 36;
    }
    steps + 36 * delta / (delta + 38)
}

/// A Unicode character class, from the tables of `regex-syntax`.
struct Class(LazyLock<ClassUnicode>);

impl Class {
    const fn new(make: fn() -> ClassUnicode) -> Self {
        Self(LazyLock::new(make))
    }

    fn has(&self, letter: char) -> bool {
        let ranges = self.0.ranges();
        let found = ranges.partition_point(|range| range.end() < letter);
        ranges.get(found).is_some_and(|range| range.start() <= letter)
    }
}

fn class(pattern: &str) -> ClassUnicode {
    match regex_syntax::parse(pattern).map(|hir| hir.into_kind()) {
        Ok(HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => class,
        _ => ClassUnicode::empty(),
    }
}

static MARK: Class = Class::new(|| class(r"\p{M}"));
static GREEK: Class = Class::new(|| class(r"\p{Greek}"));
static HEBREW: Class = Class::new(|| class(r"\p{Hebrew}"));
static JAPANESE: Class = Class::new(|| class(r"[\p{Hiragana}\p{Katakana}\p{Han}]"));
static JOINING: Class = Class::new(|| class(r"[\p{Arabic}\p{Syriac}\p{Mongolian}\p{Nko}\p{Phags_Pa}\p{Mandaic}]"));
static ALLOWED: Class = Class::new(|| class(r"[\p{Ll}\p{Lo}\p{Lm}\p{Mn}\p{Mc}\p{Nd}\-\x{6fd}\x{6fe}\x{f0b}\x{3007}]"));
/// Characters with the canonical combining class 9.
static VIRAMA: Class = Class::new(|| {
    class(concat!(
        r"[\x{94d}\x{9cd}\x{a4d}\x{acd}\x{b4d}\x{bcd}\x{c4d}\x{ccd}\x{d3b}\x{d3c}\x{d4d}\x{dca}\x{e3a}\x{eba}\x{f84}",
        r"\x{1039}\x{103a}\x{1714}\x{1715}\x{1734}\x{17d2}\x{1a60}\x{1b44}\x{1baa}\x{1bab}\x{1bf2}\x{1bf3}\x{2d7f}",
        r"\x{a806}\x{a82c}\x{a8c4}\x{a953}\x{a9c0}\x{aaf6}\x{abed}\x{10a3f}\x{11046}\x{11070}\x{1107f}\x{110b9}",
        r"\x{11133}\x{11134}\x{111c0}\x{11235}\x{112ea}\x{1134d}\x{11442}\x{114c2}\x{115bf}\x{1163f}\x{116b6}",
        r"\x{1172b}\x{11839}\x{1193d}\x{1193e}\x{119e0}\x{11a34}\x{11a47}\x{11a99}\x{11c3f}\x{11d44}\x{11d45}",
        r"\x{11d97}\x{11f41}\x{11f42}]"
    ))
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_decoded() {
        let decoded = |label: &str| decode(label).map(|label| label.into_iter().collect::<String>());
        assert_eq!(decoded("mnchen-3ya").as_deref(), Some("münchen"));
        assert_eq!(decoded("9n2bp8q").as_deref(), Some("실례"));
        assert_eq!(decoded("x"), None);
        assert_eq!(decoded("99999999"), None);
    }

    #[test]
    fn characters_are_allowed_by_their_neighbours() {
        for label in ["mnchen-3ya", "ll-0ea", "wva3je", "ngba5hb2804a", "K8J5U"] {
            assert!(is_encoded_label(label), "{label}");
        }
        for label in ["", "abc-", "hello-txk", "l-fda", "wva3j", "02b508i", "x"] {
            assert!(!is_encoded_label(label), "{label}");
        }
    }
}
