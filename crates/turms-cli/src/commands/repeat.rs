use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::error::{CliError, CliResult, ExitStatus};
use crate::session::CliSession;
use crate::show;
use crate::text::StyledText;

/// Maximum number of different failures that are shown.
const MAX_FAILURES: usize = 5;

/// Makes the same call many times, and prints failures and times.
pub(super) async fn run(
    session: &CliSession,
    tool: &str,
    arguments: Map<String, Value>,
    count: NonZeroUsize,
    parallel: Option<NonZeroUsize>,
) -> CliResult {
    let parallel = parallel.map_or(1, NonZeroUsize::get);
    let mut calls = JoinSet::new();
    let mut report = Report::default();
    let mut started = 0;
    let start = Instant::now();
    while started < count.get() || !calls.is_empty() {
        while started < count.get() && calls.len() < parallel {
            let call = session.with_timeouts(session.client.call_tool(tool.to_owned(), arguments.clone()));
            calls.spawn(async move {
                let start = Instant::now();
                (call.await, start.elapsed())
            });
            started += 1;
        }
        match calls.join_next().await {
            Some(Ok((Ok(result), time))) if !result.is_error() => report.times.push(time),
            Some(Ok((Ok(result), _))) => {
                let message = show::truncate(result.text().lines().next().unwrap_or_default(), 200);
                report.add_failure(CliError::new(ExitStatus::Tool, format!("tool {tool:?} failed: {message}")));
            }
            Some(Ok((Err(error), _))) => report.add_failure(session.call_error(&error)),
            Some(Err(error)) => return Err(CliError::of(ExitStatus::Failure, &error)),
            None => {}
        }
        session.printer.progress(&format!("{} of {count} calls, {} failed", report.total(), report.failed()));
    }
    session.printer.clear_progress();
    report.elapsed = start.elapsed();
    report.times.sort_unstable();
    match session.printer.is_json() {
        true => session.printer.json(&report.object())?,
        false => session.printer.line(report.describe())?,
    }
    report.finish()
}

/// Formats the time of a call.
fn shown(time: Duration) -> String {
    let milliseconds = time.as_secs_f64() * 1000.0;
    if (1.0..1000.0).contains(&milliseconds) { format!("{milliseconds:.1} ms") } else { show::duration(time) }
}

/// The outcomes of the calls.
#[derive(Default)]
struct Report {
    /// Times of successful calls, sorted at the end.
    times: Vec<Duration>,
    /// By message and causes, with the number of calls.
    failures: BTreeMap<String, (usize, CliError)>,
    elapsed: Duration,
}

impl Report {
    fn add_failure(&mut self, failure: CliError) {
        let causes = failure.causes().iter().filter_map(|cause| cause.lines().next());
        let message = std::iter::once(failure.message()).chain(causes).collect::<Vec<_>>().join(": ");
        self.failures.entry(message).or_insert((0, failure)).0 += 1;
    }

    fn failed(&self) -> usize {
        self.failures.values().map(|(count, _)| count).sum()
    }

    fn total(&self) -> usize {
        self.times.len() + self.failed()
    }

    /// Returns the time that this share of the successful calls needed at most.
    fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.times.len() * percent).div_ceil(100).max(1);
        self.times.get(rank - 1).copied()
    }

    /// Returns minimum, median, 95th percentile and maximum. `None` if no call succeeded.
    fn distribution(&self) -> Option<[(&'static str, Duration); 4]> {
        Some([
            ("min", self.percentile(0)?),
            ("median", self.percentile(50)?),
            ("p95", self.percentile(95)?),
            ("max", self.percentile(100)?),
        ])
    }

    fn per_second(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a rounded number is shown")]
        let total = self.total() as f64;
        total / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }

    fn describe(&self) -> StyledText {
        let calls = show::count(self.total(), "call", "calls");
        let elapsed = show::duration(self.elapsed);
        let mut text = StyledText::new();
        text = text.plain(format!("{calls}, {} failed, in {elapsed} ({:.1}/s)", self.failed(), self.per_second()));
        if let Some(times) = self.distribution() {
            let times = times.map(|(name, time)| format!("{name} {}", shown(time)));
            text = text.plain(format!("\n{}", times.join(", ")));
        }
        text
    }

    fn object(&self) -> Value {
        let times = self.distribution().map(|times| {
            let times = times.into_iter().map(|(name, time)| (name.to_owned(), json!(time.as_secs_f64() * 1000.0)));
            times.collect::<Map<_, _>>()
        });
        let failures = self.failures.iter().map(|(message, (count, _))| json!({ "message": message, "count": count }));
        json!({
            "calls": self.total(),
            "failed": self.failed(),
            "seconds": self.elapsed.as_secs_f64(),
            "milliseconds": times,
            "failures": failures.collect::<Vec<_>>(),
        })
    }

    /// Returns an error if a call failed: the most frequent failure, with the others as hints.
    fn finish(self) -> CliResult {
        let (failed, total) = (self.failed(), self.total());
        let mut failures: Vec<_> = self.failures.into_iter().collect();
        failures.sort_by_key(|(_, (count, _))| std::cmp::Reverse(*count));
        let Some((_, (_, first))) = failures.first() else { return Ok(()) };
        let mut failure =
            CliError::new(first.exit, format!("{failed} of {} failed", show::count(total, "call", "calls")));
        for (message, (count, _)) in failures.iter().take(MAX_FAILURES) {
            failure = failure.because(format!("{count} × {message}"));
        }
        let hints = first.hints().to_vec();
        Err(hints.into_iter().fold(failure, CliError::hint))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(milliseconds: impl IntoIterator<Item = u64>) -> Report {
        Report { times: milliseconds.into_iter().map(Duration::from_millis).collect(), ..Report::default() }
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let times = |report: Report| report.distribution().map(|times| times.map(|(_, time)| time.as_millis()));
        assert_eq!(times(report(1..=100)), Some([1, 50, 95, 100]));
        assert_eq!(times(report(1..=3)), Some([1, 2, 3, 3]));
        assert_eq!(times(report([7])), Some([7, 7, 7, 7]));
        assert_eq!(times(report([])), None);
    }

    #[test]
    fn equal_failures_are_counted_and_the_most_frequent_sets_the_status() {
        let mut report = report([1]);
        for (exit, message) in [(ExitStatus::Tool, "a"), (ExitStatus::Timeout, "b"), (ExitStatus::Timeout, "b")] {
            report.add_failure(CliError::new(exit, message));
        }
        assert_eq!((report.failed(), report.total()), (3, 4));
        let failure = report.finish().unwrap_err();
        assert_eq!((failure.exit, failure.to_string().as_str()), (ExitStatus::Timeout, "3 of 4 calls failed"));
        assert_eq!(failure.causes(), ["2 × b", "1 × a"]);
    }
}
