//! Compares the defaults in doc comments with those of the code, for unit tests.
//!
//! A doc comment states a default as `Default: 30 s.`: the text ends with the sentence or at a semicolon. A test passes its source file
//! to [`assert_documented`], with the expected text of each value in the code. [`time`], [`bytes`] and [`count`] write a value as text;
//! [`when`] is for a default that is not a number.

mod scan;

use std::collections::BTreeSet;
use std::time::Duration;

use scan::documented;

/// Compares all defaults that a source file documents with the values of the code. An item is named by its type and its own name.
///
/// # Panics
/// Panics if they differ, or if either side has an item that the other has not.
#[track_caller]
pub fn assert_documented(source: &str, code: &[(&str, String)]) {
    let documented = documented(source);
    let documented: BTreeSet<_> = documented.iter().map(|(item, text)| (item.as_str(), text.as_str())).collect();
    let code: BTreeSet<_> = code.iter().map(|(item, text)| (*item, text.as_str())).collect();
    let sides = [("documented", documented.difference(&code)), ("in the code", code.difference(&documented))];
    let differences = sides.into_iter().flat_map(|(side, items)| items.map(move |(item, text)| (*item, side, *text)));
    let differences: BTreeSet<_> = differences.map(|(item, side, text)| format!("\n{item}, {side}: {text}")).collect();
    assert!(differences.is_empty(), "defaults differ:{}", Vec::from_iter(differences).concat());
}

/// Returns the text of a default that is not a number, such as `none`, if the code has that default, and another text otherwise.
#[must_use]
pub fn when(is_default: bool, text: &str) -> String {
    if is_default { text.to_owned() } else { format!("not {text}") }
}

/// A duration in the largest unit that divides it: `10 min`.
#[must_use]
pub fn time(duration: Duration) -> String {
    const DAY: u128 = 24 * 3_600_000;
    let millis = duration.as_millis();
    if millis >= 2 * DAY && millis.is_multiple_of(DAY) {
        return format!("{} days", millis / DAY);
    }
    let units = [(3_600_000, "h"), (60_000, "min"), (1000, "s")];
    let unit = units.into_iter().find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "ms"));
    format!("{} {name}", millis / unit)
}

/// A size in the largest unit that divides it: `4 MiB`.
#[must_use]
pub fn bytes(size: usize) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| size > 0 && size.is_multiple_of(*unit));
    let (unit, name) = unit.unwrap_or((1, "bytes"));
    format!("{} {name}", size / unit)
}

/// A number, in groups of three digits from 10 000 on: `16 384`, and `25 million`.
#[must_use]
pub fn count(number: impl TryInto<u64>) -> String {
    const MILLION: u64 = 1_000_000;
    match number.try_into().unwrap_or(u64::MAX) {
        number if number >= MILLION && number % MILLION == 0 => format!("{} million", number / MILLION),
        number if number >= MILLION => format!("{} {:03} {:03}", number / MILLION, number / 1000 % 1000, number % 1000),
        number if number >= 10_000 => format!("{} {:03}", number / 1000, number % 1000),
        number => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "impl Backoff {\n    /// Maximum delay. Default: 30 s.\n    pub fn max_delay(";

    #[test]
    fn a_documented_value_is_that_of_the_code() {
        assert_documented(SOURCE, &[("Backoff::max_delay", time(Duration::from_secs(30)))]);
    }

    #[test]
    #[should_panic(expected = "\nBackoff::max_delay, documented: 30 s\nBackoff::max_delay, in the code: 29 s")]
    fn another_value_in_the_code_fails() {
        assert_documented(SOURCE, &[("Backoff::max_delay", time(Duration::from_secs(29)))]);
    }

    #[test]
    #[should_panic(expected = "defaults differ:\nBackoff::max_delay, documented: 30 s")]
    fn a_default_without_a_value_fails() {
        assert_documented(SOURCE, &[]);
    }

    #[test]
    #[should_panic(expected = "defaults differ:\nBackoff::jitter, in the code: none")]
    fn a_value_without_documentation_fails() {
        let delay = ("Backoff::max_delay", "30 s".to_owned());
        assert_documented(SOURCE, &[delay, ("Backoff::jitter", when(true, "none"))]);
    }

    #[test]
    fn values_are_written_in_their_largest_unit() {
        assert_eq!(
            [500, 30_000, 90_000, 300_000, 3_600_000].map(Duration::from_millis).map(time),
            ["500 ms", "30 s", "90 s", "5 min", "1 h"]
        );
        assert_eq!([24, 48].map(|hours| time(Duration::from_secs(hours * 3600))), ["24 h", "2 days"]);
        assert_eq!([0, 100, 8192, 4 << 20].map(bytes), ["0 bytes", "100 bytes", "8 KiB", "4 MiB"]);
        assert_eq!(
            [0_u32, 1024, 16_384, 1_000_001, 25_000_000].map(count),
            ["0", "1024", "16 384", "1 000 001", "25 million"]
        );
    }
}
