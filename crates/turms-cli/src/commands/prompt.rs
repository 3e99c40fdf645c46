use std::collections::BTreeMap;

use tokio::runtime::Handle;
use turms::types::{GetPrompt, Prompt, PromptArgument, Reference};

use super::complete;
use crate::args::PromptArgs;
use crate::arguments;
use crate::error::{Done, Exit, Failure};
use crate::input::Person;
use crate::line_editor::{Choices, Line};
use crate::session::Session;
use crate::show::{self, Saver};
use crate::suggest;
use crate::text::shown_line;

/// Gets a prompt.
pub(crate) async fn run(session: &Session, args: &PromptArgs) -> Done {
    let mut saver = Saver::new(args.output.as_deref(), &session.printer)?;
    let given = arguments::of_text(&args.arguments)?;
    let prompt = find(session, &args.name).await?;
    check(&prompt, &given)?;
    let arguments = completed(session, &prompt, given).await?;
    let result = session.long_call(session.client.get_prompt(&*prompt.name, arguments)).await?;
    for message in &result.messages {
        let shown = show::message(message, &mut saver)?;
        if !session.printer.is_json() {
            saver.print(shown)?;
        }
    }
    saver.warn_of_nothing();
    if session.printer.is_json() { session.print_exactly::<GetPrompt>(&result) } else { Ok(()) }
}

/// The prompt of this name.
async fn find(session: &Session, name: &str) -> Done<Prompt> {
    let prompts = session.call(session.client.list_prompts()).await?;
    let near = suggest::nearest(name, prompts.iter().map(|prompt| prompt.name.as_str())).map(ToOwned::to_owned);
    prompts.into_iter().find(|prompt| prompt.name == name).ok_or_else(|| {
        Failure::usage(format!("the server has no prompt {name:?}")).hint(match near {
            Some(near) => format!("did you mean {near:?}?"),
            None => "`prompts` lists those that it has".to_owned(),
        })
    })
}

/// An argument that the prompt does not tell of is a slip, unless it tells of none at all.
fn check(prompt: &Prompt, given: &BTreeMap<String, String>) -> Done {
    let names: Vec<&str> = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
    let stranger = given.keys().find(|key| !names.contains(&key.as_str()));
    let (Some(stranger), false) = (stranger, names.is_empty()) else { return Ok(()) };
    let takes = names.join(", ");
    Err(Failure::usage(format!("prompt {:?} has no argument {stranger:?}", prompt.name)).hint(
        match suggest::nearest(stranger, names) {
            Some(near) => format!("did you mean {near:?}? It takes {takes}"),
            None => format!("it takes {takes}"),
        },
    ))
}

/// Asks for what is missing, if there is anybody to ask.
async fn completed(
    session: &Session,
    prompt: &Prompt,
    mut given: BTreeMap<String, String>,
) -> Done<BTreeMap<String, String>> {
    let required = prompt.arguments.iter().flatten().filter(|argument| argument.required == Some(true));
    let missing: Vec<&PromptArgument> = required.filter(|argument| !given.contains_key(&argument.name)).collect();
    if missing.is_empty() {
        return Ok(given);
    }
    let Some(person) = &session.person else { return Err(needs(prompt, &missing)) };
    for argument in missing {
        let choices = known_to_the_server(session, prompt, argument, given.clone());
        match ask(person, argument, choices).await {
            Some(value) => drop(given.insert(argument.name.clone(), value)),
            None => return Err(Failure::new(Exit::Interrupted, format!("prompt {:?} was not got", prompt.name))),
        }
    }
    Ok(given)
}

fn needs(prompt: &Prompt, missing: &[&PromptArgument]) -> Failure {
    let names: Vec<String> = missing.iter().map(|argument| format!("{:?}", argument.name)).collect();
    let usage: Vec<String> = missing.iter().map(|argument| format!("{}=TEXT", argument.name)).collect();
    Failure::usage(format!("prompt {:?} needs {}", prompt.name, names.join(" and ")))
        .hint(format!("write {}", usage.join(" ")))
}

/// `None` if the person would rather not.
async fn ask(person: &Person, argument: &PromptArgument, choices: Choices) -> Option<String> {
    let description = argument.description.as_deref().and_then(|description| description.lines().next());
    let gap = if description.is_some() { " " } else { "" };
    let question = format!("  {}{gap}{}: ", argument.name, description.unwrap_or_default());
    match person.answer(shown_line(&question), choices).await {
        Line::Typed(text) => Some(text.trim().to_owned()),
        Line::Interrupted | Line::End => None,
    }
}

/// What the server would complete, which may depend on the other arguments.
fn known_to_the_server(
    session: &Session,
    prompt: &Prompt,
    argument: &PromptArgument,
    known: BTreeMap<String, String>,
) -> Choices {
    let (client, runtime) = (session.client.clone(), Handle::current());
    let (prompt, argument) = (prompt.name.clone(), argument.name.clone());
    Choices::from(move |begun| {
        let reference = Reference::prompt(&*prompt);
        runtime.block_on(complete::values(&client, reference, &argument, begun, known.clone()))
    })
}
