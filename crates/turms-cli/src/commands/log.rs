use turms::client::Event;
use turms::proto::Ability;
use turms::proto::method::Notification as _;
use turms::types::{Log, LogMessage};

use crate::args::LogArgs;
use crate::error::{Done, Exit, Failure};
use crate::session::Session;
use crate::show;

/// Shows the server's log as it comes.
pub(crate) async fn run(session: &Session, args: &LogArgs) -> Done {
    if session.client.protocol_version().is_some_and(|version| version.has(Ability::Stateless)) {
        return Err(nothing_to_hear());
    }
    let mut events = session.client.events();
    session.call(session.client.set_log_level(args.level)).await?;
    session.printer.note("listening; Ctrl-C ends it");
    let mut left = args.count;
    while left != Some(0) && !session.printer.is_unread() {
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

/// Since 2026-07-28 (server/utilities/logging) a level belongs to a request, and so do the messages.
fn nothing_to_hear() -> Failure {
    Failure::new(Exit::Protocol, "in this revision a server logs only about the request that it works on")
        .hint("`call ... -v` shows the log of a call, -vv from the level debug on; in the shell, `log LEVEL` does")
        .hint("--protocol legacy asks for an older revision, where a server logs unasked")
}

fn print(session: &Session, message: &LogMessage) -> Done {
    if session.printer.is_json() {
        let notification = serde_json::json!({ "method": Log::NAME, "params": message });
        return session.printer.json(&notification);
    }
    session.printer.line(show::log(message))
}
