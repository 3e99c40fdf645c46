use turms::types::ListResourcesResult;

use super::print_list;
use crate::exit::Done;
use crate::session::Session;
use crate::show;

/// Lists the resources.
pub(crate) async fn run(session: &Session) -> Done {
    let resources = session.call(session.client.list_resources()).await?;
    if session.printer.is_json() {
        return session.printer.json(&ListResourcesResult::new(resources));
    }
    print_list(&session.printer, "resources", &resources, show::resource)
}
