use turms::client::Change;
use turms::types::{
    NotificationMethod as _, PromptListChangedNotification, ResourceListChangedNotification, ResourceParams,
    ResourceUpdatedNotification, SubscriptionFilter, ToolListChangedNotification,
};

use crate::args::ListenArgs;
use crate::error::CliResult;
use crate::session::CliSession;
use crate::show;

/// Prints change notifications until Ctrl-C.
pub(crate) async fn run(session: &CliSession, args: &ListenArgs) -> CliResult {
    let mut filter =
        SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true).resources_list_changed(true);
    if !args.resource.is_empty() {
        filter = filter.resource_subscriptions(args.resource.clone());
    }
    let mut changes = session.call(session.client.subscribe(filter)).await?;
    session.printer.note("listening; Ctrl-C stops");
    let mut left = args.count;
    while left != Some(0) && !session.printer.is_stdout_closed() {
        let change = session.next(changes.next()).await?;
        print(session, &change)?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn print(session: &CliSession, change: &Change) -> CliResult {
    if !session.printer.is_json() {
        return session.printer.line(show::change(change));
    }
    match change {
        Change::ToolList => print_notification(session, ToolListChangedNotification::NAME, None),
        Change::PromptList => print_notification(session, PromptListChangedNotification::NAME, None),
        Change::ResourceList => print_notification(session, ResourceListChangedNotification::NAME, None),
        Change::Resource { uri } => {
            print_notification(session, ResourceUpdatedNotification::NAME, Some(ResourceParams::new(uri)))
        }
        _ => Ok(()),
    }
}

fn print_notification(session: &CliSession, method: &str, params: Option<ResourceParams>) -> CliResult {
    match params {
        Some(params) => session.printer.json(&serde_json::json!({ "method": method, "params": params })),
        None => session.printer.json(&serde_json::json!({ "method": method })),
    }
}
