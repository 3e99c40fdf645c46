use turms::proto::Object;

use crate::args::RawArgs;
use crate::arguments;
use crate::error::{Done, Failure};
use crate::explain;
use crate::session::Session;
use crate::show;

/// Makes any request, and prints the result as it came.
pub(crate) async fn run(session: &Session, args: &RawArgs) -> Done {
    let params = match &args.params {
        Some(typed) => Some(Object::parse(arguments::of_params(typed)?.into_owned()).map_err(|error| {
            Failure::usage(format!("the parameters are not a JSON object: {error}"))
                .hint(format!("such as: raw {} '{{\"name\":\"value\"}}'", args.method))
        })?),
        None => None,
    };
    if args.notify {
        let told = session.client.notify_raw(&*args.method, params.map(Into::into)).await;
        return told.map_err(|error| explain::call(&error));
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
