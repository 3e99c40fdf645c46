use serde_json::json;
use turms::client::ServerTarget;

use crate::args::ServersArgs;
use crate::error::CliResult;
use crate::printer::{Printer, Verbosity};
use crate::target::{ConfiguredServer, ConfiguredServers};
use crate::text::{Style, StyledText};

/// Lists the servers in configuration files, without arguments and environments, which may contain secrets.
pub(crate) fn run(args: &ServersArgs, printer: &Printer) -> CliResult {
    let configured = ConfiguredServers::read(&args.config)?;
    for error in &configured.errors {
        printer.warn(format!("skipped a configuration file: {error}"));
    }
    for file in configured.searched() {
        printer.detail(Verbosity::Verbose, StyledText::new().dim("searched ").plain(file));
    }
    if configured.servers.is_empty() {
        printer.note("no servers found; -v shows the files that were searched, --config FILE reads another one");
    }
    if printer.is_json() {
        let servers: Vec<_> = configured.servers.iter().map(object).collect();
        return printer.json(&json!({ "servers": servers }));
    }
    let mut file = "";
    for server in &configured.servers {
        if server.file != file {
            file = &server.file;
            printer.line(StyledText::new().dim(file))?;
        }
        printer.line(line(server))?;
    }
    Ok(())
}

fn line(server: &ConfiguredServer) -> StyledText {
    let text = StyledText::new().plain("  ").name(&server.name).plain("  ");
    match (&server.entry, server.is_enabled()) {
        (_, false) => text.dim("(disabled) ").plain(server.target()),
        (Err(_), true) => text.with(Style::Warning, server.target()),
        (Ok(_), true) => text.plain(server.target()),
    }
}

fn object(server: &ConfiguredServer) -> serde_json::Value {
    let kind = match server.entry.as_ref().map(|entry| &entry.target) {
        Ok(ServerTarget::Command { .. }) => "command",
        Ok(ServerTarget::Url { .. }) => "url",
        _ => "unusable",
    };
    json!({
        "name": server.name,
        "file": server.file,
        "kind": kind,
        "target": server.target(),
        "enabled": server.is_enabled(),
    })
}
