//! Prints the tracing events of the libraries.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::printer::{Printer, Verbosity};
use crate::text::{Style, StyledText};

/// Installs the subscriber. It prints warnings, and more with `-vv`.
pub(crate) fn install(printer: &Printer) {
    let level = match printer {
        _ if printer.shows(Verbosity::Trace) => LevelFilter::TRACE,
        _ if printer.shows(Verbosity::Debug) => LevelFilter::DEBUG,
        _ if printer.shows(Verbosity::Normal) => LevelFilter::WARN,
        _ => LevelFilter::OFF,
    };
    let layer = PrinterLayer { printer: printer.clone() }.with_filter(level);
    // Only fails if there is a subscriber already, and there is none.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

struct PrinterLayer {
    printer: Printer,
}

impl<S: Subscriber> Layer<S> for PrinterLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Events of other crates are not useful to users.
        if !metadata.target().starts_with("turms") {
            return;
        }
        let mut text = EventText::default();
        event.record(&mut text);
        let style = if *metadata.level() == Level::WARN { Style::Warning } else { Style::Dim };
        let level = metadata.level().as_str().to_ascii_lowercase();
        self.printer.note(StyledText::new().with(style, format!("{level}: ")).plain(text.message).dim(text.fields));
    }
}

#[derive(Default)]
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
