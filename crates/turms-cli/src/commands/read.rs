use turms::types::ReadResource;

use crate::args::ReadArgs;
use crate::error::{Done, Exit};
use crate::session::Session;
use crate::show::{self, Saver};
use crate::suggest;

/// Reads a resource.
pub(crate) async fn run(session: &Session, args: &ReadArgs) -> Done {
    let mut saver = Saver::new(args.output.as_deref(), &session.printer)?;
    let result = match session.long_call(session.client.read_resource(&*args.uri)).await {
        Err(failure) if failure.exit == Exit::Protocol => {
            let hint = hint(session, &args.uri).await;
            return Err(failure.hint_if(hint));
        }
        result => result?,
    };
    if session.printer.is_json() {
        for contents in &result.contents {
            show::contents(contents, &mut saver)?;
        }
        return session.print_exactly::<ReadResource>(&result);
    }
    for contents in &result.contents {
        let shown = show::contents(contents, &mut saver)?;
        saver.print(shown)?;
    }
    Ok(())
}

/// What could have been meant.
async fn hint(session: &Session, uri: &str) -> Option<String> {
    if uri.contains('{') {
        return Some("a template becomes a URI when what is in braces is filled in".to_owned());
    }
    let resources = session.client.list_resources().await.ok()?;
    let near = suggest::nearest(uri, resources.iter().map(|resource| resource.uri.as_str()))?;
    Some(format!("did you mean {near:?}?"))
}
