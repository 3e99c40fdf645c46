use super::scan::{Key, Layout, MAX_DEPTH, Problem, SyntaxError};
use super::skip;

/// What was seen of an object while its text was checked, so that whoever looks for a member need not read all of it again.
///
/// The objects are the parameters of requests, so what is noted is what is looked for in most of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The value of `arguments`, if there is one.
    pub(super) arguments: Span,
    /// The value of `_meta`, if there is one.
    meta: Span,
    /// The value of `name`, if there is one.
    name_start: u32,
    name_length: u16,
    known: Known,
}

/// How much is known of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nobody has looked.
    Nothing,
    /// Where `_meta` is, the last one if there are several, as most parsers have it.
    Meta,
    /// Where everything is: there is nothing but `name`, `arguments` and `_meta`, and none of them twice.
    All,
}

/// From where to where a value goes. One that is not there ends where the text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    start: u32,
    end: u32,
}

impl Outline {
    /// Nobody has looked.
    pub(crate) const NONE: Self =
        Self { arguments: Span::NONE, meta: Span::NONE, name_start: 0, name_length: 0, known: Known::Nothing };

    /// Checks the object at a place, inside `depth` containers, and takes note of it. Also where it ends.
    pub(super) fn check(
        text: &str,
        start: usize,
        depth: usize,
        layout: &mut Layout,
    ) -> Result<(usize, Self), SyntaxError> {
        if depth >= MAX_DEPTH {
            return Err(SyntaxError { offset: start, problem: Problem::TooDeep });
        }
        let mut outline = Self { known: Known::All, ..Self::NONE };
        let bytes = text.as_bytes();
        let end = skip::members(bytes, start, layout, |key, value, layout| {
            let end = skip::value(bytes, value, depth + 1, layout)?;
            outline.add(Key::at(text, key), value - start, end - start);
            Ok(end)
        })?;
        // What is further away than anything of ours is long cannot be noted.
        let is_near = u32::try_from(end - start).is_ok();
        Ok((end, if is_near { outline } else { Self::NONE }))
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
            self.known = Known::Meta;
        }
    }

    /// Where `_meta` is in `text`, if it is there at all; `None` if nobody has looked.
    pub(crate) fn meta(self, text: &str) -> Option<Option<&str>> {
        (self.known != Known::Nothing).then(|| self.meta.of(text))
    }

    /// Where a member is in `text`, if it is there at all; `None` if that is not known.
    #[inline]
    pub(crate) fn member<'a>(self, text: &'a str, name: &str) -> Option<Option<&'a str>> {
        if self.known != Known::All {
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

impl Default for Outline {
    fn default() -> Self {
        Self::NONE
    }
}

impl Span {
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// Where it ends, if this is where it begins.
    #[inline]
    pub(super) fn end_of(self, start: usize) -> Option<usize> {
        (start == self.start as usize && self.end > 0).then_some(self.end as usize)
    }

    fn of(self, text: &str) -> Option<&str> {
        if self == Self::NONE { None } else { text.get(self.start as usize..self.end as usize) }
    }
}
