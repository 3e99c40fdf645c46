use turms::types::{ListPrompts, ListPromptsResult};

use super::print_list;
use crate::error::Done;
use crate::session::Session;
use crate::show;

/// Lists the prompts.
pub(crate) async fn run(session: &Session) -> Done {
    let prompts = session.call(session.client.list_prompts()).await?;
    if session.printer.is_json() {
        return session.print_list_exactly::<ListPrompts>("prompts", &ListPromptsResult::new(prompts));
    }
    print_list(&session.printer, "prompts", &prompts, show::prompt)
}
