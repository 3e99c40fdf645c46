//! The built-in demo server. It uses most features of the protocol, and is written like any program that uses `turms`.

mod input;
mod notes;
mod prompts;
mod tools;

use turms::ProtocolVersion;
use turms::prelude::*;

/// The revision of `turms demo --sse`: the one that has HTTP+SSE.
pub(crate) const SSE_VERSIONS: [ProtocolVersion; 1] = [ProtocolVersion::V2024_11_05];

const LOGO: &[u8] = include_bytes!("logo.png");

/// Returns the demo server.
pub(crate) fn server() -> Server {
    let notes = notes::Notes::default();
    Server::new("turms-demo", env!("CARGO_PKG_VERSION"))
        .title("Turms demo")
        .description("A demo of the features of the Model Context Protocol")
        .instructions("Read demo://readme first. It lists examples to try.")
        .tool(tools::add)
        .tool(tools::divide)
        .tool(tools::weather)
        .tool(tools::countdown)
        .tool(tools::report)
        .tool(tools::logo)
        .tool(tools::mischief)
        .tool(input::sign_up)
        .tool(input::visit)
        .tool(input::ask_model)
        .tool(input::show_roots)
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
