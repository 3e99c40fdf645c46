//! The benchmark server mounted in an application: `turms-bench-mounted axum PORT` in an axum router,
//! `turms-bench-mounted hyper PORT` as a `tower` service that hyper serves. At `/mcp` on 127.0.0.1.

use std::error::Error;

use axum::serve::ListenerExt as _;
use turms::http::{Listener, ServeHttp as _};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = turms_bench_server::from_environment().into_http_service()?;
    let mut args = std::env::args().skip(1);
    let (mode, port) = (args.next().unwrap_or_default(), args.next().unwrap_or_else(|| "8080".to_owned()));
    let address = format!("127.0.0.1:{port}");
    match mode.as_str() {
        "axum" => {
            let listener = tokio::net::TcpListener::bind(address).await?;
            let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
            let application = axum::Router::new().nest_service("/mcp", service);
            axum::serve(listener, application).await?;
        }
        "hyper" => Listener::bind(address).await?.serve_tower(service).await?,
        _ => return Err("usage: turms-bench-mounted axum|hyper PORT".into()),
    }
    Ok(())
}
