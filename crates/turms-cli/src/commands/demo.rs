use std::borrow::Cow;
use std::error::Error;
use std::io;

use turms::http::{Listener, ServeHttp as _};
use turms::ws::ServeWs as _;

use crate::args::DemoArgs;
use crate::demo;
use crate::error::{Done, Exit, Failure};
use crate::explain;
use crate::printer::Printer;
use crate::text::Text;

/// Serves the demo server to others, until told to end.
pub(crate) async fn run(args: &DemoArgs, printer: &Printer) -> Done {
    let server = demo::server();
    let served = match args {
        DemoArgs { http: Some(address), .. } => {
            let listener = listen(address, "http", "/mcp", printer).await?;
            listener.serve(server.http()).await
        }
        DemoArgs { ws: Some(address), .. } => {
            let listener = listen(address, "ws", "", printer).await?;
            listener.serve(server.ws()).await
        }
        DemoArgs { sse: Some(address), .. } => {
            let listener = listen(address, "http", "/sse", printer).await?;
            listener.serve(server.versions(demo::SSE_VERSIONS).http()).await
        }
        _ => server.serve_stdio().await,
    };
    served.map_err(|error| Failure::of(Exit::Failure, &error))
}

/// Listens, and says where: whoever asks for port 0 wants to know which it became.
async fn listen(address: &str, scheme: &str, path: &str, printer: &Printer) -> Done<Listener> {
    let address = with_host(address);
    let listener = Listener::bind(&*address).await.map_err(|error| failure(&error))?;
    let bound = listener.local_addr().map_or_else(|| address.into_owned(), |bound| bound.to_string());
    printer.note(Text::new().plain("the demo server listens at ").name(format!("{scheme}://{bound}{path}")));
    Ok(listener.until_told_to_end())
}

/// A port alone is one of this machine, and only for it.
fn with_host(address: &str) -> Cow<'_, str> {
    let port = address.strip_prefix(':').unwrap_or(address);
    match port.parse::<u16>() {
        Ok(port) => format!("127.0.0.1:{port}").into(),
        Err(_) => address.into(),
    }
}

fn failure(error: &(dyn Error + 'static)) -> Failure {
    match explain::cause::<io::Error>(error).map(io::Error::kind) {
        Some(io::ErrorKind::InvalidInput) => {
            Failure::of(Exit::Usage, error).hint("an address is written HOST:PORT, such as 127.0.0.1:8080")
        }
        Some(io::ErrorKind::AddrInUse) => {
            Failure::of(Exit::Failure, error).hint("another program listens there; port 0 takes one that is free")
        }
        _ => Failure::of(Exit::Failure, error),
    }
}
