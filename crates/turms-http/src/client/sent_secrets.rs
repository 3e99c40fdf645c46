//! The credentials of a request, which servers may repeat in errors: in a challenge, or in a page for developers.

use std::fmt;

use http::header::{HOST, ORIGIN, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

/// Minimum length of a secret that is searched for, in bytes. Shorter ones appear in texts by chance.
const MIN_LENGTH: usize = 4;

/// The values of the headers of a request that are marked as sensitive. All that applications set are; names of hosts are no secrets, and
/// servers name them as the reason of an error.
#[derive(Clone, Default)]
pub struct SentSecrets(SmallVec<[HeaderValue; 2]>);

impl SentSecrets {
    /// Takes the values of a request.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let secrets = headers.iter().filter(|(name, value)| value.is_sensitive() && !matches!(**name, HOST | ORIGIN));
        Self(secrets.map(|(_, value)| value.clone()).collect())
    }

    /// Removes the secrets from a text. Must come before the text is shortened: a part of a secret is not found.
    #[must_use]
    pub fn hide(&self, text: String) -> String {
        let values = self.0.iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        // `Authorization` begins with a scheme.
        let secrets = values.map(|value| value.split_once(' ').map_or(value, |(_, secret)| secret));
        secrets
            .filter(|secret| secret.len() >= MIN_LENGTH)
            .fold(text, |text, secret| if text.contains(secret) { text.replace(secret, "[..]") } else { text })
    }

    /// Removes the secrets from the challenges of a response.
    pub fn hide_in_challenges(&self, headers: &mut HeaderMap) {
        for (_, value) in headers.iter_mut().filter(|(name, _)| *name == WWW_AUTHENTICATE) {
            let hidden = self.hide(String::from_utf8_lossy(value.as_bytes()).into_owned());
            if hidden.as_bytes() != value.as_bytes() {
                *value = HeaderValue::try_from(hidden).unwrap_or_else(|_| HeaderValue::from_static(""));
            }
        }
    }
}

/// Shows no value.
impl fmt::Debug for SentSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SentSecrets(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_sensitive_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, text, is_sensitive) in [
            ("authorization", "Bearer s3cret", true),
            ("x-key", "key-1", true),
            ("x-short", "abc", true),
            ("origin", "https://a", true),
            ("x", "open", false),
        ] {
            let mut value = HeaderValue::from_static(text);
            value.set_sensitive(is_sensitive);
            headers.insert(name, value);
        }
        let secrets = SentSecrets::of(&headers);
        assert_eq!(
            secrets.hide("Bearer s3cret, key-1, abc, https://a, open".to_owned()),
            "Bearer [..], [..], abc, https://a, open"
        );
        let mut response = HeaderMap::new();
        response.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer error=\"s3cret\""));
        response.insert("x-other", HeaderValue::from_static("s3cret"));
        secrets.hide_in_challenges(&mut response);
        assert_eq!(
            (&response[WWW_AUTHENTICATE], &response["x-other"]),
            (&"Bearer error=\"[..]\"".parse().unwrap(), &"s3cret".parse().unwrap())
        );
    }
}
