//! Characters of a URI in the normal form that expansion and matching share.

use std::fmt::Write as _;

/// A character of a URI in normal form.
///
/// `%c3%a9`, `%C3%A9` and a raw `é` are equal, so comparison ignores the case of hexadecimal digits. `A` and `%41`
/// differ, as in an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UriCharacter {
    /// An unreserved or reserved character, not encoded.
    Plain(u8),
    /// A character that is percent-encoded, or should be.
    Encoded(char),
    /// A percent-encoded byte that is not part of a UTF-8 character.
    Byte(u8),
}

impl UriCharacter {
    /// Reads a whole URI; `None` if a `%` is not followed by two hexadecimal digits.
    pub(super) fn read_all(text: &str) -> Option<Vec<Self>> {
        let mut characters = Vec::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let (character, end) = Self::read(text, at)?;
            characters.push(character);
            at = end;
        }
        Some(characters)
    }

    /// Reads the character at byte `at`, a character boundary, and returns its end.
    pub(super) fn read(text: &str, at: usize) -> Option<(Self, usize)> {
        let c = text.get(at..)?.chars().next()?;
        if c != '%' {
            let character =
                u8::try_from(c).ok().filter(|&b| has(UNRESERVED | RESERVED, b)).map_or(Self::Encoded(c), Self::Plain);
            return Some((character, at + c.len_utf8()));
        }
        let lead = triplet(text, at)?;
        let mut bytes = [lead, 0, 0, 0];
        let len = utf8_len(lead);
        for (i, slot) in bytes.iter_mut().enumerate().take(len).skip(1) {
            *slot = triplet(text, at + 3 * i).unwrap_or(0);
        }
        let decoded = str::from_utf8(&bytes[..len]).ok().and_then(|s| s.chars().next());
        Some(decoded.map_or((Self::Byte(lead), at + 3), |c| (Self::Encoded(c), at + 3 * len)))
    }

    pub(super) fn is(self, plain: u8) -> bool {
        self == Self::Plain(plain)
    }

    /// Appends the character as written in a URI, with hexadecimal digits in upper case.
    pub(super) fn spell(self, out: &mut String) {
        match self {
            Self::Plain(byte) => out.push(char::from(byte)),
            Self::Encoded(c) => percent_encode(c, out),
            Self::Byte(byte) => percent_encode_byte(byte, out),
        }
    }
}

/// Appends the simple expansion of `text`: all but unreserved characters are percent-encoded.
pub(super) fn encode(text: impl Iterator<Item = char>, out: &mut String) {
    for c in text {
        if is_in(UNRESERVED, c) { out.push(c) } else { percent_encode(c, out) }
    }
}

/// Appends the reserved expansion of the first `limit` characters of `text`: reserved characters and percent-encoded
/// triplets are kept. A triplet counts as one character, so that it is never split.
pub(super) fn encode_reserved(text: &str, limit: usize, out: &mut String) {
    let mut at = 0;
    for _ in 0..limit {
        let Some(c) = text[at..].chars().next() else { return };
        if let Some(byte) = triplet(text, at) {
            percent_encode_byte(byte, out);
            at += 3;
            continue;
        }
        if is_in(UNRESERVED | RESERVED, c) {
            out.push(c)
        } else {
            percent_encode(c, out)
        }
        at += c.len_utf8();
    }
}

/// Decodes the value of a simple expansion.
pub(super) fn decode(characters: &[UriCharacter]) -> String {
    let mut text = String::with_capacity(characters.len());
    for &character in characters {
        match character {
            UriCharacter::Encoded(c) => text.push(c),
            other => other.spell(&mut text),
        }
    }
    text
}

