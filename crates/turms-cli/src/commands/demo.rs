use std::borrow::Cow;
use std::error::Error;
use std::io;

use turms::http::{Listener, ServeHttp as _};
use turms::ws::ServeWs as _;

use crate::args::DemoArgs;
use crate::demo;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain;
use crate::printer::Printer;
use crate::text::StyledText;

/// Serves the demo server until shutdown.
pub(crate) async fn run(args: &DemoArgs, printer: &Printer) -> CliResult {
    let server = demo::server();
    let failed = |error: turms::Error| CliError::of(ExitStatus::Failure, &error);
    let served = match args {
        DemoArgs { http: Some(address), .. } => {
            let listener = listen(address, "http", "/mcp", printer).await?;
            listener.serve(server.into_http_service().map_err(failed)?).await
        }
        DemoArgs { ws: Some(address), .. } => {
            let listener = listen(address, "ws", "", printer).await?;
            listener.serve(server.into_ws_service().map_err(failed)?).await
        }
        DemoArgs { sse: Some(address), .. } => {
            let listener = listen(address, "http", "/sse", printer).await?;
            listener.serve(server.protocol_versions(demo::SSE_VERSIONS).into_http_service().map_err(failed)?).await
        }
        _ => server.serve_stdio().await,
    };
    served.map_err(failed)
}

/// Binds a listener and prints its URL, which has the actual port if port 0 was requested.
async fn listen(address: &str, scheme: &str, path: &str, printer: &Printer) -> CliResult<Listener> {
    let address = with_host(address);
    let listener = Listener::bind(&*address).await.map_err(|error| bind_error(&error))?;
    let bound = listener.local_addr().map_or_else(|| address.into_owned(), |bound| bound.to_string());
    printer.note(StyledText::new().plain("the demo server is listening on ").name(format!("{scheme}://{bound}{path}")));
    Ok(listener.shutdown_on_signal())
}

/// Adds the loopback address to a port.
fn with_host(address: &str) -> Cow<'_, str> {
    let port = address.strip_prefix(':').unwrap_or(address);
    match port.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}").into(),
        Err(_) => address.into(),
    }
}

fn bind_error(error: &(dyn Error + 'static)) -> CliError {
    match explain::cause::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::InvalidInput) => {
            CliError::of(ExitStatus::Usage, error).hint("expected HOST:PORT, such as 127.0.0.1:8080")
        }
        Some(io::ErrorKind::AddrInUse) => {
            CliError::of(ExitStatus::Failure, error).hint("another program uses the port; port 0 selects a free one")
        }
        _ => CliError::of(ExitStatus::Failure, error),
    }
}
