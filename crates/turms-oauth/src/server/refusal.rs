//! Error responses of the endpoints (RFC 6749, 5.2).

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, WWW_AUTHENTICATE};
use serde_json::json;

use super::http::{HttpResponse, json_response};

/// An error response with a code of OAuth.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: &'static str,
    pub(crate) description: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl Refusal {
    /// Creates an error response with the status 400.
    pub(crate) fn new(error: &'static str, description: impl Into<String>) -> Self {
        Self { status: StatusCode::BAD_REQUEST, error, description: description.into(), headers: Vec::new() }
    }

    pub(crate) fn invalid_request(description: impl Into<String>) -> Self {
        Self::new("invalid_request", description)
    }

    pub(crate) fn invalid_grant(description: impl Into<String>) -> Self {
        Self::new("invalid_grant", description)
    }

    pub(crate) fn invalid_client(description: impl Into<String>) -> Self {
        Self::new("invalid_client", description)
            .status(StatusCode::UNAUTHORIZED)
            .header(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"token\""))
    }

    /// The error for a server that cannot respond now. The client keeps what it has and tries again.
    pub(crate) fn unavailable(description: impl Into<String>) -> Self {
        Self::new("temporarily_unavailable", description).status(StatusCode::SERVICE_UNAVAILABLE)
    }

    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn into_response(self) -> HttpResponse {
        let body = json!({ "error": self.error, "error_description": self.description });
        let mut response = json_response(self.status, &body);
        response.headers_mut().extend(self.headers);
        response
    }
}
