use super::scan::Key;

/// What was seen of an object while its text was checked, so that whoever looks for a member need not read all of it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outline {
    /// The longest value, if it is long.
    pub(super) long: Span,
    /// The value of `_meta`, if there is one.
    meta: Span,
    /// Whether anybody has looked.
    known: bool,
}

/// From where to where a value goes. One that is not there ends where the text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Outline {
    /// Nobody has looked.
    pub(crate) const NONE: Self = Self { long: Span::NONE, meta: Span::NONE, known: false };

    /// As [`Outline::NONE`], of an object that has nothing to be noted.
    pub(super) const EMPTY: Self = Self { known: true, ..Self::NONE };

    /// What is shorter is read again as fast as it is passed over.
    const LONG: usize = 64;

    /// Where `_meta` is in `text`, if it is there at all; `None` if nobody has looked.
    pub(crate) fn meta(self, text: &str) -> Option<Option<&str>> {
        self.known.then(|| self.meta.of(text))
    }

    /// There is something that cannot be noted.
    pub(super) fn forget(&mut self) {
        self.known = false;
    }

    pub(super) fn add(&mut self, key: Key<'_>, value: Span) {
        if value.len() > self.long.len().max(Self::LONG) {
            self.long = value;
        }
        if key.name() == "_meta" {
            self.meta = value;
        }
    }
}

impl Default for Outline {
    fn default() -> Self {
        Self::NONE
    }
}

impl Span {
    pub(super) const NONE: Self = Self { start: 0, end: 0 };

    /// `None` for what is further away than anything of ours is long.
    pub(super) fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    fn of(self, text: &str) -> Option<&str> {
        if self == Self::NONE { None } else { text.get(self.start as usize..self.end as usize) }
    }
}
