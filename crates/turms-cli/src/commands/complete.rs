use turms::types::{Complete, CompleteResult, Reference};

use crate::args::CompleteArgs;
use crate::arguments;
use crate::exit::Done;
use crate::session::Session;

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
    if completion.has_more == Some(true) {
        session.printer.note("there are more");
    }
    Ok(())
}

/// Templates are URIs; names of prompts are not.
fn reference(text: &str) -> Reference {
    if text.contains("://") || text.contains('{') { Reference::resource(text) } else { Reference::prompt(text) }
}
