use std::collections::BTreeMap;
use std::time::Duration;

use turms::Client;
use turms::types::{Complete, CompleteResult, Reference};

use crate::args::CompleteArgs;
use crate::arguments;
use crate::error::CliResult;
use crate::session::CliSession;

/// Timeout for Tab completion.
pub(crate) const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);

/// Completes an argument.
pub(crate) async fn run(session: &CliSession, args: &CompleteArgs) -> CliResult {
    let arguments = arguments::parse_text(&args.arguments)?;
    let reference = reference(&args.reference);
    let operation = session.client.complete(reference, &*args.argument, &*args.value).arguments(arguments);
    let completion = session.call(operation).await?;
    if session.printer.is_json() {
        return session.print_result::<Complete>(&CompleteResult::new(completion));
    }
    completion.values.iter().try_for_each(|value| session.printer.line(value.as_str()))?;
    if completion.values.is_empty() {
        let is_supported = session.client.server_capabilities().is_some_and(|offered| offered.completions.is_some());
        let hint = if is_supported { "" } else { " (it does not declare the capability)" };
        session.printer.note(format!("the server has no completions for {:?}{hint}", args.argument));
    }
    if completion.has_more == Some(true) {
        session.printer.note("the server has more values");
    }
    Ok(())
}

/// Returns the values for Tab completion; empty if the server is slow or has none.
pub(crate) async fn values(
    client: &Client,
    reference: Reference,
    argument: &str,
    value: &str,
    arguments: BTreeMap<String, String>,
) -> Vec<String> {
    let completion = client.complete(reference, argument, value).arguments(arguments);
    let completion = tokio::time::timeout(COMPLETION_TIMEOUT, completion).await;
    completion.ok().and_then(Result::ok).map(|completion| completion.values).unwrap_or_default()
}

/// Returns a reference to a resource template if the text is a URI, or to a prompt.
pub(crate) fn reference(text: &str) -> Reference {
    if text.contains("://") || text.contains('{') { Reference::resource(text) } else { Reference::prompt(text) }
}
