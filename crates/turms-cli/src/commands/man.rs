use crate::args::{self, ManArgs};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::printer::Printer;
use crate::suggest;

/// Prints the manual page of `turms` or of one command.
pub(crate) fn run(args: &ManArgs, printer: &Printer) -> CliResult {
    let mut definition = args::definition();
    definition.build();
    let mut page = definition;
    for name in &args.command {
        page = match page.find_subcommand(name) {
            Some(command) => command.clone(),
            None => return Err(unknown(name, &page)),
        };
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|error| CliError::of(ExitStatus::Failure, &error))?;
    printer.write(&text)
}

fn unknown(name: &str, definition: &clap::Command) -> CliError {
    let closest = suggest::closest(name, definition.get_subcommands().map(clap::Command::get_name));
    CliError::usage(format!("unknown command {name:?}"))
        .hint_if(closest.map(|closest| format!("did you mean {closest:?}?")))
}
