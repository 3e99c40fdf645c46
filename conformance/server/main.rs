//! The server for the official conformance suite: `conformance-server --port PORT [--with-input]`.

mod content;
mod input;
mod jobs;
mod life;
mod listen;
mod prompts;
mod question;
mod resources;
mod skills;

use turms::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let place = listen::Place::from_args(std::env::args().skip(1))?;
    let server = Server::new("turms-conformance", env!("CARGO_PKG_VERSION")).handlers(content::Contents);
    let server = question::add(server);
    let server = input::add(server);
    let server = jobs::add(server);
    let server = life::add(server);
    let server = resources::add(server);
    let server = prompts::add(server);
    let server = skills::add(server)?;
    place.serve(server).await
}

/// A PNG image of one transparent pixel.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00, 0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00, 0x0d, 0x49,
    0x44, 0x41, 0x54, 0x78, 0xda, 0x63, 0x64, 0x60, 0xf8, 0x5f, 0x0f, 0x00, 0x02, 0x87, 0x01, 0x80, 0xeb, 0x47, 0xba,
    0x92, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// A WAV file without samples.
const WAV: &[u8] = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00data\x00\x00\x00\x00";
