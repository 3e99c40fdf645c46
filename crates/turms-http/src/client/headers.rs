//! The headers of requests since 2026-07-28, which mirror parts of the body (basic/transports of that revision, "Standard
//! headers").

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use serde_json::Value;
use turms_core::Payload;
use turms_proto::header::{self, ParamHeaders, encode_value, name_member};
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, CallToolParams, ListToolsResult};
use turms_proto::{ProtocolVersion, RawJson};

use super::error::HttpError;

/// Builds the headers of requests. Stores which arguments of tools are mirrored, from the lists of tools.
#[derive(Debug, Default)]
pub(super) struct RequestHeaders(Mutex<HashMap<String, Arc<ParamHeaders>>>);

impl RequestHeaders {
    /// Maximum number of tools that are stored.
    const CAPACITY: usize = 100_000;

    /// Returns the headers of a request.
    pub(super) fn headers(
        &self,
        version: ProtocolVersion,
        method: &str,
        params: Option<&Payload>,
    ) -> Result<HeaderMap, HttpError> {
        let mut headers = HeaderMap::with_capacity(CAPACITY);
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(version.as_str()));
        headers.insert(METHOD, HeaderValue::from_str(method).map_err(|_| HttpError::Header("the method"))?);
        if let Some(mirrored) = params.and_then(|params| MirroredParams::of(method, params)) {
            let name = HeaderValue::from_str(&encode_value(mirrored.name()));
            headers.insert(NAME, name.map_err(|_| HttpError::Header("the name"))?);
            if method == CallTool::NAME
                && let Some(mirrored_arguments) = self.of(mirrored.name())
                && let Some(arguments) = mirrored.arguments()
            {
                mirror_arguments(&mirrored_arguments, &arguments, &mut headers);
            }
        }
        Ok(headers)
    }

    /// Stores the mirrored arguments of the tools on a page of a list.
    pub(super) fn learn(&self, page: &RawJson) {
        // Few tools have the keyword, and searching for it is cheaper than parsing the page.
        let annotated = page.as_str().contains("x-mcp-header");
        if !annotated && self.0.lock().is_empty() {
            return;
        }
        let Ok(page) = page.decode::<ListToolsResult>() else { return };
        let mut known = self.0.lock();
        for tool in page.tools {
            let schema = RawJson::from(tool.input_schema).decode::<Value>().unwrap_or_default();
            match ParamHeaders::from_schema(&schema) {
                Ok(headers) if !headers.is_empty() && known.len() < Self::CAPACITY => {
                    known.insert(tool.name, Arc::new(headers));
                }
                // The client removes invalid tools from the list, with a warning.
                _ => {
                    known.remove(&tool.name);
                }
            }
        }
    }

    fn of(&self, tool: &str) -> Option<Arc<ParamHeaders>> {
        self.0.lock().get(tool).cloned()
    }
}

/// Parameters with members that are mirrored.
enum MirroredParams<'a> {
    Call(&'a CallToolParams),
    Other { name: String, params: Cow<'a, RawJson> },
}

impl<'a> MirroredParams<'a> {
    fn of(method: &str, params: &'a Payload) -> Option<Self> {
        let member = name_member(method)?;
        if let Some(call) = params.get::<CallToolParams>().filter(|_| method == CallTool::NAME) {
            return Some(Self::Call(call));
        }
        let params = match params.as_raw() {
            Some(raw) => Cow::Borrowed(raw),
            None => {
                let mut text = Vec::new();
                params.write(&mut text).ok()?;
                Cow::Owned(RawJson::parse(String::from_utf8(text).ok()?).ok()?)
            }
        };
        Some(Self::Other { name: params.member(member)?.text()?.into_owned(), params })
    }

    fn name(&self) -> &str {
        match self {
            Self::Call(call) => &call.name,
            Self::Other { name, .. } => name,
        }
    }

    fn arguments(&self) -> Option<RawJson> {
        match self {
            Self::Call(call) => call.arguments.clone().map(RawJson::from),
            Self::Other { params, .. } => params.member("arguments"),
        }
    }
}

/// Mirrors arguments in headers. Arguments that do not match the schema are left to the server to reject.
fn mirror_arguments(mirrored: &ParamHeaders, arguments: &RawJson, headers: &mut HeaderMap) {
    let Ok(arguments) = arguments.decode::<Value>() else { return };
    match mirrored.extract(&arguments) {
        Ok(found) => {
            for (name, text) in found {
                if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(&text)) {
                    headers.append(name, value);
                }
            }
        }
        Err(error) => tracing::debug!(target: "turms::client", %error, "arguments are not mirrored in headers"),
    }
}

const PROTOCOL_VERSION: HeaderName = HeaderName::from_static(header::PROTOCOL_VERSION);
const METHOD: HeaderName = HeaderName::from_static(header::METHOD);
const NAME: HeaderName = HeaderName::from_static(header::NAME);

/// Initial capacity: the usual number of headers of a request.
const CAPACITY: usize = 10;
