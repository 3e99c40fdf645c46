//! The server side of the handshake (RFC 6455, 4.2).

use bytes::Bytes;
use http::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use turms_http::__internal::AccessDenied;

use crate::body::WsBody;
use crate::handshake::{SUBPROTOCOL, VERSION, has_token, tokens};

/// A valid request to open a WebSocket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UpgradeRequest {
    /// The value of `Sec-WebSocket-Accept`, derived from the key of the client.
    accept: HeaderValue,
    names_subprotocol: bool,
}

/// Error for a request that is rejected.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UpgradeError {
    #[error(transparent)]
    Access(#[from] AccessDenied),
    #[error("a WebSocket is opened with GET, not {0}")]
    Method(Method),
    #[error("this is a WebSocket endpoint; send `Connection: Upgrade` and `Upgrade: websocket`")]
    NoUpgrade,
    #[error("this server supports version {VERSION} of the WebSocket protocol; send it in `Sec-WebSocket-Version`")]
    Version,
    #[error("`Sec-WebSocket-Key` is missing, repeated or invalid")]
    Key,
    #[error("none of the requested subprotocols is supported; request `{SUBPROTOCOL}`, or none")]
    Subprotocol,
    #[error("too many connections; try again later")]
    Full,
    /// There is no `hyper::upgrade::OnUpgrade` extension.
    #[error("the connection cannot be upgraded; the HTTP server does not support it")]
    Impossible,
}

impl UpgradeRequest {
    /// Parses a request. Access is checked before, so that the response to a denied client reveals nothing else.
    pub(crate) fn parse(request: &Parts) -> Result<Self, UpgradeError> {
        let headers = &request.headers;
        if request.method != Method::GET {
            return Err(UpgradeError::Method(request.method.clone()));
        }
        if !has_token(headers, &CONNECTION, "upgrade") || !has_token(headers, &UPGRADE, "websocket") {
            return Err(UpgradeError::NoUpgrade);
        }
        if single(headers, &SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return Err(UpgradeError::Version);
        }
        let key = single(headers, &SEC_WEBSOCKET_KEY).filter(|key| key.len() == KEY_LENGTH).ok_or(UpgradeError::Key)?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(|_| UpgradeError::Key)?;
        // A client without a subprotocol is accepted; a client with only other subprotocols is not.
        let names_subprotocol = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
        if names_subprotocol && !tokens(headers, &SEC_WEBSOCKET_PROTOCOL).any(|name| name == SUBPROTOCOL) {
            return Err(UpgradeError::Subprotocol);
        }
        Ok(Self { accept, names_subprotocol })
    }

    /// Returns the response that upgrades the connection.
    pub(crate) fn accept(self) -> Response<WsBody> {
        let mut response = Response::new(WsBody::default());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        if self.names_subprotocol {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(SUBPROTOCOL));
        }
        response
    }
}

/// Length of a key: 16 bytes in base64.
const KEY_LENGTH: usize = 24;

impl UpgradeError {
    fn status(&self) -> StatusCode {
        match self {
            Self::Access(_) => StatusCode::FORBIDDEN,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoUpgrade | Self::Version => StatusCode::UPGRADE_REQUIRED,
            Self::Key | Self::Subprotocol => StatusCode::BAD_REQUEST,
            Self::Full => StatusCode::SERVICE_UNAVAILABLE,
            Self::Impossible => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        Some(match self {
            Self::Method(_) => (ALLOW, HeaderValue::from_static("GET")),
            Self::NoUpgrade => (UPGRADE, HeaderValue::from_static("websocket")),
            Self::Version => (SEC_WEBSOCKET_VERSION, HeaderValue::from_static(VERSION)),
            _ => return None,
        })
    }

    /// Returns the response that rejects the request.
    pub(crate) fn response(&self) -> Response<WsBody> {
        let mut response = Response::new(WsBody::from(Bytes::from(self.to_string())));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.extend(self.header());
        // A client that is rejected has no use for the connection.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self.status() == StatusCode::UPGRADE_REQUIRED {
            // A 426 must have an `Upgrade` header, which is a connection option (RFC 9110, 15.5.22).
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.append(CONNECTION, HeaderValue::from_static("Upgrade"));
        }
        response
    }
}

/// Returns the value of a header, unless it is repeated.
fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first.trim())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn request() -> http::request::Builder {
        Request::get("/ws")
            .header("host", "localhost")
            .header("connection", "keep-alive, Upgrade")
            .header("upgrade", "WebSocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
    }

    fn parse(request: http::request::Builder) -> Result<UpgradeRequest, UpgradeError> {
        UpgradeRequest::parse(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_valid_request_is_accepted() {
        let response = parse(request()).unwrap().accept();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn the_subprotocol_is_chosen_if_it_is_requested() {
        for lists in [vec!["mcp"], vec!["chat, mcp"], vec!["chat", "mcp"]] {
            let requested =
                lists.iter().fold(request(), |request, list| request.header("sec-websocket-protocol", *list));
            let response = parse(requested).unwrap().accept();
            assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
        }
        assert_eq!(parse(request().header("sec-websocket-protocol", "chat, MCP")), Err(UpgradeError::Subprotocol));
    }

    #[test]
    fn repeated_headers_are_rejected() {
        assert_eq!(parse(request().header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")), Err(UpgradeError::Key));
        assert_eq!(parse(request().header("sec-websocket-version", "13")), Err(UpgradeError::Version));
    }
}
