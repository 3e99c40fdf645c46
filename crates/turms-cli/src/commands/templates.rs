use turms::types::{ListResourceTemplates, ListResourceTemplatesResult};

use super::print_list;
use crate::error::Done;
use crate::session::Session;
use crate::show;

/// Lists the templates of resources.
pub(crate) async fn run(session: &Session) -> Done {
    let templates = session.call(session.client.list_resource_templates()).await?;
    if session.printer.is_json() {
        return session.print_list_exactly::<ListResourceTemplates>(
            "resourceTemplates",
            &ListResourceTemplatesResult::new(templates),
        );
    }
    print_list(&session.printer, "templates of resources", &templates, show::template)
}
