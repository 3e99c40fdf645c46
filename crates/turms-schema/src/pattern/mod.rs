//! Patterns as ECMA-262 writes them, matched in time that is linear in the text: the states that a text can be in are followed
//! side by side, and there is no going back.
//!
//! So what needs to go back or to look around cannot be matched: `(?=…)`, `(?!…)`, `(?<=…)`, `(?<!…)`, `\1`, `\k<name>`. Such a
//! pattern is a pattern, but nothing is held against it, and neither against one that is too large.

mod class;
mod parse;
mod program;

use self::program::Program;
use super::budget::Budget;

/// A pattern that was read.
#[derive(Debug)]
pub(super) struct Pattern {
    source: Box<str>,
    /// Nothing if it cannot be matched.
    program: Option<Program>,
}

/// What is wrong with a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternError {
    /// In bytes.
    pub(super) offset: usize,
    pub(super) problem: &'static str,
}

impl Pattern {
    /// # Errors
    /// When it is not a pattern.
    pub(super) fn new(source: &str) -> Result<Self, PatternError> {
        let parsed = parse::parse(source)?;
        let program = if parsed.needs_more { None } else { Program::new(&parsed.whole) };
        Ok(Self { source: source.into(), program })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// Whether texts can be held against it.
    pub(super) fn is_matchable(&self) -> bool {
        self.program.is_some()
    }

    /// Whether it is found somewhere in the text.
    pub(super) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        self.program.as_ref().is_none_or(|program| program.matches(text, budget))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, text: &str) -> bool {
        let pattern = Pattern::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error:?}"));
        assert!(pattern.is_matchable());
        pattern.matches(text, &mut Budget::new(1_000_000))
    }

    #[test]
    fn patterns_as_people_write_them() {
        for (pattern, matching, others) in [
            ("^[a-z]+$", vec!["abc"], vec!["", "aBc", "abc1", "abc\n"]),
            ("^\\d{3}-\\d{4}$", vec!["555-1234"], vec!["5555-1234", "555-12345", "٣٣٣-1234"]),
            ("b", vec!["abc", "b"], vec!["ac", ""]),
            ("^(foo|bar)?$", vec!["", "foo", "bar"], vec!["foobar", "fo"]),
            ("^\\/a\\-b\\.c$", vec!["/a-b.c"], vec!["/a-bxc"]),
            ("^[\\w.+-]+@[\\w-]+\\.[\\w.-]+$", vec!["a.b+c@d-e.fg"], vec!["a@b", "@b.c"]),
            ("^\\p{L}+$", vec!["Äpfel", "日本"], vec!["a1", "", "a b"]),
            ("^\\p{Lu}\\p{Ll}*$", vec!["Äpfel"], vec!["äpfel", "APFEL"]),
            ("^[^\\s]+$", vec!["ab"], vec!["a b", "a\u{a0}b", "a\u{feff}"]),
            ("^.$", vec!["a", "😀", "\u{85}"], vec!["\n", "\u{2028}", "ab"]),
            ("^[\\u{1F600}-\\u{1F64F}]$", vec!["😀"], vec!["a"]),
            ("^\\uD83D\\uDE00\\x41\\cJ\\0$", vec!["😀A\n\0"], vec!["😀A"]),
            ("\\bcat\\b", vec!["a cat!", "cat"], vec!["cats", "concat"]),
            ("^\\Bx", vec![], vec!["x"]),
            ("^(?:a{2,3}|b{2,}|c{2})$", vec!["aa", "aaa", "bb", "bbbbb", "cc"], vec!["a", "aaaa", "b", "ccc"]),
            ("^(?<year>\\d{4})$", vec!["2026"], vec!["26"]),
            ("^(a*)*b?$", vec!["", "aaa", "aab"], vec!["ba"]),
            ("^a+?b*?c??$", vec!["a", "aabbc"], vec!["b"]),
            ("^[]$", vec![], vec!["", "a"]),
            ("^[^]$", vec!["a", "\n"], vec![""]),
            ("^[\\b\\-\\]]+$", vec!["\u{8}-]"], vec!["b"]),
            ("", vec!["", "anything"], vec![]),
            ("a|", vec!["", "a", "b"], vec![]),
            ("^x{0}$", vec![""], vec!["x"]),
            ("[+--]", vec!["+", ",", "-"], vec!["."]),
            ("^a{,2}$", vec!["a{,2}"], vec!["a", "aa"]),
            ("^}]$", vec!["}]"], vec![]),
        ] {
            for text in matching {
                assert!(found(pattern, text), "{pattern} {text:?}");
            }
            for text in others {
                assert!(!found(pattern, text), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_says_why_and_where() {
        for (pattern, offset, problem) in [
            ("^(abc", 5, "a group is not closed"),
            ("abc)", 3, "\")\" closes nothing"),
            ("[a", 2, "a class is not closed"),
            ("a**", 2, "nothing to repeat"),
            ("*", 0, "nothing to repeat"),
            ("a{3,2}", 1, "the numbers are out of order"),
            ("[z-a]", 1, "the range is out of order"),
            ("\\", 0, "\"\\\" escapes nothing"),
            ("^\\S(|(.|\\n)*\\S)\\Z", 15, "no such escape"),
            ("\\p{Nonsense}", 0, "no such property"),
            ("(?P<a>b)", 0, "no such group"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap_err(), PatternError { offset, problem }, "{pattern}");
        }
    }

    #[test]
    fn what_cannot_be_matched_is_a_pattern_nonetheless() {
        let nested = "(".repeat(1000) + &")".repeat(1000);
        for pattern in ["(?=a)b", "(?!a)b", "(?<=a)b", "(?<!a)b", "(a)\\1", "(?<n>a)\\k<n>", "(?:a{999}){999}", &nested]
        {
            let pattern = Pattern::new(pattern).unwrap();
            assert!(!pattern.is_matchable());
            assert!(pattern.matches("anything", &mut Budget::new(10)));
        }
    }

    #[test]
    fn halves_of_characters_make_a_pattern_that_cannot_be_matched() {
        for pattern in [
            "[\\ud800-\\udbff][\\udc00-\\udfff]",
            "[^\\uD800-\\uDFFF]",
            "[a-\\ud800]",
            "[\\udfff-\\ue000]",
            "\\ud83d\\u0041",
        ] {
            assert!(!Pattern::new(pattern).unwrap().is_matchable(), "{pattern}");
        }
    }

    #[test]
    fn reading_a_pattern_takes_time_and_room_that_its_length_bounds() {
        assert!(Pattern::new(&"{".repeat(200_000)).is_ok());
        let class = format!("(?:[{}]){{0,1000}}", "ab".repeat(50_000));
        let counted = allocation_counter::measure(|| drop(Pattern::new(&class)));
        assert!(counted.bytes_max < 20_000_000, "{} bytes", counted.bytes_max);
        let nothing = format!("(?:{}){{0,2000}}", "(?:)a{0}".repeat(20_000));
        assert!(Pattern::new(&nothing).unwrap().is_matchable());
    }

    #[test]
    fn large_classes_are_work() {
        let pattern = Pattern::new(&format!("^[{}]*$", "ab".repeat(10_000))).unwrap();
        let mut budget = Budget::new(100_000);
        assert!(!pattern.matches(&"b".repeat(10_000), &mut budget) && budget.is_exhausted());
    }

    #[test]
    fn work_is_linear_and_bounded() {
        let text = "a".repeat(50_000);
        let mut budget = Budget::new(10_000_000);
        assert!(!Pattern::new("^(a+)+$").unwrap().matches(&format!("{text}b"), &mut budget));
        assert!(!budget.is_exhausted());
        let mut budget = Budget::new(1000);
        assert!(!Pattern::new("^(a+)+$").unwrap().matches(&text, &mut budget));
        assert!(budget.is_exhausted());
    }
}
