use crate::args::{self, ManArgs};
use crate::error::{Done, Exit, Failure};
use crate::printer::Printer;
use crate::suggest;

/// Prints the manual page, or that of one command.
pub(crate) fn run(args: &ManArgs, printer: &Printer) -> Done {
    let mut definition = args::definition();
    definition.build();
    let page = match &args.command {
        None => definition,
        Some(name) => match definition.find_subcommand(name) {
            Some(command) => command.clone(),
            None => return Err(unknown(name, &definition)),
        },
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(|error| Failure::of(Exit::Failure, &error))?;
    printer.write(&text)
}

fn unknown(name: &str, definition: &clap::Command) -> Failure {
    let near = suggest::nearest(name, definition.get_subcommands().map(clap::Command::get_name));
    Failure::usage(format!("there is no command {name:?}")).hint_if(near.map(|near| format!("did you mean {near:?}?")))
}
