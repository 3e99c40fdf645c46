use crate::args::PromptArgs;
use crate::arguments;
use crate::exit::{Done, Failure};
use crate::near;
use crate::session::Session;
use crate::show::{self, Saver};

/// Gets a prompt.
pub(crate) async fn run(session: &Session, args: &PromptArgs) -> Done {
    let arguments = arguments::of_text(&args.arguments)?;
    let prompts = session.call(session.client.list_prompts()).await?;
    if !prompts.iter().any(|prompt| prompt.name == args.name) {
        let near = near::nearest(&args.name, prompts.iter().map(|prompt| prompt.name.as_str()));
        return Err(Failure::usage(format!("the server has no prompt {:?}", args.name)).hint(match near {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`prompts` lists those that it has".to_owned(),
        }));
    }
    let result = session.long_call(session.client.get_prompt(&*args.name, arguments)).await?;
    if session.printer.is_json() {
        return session.printer.json(&result);
    }
    let mut saver = Saver::new(None);
    result.messages.iter().try_for_each(|message| session.printer.line(show::message(message, &mut saver)?))
}
