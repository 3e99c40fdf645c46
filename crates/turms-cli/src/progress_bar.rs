//! Progress of a call, as one line that is updated in place.

use turms::types::ProgressParams;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::printer::{Printer, Verbosity};
use crate::text::{StyledText, escape_line};

/// Shows progress notifications: as a bar on a terminal, elsewhere as lines with `-v`.
#[derive(Debug)]
pub(crate) struct ProgressBar {
    printer: Printer,
}

impl ProgressBar {
    pub(crate) fn new(printer: &Printer) -> Self {
        Self { printer: printer.clone() }
    }

    pub(crate) fn show(&self, report: &ProgressParams) {
        let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
        if !self.printer.progress(&bar(report, width)) {
            self.printer.detail(Verbosity::Verbose, StyledText::new().dim("progress: ").plain(line(report)));
        }
    }
}

/// Renders `[#####     ] 50% message`, truncated to the width of the terminal. A narrow terminal gets no bar.
fn bar(report: &ProgressParams, width: usize) -> String {
    let cells = match width {
        0..30 => 0,
        30..60 => 10,
        _ => 24,
    };
    let text = match fraction(report) {
        Some(fraction) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the fraction is between 0 and 1"
            )]
            let (full, percent) = ((fraction * cells as f64) as usize, (fraction * 100.0) as u32);
            let bar = "#".repeat(full.min(cells)) + &" ".repeat(cells.saturating_sub(full));
            let bar = if cells == 0 { String::new() } else { format!("[{bar}] ") };
            format!("{bar}{percent:>3}% {}", report.message.as_deref().unwrap_or_default())
        }
        None => line(report),
    };
    // The last column stays free: some terminals wrap there.
    truncate(&escape_line(text.trim_end()), width.saturating_sub(1))
}

/// Truncates a line to a number of columns. Wide characters take two; a line that wraps could not be overwritten.
fn truncate(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut room = columns.saturating_sub(1);
    let fits = |character: &char| {
        let width = character.width().unwrap_or(0);
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    let mut cut: String = text.chars().take_while(fits).collect();
    cut.push('…');
    cut
}

/// Renders `3/5 message`.
fn line(report: &ProgressParams) -> String {
    let progress = report.progress.as_f64();
    let of = report.total.as_ref().map_or_else(String::new, |total| format!("/{}", total.as_f64()));
    format!("{progress}{of} {}", report.message.as_deref().unwrap_or_default()).trim_end().to_owned()
}

/// Returns the completed fraction, from 0 to 1; `None` if the total is unknown.
fn fraction(report: &ProgressParams) -> Option<f64> {
    let total = report.total.as_ref()?.as_f64();
    let fraction = report.progress.as_f64() / total;
    fraction.is_finite().then(|| fraction.clamp(0.0, 1.0))
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
    fn the_bar_shows_the_fraction() {
        assert_eq!(bar(&report(1.0, Some(2.0)), 80), "[############            ]  50% copying");
        assert_eq!(bar(&report(9.0, Some(2.0)), 80), "[########################] 100% copying");
        assert_eq!(bar(&report(-1.0, Some(2.0)), 10), "  0% cop…");
    }

    #[test]
    fn a_narrow_terminal_shows_the_percentage() {
        assert_eq!(bar(&report(2.0, Some(2.0)), 40), "[##########] 100% copying");
        assert_eq!(bar(&report(2.0, Some(2.0)), 30), "[##########] 100% copying");
        assert_eq!(bar(&report(2.0, Some(2.0)), 20), "100% copying");
        let wide = ProgressParams::new("token", 1.0).message("複製\u{1b}[2J複製中");
        for width in 1..40 {
            assert!(bar(&wide, width).width() < width.max(2), "{width}");
        }
        assert_eq!(bar(&wide, 80), "1 複製\\u{1b}[2J複製中");
    }

    #[test]
    fn without_a_total_only_the_count_is_shown() {
        assert_eq!(bar(&report(3.0, None), 80), "3 copying");
        assert_eq!(bar(&report(3.0, Some(0.0)), 80), "3/0 copying");
        assert_eq!(line(&report(3.0, Some(5.0))), "3/5 copying");
    }
}
