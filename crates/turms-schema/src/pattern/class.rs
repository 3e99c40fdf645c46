//! Sets of characters.

/// What a class is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Range(char, char),
    Set(Set),
    Not(Set),
}

/// The sets that have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// `\d`
    Digit,
    /// `\w`
    Word,
    /// `\s`
    Space,
    /// What ends a line, which `.` does not match.
    LineEnd,
    /// `\p{L}`
    Letter,
    /// `\p{Lu}`
    Uppercase,
    /// `\p{Ll}`
    Lowercase,
    /// `\p{N}`, and `\p{Nd}` beyond ASCII
    Numeric,
    /// `\p{Alphabetic}`
    Alphabetic,
    /// `\p{White_Space}`
    WhiteSpace,
    /// `\p{Cc}`
    Control,
    /// `\p{ASCII}`
    Ascii,
    /// `\p{P}` and `\p{S}`, as far as they are ASCII; beyond, what is nothing else that has a name
    Punctuation,
    /// `\p{Any}`
    Any,
}

impl Set {
    /// The set behind `\p{…}`, by the names of general categories that people use. The standard library knows the properties
    /// of characters rather than their categories; where those differ, it is by marks and symbols that count as letters.
    pub(super) fn of_property(name: &str) -> Option<Self> {
        let name = ["General_Category=", "gc="].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        Some(match name {
            "L" | "Letter" => Self::Letter,
            "Lu" | "Uppercase_Letter" | "Uppercase" => Self::Uppercase,
            "Ll" | "Lowercase_Letter" | "Lowercase" => Self::Lowercase,
            "N" | "Number" | "Nd" | "Decimal_Number" | "digit" => Self::Numeric,
            "Alphabetic" | "Alpha" => Self::Alphabetic,
            "White_Space" | "space" => Self::WhiteSpace,
            "Cc" | "Control" | "cntrl" => Self::Control,
            "P" | "Punctuation" | "punct" | "S" | "Symbol" => Self::Punctuation,
            "ASCII" => Self::Ascii,
            "Any" => Self::Any,
            _ => return None,
        })
    }

    pub(super) fn has(self, character: char) -> bool {
        match self {
            Self::Digit => character.is_ascii_digit(),
            Self::Word => is_word(character),
            Self::Space => character.is_whitespace() && character != '\u{85}' || character == '\u{feff}',
            Self::LineEnd => matches!(character, '\n' | '\r' | '\u{2028}' | '\u{2029}'),
            Self::Letter => character.is_alphabetic() && !character.is_numeric(),
            Self::Uppercase => character.is_uppercase(),
            Self::Lowercase => character.is_lowercase(),
            Self::Numeric => character.is_numeric(),
            Self::Alphabetic => character.is_alphabetic(),
            Self::WhiteSpace => character.is_whitespace(),
            Self::Control => character.is_control(),
            Self::Ascii => character.is_ascii(),
            Self::Punctuation if character.is_ascii() => character.is_ascii_punctuation(),
            Self::Punctuation => !character.is_alphanumeric() && !character.is_whitespace() && !character.is_control(),
            Self::Any => true,
        }
    }
}

impl Item {
    pub(super) fn has(&self, character: char) -> bool {
        match self {
            Self::Range(first, last) => (*first..=*last).contains(&character),
            Self::Set(set) => set.has(character),
            Self::Not(set) => !set.has(character),
        }
    }
}

/// What words are made of, for `\w` and `\b`.
pub(super) fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}
