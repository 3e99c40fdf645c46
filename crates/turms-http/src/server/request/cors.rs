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
    /// The headers that a preflight request asks for.
    requested_headers: Option<HeaderValue>,
    /// `true` if a preflight request names its method.
    has_requested_method: bool,
}

/// The request headers that pages may send, apart from those that mirror arguments.
const ALLOWED_HEADERS: [&str; 9] = [
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
            requested_headers: headers.get(ACCESS_CONTROL_REQUEST_HEADERS).cloned(),
            has_requested_method: headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD),
        }
    }

    /// Returns `true` if a browser asks for permission before the actual request.
    pub(in crate::server) fn is_preflight(&self, method: &Method) -> bool {
        method == Method::OPTIONS && self.origin.is_some() && self.has_requested_method
    }

    /// Adds the CORS headers to a response, if the origin is allowed.
    pub(in crate::server) fn add_headers(self, response: &mut HttpResponse, access: &AccessPolicy) {
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        let Some(origin) = self.origin.filter(|origin| access.allows_origin(origin)) else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static("mcp-session-id, mcp-protocol-version, www-authenticate, dpop-nonce"),
        );
        if self.has_requested_method {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE"));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allowed_headers(self.requested_headers.as_ref()));
        }
    }
}

/// Returns the fixed headers, and those requested headers that mirror arguments. Their names depend on the tools.
fn allowed_headers(requested: Option<&HeaderValue>) -> HeaderValue {
    let mut allowed = ALLOWED_HEADERS.join(", ");
    let requested = requested.and_then(|requested| requested.to_str().ok()).unwrap_or_default();
    for name in requested.split(',').map(str::trim) {
        if name.get(..header::PARAM_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(header::PARAM_PREFIX))
        {
            allowed.push_str(", ");
            allowed.push_str(name);
        }
    }
    header_value(&allowed)
}
