use crate::args;
use crate::exit::{Done, Exit, Failure};
use crate::printer::Printer;

/// Prints the manual page: of the command, then of each of its commands.
pub(crate) fn run(printer: &Printer) -> Done {
    let mut page = Vec::new();
    let mut definition = args::definition();
    definition.build();
    let written = clap_mangen::Man::new(definition.clone()).render(&mut page);
    written.map_err(|error| Failure::of(Exit::Failure, &error))?;
    printer.write(&page)
}
