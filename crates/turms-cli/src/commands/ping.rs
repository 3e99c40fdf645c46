use tokio::time::Instant;
use turms::types::{EmptyResult, Ping};

use crate::error::Done;
use crate::session::Session;

/// Sees whether the server answers, and how fast.
pub(crate) async fn run(session: &Session) -> Done {
    let asked = Instant::now();
    session.call(session.client.ping()).await?;
    if session.printer.is_json() {
        return session.print_exactly::<Ping>(&EmptyResult::new());
    }
    session.printer.line(format!("the server answered in {:.1?}", asked.elapsed()))
}
