//! How far a call has come, as one line that is written over and over.

use turms::types::ProgressParams;

use crate::printer::{Printer, Verbosity};
use crate::text::Text;

/// Shows reports of progress: as a bar on a terminal, as lines elsewhere if somebody wants to know.
#[derive(Debug)]
pub(crate) struct Progress {
    printer: Printer,
}

impl Progress {
    pub(crate) fn new(printer: &Printer) -> Self {
        Self { printer: printer.clone() }
    }

    pub(crate) fn show(&self, report: &ProgressParams) {
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        if !self.printer.progress(&bar(report, width)) {
            self.printer.detail(Verbosity::Talkative, Text::new().faint("progress: ").plain(line(report)));
        }
    }
}

/// `[#####     ] 50% message`, cut to the width of the terminal.
fn bar(report: &ProgressParams, width: usize) -> String {
    const CELLS: usize = 24;
    let text = match share(report) {
        Some(share) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share is between 0 and 1")]
            let (full, percent) = ((share * CELLS as f64) as usize, (share * 100.0) as u32);
            let bar = "#".repeat(full.min(CELLS)) + &" ".repeat(CELLS.saturating_sub(full));
            format!("[{bar}] {percent:>3}% {}", report.message.as_deref().unwrap_or_default())
        }
        None => line(report),
    };
    text.trim_end().chars().take(width.saturating_sub(1)).collect()
}

/// `3/5 message`.
fn line(report: &ProgressParams) -> String {
    let progress = report.progress.as_f64();
    let of = report.total.as_ref().map_or_else(String::new, |total| format!("/{}", total.as_f64()));
    format!("{progress}{of} {}", report.message.as_deref().unwrap_or_default()).trim_end().to_owned()
}

/// How much of it is done, if somebody knows.
fn share(report: &ProgressParams) -> Option<f64> {
    let total = report.total.as_ref()?.as_f64();
    let share = report.progress.as_f64() / total;
    share.is_finite().then(|| share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(progress: f64, total: Option<f64>) -> ProgressParams {
        let mut report = ProgressParams::new("token", progress).message("copying");
        report.total = total.map(Into::into);
        report
    }

    #[test]
    fn a_bar_is_as_full_as_the_work_is_done() {
        assert_eq!(bar(&report(1.0, Some(2.0)), 80), "[############            ]  50% copying");
        assert_eq!(bar(&report(9.0, Some(2.0)), 80), "[########################] 100% copying");
        assert_eq!(bar(&report(-1.0, Some(2.0)), 10), "[        ");
    }

    #[test]
    fn without_a_total_there_is_only_a_count() {
        assert_eq!(bar(&report(3.0, None), 80), "3 copying");
        assert_eq!(bar(&report(3.0, Some(0.0)), 80), "3/0 copying");
        assert_eq!(line(&report(3.0, Some(5.0))), "3/5 copying");
    }
}
