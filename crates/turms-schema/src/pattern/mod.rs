//! ECMA-262 regular expressions, matched by `regex-automata`. Every match is charged to the budget of the validation.
//!
//! A limit on the size of patterns does not limit the time: `^.{1,255}$` is harmless, but another pattern of the same
//! size took 75 s for a text of 4 MB. So the work is counted in steps:
//!
//! - A lazy DFA runs first. It costs one step per four bytes of text. Each new DFA state costs as many steps as the NFA
//!   has states and transitions.
//! - If the DFA needs too many states, the NFA is simulated. Each byte of text costs as many steps as the NFA has
//!   states and transitions.
//! - If the budget is exhausted, the value is rejected.

mod ecma;

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use regex_automata::Input;
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::pikevm::PikeVM;
use regex_automata::nfa::thompson::{Compiler, Config, NFA, State, WhichCaptures};

pub(crate) use self::ecma::{is_valid, validity_steps};
use crate::budget::Budget;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    source: Box<str>,
    /// `None` if the pattern is not supported, and therefore not enforced.
    automaton: Option<Box<Automaton>>,
}

/// Error for an invalid or unsupported pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternError {
    /// The pattern is not a valid regular expression.
    Invalid,
    /// The pattern cannot be matched in linear time.
    Unsupported(&'static str),
    /// The automaton is too large.
    TooLarge,
    /// The patterns of the schema exceed the total memory limit.
    TooLargeTogether,
}

/// The remaining memory for the patterns of a schema. It also limits the time to compile them.
#[derive(Debug)]
pub(crate) struct PatternQuota {
    left: usize,
}

impl PatternQuota {
    /// Maximum memory for all patterns of a schema, in bytes.
    const TOTAL: usize = 24 << 20;

    pub(crate) fn new() -> Self {
        Self { left: Self::TOTAL }
    }

    fn take(&mut self, bytes: usize) -> Result<(), PatternError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.map(|_| ()).ok_or(PatternError::TooLargeTogether)
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is invalid or not supported.
    pub(crate) fn new(source: &str, quota: &mut PatternQuota) -> Result<Self, PatternError> {
        let automaton = Some(Box::new(Automaton::new(source, quota)?));
        Ok(Self { source: source.into(), automaton })
    }

    /// Creates a pattern that is not enforced.
    pub(crate) fn unenforced(source: &str) -> Self {
        Self { source: source.into(), automaton: None }
    }

    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// Returns `true` if the pattern is enforced.
    pub(crate) fn is_enforced(&self) -> bool {
        self.automaton.is_some()
    }

    /// Returns `true` if the pattern matches anywhere in the text, or is not enforced. Returns `false` if the budget
    /// is exhausted.
    pub(crate) fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        self.automaton.as_ref().is_none_or(|automaton| automaton.matches(text, budget))
    }
}

#[derive(Debug)]
struct Automaton {
    dfa: DFA,
    /// Number of states and transitions of the NFA. This is the number of steps per byte of its simulation, and per new
    /// DFA state.
    size: u64,
    /// Minimum memory of a DFA state.
    state_bytes: usize,
    /// States of the DFA from earlier matches. `None` while a match uses them.
    cache: Mutex<Option<Cache>>,
    /// `true` after a text needed too many states of the DFA.
    prefers_nfa: AtomicBool,
}

/// Maximum memory of the NFA of one pattern, in bytes. Same as the default of the `regex` crate.
const MAX_NFA_BYTES: usize = 10 << 20;

/// Maximum length of a pattern, in bytes.
const MAX_LENGTH: usize = 64 << 10;

/// Memory for each byte of a pattern during parsing, and for each property (`\p{L}`), which is a table of ranges.
const BYTES_FOR_BYTE: usize = 64;
const BYTES_FOR_PROPERTY: usize = 16 << 10;

/// Memory for the fixed parts of each pattern.
const BYTES_FOR_PATTERN: usize = 2 << 10;

