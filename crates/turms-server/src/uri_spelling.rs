//! Comparison of URIs that differ only in percent-encoding (RFC 3986, section 6.2.2.2).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns the normalized form of a URI. Unreserved characters are decoded, other percent-encodings are in upper case,
/// and non-ASCII characters are percent-encoded. Equivalent URIs have the same normalized form.
pub(crate) fn normalized(uri: &str) -> Cow<'_, str> {
    if uri.is_ascii() && !uri.contains('%') {
        return Cow::Borrowed(uri);
    }
    let mut normal = String::with_capacity(uri.len());
    for (byte, is_encoded) in decoded(uri) {
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        if is_unreserved || !is_encoded && byte.is_ascii() {
            normal.push(char::from(byte));
        } else {
            let _ = write!(normal, "%{byte:02X}");
        }
    }
    Cow::Owned(normal)
}

/// Returns the decoded bytes of a URI, each with a flag that is `true` if the byte was percent-encoded. A `%` without
/// two hex digits is a literal `%`.
fn decoded(uri: &str) -> impl Iterator<Item = (u8, bool)> {
    let mut rest = uri.as_bytes();
    std::iter::from_fn(move || {
        let (first, after) = rest.split_first()?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        if let (b'%', [high, low, after @ ..]) = (first, after)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            rest = after;
            return u8::try_from(high << 4 | low).ok().map(|byte| (byte, true));
        }
        rest = after;
        Some((*first, false))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_uri_have_one_normal_spelling() {
        for (uri, normal) in [
            ("note://private", "note://private"),
            ("note://%70rivate", "note://private"),
            ("note://%7E%2d", "note://~-"),
            ("note://a%2fb", "note://a%2Fb"),
            ("note://grüße", "note://gr%C3%BC%C3%9Fe"),
            ("note://gr%c3%bc%C3%9fe", "note://gr%C3%BC%C3%9Fe"),
            ("note://100%", "note://100%"),
            ("note://%zz%2", "note://%zz%2"),
            ("note://%2570", "note://%2570"),
            ("note://a b", "note://a b"),
        ] {
            assert_eq!(normalized(uri), normal, "{uri}");
            assert_eq!(normalized(&normalized(uri)), normal, "{uri}");
        }
    }
}
