use std::time::Duration;

/// Formats a duration for an error message, rounded: `250 ms`, `1.3 s`, `30 s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    if duration < Duration::from_millis(1) {
        return format!("{} µs", duration.as_micros());
    }
    if duration < Duration::from_secs(1) {
        return format!("{} ms", duration.as_millis());
    }
    format!("{} s", (duration.as_secs_f64() * 10.0).round() / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rounded() {
        let formatted = |micros| format_duration(Duration::from_micros(micros));
        assert_eq!([formatted(0), formatted(999)], ["0 µs", "999 µs"]);
        assert_eq!([formatted(100_550), formatted(250_000)], ["100 ms", "250 ms"]);
        assert_eq!([formatted(1_004_000), formatted(1_260_000), formatted(3_000_571)], ["1 s", "1.3 s", "3 s"]);
        assert_eq!(formatted(7_200_000_000), "7200 s");
    }
}
