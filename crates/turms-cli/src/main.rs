//! The `turms` command: arguments (`args`), resolving the server (`target`), and running commands (`commands`, `shell`).

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

use crate::args::{Cli, Command, ServerArgs, ServerCommand};
use crate::error::{CliError, CliResult, ExitStatus};
use crate::printer::{ColourChoice, Printer, Verbosity};
use crate::session::{CliSession, SessionKind};

fn main() -> ExitCode {
    let cli = match args::parse(env::args_os()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let printer = cli.output.printer();
    printer_layer::install(&printer);
    // One thread is enough for one user, and starts faster than several.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return finish(&printer, Err(CliError::of(ExitStatus::Failure, &error))),
    };
    let result = runtime.block_on(run(cli, &printer));
    // A thread may still be blocked reading a line from the terminal; do not wait for it.
    runtime.shutdown_background();
    finish(&printer, result)
}

async fn run(cli: Cli, printer: &Printer) -> CliResult {
    match cli.command {
        None => shell::run(&ServerArgs::demo(), printer).await,
        Some(Command::Shell(args)) => shell::run(&args.split().0, printer).await,
        Some(Command::Demo(args)) => commands::demo::run(&args, printer).await,
        Some(Command::Auth(args)) => commands::auth::run(&args, printer).await,
        Some(Command::Servers(args)) => commands::servers::run(&args, printer),
        Some(Command::Completions(args)) => commands::completions::run(&args, printer),
        Some(Command::Man(args)) => commands::man::run(&args, printer),
        Some(command) => match command.split() {
            Some((server, command)) => run_once(&server, &command, printer).await,
            // Commands without a server are handled above.
            None => Ok(()),
        },
    }
}

/// Connects, runs one command, and closes the connection.
async fn run_once(server: &ServerArgs, command: &ServerCommand, printer: &Printer) -> CliResult {
    let terminal = CliSession::terminal_prompt(printer);
    let kind = if matches!(command, ServerCommand::Log(_)) { SessionKind::Log } else { SessionKind::OneCommand };
    let session = CliSession::open(server, printer, terminal, kind).await?;
    let result = tokio::select! {
        // The signal is polled first: until then, Ctrl-C would kill the process.
        biased;
        _ = tokio::signal::ctrl_c() => Err(CliError::new(ExitStatus::Interrupted, "interrupted")),
        result = commands::run(&session, command) => result,
    };
    session.wait_until_idle().await;
    session.warn_about_stray_output();
    session.close().await;
    printer.clear_external_printer();
    // Ctrl-C is the normal way to stop `listen` and `log`.
    match result {
        Err(failure) if failure.exit == ExitStatus::Interrupted && command.runs_until_stopped() => Ok(()),
        result => result,
    }
}

/// Prints an error for invalid arguments, or the help that was requested.
fn usage(error: &clap::Error) -> ExitCode {
    let printer = Printer::new(false, Verbosity::Normal, ColourChoice::Auto);
    if error.use_stderr() {
        // The message repeats the arguments, which may contain control characters; the printer escapes them.
        let text = error.render().to_string();
        let message = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
        let typed: Vec<String> = env::args_os().skip(1).filter_map(|word| word.into_string().ok()).collect();
        let hint = args::usage_hint(error, &typed);
        return finish(&printer, Err(CliError::usage(message).hint_if(hint)));
    }
    match error.print() {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let message = format!("cannot write to standard output: {error}");
            finish(&printer, Err(CliError::new(ExitStatus::Failure, message)))
        }
        _ => ExitCode::SUCCESS,
    }
}

fn finish(printer: &Printer, result: CliResult) -> ExitCode {
    printer.clear_progress();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            printer.error(&failure);
            failure.exit.into()
        }
    }
}