/// Decodes the value that has exactly `characters` as its reserved expansion.
///
/// A triplet is decoded only if expansion encodes it again. `%2F` stays `%2F`, since `/` would expand to `/`.
pub(super) fn decode_reserved(characters: &[UriCharacter]) -> String {
    let is_hex =
        |character: Option<&UriCharacter>| matches!(character, Some(UriCharacter::Plain(b)) if b.is_ascii_hexdigit());
    let mut text = String::with_capacity(characters.len());
    for (i, &character) in characters.iter().enumerate() {
        match character {
            UriCharacter::Encoded('%') if is_hex(characters.get(i + 1)) && is_hex(characters.get(i + 2)) => {
                character.spell(&mut text)
            }
            UriCharacter::Encoded(c) if !is_in(UNRESERVED | RESERVED, c) => text.push(c),
            other => other.spell(&mut text),
        }
    }
    text
}

/// The set of characters that a variable may contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct CharacterClass {
    /// Characters allowed without encoding, one bit each.
    plain: u128,
    encoded: Encoded,
}

#[derive(Clone, Copy, Debug)]
enum Encoded {
    /// Only characters that a simple expansion encodes.
    Canonical,
    /// Every character.
    Character,
    /// Also bytes that are not UTF-8.
    Any,
}

impl CharacterClass {
    /// The characters of a simple expansion.
    pub(super) const CANONICAL: Self = Self { plain: UNRESERVED, encoded: Encoded::Canonical };
    /// [`Self::CANONICAL`], and the characters that other implementations do not encode in a path.
    pub(super) const PATH: Self = Self { plain: UNRESERVED | set(b":@!$'()*+"), encoded: Encoded::Character };
    /// [`Self::CANONICAL`], and the characters that other implementations do not encode in a query.
    pub(super) const QUERY: Self = Self { plain: Self::PATH.plain | set(b"/?="), encoded: Encoded::Character };
    /// The characters of a reserved expansion.
    pub(super) const RESERVED: Self = Self { plain: UNRESERVED | RESERVED, encoded: Encoded::Any };

    pub(super) const fn with(self, plain: u8) -> Self {
        Self { plain: self.plain | 1 << plain, ..self }
    }

    pub(super) fn admits(self, character: UriCharacter) -> bool {
        match (character, self.encoded) {
            (UriCharacter::Plain(byte), _) => has(self.plain, byte),
            (UriCharacter::Encoded(c), Encoded::Canonical) => !is_in(UNRESERVED, c),
            (UriCharacter::Encoded(_), Encoded::Character | Encoded::Any) => true,
            (UriCharacter::Byte(_), encoded) => matches!(encoded, Encoded::Any),
        }
    }
}

/// RFC 3986 §2.3.
const UNRESERVED: u128 = set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~");
/// RFC 3986 §2.2: gen-delims and sub-delims.
const RESERVED: u128 = set(b":/?#[]@!$&'()*+,;=");

const fn set(bytes: &[u8]) -> u128 {
    let mut set = 0;
    let mut i = 0;
    while i < bytes.len() {
        set |= 1 << bytes[i];
        i += 1;
    }
    set
}

const fn has(set: u128, byte: u8) -> bool {
    byte.is_ascii() && set >> byte & 1 == 1
}

fn is_in(set: u128, c: char) -> bool {
    u8::try_from(c).is_ok_and(|byte| has(set, byte))
}

/// Returns the byte of the percent-encoded triplet at `at`, if there is one.
pub(super) fn triplet(text: &str, at: usize) -> Option<u8> {
    let bytes = text.as_bytes().get(at..at + 3)?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match *bytes {
        [b'%', high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    }
}

fn percent_encode(c: char, out: &mut String) {
    for &byte in c.encode_utf8(&mut [0; 4]).as_bytes() {
        percent_encode_byte(byte, out);
    }
}

fn percent_encode_byte(byte: u8, out: &mut String) {
    let _ = write!(out, "%{byte:02X}");
}

/// Returns the length in bytes of a character with the first byte `lead`; 1 for an invalid first byte.
const fn utf8_len(lead: u8) -> usize {
    match lead {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => 1,
    }
}
