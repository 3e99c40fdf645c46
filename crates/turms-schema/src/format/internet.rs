//! Host names, email addresses and UUIDs.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::idna::is_encoded_label;

/// Returns `true` for host names of RFC 1123 with valid encoded labels (RFC 5891).
pub(crate) fn is_hostname(text: &str) -> bool {
    is_plain_hostname(text) && text.split('.').all(is_label)
}

/// Returns `true` for host names of RFC 1123, without a check of encoded labels.
pub(crate) fn is_plain_hostname(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_plain_label)
}

fn is_plain_label(label: &str) -> bool {
    let bytes = label.as_bytes();
    (1..=63).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
        && bytes[0] != b'-'
        && bytes[bytes.len() - 1] != b'-'
}

/// Hyphens in the third and fourth position are reserved for encoded labels.
fn is_label(label: &str) -> bool {
    match label.split_at_checked(4) {
        Some((prefix, encoded)) if prefix.ends_with("--") => {
            prefix.eq_ignore_ascii_case("xn--") && is_encoded_label(encoded)
        }
        _ => true,
    }
}

/// Returns `true` for email addresses of RFC 5321.
pub(crate) fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let is_local = match local.strip_prefix('"').and_then(|inside| inside.strip_suffix('"')) {
        Some(inside) => is_quoted(inside),
        None => local.split('.').all(|atom| !atom.is_empty() && atom.bytes().all(is_atom)),
    };
    is_local && local.len() <= 64 && is_domain(domain)
}

fn is_atom(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

fn is_quoted(inside: &str) -> bool {
    let mut bytes = inside.bytes();
    while let Some(byte) = bytes.next() {
        let is_one = match byte {
            b'\\' => bytes.next().is_some_and(|byte| (b' '..=b'~').contains(&byte)),
            b'"' => false,
            byte => (b' '..=b'~').contains(&byte),
        };
        if !is_one {
            return false;
        }
    }
    true
}

fn is_domain(domain: &str) -> bool {
    let Some(address) = domain.strip_prefix('[').and_then(|inside| inside.strip_suffix(']')) else {
        return is_hostname(domain);
    };
    match address.split_at_checked(5) {
        Some((tag, address)) if tag.eq_ignore_ascii_case("IPv6:") => address.parse::<Ipv6Addr>().is_ok(),
        _ => address.parse::<Ipv4Addr>().is_ok(),
    }
}

pub(crate) fn is_uuid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fits = |(index, byte): (usize, &u8)| match index {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    bytes.len() == 36 && bytes.iter().enumerate().all(fits)
}
