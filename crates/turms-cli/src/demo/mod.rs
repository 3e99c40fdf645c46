//! The built-in demo server. It uses most features of the protocol, and is written like any program that uses `turms`.

mod input;
mod notes;
mod prompts;
mod tools;

use turms::ProtocolVersion;
use turms::prelude::*;

use crate::error::{CliError, CliResult};

/// The revision of `turms demo --sse`: the one that has HTTP+SSE.
pub(crate) const SSE_VERSIONS: [ProtocolVersion; 1] = [ProtocolVersion::V2024_11_05];

const LOGO: &[u8] = include_bytes!("logo.png");

/// Returns the demo server.
pub(crate) fn server() -> Server {
    with_tools(tools())
}

/// Returns the demo server with tools that need scopes. Each entry is the name of a tool and a scope.
pub(crate) fn server_with_scopes(scopes: &[(String, String)]) -> CliResult<Server> {
    let mut tools = tools();
    for (name, scope) in scopes {
        let Some(tool) = tools.iter_mut().find(|tool| tool.name() == name) else {
            return Err(CliError::usage(format!("the demo server has no tool {name:?}"))
                .hint("`turms tools demo` lists the tools"));
        };
        *tool = tool.clone().with_scopes(tool.scopes().iter().chain([scope]).cloned());
    }
    Ok(with_tools(tools))
}

fn tools() -> Vec<Tool> {
    vec![
        tools::add(),
        tools::divide(),
        tools::weather(),
        tools::countdown(),
        tools::report(),
        tools::logo(),
        tools::mischief(),
        input::sign_up(),
        input::visit(),
        input::ask_model(),
        input::show_roots(),
    ]
}

fn with_tools(tools: Vec<Tool>) -> Server {
    let notes = notes::Notes::default();
    let server = Server::new("turms-demo", env!("CARGO_PKG_VERSION"))
        .title("Turms demo")
        .description("A demo of the features of the Model Context Protocol")
        .instructions("Read demo://readme first. It lists examples to try.");
    tools
        .into_iter()
        .fold(server, |server, tool| server.tool(tool))
        .resource(readme)
        .resource(logo_file)
        .resource(notes.template())
        .handlers(notes)
        .prompt(prompts::review)
        .prompt(prompts::journey())
}

/// Introduction with examples to try.
#[resource("demo://readme", mime_type = "text/markdown")]
async fn readme() -> &'static str {
    include_str!("readme.md")
}

/// The logo as an image.
#[resource("demo://logo", mime_type = "image/png")]
async fn logo_file() -> Vec<u8> {
    LOGO.to_vec()
}
