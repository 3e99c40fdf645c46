use tokio::time::Instant;
use turms::types::{EmptyResult, Ping};

use crate::error::CliResult;
use crate::session::CliSession;

/// Pings the server and prints the round-trip time.
pub(crate) async fn run(session: &CliSession) -> CliResult {
    let started = Instant::now();
    session.call(session.client.ping()).await?;
    if session.printer.is_json() {
        return session.print_result::<Ping>(&EmptyResult::new());
    }
    session.printer.line(format!("response in {:.1?}", started.elapsed()))
}
