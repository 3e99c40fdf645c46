//! `turms prompts`.

use turms::types::{ListPrompts, ListPromptsResult};

use super::print_list;
use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Lists the prompts.
pub(crate) async fn run(session: &CliSession) -> CliResult {
    let prompts = session.call(session.client.list_prompts()).await?;
    if session.printer.is_json() {
        return session.print_list_result::<ListPrompts>("prompts", &ListPromptsResult::new(prompts));
    }
    print_list(&session.printer, "prompts", &prompts, show::prompt)
}
