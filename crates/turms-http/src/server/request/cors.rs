//! CORS: allows web pages of other origins to read responses (Fetch, "CORS protocol").

use http::Method;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, HeaderValue, ORIGIN, VARY,
};
use turms_proto::header;

use super::RequestHead;
use super::access::AccessPolicy;
use crate::server::header_value;
use crate::server::response::HttpResponse;

/// The CORS headers of a request.
pub(in crate::server) struct CorsRequest {
    origin: Option<HeaderValue>,
    headers: Option<HeaderValue>,
    method: bool,
}

/// The request headers that pages may send, apart from those that mirror arguments.
const HEADERS: [&str; 9] = [
    "content-type",
    "accept",
    "authorization",
    "dpop",
    header::PROTOCOL_VERSION,
    header::SESSION_ID,
    header::LAST_EVENT_ID,
    header::METHOD,
    header::NAME,
];

impl CorsRequest {
    pub(in crate::server) fn of(head: &RequestHead) -> Self {
        let headers = head.headers();
        Self {
            origin: headers.get(ORIGIN).cloned(),
            headers: headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
            method: headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        }
    }

    pub(in crate::server) fn is_preflight(&self, method: &Method) -> bool {
        method == Method::OPTIONS && self.origin.is_some() && self.method
    }

    pub(in crate::server) fn decorate(self, answer: &mut HttpResponse, access: &AccessPolicy) {
        let headers = answer.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.origin.filter(|origin| access.allows_origin(origin)) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate, dpop-nonce"),
        );
        if self.method {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(self.headers.as_ref()));
        }
    }
}

/// Returns the fixed headers, and those requested headers that mirror arguments. Their names depend on the tools.
fn allowed_headers(asked: Option<&HeaderValue>) -> HeaderValue {
    let mut allowed = HEADERS.join(", ");
    let asked = asked.and_then(|asked| asked.to_str().ok()).unwrap_or_default();
    for name in asked.split(',').map(str::trim) {
        if name.get(..header::PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(header::PARAM_PREFIX))
        {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
    }
    header_value(&allowed)
}
