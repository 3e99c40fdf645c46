//! The benchmark server: `turms-bench-server stdio`, or `turms-bench-server http PORT` for `/mcp` on 127.0.0.1, with
//! default settings. `BENCH_TOOLS=100` sets the number of tools to 100, `BENCH_TOOLS=progress` adds a tool that reports
//! progress.

use turms::prelude::*;

#[tokio::main]
async fn main() -> turms::Result<()> {
    let server = turms_bench_server::from_environment();
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("http") => {
            let port = args.next().unwrap_or_else(|| "8080".to_owned());
            server.serve_http(format!("127.0.0.1:{port}")).await
        }
        _ => server.serve_stdio().await,
    }
}
