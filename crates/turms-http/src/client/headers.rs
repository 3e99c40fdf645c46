//! What a request says beside its body, kept as text where that spares making a map of it.

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};

/// The headers of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Headers<'a> {
    /// These count more than lines of the same name.
    pub(super) map: Cow<'a, HeaderMap>,
    pub(super) lines: Cow<'a, [Line<'a>]>,
}

/// One header, whose name is in lower case.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    pub(super) name: Cow<'a, str>,
    value: Cow<'a, str>,
}

impl<'a> Line<'a> {
    pub(super) const fn fixed(name: &'static str, value: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), value: Cow::Borrowed(value) }
    }

    /// `None` if a header cannot hold the value.
    pub(super) fn new(name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) -> Option<Self> {
        let (name, value) = (name.into(), value.into());
        let fits = value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        fits.then_some(Self { name, value })
    }
}

impl<'a> Headers<'a> {
    /// With one more.
    pub(super) fn push(&mut self, line: Line<'a>) {
        self.lines.to_mut().push(line);
    }

    /// Whether the map has one of this name.
    pub(super) fn contains(&self, name: &HeaderName) -> bool {
        !self.map.is_empty() && self.map.contains_key(name)
    }

    /// Names and values of all of them.
    pub(super) fn each(&self, mut see: impl FnMut(&str, &[u8])) {
        for (name, value) in &*self.map {
            see(name.as_str(), value.as_bytes());
        }
        for line in &*self.lines {
            if self.map.is_empty() || !self.map.contains_key(&*line.name) {
                see(&line.name, line.value.as_bytes());
            }
        }
    }

    /// All of them as a map.
    pub(super) fn into_map(self) -> HeaderMap {
        let mut map = self.map.into_owned();
        for line in &*self.lines {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(&*line.name), HeaderValue::from_str(&line.value)) {
                map.entry(name).or_insert(value);
            }
        }
        map
    }
}

impl From<HeaderMap> for Headers<'_> {
    fn from(map: HeaderMap) -> Self {
        Self { map: Cow::Owned(map), lines: Cow::default() }
    }
}

impl<'a> From<&'a HeaderMap> for Headers<'a> {
    fn from(map: &'a HeaderMap) -> Self {
        Self { map: Cow::Borrowed(map), lines: Cow::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_counts_more_than_lines() {
        let map = HeaderMap::from_iter([(http::header::ACCEPT, HeaderValue::from_static("a/b"))]);
        let mut headers = Headers::from(&map);
        headers.push(Line::fixed("accept", "c/d"));
        headers.push(Line::new("mcp-name", "e".to_owned()).unwrap());
        let mut seen = Vec::new();
        headers.each(|name, value| seen.push((name.to_owned(), value.to_vec())));
        assert_eq!(seen, [("accept".to_owned(), b"a/b".to_vec()), ("mcp-name".to_owned(), b"e".to_vec())]);
        let map = headers.into_map();
        assert_eq!(map.len(), 2);
        assert!(map["accept"] == "a/b" && map["mcp-name"] == "e");
    }

    #[test]
    fn what_a_header_cannot_hold_is_no_line() {
        assert!(Line::new("mcp-name", "a\tb ~").is_some());
        for value in ["a\r\nb", "é", "\u{7f}", "\0"] {
            assert!(Line::new("mcp-name", value).is_none(), "{value:?}");
        }
    }
}
