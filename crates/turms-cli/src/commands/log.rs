use turms::client::Event;
use turms::proto::Ability;

use crate::args::LogArgs;
use crate::exit::{Done, Exit, Failure};
use crate::session::Session;
use crate::show;

/// Shows the server's log as it comes.
pub(crate) async fn run(session: &Session, args: &LogArgs) -> Done {
    let mut events = session.client.events();
    session.call(session.client.set_log_level(args.level)).await?;
    if session.client.protocol_version().is_some_and(|version| version.has(Ability::Stateless)) {
        session.printer.warn(
            "in this revision a server logs only about the request that it works on; see the log of a call with -v, or \
             speak an older revision with --protocol legacy",
        );
    }
    session.printer.note("listening; Ctrl-C ends it");
    let mut left = args.count;
    while left != Some(0) {
        let message = match events.next().await {
            Some(Event::Log(message)) => message,
            Some(_) => continue,
            None => return Err(Failure::new(Exit::Connect, "the server tells no more")),
        };
        if session.printer.is_json() {
            session.printer.json(&*message)?;
        } else {
            session.printer.line(show::log(&message))?;
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}
