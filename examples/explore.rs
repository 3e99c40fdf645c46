//! A client: connects to a server, given as a URL or as a program to start, and lists its tools, resources and prompts. It works
//! with every protocol revision.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the example prints its results")]

use std::error::Error;
use std::process::ExitCode;

use turms::ConnectHttp as _;
use turms::types::LoggingLevel;
use turms::{Backoff, ChildCommand, Client};

#[tokio::main]
async fn main() -> ExitCode {
    let Err(error) = explore().await else { return ExitCode::SUCCESS };
    eprintln!("error: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        eprintln!("  caused by: {error}");
        cause = error.source();
    }
    ExitCode::FAILURE
}

async fn explore() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let target = arguments.next().ok_or("usage: explore URL | PROGRAM [ARGUMENT...]")?;

    let builder = Client::builder("explore", "1.0.0").reconnect(Backoff::new()).log_level(LoggingLevel::Warning);
    let client = if target.starts_with("http://") || target.starts_with("https://") {
        builder.connect_http(target).await?
    } else {
        let command = ChildCommand::new(target).args(arguments).on_stderr(|line| eprintln!("server: {line:?}"));
        builder.connect_command(command).await?
    };

    if let (Some(server), Some(version)) = (client.server_info(), client.protocol_version()) {
        println!("{} {}, protocol {version}", server.name, server.version);
    }
    let capabilities = client.server_capabilities().unwrap_or_default();
    if capabilities.tools.is_some() {
        for tool in client.list_tools().await? {
            println!("tool {}: {}", tool.name, tool.description.unwrap_or_default());
        }
    }
    if capabilities.resources.is_some() {
        for resource in client.list_resources().await? {
            println!("resource {}", resource.uri);
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in client.list_prompts().await? {
            println!("prompt {}: {}", prompt.name, prompt.description.unwrap_or_default());
        }
    }
    client.close().await;
    Ok(())
}
