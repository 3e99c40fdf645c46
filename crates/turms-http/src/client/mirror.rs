//! What of a request is repeated in headers since 2026-07-28 (basic/transports of that revision, "Standard headers").

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use turms_proto::header::{self, ParamHeaders, encode_value, name_member};
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, ListToolsResult};
use turms_proto::{ProtocolVersion, RawJson};

use super::error::HttpError;

/// Which arguments of which tools are repeated, as far as lists of tools have told.
#[derive(Debug, Default)]
pub(super) struct Mirror(Mutex<HashMap<String, Arc<ParamHeaders>>>);

impl Mirror {
    /// More tools than this are not remembered; a list may be endless.
    const CAPACITY: usize = 100_000;

    /// The headers of a request.
    pub(super) fn headers(
        &self,
        version: ProtocolVersion,
        method: &str,
        params: Option<&RawJson>,
    ) -> Result<HeaderMap, HttpError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        headers.insert(header::METHOD, value(method).ok_or(HttpError::Header("the method"))?);
        let name = name_member(method).and_then(|member| params?.member(member)?.text());
        let Some(name) = name else { return Ok(headers) };
        headers.insert(header::NAME, value(&encode_value(&name)).ok_or(HttpError::Header("the name"))?);
        if method == CallTool::NAME
            && let Some(repeated) = self.of(&name)
            && let Some(arguments) = params.and_then(|params| params.member("arguments"))
        {
            self.repeat(&repeated, &arguments, &mut headers);
        }
        Ok(headers)
    }

    /// An argument that does not fit what the tool declares is for the server to refuse.
    fn repeat(&self, repeated: &ParamHeaders, arguments: &RawJson, headers: &mut HeaderMap) {
        let Ok(arguments) = arguments.decode::<Value>() else { return };
        match repeated.extract(&arguments) {
            Ok(found) => {
                for (name, text) in found {
                    if let (Ok(name), Some(value)) = (HeaderName::try_from(name), value(&text)) {
                        headers.insert(name, value);
                    }
                }
            }
            Err(error) => tracing::debug!(target: "turms::client", %error, "arguments are not repeated in headers"),
        }
    }

    /// Takes note of what a page of the list of tools says.
    pub(super) fn learn(&self, page: &RawJson) {
        // Nearly no tool has the keyword, and looking for it is cheaper than reading the page.
        let annotated = page.as_str().contains("x-mcp-header");
        if !annotated && self.known().is_empty() {
            return;
        }
        let Ok(page) = page.decode::<ListToolsResult>() else { return };
        let mut known = self.known();
        for tool in page.tools {
            let schema = RawJson::from(tool.input_schema).decode::<Value>().unwrap_or_default();
            match ParamHeaders::from_schema(&schema) {
                Ok(headers) if !headers.is_empty() && known.len() < Self::CAPACITY => {
                    known.insert(tool.name, Arc::new(headers));
                }
                // Whoever lists tools leaves out those that are not valid, and says so.
                _ => {
                    known.remove(&tool.name);
                }
            }
        }
    }

    fn of(&self, tool: &str) -> Option<Arc<ParamHeaders>> {
        self.known().get(tool).cloned()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<ParamHeaders>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}
