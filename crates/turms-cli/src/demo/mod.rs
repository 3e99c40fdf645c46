//! The server that is built in: some of everything, written as any user of `turms` would write it.

mod input;
mod notes;
mod prompts;
mod tools;

use turms::prelude::*;
use turms::proto::ProtocolVersion;

/// Whom `turms demo --sse` serves: clients of the revision that had HTTP+SSE.
pub(crate) const SSE_VERSIONS: [ProtocolVersion; 1] = [ProtocolVersion::V2024_11_05];

const LOGO: &[u8] = include_bytes!("logo.png");

/// The demo server, not yet served anywhere.
pub(crate) fn server() -> Server {
    let notes = notes::Notes::default();
    Server::new("turms-demo", env!("CARGO_PKG_VERSION"))
        .title("Turms demo")
        .description("Some of everything that the Model Context Protocol has")
        .instructions("Read demo://readme first. It says what is worth trying.")
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
        .service(notes)
        .prompt(prompts::review)
        .prompt(prompts::journey())
}

/// What this server is, and what is worth trying.
#[resource("demo://readme", mime_type = "text/markdown")]
async fn readme() -> &'static str {
    include_str!("readme.md")
}

/// The logo, a picture.
#[resource("demo://logo", mime_type = "image/png")]
async fn logo_file() -> Vec<u8> {
    LOGO.to_vec()
}
