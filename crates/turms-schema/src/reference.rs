//! Resolution of references (RFC 3986) and JSON pointers.

use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use percent_encoding::percent_decode_str;

use crate::explain::shortened;

/// Resolves a reference against a base. Returns the URI without its fragment, and the fragment.
pub(crate) fn resolve<'a>(base: &str, reference: &'a str) -> (String, Cow<'a, str>) {
    let (reference, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    (absolute(base, reference), decoded(fragment))
}

/// Resolves a reference without a fragment (RFC 3986, section 5.2.2).
fn absolute(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if scheme_length(reference).is_some() {
        return reference.to_owned();
    }
    let scheme_end = scheme_length(base).map_or(0, |length| length + 1);
    let (scheme, rest) = base.split_at(scheme_end);
    if reference.starts_with("//") {
        return format!("{scheme}{reference}");
    }
    let authority_end = match rest.strip_prefix("//") {
        Some(after) => 2 + after.find(['/', '?']).unwrap_or(after.len()),
        None => 0,
    };
    let (authority, path) = rest.split_at(authority_end);
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    if reference.starts_with('?') {
        return format!("{scheme}{authority}{path}{reference}");
    }
    let directory = match path.rfind('/') {
        _ if reference.starts_with('/') => "",
        Some(end) => &path[..=end],
        None if authority.is_empty() => "",
        None => "/",
    };
    format!("{scheme}{authority}{}", without_dots(&format!("{directory}{reference}")))
}

/// Returns the length of the scheme; `None` for a relative reference.
fn scheme_length(reference: &str) -> Option<usize> {
    let end = reference.find(':')?;
    let scheme = &reference.as_bytes()[..end];
    let is_scheme = scheme.first().is_some_and(u8::is_ascii_alphabetic)
        && scheme.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
    is_scheme.then_some(end)
}

/// Removes the segments `.` and `..` from a path, which may be followed by a query (RFC 3986, section 5.2.4).
fn without_dots(path_and_query: &str) -> String {
    let (path, query) = path_and_query.find('?').map_or((path_and_query, ""), |end| path_and_query.split_at(end));
    if !path.contains("./") && !path.ends_with('.') {
        return path_and_query.to_owned();
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match *segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                if kept.len() > 1 || kept.first().is_some_and(|first| !first.is_empty()) {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("{}{query}", kept.join("/"))
}

/// Decodes percent-encoding: `%41` is `A`. A fragment that is not UTF-8 stays unchanged.
fn decoded(fragment: &str) -> Cow<'_, str> {
    percent_decode_str(fragment).decode_utf8().unwrap_or(Cow::Borrowed(fragment))
}

/// Returns the tokens of a JSON pointer, unescaped.
pub(crate) fn tokens(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}

/// Returns `true` if the text is a JSON pointer (RFC 6901).
pub(crate) fn is_pointer(text: &str) -> bool {
    let is_escaped = |rest: &str| rest.starts_with(['0', '1']);
    (text.is_empty() || text.starts_with('/')) && text.split('~').skip(1).all(is_escaped)
}

/// A JSON pointer to a position in a document. Pointers share their common prefix, and are formatted only for errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pointer<'a>(Option<Rc<(Self, Cow<'a, str>)>>);

impl<'a> Pointer<'a> {
    /// Returns the pointer to a member or element of this position.
    pub(crate) fn join(&self, token: impl Into<Cow<'a, str>>) -> Self {
        Self(Some(Rc::new((self.clone(), token.into()))))
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.is_none()
    }
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut tokens = Vec::new();
        let mut rest = self;
        while let Some(last) = &rest.0 {
            tokens.push(&*last.1);
            rest = &last.0;
        }
        tokens
            .iter()
            .rev()
            .try_for_each(|token| write!(f, "/{}", shortened(token).replace('~', "~0").replace('/', "~1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_against_their_base() {
        for (base, reference, address, fragment) in [
            ("", "#/a", "", "/a"),
            ("", "a.json#b", "a.json", "b"),
            ("http://x.example/a/b", "c#", "http://x.example/a/c", ""),
            ("http://x.example/a/b", "/c", "http://x.example/c", ""),
            ("http://x.example/a/b", "../c", "http://x.example/c", ""),
            ("http://x.example/a/b", "./c/../d", "http://x.example/a/d", ""),
            ("http://x.example/a/b", "../../../d", "http://x.example/d", ""),
            ("http://x.example/a/b", "..?q", "http://x.example/?q", ""),
            ("http://x.example", "c", "http://x.example/c", ""),
            ("http://x.example/a?q", "?r", "http://x.example/a?r", ""),
            ("http://x.example/a", "//y.example/b", "http://y.example/b", ""),
            ("http://x.example/a", "urn:uuid:1#x", "urn:uuid:1", "x"),
            ("urn:uuid:1", "#/a", "urn:uuid:1", "/a"),
            ("a/b", "c", "a/c", ""),
            ("", "#/a%25b/%22", "", "/a%b/\""),
        ] {
            assert_eq!(resolve(base, reference), (address.to_owned(), Cow::Borrowed(fragment)), "{base} {reference}");
        }
    }

    #[test]
    fn tokens_of_pointers_are_escaped() {
        assert_eq!(tokens("/a~1b/~01/").collect::<Vec<_>>(), ["a/b", "~1", ""]);
        assert_eq!(tokens("").count(), 0);
        assert_eq!(Pointer::default().join("x").join("a/~b").to_string(), "/x/a~1~0b");
    }
}
