use crate::error::Done;
use crate::session::Session;
use crate::show;

/// Shows who the server is and what it can do.
pub(crate) fn run(session: &Session) -> Done {
    match session.client.opened().and_then(|opened| show::greeting(&opened).1) {
        Some(server) if session.printer.is_json() => session.printer.json_text(server.as_str()),
        _ => session.printer.line(show::information(session)),
    }
}