/// Maximum number of steps for the DFA states of one pattern before the NFA is simulated.
const MAX_DFA_STEPS: u64 = 8_000_000;

/// Maximum memory of cached states per pattern, in bytes.
const MAX_CACHE_BYTES: usize = 1 << 20;

impl Automaton {
    fn new(source: &str, quota: &mut PatternQuota) -> Result<Self, PatternError> {
        let properties = memchr::memmem::find_iter(source.as_bytes(), "\\p").count()
            + memchr::memmem::find_iter(source.as_bytes(), "\\P").count();
        quota.take(source.len() * BYTES_FOR_BYTE + properties * BYTES_FOR_PROPERTY + BYTES_FOR_PATTERN)?;
        if !is_valid(source) {
            return Err(PatternError::Invalid);
        }
        if source.len() > MAX_LENGTH {
            return Err(PatternError::TooLarge);
        }
        let translated =
            ecma::translate(source).map_err(|unsupported| PatternError::Unsupported(unsupported.describe()))?;
        let nfa = nfa(&translated, quota)?;
        let size = nfa.states().iter().map(transitions).sum();
        let dfa = dfa(nfa, size)?;
        let state_bytes = dfa.byte_classes().alphabet_len() * 4 + STATE_OVERHEAD;
        Ok(Self { dfa, size, state_bytes, cache: Mutex::new(None), prefers_nfa: AtomicBool::new(false) })
    }

    fn matches(&self, text: &str, budget: &mut Budget) -> bool {
        if !budget.charge(2 + text.len() as u64 / 4) {
            return false;
        }
        let input = Input::new(text).earliest(true);
        if !self.prefers_nfa.load(Ordering::Relaxed) {
            if let Some(found) = self.run_dfa(&input, budget) {
                return found;
            }
            self.prefers_nfa.store(true, Ordering::Relaxed);
        }
        if !budget.charge_each(text.len() + 1, self.size) {
            return false;
        }
        let nfa = PikeVM::new_from_nfa(self.dfa.get_nfa().clone());
        nfa.is_ok_and(|nfa| nfa.is_match(&mut nfa.create_cache(), input))
    }

    /// Returns the result of the DFA; `None` if it needs too many states. If another thread uses the cache, this match
    /// starts with an empty one.
    fn run_dfa(&self, input: &Input<'_>, budget: &mut Budget) -> Option<bool> {
        let mut shared = self.cache.try_lock();
        let known = shared.as_mut().and_then(|cache| cache.take());
        let mut cache = match known {
            Some(cache) => cache,
            None if !budget.charge(16 + self.size / 4) => return Some(false),
            None => self.dfa.create_cache(),
        };
        let before = cache.memory_usage();
        let found = self.dfa.try_search_fwd(&mut cache, input);
        let after = cache.memory_usage();
        // Each byte of the text leads to at most one new state.
        let states = (after.saturating_sub(before) / self.state_bytes).min(input.haystack().len() + 2) as u64;
        let is_paid = budget.charge(states.saturating_mul(self.size));
        if let Some(mut shared) = shared.filter(|_| found.is_ok() && after <= MAX_CACHE_BYTES) {
            *shared = Some(cache);
        }
        match found {
            Ok(found) => Some(is_paid && found.is_some()),
            Err(_) => (!is_paid).then_some(false),
        }
    }
}

/// Memory of a DFA state besides its transitions: the state itself, twice, and its map entry.
const STATE_OVERHEAD: usize = 36;

