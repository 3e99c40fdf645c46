//! Parsing of callbacks.

use url::{Url, form_urlencoded};

use crate::flow::Callback;
use crate::secret::Secret;

/// Maximum length of a callback URL, in bytes.
pub(super) const MAX_CALLBACK_BYTES: usize = 16 * 1024;

/// Parses the URL of a callback, or its query with or without the question mark.
///
/// `None` if it has neither a code nor an error, or if it is too long.
pub(super) fn parse_callback(text: &str) -> Option<Callback> {
    let text = text.trim();
    if text.len() > MAX_CALLBACK_BYTES {
        return None;
    }
    let callback = match Url::parse(text) {
        Ok(url) => parse_query(url.query()?)?,
        Err(_) => {
            let query = text.split_once('?').map_or(text, |(_, query)| query);
            let query = query.split_once('#').map_or(query, |(query, _)| query);
            parse_query(query)?
        }
    };
    (callback.code.is_some() || callback.error.is_some()).then_some(callback)
}

/// Parses the query of a callback. `None` if a parameter is there twice, which RFC 6749 §3.1 forbids.
pub(super) fn parse_query(query: &str) -> Option<Callback> {
    let mut callback = Callback::default();
    let mut code = None;
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        let target = match &*name {
            "code" => &mut code,
            "state" => &mut callback.state,
            "iss" => &mut callback.iss,
            "error" => &mut callback.error,
            "error_description" => &mut callback.error_description,
            _ => continue,
        };
        if target.replace(value.into_owned()).is_some() {
            return None;
        }
    }
    callback.code = code.map(Secret::new);
    Some(callback)
}
