use turms::client::Event;
use turms::types::{Ability, LogMessage, LoggingMessageNotification, NotificationMethod as _};

use crate::args::LogArgs;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::session::CliSession;
use crate::show;

/// Prints log messages until Ctrl-C.
pub(crate) async fn run(session: &CliSession, args: &LogArgs) -> CliResult {
    if session.client.protocol_version().is_some_and(|version| version.has(Ability::Stateless)) {
        return Err(unsupported_revision());
    }
    let mut events = session.client.events();
    session.call(session.client.set_log_level(args.level)).await?;
    session.printer.note("listening; Ctrl-C stops");
    let mut left = args.count;
    while left != Some(0) && !session.printer.is_stdout_closed() {
        let message = session
            .next(async {
                loop {
                    match events.next().await {
                        Some(Event::Log(message)) => return Some(message),
                        Some(_) => {}
                        None => return None,
                    }
                }
            })
            .await?;
        print(session, &message)?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Returns the error for 2026-07-28 (server/utilities/logging), in which log messages belong to a request.
fn unsupported_revision() -> CliError {
    CliError::new(ExitStatus::Protocol, "in this protocol revision, a server only sends log messages during a request")
        .hint("`call ... -v` shows the log messages of a call, -vv those of level debug, too; in the shell, `log LEVEL` sets the level")
        .hint("--protocol legacy requests an older revision, in which a server sends log messages at any time")
}

fn print(session: &CliSession, message: &LogMessage) -> CliResult {
    if session.printer.is_json() {
        let notification = serde_json::json!({ "method": LoggingMessageNotification::NAME, "params": message });
        return session.printer.json(&notification);
    }
    session.printer.line(show::log(message))
}
