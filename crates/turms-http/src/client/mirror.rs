//! What of a request is repeated in headers since 2026-07-28 (basic/transports of that revision, "Standard headers").

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytestring::ByteString;
use http::HeaderName;
use parking_lot::Mutex;
use serde_json::Value;
use turms_core::Payload;
use turms_proto::header::{self, ParamHeaders, encode_value, name_member};
use turms_proto::method::Method as _;
use turms_proto::types::{CallTool, CallToolParams, ListToolsResult};
use turms_proto::{ProtocolVersion, RawJson};

use super::error::HttpError;
use super::headers::{Headers, Line};

/// Which arguments of which tools are repeated, as far as lists of tools have told.
#[derive(Debug, Default)]
pub(super) struct Mirror(Mutex<HashMap<String, Arc<ParamHeaders>>>);

impl Mirror {
    /// More tools than this are not remembered; a list may be endless.
    const CAPACITY: usize = 100_000;

    /// The headers of a request.
    pub(super) fn headers<'a>(
        &self,
        version: ProtocolVersion,
        method: &'a str,
        params: Option<&'a Payload>,
    ) -> Result<Headers<'a>, HttpError> {
        let mut lines = Vec::with_capacity(USUAL);
        lines.push(Line::fixed(header::PROTOCOL_VERSION, version.as_str()));
        lines.push(Line::new(header::METHOD, method).ok_or(HttpError::Header("the method"))?);
        if let Some(mirrored) = params.and_then(|params| Mirrored::of(method, params)) {
            lines.push(Line::new(header::NAME, mirrored.encoded_name()).ok_or(HttpError::Header("the name"))?);
            if method == CallTool::NAME
                && let Some(repeated) = self.of(mirrored.name())
                && let Some(arguments) = mirrored.arguments()
            {
                self.repeat(&repeated, &arguments, &mut lines);
            }
        }
        Ok(Headers { map: Cow::default(), lines: Cow::Owned(lines) })
    }

    /// An argument that does not fit what the tool declares is for the server to refuse.
    fn repeat(&self, repeated: &ParamHeaders, arguments: &RawJson, lines: &mut Vec<Line<'_>>) {
        let Ok(arguments) = arguments.decode::<Value>() else { return };
        match repeated.extract(&arguments) {
            Ok(found) => {
                for (name, text) in found {
                    if let Ok(name) = HeaderName::try_from(name) {
                        lines.extend(Line::new(name.as_str().to_owned(), text));
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
                // Whoever lists tools leaves out those that are not valid, and says so.
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

/// Parameters of which something is repeated.
enum Mirrored<'a> {
    Call(&'a CallToolParams),
    Other { name: ByteString, params: Cow<'a, RawJson> },
}

impl<'a> Mirrored<'a> {
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
        Some(Self::Other { name: params.member(member)?.text()?, params })
    }

    fn name(&self) -> &str {
        match self {
            Self::Call(call) => &call.name,
            Self::Other { name, .. } => name,
        }
    }

    fn encoded_name(&self) -> Cow<'a, str> {
        match self {
            Self::Call(call) => encode_value(&call.name),
            Self::Other { name, .. } => Cow::Owned(encode_value(name).into_owned()),
        }
    }

    fn arguments(&self) -> Option<RawJson> {
        match self {
            Self::Call(call) => call.arguments.clone().map(RawJson::from),
            Self::Other { params, .. } => params.member("arguments"),
        }
    }
}

/// How many headers most requests have.
const USUAL: usize = 5;
