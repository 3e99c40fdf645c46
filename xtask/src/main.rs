//! Development tasks of Turms, run as `cargo xtask <task>`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer's tool talks to a terminal")]

mod api;
mod args;
mod bench;
mod check_all;
mod command_bench;
mod conformance;
mod dependencies;
mod documented_defaults;
mod full_test;
mod need;
mod packages;
mod peers;
mod program;
mod programs;
mod sources;
mod step;
mod summary;
mod version_comparison;

use std::env;
use std::error::Error;
use std::process::ExitCode;

use args::{Task, USAGE};
use conformance::Filter;
use summary::Summary;

fn main() -> ExitCode {
    match args::parse(env::args_os().skip(1)) {
        Ok(Task::Test(extent)) => report("test", &full_test::run(extent)),
        Ok(Task::CheckAll) => report("check-all", &check_all::run()),
        Ok(Task::Api(mode)) => finish(api::run(mode)),
        Ok(Task::Programs(files)) => finish(programs::run(&files)),
        Ok(Task::Bench(options)) => done(bench::run(&options)),
        Ok(Task::Peers) => done(peers::install()),
        Ok(Task::Conformance(filter)) => conformance(&filter),
        Ok(Task::CommandBench) => finish(command_bench::run()),
        Ok(Task::Help) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("error: {error}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn report(task: &str, summary: &Summary) -> ExitCode {
    println!("xtask {task}: {summary}");
    if summary.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn done<E: Error>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", step::with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn conformance(filter: &Filter) -> ExitCode {
    match conformance::run(filter) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", step::with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn finish(outcome: Result<(), Box<dyn Error>>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", step::with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}
