use std::collections::BTreeMap;

use tokio::runtime::Handle;
use turms::types::{GetPrompt, Prompt, PromptArgument, Reference};

use super::complete;
use crate::args::PromptArgs;
use crate::arguments;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::input::TerminalPrompt;
use crate::line_editor::{AnswerChoices, LineInput};
use crate::session::CliSession;
use crate::show::{self, ContentSaver};
use crate::suggest;
use crate::text::escape_line;

/// Gets a prompt.
pub(crate) async fn run(session: &CliSession, args: &PromptArgs) -> CliResult {
    let mut saver = ContentSaver::new(args.output.as_deref(), &session.printer)?;
    let given = arguments::parse_text(&args.arguments)?;
    let prompt = find(session, &args.name).await?;
    check_names(&prompt, &given)?;
    let arguments = prompt_missing(session, &prompt, given).await?;
    let result = session.long_call(session.client.get_prompt(&*prompt.name, arguments)).await?;
    for message in &result.messages {
        let shown = show::message(message, &mut saver)?;
        if !session.printer.is_json() {
            saver.print(shown)?;
        }
    }
    saver.warn_if_unused();
    if session.printer.is_json() { session.print_result::<GetPrompt>(&result) } else { Ok(()) }
}

/// Returns the prompt of this name.
async fn find(session: &CliSession, name: &str) -> CliResult<Prompt> {
    let prompts = session.call(session.client.list_prompts()).await?;
    let closest = suggest::closest(name, prompts.iter().map(|prompt| prompt.name.as_str())).map(ToOwned::to_owned);
    prompts.into_iter().find(|prompt| prompt.name == name).ok_or_else(|| {
        CliError::usage(format!("the server has no prompt {name:?}")).hint(match closest {
            Some(closest) => format!("did you mean {closest:?}?"),
            None => "`prompts` lists the prompts".to_owned(),
        })
    })
}

/// Rejects arguments that the prompt does not declare, unless it declares none.
fn check_names(prompt: &Prompt, given: &BTreeMap<String, String>) -> CliResult {
    let names: Vec<&str> = prompt.arguments.iter().flatten().map(|argument| argument.name.as_str()).collect();
    let unknown = given.keys().find(|key| !names.contains(&key.as_str()));
    let (Some(unknown), false) = (unknown, names.is_empty()) else { return Ok(()) };
    let takes = names.join(", ");
    Err(CliError::usage(format!("prompt {:?} has no argument {unknown:?}", prompt.name)).hint(
        match suggest::closest(unknown, names) {
            Some(closest) => format!("did you mean {closest:?}? expected one of {takes}"),
            None => format!("expected one of {takes}"),
        },
    ))
}

/// Prompts for missing arguments at the terminal.
async fn prompt_missing(
    session: &CliSession,
    prompt: &Prompt,
    mut given: BTreeMap<String, String>,
) -> CliResult<BTreeMap<String, String>> {
    let required = prompt.arguments.iter().flatten().filter(|argument| argument.required == Some(true));
    let missing: Vec<&PromptArgument> = required.filter(|argument| !given.contains_key(&argument.name)).collect();
    if missing.is_empty() {
        return Ok(given);
    }
    let Some(terminal) = &session.terminal else { return Err(missing_arguments(prompt, &missing)) };
    for argument in missing {
        let choices = server_completions(session, prompt, argument, given.clone());
        match read_argument(terminal, argument, choices).await {
            Some(value) => drop(given.insert(argument.name.clone(), value)),
            None => {
                return Err(CliError::new(ExitStatus::Interrupted, format!("prompt {:?}: cancelled", prompt.name)));
            }
        }
    }
    Ok(given)
}

fn missing_arguments(prompt: &Prompt, missing: &[&PromptArgument]) -> CliError {
    let names: Vec<String> = missing.iter().map(|argument| format!("{:?}", argument.name)).collect();
    let usage: Vec<String> = missing.iter().map(|argument| format!("{}=TEXT", argument.name)).collect();
    CliError::usage(format!("prompt {:?} needs {}", prompt.name, names.join(" and ")))
        .hint(format!("give {}", usage.join(" ")))
}

/// Prompts for an argument; `None` if the user cancels.
async fn read_argument(terminal: &TerminalPrompt, argument: &PromptArgument, choices: AnswerChoices) -> Option<String> {
    let description = argument.description.as_deref().and_then(|description| description.lines().next());
    let gap = if description.is_some() { " " } else { "" };
    let question = format!("  {}{gap}{}: ", argument.name, description.unwrap_or_default());
    match terminal.read_answer(escape_line(&question), choices).await {
        LineInput::Entered(text) => Some(text.trim().to_owned()),
        LineInput::Interrupted | LineInput::Eof => None,
    }
}

/// Returns completions from the server, which may depend on the other arguments.
fn server_completions(
    session: &CliSession,
    prompt: &Prompt,
    argument: &PromptArgument,
    arguments: BTreeMap<String, String>,
) -> AnswerChoices {
    let (client, runtime) = (session.client.clone(), Handle::current());
    let (prompt, argument) = (prompt.name.clone(), argument.name.clone());
    AnswerChoices::from(move |prefix| {
        let reference = Reference::prompt(&*prompt);
        runtime.block_on(complete::values(&client, reference, &argument, prefix, arguments.clone()))
    })
}
