use crate::args::{self, CompletionsArgs};
use crate::error::Done;
use crate::printer::Printer;

/// Prints a script that completes this command's arguments in a shell.
pub(crate) fn run(args: &CompletionsArgs, printer: &Printer) -> Done {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "turms", &mut script);
    printer.write(&script)
}
