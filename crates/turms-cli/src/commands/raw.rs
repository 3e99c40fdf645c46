use turms::types::Object;

use crate::args::RawArgs;
use crate::arguments;
use crate::error::{CliError, CliResult};
use crate::session::CliSession;
use crate::show;

/// Sends any request or notification, and prints the result.
pub(crate) async fn run(session: &CliSession, args: &RawArgs) -> CliResult {
    let params = match &args.params {
        Some(typed) => Some(Object::parse(arguments::read_params(typed)?.into_owned()).map_err(|error| {
            CliError::usage(format!("invalid parameters: not a JSON object: {error}"))
                .hint(format!("for example: raw {} '{{\"name\":\"value\"}}'", args.method))
        })?),
        None => None,
    };
    if args.notify {
        let sent = session.client.notify_raw(&*args.method, params.map(Into::into)).await;
        return sent.map_err(|error| session.call_error(&error));
    }
    let result = match params {
        Some(params) => session.long_call(session.client.request_raw(&*args.method, params)).await?,
        None => session.long_call(session.client.request_raw(&*args.method, ())).await?,
    };
    if session.printer.is_json() {
        return session.printer.json_text(result.as_str());
    }
    session.printer.line(show::pretty(&result))
}
