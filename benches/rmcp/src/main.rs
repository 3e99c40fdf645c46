//! The benchmark server, written with rmcp: `stdio` for its default stdio, `pipes` for its non-blocking stdio, `http
//! PORT` without sessions, `sessions PORT` with sessions, at `/mcp`. `BENCH_TOOLS=100` sets the number of tools to 100.

use std::error::Error;
use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::handler::server::router::tool::{ToolRoute, ToolRouter};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{ServerCapabilities, ServerConfig, Tool};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::transport::{stdio, stdio_pipes};
use rmcp::{ErrorData, ServerHandler, ServiceExt as _, tool, tool_handler, tool_router};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Echo {
    /// Text to send back unchanged
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Add {
    /// Left operand
    a: i64,
    /// Right operand
    b: i64,
}

#[derive(Clone)]
struct Small {
    tools: Arc<ToolRouter<Self>>,
}

#[tool_router]
impl Small {
    #[tool(description = "Return the given text unchanged")]
    async fn echo(&self, Parameters(Echo { text }): Parameters<Echo>) -> String {
        text
    }

    #[tool(description = "Add two integers")]
    async fn add(&self, Parameters(Add { a, b }): Parameters<Add>) -> String {
        (a + b).to_string()
    }

    fn new(count: usize) -> Self {
        let mut tools = Self::tool_router();
        let schema = tools.map["add"].attr.input_schema.clone();
        for number in 3..=count {
            let description = format!("Synthetic tool number {number:03} that adds two integers");
            let tool = Tool::new(format!("tool_{number:03}"), description, schema.clone());
            let add = |Parameters(Add { a, b }): Parameters<Add>| async move { Ok::<_, ErrorData>((a + b).to_string()) };
            tools.add_route(ToolRoute::new(tool, add));
        }
        Self { tools: Arc::new(tools) }
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Small {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::var("BENCH_TOOLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let small = Small::new(count);
    let mut args = std::env::args().skip(1);
    let config = match args.next().as_deref() {
        Some("http") => {
            StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true)
        }
        Some("sessions") => StreamableHttpServerConfig::default(),
        Some("pipes") => {
            small.serve(stdio_pipes()).await?.waiting().await?;
            return Ok(());
        }
        _ => {
            small.serve(stdio()).await?.waiting().await?;
            return Ok(());
        }
    };
    let port = args.next().unwrap_or_else(|| "8080".to_owned());
    let manager = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(small.clone()), manager, config);
    let application = axum::Router::new().nest_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await?;
    // Without TCP_NODELAY, event stream responses wait for the delayed ACK of the client.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, application).await?;
    Ok(())
}
