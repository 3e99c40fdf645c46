use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Shows the server's name, version and capabilities.
pub(crate) fn run(session: &CliSession) -> CliResult {
    match session.client.opened().and_then(|opened| show::handshake_result(&opened).1) {
        Some(server) if session.printer.is_json() => session.printer.json_text(server.as_str()),
        _ => session.printer.line(show::info(session)),
    }
}