fn nfa(translated: &str, quota: &mut PatternQuota) -> Result<NFA, PatternError> {
    use regex_syntax::Error;
    use regex_syntax::ast::ErrorKind;
    let hir =
        regex_syntax::ParserBuilder::new().utf8(false).build().parse(translated).map_err(|error| match error {
            // Valid syntax with an invalid meaning, such as an unknown Unicode property.
            Error::Translate(_) => PatternError::Invalid,
            Error::Parse(error)
                if matches!(error.kind(), ErrorKind::NestLimitExceeded(_) | ErrorKind::DecimalInvalid) =>
            {
                PatternError::TooLarge
            }
            _ => PatternError::Invalid,
        })?;
    let limit = quota.left.min(MAX_NFA_BYTES);
    let config = Config::new().utf8(false).which_captures(WhichCaptures::None).nfa_size_limit(Some(limit));
    match Compiler::new().configure(config).build_from_hir(&hir) {
        Ok(nfa) => quota.take(nfa.memory_usage()).map(|()| nfa),
        Err(_) if limit < MAX_NFA_BYTES => Err(PatternError::TooLargeTogether),
        Err(_) => quota.take(limit).and(Err(PatternError::TooLarge)),
    }
}

fn dfa(nfa: NFA, size: u64) -> Result<DFA, PatternError> {
    let config = DFA::config().skip_cache_capacity_check(true).minimum_cache_clear_count(Some(0));
    let min = config.get_minimum_cache_capacity(&nfa).map_err(|_| PatternError::TooLarge)?;
    let states = usize::try_from(MAX_DFA_STEPS / size.max(1)).unwrap_or(usize::MAX).clamp(64, 8192);
    let config = config.cache_capacity(min + states * 256);
    DFA::builder().configure(config).build_from_nfa(nfa).map_err(|_| PatternError::TooLarge)
}

