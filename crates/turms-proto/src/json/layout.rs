//! The layout of request parameters.

use super::scanner::{Key, LineBreaks, MAX_DEPTH, SyntaxError, SyntaxErrorKind};
use super::skip;

/// The positions of `name`, `arguments` and `_meta` in the parameters of a request. They are recorded during the
/// syntax check, so that the text is not searched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParamsLayout {
    /// The value of `arguments`, if present.
    pub(super) arguments: Span,
    /// The value of `_meta`, if present.
    meta: Span,
    /// The value of `name`, if present.
    name_start: u32,
    name_length: u16,
    known: KnownMembers,
}

/// The members with known positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KnownMembers {
    /// None.
    Nothing,
    /// `_meta`; the last one if it is repeated, as in most parsers.
    Meta,
    /// All: the object has no other members and no duplicates.
    All,
}

/// The range of a value in the text; both are 0 if the value is absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl ParamsLayout {
    /// An empty layout.
    pub(crate) const NONE: Self =
        Self { arguments: Span::NONE, meta: Span::NONE, name_start: 0, name_length: 0, known: KnownMembers::Nothing };

    /// Checks the syntax of the object at `start`, inside `depth` containers. Returns its end and its layout.
    pub(super) fn check(
        text: &str,
        start: usize,
        depth: usize,
        line_breaks: &mut LineBreaks,
    ) -> Result<(usize, Self), SyntaxError> {
        if depth >= MAX_DEPTH {
            return Err(SyntaxError { offset: start, kind: SyntaxErrorKind::TooDeep });
        }
        let mut layout = Self { known: KnownMembers::All, ..Self::NONE };
        let bytes = text.as_bytes();
        let end = skip::members(bytes, start, line_breaks, |key, value, line_breaks| {
            let end = skip::value(bytes, value, depth + 1, line_breaks)?;
            layout.add(Key::at(text, key), value - start, end - start);
            Ok(end)
        })?;
        // The positions have 32 bits.
        let fits = u32::try_from(end - start).is_ok();
        Ok((end, if fits { layout } else { Self::NONE }))
    }

    #[inline]
    fn add(&mut self, key: Key<'_>, start: usize, end: usize) {
        let value = Span { start: start as u32, end: end as u32 };
        let is_new = match key.plain() {
            Some("name") => {
                let length = u16::try_from(end - start);
                let is_new = self.name_length == 0 && length.is_ok();
                (self.name_start, self.name_length) = (value.start, length.unwrap_or(0));
                is_new
            }
            Some("arguments") => std::mem::replace(&mut self.arguments, value) == Span::NONE,
            Some("_meta") => std::mem::replace(&mut self.meta, value) == Span::NONE,
            Some(_) => false,
            None => {
                if key.name() == "_meta" {
                    self.meta = value;
                }
                false
            }
        };
        if !is_new {
            self.known = KnownMembers::Meta;
        }
    }

    /// Returns the value of `_meta` in `text`; the outer `None` means that it is unknown.
    pub(crate) fn meta(self, text: &str) -> Option<Option<&str>> {
        (self.known != KnownMembers::Nothing).then(|| self.meta.of(text))
    }

    /// Returns the value of a member in `text`; the outer `None` means that it is unknown.
    #[inline]
    pub(crate) fn member<'a>(self, text: &'a str, name: &str) -> Option<Option<&'a str>> {
        if self.known != KnownMembers::All {
            return None;
        }
        let span = match name {
            "name" => {
                let length = u32::from(self.name_length);
                if length == 0 { Span::NONE } else { Span { start: self.name_start, end: self.name_start + length } }
            }
            "arguments" => self.arguments,
            "_meta" => self.meta,
            _ => Span::NONE,
        };
        Some(span.of(text))
    }
}

impl Default for ParamsLayout {
    fn default() -> Self {
        Self::NONE
    }
}

impl Span {
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// Returns the end if the value begins at `start`.
    #[inline]
    pub(super) fn end_of(self, start: usize) -> Option<usize> {
        (start == self.start as usize && self.end > 0).then_some(self.end as usize)
    }

    fn of(self, text: &str) -> Option<&str> {
        if self == Self::NONE { None } else { text.get(self.start as usize..self.end as usize) }
    }
}
