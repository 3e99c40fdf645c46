//! The server's half of the handshake (RFC 6455, 4.2).

use http::header::{
    ALLOW, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use turms_http::{AccessDenied, AccessPolicy};

use crate::body::WsBody;
use crate::handshake::{SUBPROTOCOL, VERSION, has_token, tokens};

/// A request to speak WebSocket that may be granted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Upgrade {
    accept: HeaderValue,
    names_subprotocol: bool,
}

/// Why a request is not granted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error(transparent)]
    Access(#[from] AccessDenied),
    #[error("a WebSocket is opened with GET, not {0}")]
    Method(Method),
    #[error("this is a WebSocket endpoint: ask for it with `Connection: Upgrade` and `Upgrade: websocket`")]
    NoUpgrade,
    #[error("this server speaks version {VERSION} of the WebSocket protocol: say so in `Sec-WebSocket-Version`")]
    Version,
    #[error("`Sec-WebSocket-Key` is missing, given twice or not one")]
    Key,
    #[error("none of the subprotocols asked for is spoken here: ask for `{SUBPROTOCOL}`, or for none")]
    Subprotocol,
    #[error("there are too many connections already: try again later")]
    Full,
    #[error("the connection cannot be upgraded: whatever serves it does not offer that")]
    Impossible,
}

impl Upgrade {
    /// Reads a request. Who may ask comes first: whoever may not learns nothing else.
    pub(crate) fn read(request: &Parts, access: &AccessPolicy) -> Result<Self, Refusal> {
        let headers = &request.headers;
        access.check(headers, request.uri.authority())?;
        if request.method != Method::GET {
            return Err(Refusal::Method(request.method.clone()));
        }
        if !has_token(headers, &CONNECTION, "upgrade") || !has_token(headers, &UPGRADE, "websocket") {
            return Err(Refusal::NoUpgrade);
        }
        if only(headers, &SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
            return Err(Refusal::Version);
        }
        let key = only(headers, &SEC_WEBSOCKET_KEY).filter(|key| key.len() == KEY_LENGTH).ok_or(Refusal::Key)?;
        let accept = HeaderValue::try_from(derive_accept_key(key.as_bytes())).map_err(|_| Refusal::Key)?;
        // A client that names no subprotocol is taken to know where it is; one that names others is not.
        let names_subprotocol = headers.contains_key(SEC_WEBSOCKET_PROTOCOL);
        if names_subprotocol && !tokens(headers, &SEC_WEBSOCKET_PROTOCOL).any(|name| name == SUBPROTOCOL) {
            return Err(Refusal::Subprotocol);
        }
        Ok(Self { accept, names_subprotocol })
    }

    /// The answer after which both sides speak WebSocket.
    pub(crate) fn grant(self) -> Response<WsBody> {
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

/// Sixteen bytes in base64.
const KEY_LENGTH: usize = 24;

impl Refusal {
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

    /// The answer that says so.
    pub(crate) fn response(&self) -> Response<WsBody> {
        let mut response = Response::new(WsBody::from(self.to_string()));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.extend(self.header());
        // Whoever is refused has no use for the connection.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self.status() == StatusCode::UPGRADE_REQUIRED {
            // A 426 names what to upgrade to, and the header that does so is one of this connection (RFC 9110, 15.5.22).
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.append(CONNECTION, HeaderValue::from_static("Upgrade"));
        }
        response
    }
}

/// The value of a header that may be given once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
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

    fn read(request: http::request::Builder) -> Result<Upgrade, Refusal> {
        Upgrade::read(&request.body(()).unwrap().into_parts().0, &AccessPolicy::new())
    }

    #[test]
    fn a_request_is_granted_as_the_standard_says() {
        let response = read(request()).unwrap().grant();
        assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert!(!response.headers().contains_key("sec-websocket-protocol"));
    }

    #[test]
    fn the_subprotocol_is_named_if_it_was_asked_for() {
        for lists in [vec!["mcp"], vec!["chat, mcp"], vec!["chat", "mcp"]] {
            let asked = lists.iter().fold(request(), |request, list| request.header("sec-websocket-protocol", *list));
            let response = read(asked).unwrap().grant();
            assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
        }
        assert_eq!(read(request().header("sec-websocket-protocol", "chat, MCP")), Err(Refusal::Subprotocol));
    }

    #[test]
    fn a_header_that_may_be_given_once_is_refused_twice() {
        assert_eq!(read(request().header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")), Err(Refusal::Key));
        assert_eq!(read(request().header("sec-websocket-version", "13")), Err(Refusal::Version));
    }
}
