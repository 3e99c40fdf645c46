//! What the libraries say about their work, for those who want to know.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};

use crate::printer::{Printer, Verbosity};
use crate::text::{Style, Text};

/// Tells warnings from now on, and more if more is wanted.
pub(crate) fn install(printer: &Printer) {
    let level = match printer {
        _ if printer.tells(Verbosity::Trace) => LevelFilter::TRACE,
        _ if printer.tells(Verbosity::Debug) => LevelFilter::DEBUG,
        _ if printer.tells(Verbosity::Usual) => LevelFilter::WARN,
        _ => LevelFilter::OFF,
    };
    let layer = Telling { printer: printer.clone() }.with_filter(level);
    // Only fails if there is one already, and there is not.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
}

struct Telling {
    printer: Printer,
}

impl<S: Subscriber> Layer<S> for Telling {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Other crates are noisy about things that nobody here can change.
        if !metadata.target().starts_with("turms") {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        let style = if *metadata.level() == Level::WARN { Style::Warning } else { Style::Faint };
        let level = metadata.level().as_str().to_ascii_lowercase();
        self.printer.note(Text::new().with(style, format!("{level}: ")).plain(line.message).faint(line.fields));
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}
