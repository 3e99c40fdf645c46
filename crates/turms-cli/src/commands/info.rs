use crate::exit::Done;
use crate::session::Session;
use crate::show;

/// Shows who the server is and what it can do.
pub(crate) fn run(session: &Session) -> Done {
    let opened = session.client.opened();
    match opened.as_ref().and_then(|opened| opened.server.as_ref()) {
        Some(server) if session.printer.is_json() => session.printer.json(server),
        _ => session.printer.line(show::introduction(session)),
    }
}
