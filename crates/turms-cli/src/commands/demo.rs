//! `turms demo`.

use std::borrow::Cow;
use std::error::Error;
use std::io;

use turms::http::{Listener, ServeHttp as _};
use turms::ws::ServeWs as _;

use super::demo_auth::{DemoAuth, DemoGuard};
use crate::args::{DemoArgs, DemoTransport};
use crate::demo;
use crate::error::{CliError, CliResult, ExitStatus};
use crate::explain;
use crate::printer::Printer;
use crate::text::StyledText;

/// Serves the demo server until shutdown.
pub(crate) async fn run(args: &DemoArgs, printer: &Printer) -> CliResult {
    let auth = DemoAuth::from_args(&args.auth, &args.transport)?;
    let server = demo::server_with_scopes(auth.as_ref().map_or(&[], DemoAuth::tool_scopes))?;
    let failed = |error: turms::Error| CliError::of(ExitStatus::Failure, &error);
    let served = match &args.transport {
        DemoTransport { http: Some(address), .. } => {
            let (listener, guard) = listen(address, "http", "/mcp", auth.as_ref(), printer).await?;
            let service = server.into_http_service().map_err(failed)?;
            listener.serve(guard.iter().fold(service, |service, guard| service.guard(guard.token_guard()))).await
        }
        DemoTransport { ws: Some(address), .. } => {
            let (listener, guard) = listen(address, "ws", "", auth.as_ref(), printer).await?;
            let service = server.into_ws_service().map_err(failed)?;
            listener.serve(guard.iter().fold(service, |service, guard| service.guard(guard.token_guard()))).await
        }
        DemoTransport { sse: Some(address), .. } => {
            let (listener, guard) = listen(address, "http", "/sse", auth.as_ref(), printer).await?;
            let service = server.protocol_versions(demo::SSE_VERSIONS).into_http_service().map_err(failed)?;
            listener.serve(guard.iter().fold(service, |service, guard| service.guard(guard.token_guard()))).await
        }
        _ => server.serve_stdio().await,
    };
    served.map_err(failed)
}

/// Binds a listener and prints its URL, which has the actual port if port 0 was requested. Creates the guard, if there is to be one.
async fn listen(
    address: &str,
    scheme: &str,
    path: &str,
    auth: Option<&DemoAuth>,
    printer: &Printer,
) -> CliResult<(Listener, Option<DemoGuard>)> {
    let address = with_host(address);
    let listener = Listener::bind(&*address).await.map_err(|error| bind_error(&error))?;
    let bound = listener.local_addr();
    let url = format!("{scheme}://{}{path}", bound.map_or_else(|| address.into_owned(), |bound| bound.to_string()));
    let guard = match auth {
        Some(auth) => Some(auth.guard(&url, bound).await?),
        None => None,
    };
    printer.note(StyledText::new().plain("the demo server is listening on ").name(&url));
    if let (Some(auth), Some(guard)) = (auth, &guard) {
        printer.note(auth.describe(&url, guard));
    }
    Ok((listener.shutdown_on_signal(), guard))
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
