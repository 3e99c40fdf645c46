use turms::http::{Listener, ServeHttp as _};
use turms::ws::ServeWs as _;

use crate::args::DemoArgs;
use crate::demo;
use crate::exit::{Done, Exit, Failure};
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
    let listener = Listener::bind(address).await.map_err(|error| {
        Failure::of(Exit::Failure, &error).hint("an address is written HOST:PORT, such as 127.0.0.1:8080")
    })?;
    let bound = listener.local_addr().map_or_else(|| address.to_owned(), |bound| bound.to_string());
    printer.note(Text::new().plain("the demo server listens at ").name(format!("{scheme}://{bound}{path}")));
    Ok(listener.until_told_to_end())
}
