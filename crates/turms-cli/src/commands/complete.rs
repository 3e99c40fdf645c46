use std::collections::BTreeMap;
use std::time::Duration;

use turms::Client;
use turms::types::{Complete, CompleteResult, Reference};

use crate::args::CompleteArgs;
use crate::arguments;
use crate::error::Done;
use crate::session::Session;

/// How long a person waits for Tab.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Asks the server how an argument could go on.
pub(crate) async fn run(session: &Session, args: &CompleteArgs) -> Done {
    let known = arguments::of_text(&args.known)?;
    let reference = reference(&args.reference);
    let operation = session.client.complete_with(reference, &*args.argument, &*args.value, known);
    let completion = session.call(operation).await?;
    if session.printer.is_json() {
        return session.print_exactly::<Complete>(&CompleteResult::new(completion));
    }
    completion.values.iter().try_for_each(|value| session.printer.line(value.as_str()))?;
    if completion.values.is_empty() {
        let offers = session.client.server_capabilities().is_some_and(|offered| offered.completions.is_some());
        let hint = if offers { "" } else { ", and does not say that it completes anything" };
        session.printer.note(format!("the server knows of nothing that {:?} could be{hint}", args.argument));
    }
    if completion.has_more == Some(true) {
        session.printer.note("there are more");
    }
    Ok(())
}

/// What Tab offers: nothing, of a server that is slow or completes nothing.
pub(crate) async fn values(
    client: &Client,
    reference: Reference,
    argument: &str,
    value: &str,
    known: BTreeMap<String, String>,
) -> Vec<String> {
    let completion = client.complete_with(reference, argument, value, known);
    let completion = tokio::time::timeout(PATIENCE, completion).await;
    completion.ok().and_then(Result::ok).map(|completion| completion.values).unwrap_or_default()
}

/// Templates are URIs; names of prompts are not.
pub(crate) fn reference(text: &str) -> Reference {
    if text.contains("://") || text.contains('{') { Reference::resource(text) } else { Reference::prompt(text) }
}
