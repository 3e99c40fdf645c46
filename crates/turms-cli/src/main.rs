//! The `turms` command: what was typed (`args`), what it means (`target`), and doing it (`commands`, `shell`).

mod args;
mod arguments;
mod commands;
mod demo;
mod error;
mod explain;
mod input;
mod line_editor;
mod printer;
mod printer_layer;
mod progress_bar;
mod schema;
mod session;
mod shell;
mod show;
mod suggest;
mod target;
mod text;

use std::env;
use std::process::ExitCode;

use crate::args::{Cli, Command, ServerArgs, Verb};
use crate::error::{Done, Exit, Failure};
use crate::printer::{ColourChoice, Printer, Verbosity};
use crate::session::{Session, Stay};

fn main() -> ExitCode {
    let cli = match args::parse(env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let printer = cli.output.printer();
    printer_layer::install(&printer);
    // One thread is enough for one person, and starts faster than several.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return end(&printer, Err(Failure::of(Exit::Failure, &error))),
    };
    let done = runtime.block_on(run(cli, &printer));
    // Whoever still waits for a line to be typed waits in vain.
    runtime.shutdown_background();
    end(&printer, done)
}

async fn run(cli: Cli, printer: &Printer) -> Done {
    match cli.command {
        None => shell::run(&ServerArgs::demo(), printer).await,
        Some(Command::Shell(on)) => shell::run(&on.split().0, printer).await,
        Some(Command::Demo(args)) => commands::demo::run(&args, printer).await,
        Some(Command::Servers(args)) => commands::servers::run(&args, printer),
        Some(Command::Completions(args)) => commands::completions::run(&args, printer),
        Some(Command::Man(args)) => commands::man::run(&args, printer),
        Some(command) => match command.split() {
            Some((server, verb)) => once(&server, &verb, printer).await,
            None => Ok(()),
        },
    }
}

/// Connects, does one thing, and hangs up.
async fn once(server: &ServerArgs, verb: &Verb, printer: &Printer) -> Done {
    let person = Session::person_at_terminal(printer);
    let stay = if matches!(verb, Verb::Log(_)) { Stay::ForLog } else { Stay::Once };
    let session = Session::open(server, printer, person, stay).await?;
    let done = tokio::select! {
        // Heard from the beginning: before it is polled for the first time, the signal would end the process.
        biased;
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
        done = commands::run(&session, verb) => done,
    };
    session.settled().await;
    session.warn_of_noise();
    session.close().await;
    printer.print_alone();
    // Whoever listens until they have heard enough ends it so.
    match done {
        Err(failure) if failure.exit == Exit::Interrupted && verb.lasts() => Ok(()),
        done => done,
    }
}

/// Tells why the arguments make no sense, or prints the help that was asked for.
fn usage(error: &clap::Error) -> ExitCode {
    let printer = Printer::new(false, Verbosity::Usual, ColourChoice::Auto);
    if error.use_stderr() {
        // What was typed is repeated there, and may hold what would steer the terminal.
        let text = error.render().to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        let typed: Vec<String> = env::args_os().skip(1).filter_map(|word| word.into_string().ok()).collect();
        let hint = args::hint(error, &typed);
        return end(&printer, Err(Failure::usage(message).hint_if(hint)));
    }
    match error.print() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            end(&printer, Err(Failure::new(Exit::Failure, message)))
        }
        _ => ExitCode::SUCCESS,
    }
}

fn end(printer: &Printer, done: Done) -> ExitCode {
    printer.clear_progress();
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printer.failure(&failure);
            failure.exit.into()
        }
    }
}