/// Returns the number of steps of one NFA state: 1, plus its transitions.
fn transitions(state: &State) -> u64 {
    1 + match state {
        State::Sparse(sparse) => sparse.transitions.len() as u64 / 8,
        State::Union { alternates } => alternates.len() as u64,
        State::BinaryUnion { .. } => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(pattern: &str) -> Result<Pattern, PatternError> {
        Pattern::new(pattern, &mut PatternQuota::new())
    }

    fn found(pattern: &str, text: &str) -> bool {
        let pattern = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error:?}"));
        assert!(pattern.is_enforced());
        pattern.matches(text, &mut Budget::new(1_000_000))
    }

    #[test]
    fn common_patterns_match() {
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
    fn invalid_patterns_are_rejected() {
        for pattern in [
            "^(abc",
            "abc)",
            "[a",
            "a**",
            "*",
            "a{3,2}",
            "[z-a]",
            "\\",
            "^\\S(|(.|\\n)*\\S)\\Z",
            "\\p{Nonsense}",
            "(?P<a>b)",
        ] {
            assert_eq!(compile(pattern).unwrap_err(), PatternError::Invalid, "{pattern}");
        }
    }

    #[test]
    fn too_large_and_unsupported_patterns_have_different_errors() {
        let nested = "(".repeat(1000) + &")".repeat(1000);
        for pattern in ["(?:a{999}){999}", &nested, "a{99999999999}", &"a".repeat(MAX_LENGTH + 1)] {
            assert_eq!(compile(pattern).unwrap_err(), PatternError::TooLarge, "{pattern:.20}");
        }
        for pattern in [
            "(?=a)b",
            "(?!a)b",
            "(?<=a)b",
            "(?<!a)b",
            "(a)\\1",
            "(?<n>a)\\k<n>",
            "(?i:a)",
            "[\\ud800-\\udbff][\\udc00-\\udfff]",
            "[^\\uD800-\\uDFFF]",
            "[a-\\ud800]",
            "[\\udfff-\\ue000]",
            "\\ud83d\\u0041",
        ] {
            assert!(matches!(compile(pattern), Err(PatternError::Unsupported(_))), "{pattern}");
        }
        assert!(Pattern::unenforced("(?=a)b").matches("anything", &mut Budget::new(10)));
    }

    /// Returns the number of steps of a match, and `true` if it was found.
    fn steps(pattern: &Pattern, text: &str, max: u64) -> (u64, bool) {
        let mut budget = Budget::new(max);
        let found = pattern.matches(text, &mut budget);
        (max - budget.left(), found)
    }

    #[test]
    fn harmless_patterns_cost_linear_steps() {
        let long = "a".repeat(1 << 20);
        for pattern in
            ["^(a+)+$", "^[A-Za-z0-9+/]*={0,2}$", "a[ab]{20}$", "^.{1,9000000}$|^\\p{L}+$", "[a-z]{3,20}[0-9]|a$"]
        {
            let Ok(pattern) = compile(pattern) else { continue };
            let (first, _) = steps(&pattern, &long, 25_000_000);
            let (second, _) = steps(&pattern, &long, 25_000_000);
            assert!(first < 2_000_000 && second < 300_000, "{}: {first}, {second}", pattern.source());
        }
        for pattern in ["^.{1,255}$", "^.{1,500}$", "^\\p{L}{1,100}$"] {
            let pattern = compile(pattern).unwrap();
            let (used, found) = steps(&pattern, &"ä".repeat(100), 25_000_000);
            assert!(found && used < 10_000_000, "{}: {used}", pattern.source());
            let (used, found) = steps(&pattern, &"ä".repeat(100), 25_000_000);
            assert!(found && used < 100, "{}: {used}", pattern.source());
        }
    }

    #[test]
    fn patterns_that_would_take_too_long_exhaust_the_budget() {
        let text = "ab".repeat(2_000_000);
        let pattern = compile("(?:a?b?){500}[^ab]{3}x|(?:[ab]{1,400}){1,3}c$").unwrap();
        for max in [25_000_000, 250_000_000] {
            assert_eq!(steps(&pattern, &text, max), (max, false));
        }
        // Short texts are still checked.
        assert!(steps(&pattern, "abc", 25_000_000).1 && !steps(&pattern, "abd", 25_000_000).1);
    }

    #[test]
    fn both_automata_agree() {
        for (pattern, text) in [("^(?:a|b)*c$", "ababc"), ("\\bcat\\b", "a cat!"), ("^[^\\s]+$", "a b"), ("x", "äöü")]
        {
            let pattern = compile(pattern).unwrap();
            let by_dfa = steps(&pattern, text, 1_000_000).1;
            pattern.automaton.as_ref().unwrap().prefers_nfa.store(true, Ordering::Relaxed);
            assert_eq!(steps(&pattern, text, 1_000_000).1, by_dfa, "{}", pattern.source());
        }
    }

    #[test]
    fn the_patterns_of_a_schema_share_a_quota() {
        let counted = allocation_counter::measure(|| {
            let mut quota = PatternQuota::new();
            let refused = (0..20_000).find(|index| {
                let pattern = format!("^[a-z]{{1,9}}-{index}$");
                Pattern::new(&pattern, &mut quota).is_err_and(|error| error == PatternError::TooLargeTogether)
            });
            assert!(refused.is_some_and(|count| count > 1000), "{refused:?}");
        });
        assert!(counted.bytes_max < 2 * PatternQuota::TOTAL as u64, "{} bytes", counted.bytes_max);
        let mut quota = PatternQuota::new();
        assert_eq!(Pattern::new("(?:a{999}){999}", &mut quota).unwrap_err(), PatternError::TooLarge);
        assert_eq!(Pattern::new("(?:a{999}){999}", &mut quota).unwrap_err(), PatternError::TooLarge);
        assert_eq!(Pattern::new("(?:a{999}){999}", &mut quota).unwrap_err(), PatternError::TooLargeTogether);
        let many = "\\p{L}".repeat(5000);
        assert_eq!(Pattern::new(&many, &mut PatternQuota::new()).unwrap_err(), PatternError::TooLargeTogether);
    }

    #[test]
    fn checking_syntax_takes_bounded_steps() {
        assert!(is_valid(&"{".repeat(200_000)) && !is_valid(&"\\u{".repeat(100_000)));
        let names: String = (0..30_000).map(|index| format!("(?<n{index}>)")).collect();
        assert!(validity_steps(&names) > 800_000_000);
    }
}
