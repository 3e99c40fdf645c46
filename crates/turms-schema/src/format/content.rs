//! `contentEncoding` and `contentMediaType`. Only drafts 6 and 7 assert them; since then they are annotations.

use std::borrow::Cow;

use serde::de::IgnoredAny;

/// The supported values of `contentEncoding` and `contentMediaType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) is_base64: bool,
    pub(crate) is_json: bool,
}

impl Content {
    pub(crate) fn holds(self, text: &str) -> bool {
        let content = if self.is_base64 { decoded(text).map(Cow::Owned) } else { Some(Cow::Borrowed(text.as_bytes())) };
        content.is_some_and(|content| !self.is_json || serde_json::from_slice::<IgnoredAny>(&content).is_ok())
    }

    pub(crate) fn describe(self) -> &'static str {
        match self.is_base64 {
            true if self.is_json => "JSON in base64",
            true => "base64",
            false => "JSON",
        }
    }
}

/// Decodes base64 (RFC 4648, section 4).
fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(digits.len());
    let (mut buffer, mut bits) = (0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        buffer = buffer << 6 | u32::from(value);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((buffer >> bits).to_le_bytes()[0]);
        }
    }
    text.len().is_multiple_of(4).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_told_from_other_texts() {
        let holds = |is_base64, is_json, text| Content { is_base64, is_json }.holds(text);
        assert!(holds(true, false, "eyJmb28iOiAiYmFyIn0K") && holds(true, false, "YQ==") && holds(true, false, ""));
        assert!(
            !holds(true, false, "eyJmb28iOi%iYmFyIn0K") && !holds(true, false, "YQ") && !holds(true, false, "Y===")
        );
        assert!(
            holds(true, true, "eyJmb28iOiAiYmFyIn0K") && !holds(true, true, "ezp9Cg==") && !holds(true, true, "{}")
        );
        assert!(holds(false, true, "{\"a\": 1}") && !holds(false, true, "{:}"));
        assert_eq!(decoded("YWJjZA==").unwrap(), b"abcd");
    }
}
