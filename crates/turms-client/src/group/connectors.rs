//! The connectors of configured servers.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use turms_core::transport::ChildCommand;
use turms_core::{ConnectError, Connector, ServerUrl, TransportKind, UrlTransport};

use crate::config::{ServerEntry, ServerTarget};

/// Makes the connector of a configuration entry.
pub(super) type Connectors = Arc<dyn Fn(&str, &ServerEntry) -> Result<Arc<dyn Connector>, ConnectError> + Send + Sync>;

/// Returns the default: starts the program of a `command`, and uses one of the transports for a `url`.
pub(super) fn from_entries(transports: Vec<Arc<dyn UrlTransport>>) -> Connectors {
    Arc::new(move |server, entry| match &entry.target {
        ServerTarget::Command { program, args, env, cwd } => Ok(Arc::new(command(program, args, env, cwd.as_deref()))),
        ServerTarget::Url { url, headers, transport } => {
            let target = ServerUrl::new(url).headers(headers.clone()).transport(*transport);
            match transports.iter().find(|known| known.supports(*transport)) {
                Some(known) => known.connector(&target),
                None => Err(ConnectError::unreachable(format!("server {server:?}"), MissingTransport(*transport))),
            }
        }
    })
}

fn command(program: &str, args: &[String], env: &IndexMap<String, Option<String>>, cwd: Option<&Path>) -> ChildCommand {
    let mut command = ChildCommand::new(program).args(args);
    for (name, value) in env {
        command = match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    match cwd {
        Some(directory) => command.current_dir(directory),
        None => command,
    }
}

/// Error for a URL that no transport supports.
#[derive(Debug, thiserror::Error)]
#[error("no transport for {}; {}", name(*.0), remedy(*.0))]
struct MissingTransport(TransportKind);

fn name(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Auto | TransportKind::StreamableHttp => "Streamable HTTP",
        TransportKind::HttpSse => "HTTP+SSE",
        TransportKind::WebSocket => "WebSocket",
        _ => "this address",
    }
}

fn remedy(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Auto | TransportKind::StreamableHttp | TransportKind::HttpSse => {
            "add `.transport(HttpTransport::new())` to the ClientGroupBuilder (turms::http, feature `http`)"
        }
        TransportKind::WebSocket => {
            "add `.transport(WsTransport::new())` to the ClientGroupBuilder (turms::ws, feature `ws`)"
        }
        _ => "add one with ClientGroupBuilder::transport",
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;
    use crate::config::McpConfig;

    #[test]
    fn the_error_names_the_missing_transport() {
        let config = McpConfig::parse(
            r#"{"mcpServers":{
                "http":{"url":"https://example.com/mcp"},
                "sse":{"url":"https://example.com/sse","type":"sse"},
                "ws":{"url":"wss://example.com/mcp"}
            }}"#,
        );
        for (name, entry) in config.unwrap().servers() {
            let error = from_entries(Vec::new())(name, &entry.unwrap()).err().unwrap();
            assert_eq!(error.to_string(), format!("cannot reach server {name:?}"));
            let (missing, given) = match name {
                "http" => (
                    "Streamable HTTP",
                    "HttpTransport::new())` to the ClientGroupBuilder (turms::http, feature `http`)",
                ),
                "sse" => ("HTTP+SSE", "HttpTransport::new())` to the ClientGroupBuilder (turms::http, feature `http`)"),
                _ => ("WebSocket", "WsTransport::new())` to the ClientGroupBuilder (turms::ws, feature `ws`)"),
            };
            let why = error.source().unwrap().to_string();
            let remedy = format!("add `.transport({given}");
            assert_eq!(why, format!("no transport for {missing}; {remedy}"));
        }
    }
}
