//! The address of the server, and its shutdown.

use std::error::Error;

use turms::http::Listener;
use turms::prelude::*;

/// The options of the command line.
pub(crate) struct Place {
    port: u16,
    with_input: bool,
}

impl Place {
    pub(crate) fn from_args(args: impl Iterator<Item = String>) -> Result<Self, Box<dyn Error>> {
        let args: Vec<String> = args.collect();
        let (port, with_input) = match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["--port", port] => (*port, false),
            ["--port", port, "--with-input"] => (*port, true),
            _ => return Err(USAGE.into()),
        };
        let port = port.parse().map_err(|_| format!("{port:?} is not a port; {USAGE}"))?;
        Ok(Self { port, with_input })
    }

    /// Prints the address, and serves until a signal or, if requested, the end of the input.
    #[expect(clippy::print_stdout, reason = "the port is read here if the system chooses it")]
    pub(crate) async fn serve(self, server: Server) -> Result<(), Box<dyn Error>> {
        let listener = Listener::bind(format!("127.0.0.1:{}", self.port)).await?.shutdown_on_signal();
        println!("http://{}/mcp", listener.address());
        tokio::select! {
            served = listener.serve(server.into_http_service()?) => Ok(served?),
            ended = input_ends(), if self.with_input => Ok(ended?),
        }
    }
}

const USAGE: &str = "usage: conformance-server --port PORT [--with-input]; \
    port 0 takes any that is free, and with its input the server ends when that does";

async fn input_ends() -> std::io::Result<()> {
    tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await?;
    Ok(())
}
