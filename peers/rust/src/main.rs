//! A client on rmcp that fills in forms: `turms-peer-rmcp REVISION PROGRAM [ARGUMENTS...]`.
//!
//! Starts the program as a server, calls its tool `sign_up` with a complete answer and with one that leaves out the optional
//! field `age`, and prints a line of JSON: the revision, the form schemas as decoded by rmcp, and the texts of the results.

use std::error::Error;
use std::sync::Mutex;

use rmcp::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ContentBlock, ElicitRequestParams, ElicitResult,
    ElicitationAction, ElicitationCapability, ErrorData, FormElicitationCapability, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, RequestContext, RoleClient};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: turms-peer-rmcp REVISION PROGRAM [ARGUMENTS...]";
    let version: ProtocolVersion = serde_json::from_value(Value::String(arguments.next().ok_or(usage)?))?;
    let mut program = tokio::process::Command::new(arguments.next().ok_or(usage)?);
    program.args(arguments);

    let lifecycle = if version.has_initialize() {
        ClientLifecycleMode::Initialize
    } else {
        ClientLifecycleMode::Discover { preferred_versions: vec![version.clone()] }
    };
    let answers = Answers { version, forms: Mutex::default() };
    let client = answers.serve_with_lifecycle(TokioChildProcess::new(program)?, lifecycle).await?;
    let negotiated = client.peer_info().map(|server| server.protocol_version.to_string());
    let mut texts = Vec::new();
    for _ in 0..2 {
        let result = client.call_tool(CallToolRequestParams::new("sign_up")).await?;
        texts.extend(result.content.iter().filter_map(ContentBlock::as_text).map(|text| text.text.clone()));
    }
    let forms = client.service().forms.lock().map(|forms| forms.clone()).unwrap_or_default();
    println!("{}", json!({ "version": negotiated, "forms": forms, "texts": texts }));
    client.cancel().await?;
    Ok(())
}

/// Fills in every form, and leaves out `age` in all but the first.
struct Answers {
    version: ProtocolVersion,
    forms: Mutex<Vec<Value>>,
}

impl ClientHandler for Answers {
    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = request else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let failed = |reason: String| ErrorData::internal_error(reason, None);
        let form = serde_json::to_value(requested_schema).map_err(|error| failed(error.to_string()))?;
        let mut forms = self.forms.lock().map_err(|error| failed(error.to_string()))?;
        let mut content = json!({ "name": "Ann", "plan": "team", "news": true });
        if forms.is_empty() {
            content["age"] = json!(42);
        }
        forms.push(form);
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(content))
    }

    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let mut elicitation = ElicitationCapability::default();
        elicitation.form = Some(FormElicitationCapability::default());
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("rmcp-client", "1.0.0"))
            .with_protocol_version(self.version.clone())
    }
}
