use turms::types::ReadResource;

use crate::args::ReadArgs;
use crate::error::{CliResult, ExitStatus};
use crate::session::CliSession;
use crate::show::{self, ContentSaver};
use crate::suggest;

/// Reads a resource.
pub(crate) async fn run(session: &CliSession, args: &ReadArgs) -> CliResult {
    let mut saver = ContentSaver::new(args.output.as_deref(), &session.printer)?;
    let result = match session.long_call(session.client.read_resource(&*args.uri)).await {
        Err(failure) if failure.exit == ExitStatus::Protocol => {
            let hint = hint(session, &args.uri).await;
            return Err(failure.hint_if(hint));
        }
        result => result?,
    };
    if session.printer.is_json() {
        for contents in &result.contents {
            show::contents(contents, &mut saver)?;
        }
        return session.print_result::<ReadResource>(&result);
    }
    for contents in &result.contents {
        let shown = show::contents(contents, &mut saver)?;
        saver.print(shown)?;
    }
    Ok(())
}

/// Returns a hint for a URI that was not found.
async fn hint(session: &CliSession, uri: &str) -> Option<String> {
    if uri.contains('{') {
        return Some("this is a template: replace the variables in braces".to_owned());
    }
    let resources = session.client.list_resources().await.ok()?;
    let closest = suggest::closest(uri, resources.iter().map(|resource| resource.uri.as_str()))?;
    Some(format!("did you mean {closest:?}?"))
}
