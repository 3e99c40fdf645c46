use turms::types::ReadResource;

use crate::args::ReadArgs;
use crate::exit::Done;
use crate::session::Session;
use crate::show::{self, Saver};

/// Reads a resource.
pub(crate) async fn run(session: &Session, args: &ReadArgs) -> Done {
    let result = session.long_call(session.client.read_resource(&*args.uri)).await?;
    let mut saver = Saver::new(args.output.as_deref());
    if session.printer.is_json() {
        for contents in &result.contents {
            show::contents(contents, &mut saver)?;
        }
        return session.print_exactly::<ReadResource>(&result);
    }
    for contents in &result.contents {
        session.printer.line(show::contents(contents, &mut saver)?)?;
    }
    Ok(())
}
