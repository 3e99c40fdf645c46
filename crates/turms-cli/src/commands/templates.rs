use turms::types::{ListResourceTemplates, ListResourceTemplatesResult};

use super::print_list;
use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Lists the resource templates.
pub(crate) async fn run(session: &CliSession) -> CliResult {
    let templates = session.call(session.client.list_resource_templates()).await?;
    if session.printer.is_json() {
        return session.print_list_result::<ListResourceTemplates>(
            "resourceTemplates",
            &ListResourceTemplatesResult::new(templates),
        );
    }
    print_list(&session.printer, "resource templates", &templates, show::template)
}
