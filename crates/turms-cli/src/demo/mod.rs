//! The server that is built in: some of everything, written as any user of `turms` would write it.

mod ask;
mod notes;
mod prompts;
mod work;

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
        .tool(work::add)
        .tool(work::divide)
        .tool(work::weather)
        .tool(work::countdown)
        .tool(work::report)
        .tool(work::logo)
        .tool(work::mischief)
        .tool(ask::sign_up)
        .tool(ask::visit)
        .tool(ask::ask_model)
        .tool(ask::show_roots)
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
