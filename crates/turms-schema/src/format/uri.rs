//! URIs (RFC 3986) and IRIs (RFC 3987).

use std::net::Ipv6Addr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Letters {
    Ascii,
    Any,
}

/// Returns `true` for a URI with a scheme.
pub(crate) fn is_absolute(text: &str, letters: Letters) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| is_scheme(scheme) && is_rest(rest, letters))
}

/// Returns `true` for a URI reference, with or without a scheme.
pub(crate) fn is_reference(text: &str, letters: Letters) -> bool {
    if is_absolute(text, letters) {
        return true;
    }
    // The text before the first colon is a scheme, unless it contains a slash.
    let first = text.split(['/', '?', '#']).next().unwrap_or_default();
    !first.contains(':') && is_rest(text, letters)
}

fn is_scheme(scheme: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(is_letter)
}

fn is_rest(text: &str, letters: Letters) -> bool {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    let (text, query) = text.split_once('?').unwrap_or((text, ""));
    let (authority, path) = match text.strip_prefix("//") {
        Some(text) => text.split_at(text.find('/').unwrap_or(text.len())),
        None => ("", text),
    };
    is_authority(authority, letters)
        && are_letters(path, ":@/", letters)
        && are_letters(query, ":@/?", letters)
        && are_letters(fragment, ":@/?", letters)
}

fn is_authority(authority: &str, letters: Letters) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (host, port) = match host.strip_prefix('[') {
        Some(literal) => {
            let Some((address, port)) = literal.split_once(']') else { return false };
            let is_address = match address.strip_prefix(['v', 'V']) {
                Some(future) => is_future(future),
                None => address.parse::<Ipv6Addr>().is_ok(),
            };
            if !is_address || !port.is_empty() && !port.starts_with(':') {
                return false;
            }
            ("", port.trim_start_matches(':'))
        }
        None => host.split_once(':').unwrap_or((host, "")),
    };
    are_letters(user, ":", letters) && are_letters(host, "", letters) && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns `true` for an address of a future IP version, without its `v`.
fn is_future(address: &str) -> bool {
    address.split_once('.').is_some_and(|(version, rest)| {
        let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_version && !rest.is_empty() && !rest.contains('%') && are_letters(rest, ":", Letters::Ascii)
    })
}

/// Returns `true` if there are only unreserved characters, delimiters, escapes, and those in `more`.
fn are_letters(text: &str, more: &str, letters: Letters) -> bool {
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        let is_one = match letter {
            '%' => [rest.next(), rest.next()].iter().all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit())),
            letter if letter.is_ascii() => {
                letter.is_ascii_alphanumeric() || "-._~!$&'()*+,;=".contains(letter) || more.contains(letter)
            }
            letter => letters == Letters::Any && !letter.is_control(),
        };
        if !is_one {
            return false;
        }
    }
    true
}

/// Returns `true` for a URI template (RFC 6570).
pub(crate) fn is_template(text: &str) -> bool {
    let mut rest = text;
    while let Some((literal, after)) = rest.split_once('{') {
        let Some((expression, after)) = after.split_once('}') else { return false };
        if !is_literal(literal) || !is_expression(expression) {
            return false;
        }
        rest = after;
    }
    is_literal(rest)
}

fn is_literal(text: &str) -> bool {
    let is_one = |letter: char| letter > ' ' && letter != '\u{7f}' && !"\"<>\\^`{|}".contains(letter);
    text.chars().all(is_one) && are_escapes(text)
}

fn is_expression(text: &str) -> bool {
    let variables = text.strip_prefix(['+', '#', '.', '/', ';', '?', '&', '=', ',', '!', '@', '|']).unwrap_or(text);
    variables.split(',').all(is_variable)
}

fn is_variable(text: &str) -> bool {
    let name = match text.split_once(':') {
        Some((name, length)) => {
            let is_length = length.len() <= 4 && !length.starts_with('0') && length.parse::<u16>().is_ok();
            if !is_length {
                return false;
            }
            name
        }
        None => text.strip_suffix('*').unwrap_or(text),
    };
    let is_part = |part: &str| {
        let is_one = |byte: u8| byte.is_ascii_alphanumeric() || b"_%".contains(&byte);
        !part.is_empty() && part.bytes().all(is_one)
    };
    name.split('.').all(is_part) && are_escapes(name)
}

/// Returns `true` if each `%` is followed by two hexadecimal digits.
fn are_escapes(text: &str) -> bool {
    let is_one = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    text.split('%').skip(1).all(is_one)
}
