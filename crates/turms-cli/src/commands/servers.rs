use serde_json::json;
use turms::client::Target as Entry;

use crate::args::ServersArgs;
use crate::error::Done;
use crate::printer::{Printer, Verbosity};
use crate::target::{Catalogue, Known};
use crate::text::{Style, Text};

/// Lists the servers that configuration files name. Neither arguments nor environments are shown: they may hold secrets.
pub(crate) fn run(args: &ServersArgs, printer: &Printer) -> Done {
    let catalogue = Catalogue::read(&args.config)?;
    for error in &catalogue.broken {
        printer.warn(format!("a file was passed over: {error}"));
    }
    for place in catalogue.looked() {
        printer.detail(Verbosity::Talkative, Text::new().faint("looked in ").plain(place));
    }
    if catalogue.known.is_empty() {
        printer.note("no server was found; -v tells where was looked, --config names another file");
    }
    if printer.is_json() {
        let servers: Vec<_> = catalogue.known.iter().map(object).collect();
        return printer.json(&json!({ "servers": servers }));
    }
    let mut place = "";
    for known in &catalogue.known {
        if known.place != place {
            place = &known.place;
            printer.line(Text::new().faint(place))?;
        }
        printer.line(line(known))?;
    }
    Ok(())
}

fn line(known: &Known) -> Text {
    let text = Text::new().plain("  ").name(&known.name).plain("  ");
    match (&known.entry, known.is_enabled()) {
        (_, false) => text.faint("(switched off) ").plain(known.whereabouts()),
        (Err(_), true) => text.with(Style::Warning, known.whereabouts()),
        (Ok(_), true) => text.plain(known.whereabouts()),
    }
}

fn object(known: &Known) -> serde_json::Value {
    let kind = match known.entry.as_ref().map(|entry| &entry.target) {
        Ok(Entry::Command { .. }) => "command",
        Ok(Entry::Url { .. }) => "url",
        _ => "unusable",
    };
    json!({
        "name": known.name,
        "place": known.place,
        "kind": kind,
        "target": known.whereabouts(),
        "enabled": known.is_enabled(),
    })
}
