//! Reading and checking the claims of signed tokens that clients send.

use serde_json::{Map, Value};

use crate::jws::{JwkSet, Jws};

/// The claims of a token.
pub(crate) type Claims = Map<String, Value>;

/// Tolerated difference of clocks, in seconds.
pub(crate) const LEEWAY: u64 = 60;

/// Maximum number of keys that a token without a key id is tried with.
const MAX_TRIED_KEYS: usize = 8;

/// Checks the signature of a token with one of some keys, and returns its claims. A key id selects the key.
pub(crate) fn verified_claims(jws: &Jws<'_>, keys: &JwkSet) -> Option<Claims> {
    let kid = jws.header("kid");
    let candidates = keys.keys.iter().filter(|key| kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid);
    candidates.take(MAX_TRIED_KEYS).any(|key| jws.verify(key).is_ok()).then(|| jws.claims().ok())?
}

pub(crate) fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name)?.as_str()
}

/// Returns a time in seconds since 1970.
pub(crate) fn date(claims: &Claims, name: &str) -> Option<u64> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    claims.get(name)?.as_f64().map(|seconds| seconds as u64)
}

/// Returns the texts of a claim that is one text or a list of texts.
pub(crate) fn texts<'a>(claims: &'a Claims, name: &str) -> Vec<&'a str> {
    match claims.get(name) {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns `true` if a token has an expiry that has not passed, and is already valid.
pub(crate) fn is_current(claims: &Claims, now: u64) -> bool {
    date(claims, "exp").is_some_and(|end| end.saturating_add(LEEWAY) > now)
        && date(claims, "nbf").is_none_or(|begin| begin <= now + LEEWAY)
        && date(claims, "iat").is_none_or(|issued| issued <= now + LEEWAY)
}
