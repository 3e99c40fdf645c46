use crate::args::{self, CompletionsArgs};
use crate::error::CliResult;
use crate::printer::Printer;

/// Prints a completion script for a shell.
pub(crate) fn run(args: &CompletionsArgs, printer: &Printer) -> CliResult {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::definition(), "turms", &mut script);
    printer.write(&script)
}
