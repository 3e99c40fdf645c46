//! `turms resources`.

use turms::types::{ListResources, ListResourcesResult};

use super::print_list;
use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Lists the resources.
pub(crate) async fn run(session: &CliSession) -> CliResult {
    let resources = session.call(session.client.list_resources()).await?;
    if session.printer.is_json() {
        return session.print_list_result::<ListResources>("resources", &ListResourcesResult::new(resources));
    }
    print_list(&session.printer, "resources", &resources, show::resource)
}
