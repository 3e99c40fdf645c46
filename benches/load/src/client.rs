//! The client of Turms, one call at a time.

use std::time::Instant;

use turms::Client;
use turms::http::HttpConnector;
use turms::proto::ProtocolVersion;

use crate::message::{Dialect, Requests};
use crate::tally::Tally;
use crate::{Plan, Result, Server};

pub(crate) async fn load(plan: &Plan) -> Result<String> {
    let server = Server::start(&plan.program)?;
    drop(server.connect()?);
    let connector = HttpConnector::new(format!("http://127.0.0.1:{}/mcp", server.port))?;
    let client =
        Client::builder("load", "1.0.0").only_version(ProtocolVersion::V2026_07_28).connect_to(connector).await?;
    let requests = Requests::new(plan.payload, Dialect::Stateless);
    let tally = Tally::new(plan.time);
    for id in 1.. {
        if tally.is_over() {
            break;
        }
        let asked = Instant::now();
        let text = requests.text(id);
        let result = client.call_tool("echo", serde_json::json!({ "text": text })).await?;
        if result.text() != text {
            return Err(format!("no answer: {result:?}").into());
        }
        tally.add(&server, asked);
    }
    Ok(tally.line(&server))
}
