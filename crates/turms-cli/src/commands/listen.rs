use turms::client::Change;
use turms::proto::method::Notification as _;
use turms::types::{
    PromptListChanged, ResourceListChanged, ResourceParams, ResourceUpdated, SubscriptionFilter, ToolListChanged,
};

use crate::args::ListenArgs;
use crate::error::Done;
use crate::session::Session;
use crate::show;

/// Shows changes at the server as they happen.
pub(crate) async fn run(session: &Session, args: &ListenArgs) -> Done {
    let mut filter =
        SubscriptionFilter::new().tools_list_changed(true).prompts_list_changed(true).resources_list_changed(true);
    if !args.resource.is_empty() {
        filter = filter.resource_subscriptions(args.resource.clone());
    }
    let mut changes = session.call(session.client.listen(filter)).await?;
    session.printer.note("listening; Ctrl-C ends it");
    let mut left = args.count;
    while left != Some(0) && !session.printer.is_unread() {
        let change = session.next(changes.next()).await?;
        print(session, &change)?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

fn print(session: &Session, change: &Change) -> Done {
    if !session.printer.is_json() {
        return session.printer.line(show::change(change));
    }
    match change {
        Change::Tools => told(session, ToolListChanged::NAME, None),
        Change::Prompts => told(session, PromptListChanged::NAME, None),
        Change::Resources => told(session, ResourceListChanged::NAME, None),
        Change::Resource { uri } => told(session, ResourceUpdated::NAME, Some(ResourceParams::new(uri))),
        _ => Ok(()),
    }
}

fn told(session: &Session, method: &str, params: Option<ResourceParams>) -> Done {
    match params {
        Some(params) => session.printer.json(&serde_json::json!({ "method": method, "params": params })),
        None => session.printer.json(&serde_json::json!({ "method": method })),
    }
}
