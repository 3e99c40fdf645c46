use std::fmt;

use ::url::Url;
use http::Uri;

use crate::error::WsError;

/// The URL of a server, with the scheme `ws` or `wss`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WsUrl {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

impl WsUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, WsError> {
        let uri: Uri = url.parse().map_err(|error| WsError::Url(format!("invalid URL: {error}")))?;
        let tls = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            other => {
                let scheme = other.unwrap_or_default();
                return Err(WsError::Url(format!(
                    "invalid scheme {scheme:?}; a WebSocket URL begins with ws:// or wss://"
                )));
            }
        };
        let no_host = || WsError::Url("the URL has no host".to_owned());
        let authority = uri.authority().ok_or_else(no_host)?;
        if authority.as_str().contains('@') {
            return Err(WsError::Url(
                "the URL contains credentials; send them in an `Authorization` header instead".to_owned(),
            ));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(no_host());
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { uri, host, port, tls })
    }

    /// Returns the host, without the brackets of an IPv6 address.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL for the dialer: with the scheme `http` or `https` and an explicit port.
    pub(crate) fn dial_url(&self) -> Uri {
        let host = self.uri.host().unwrap_or_default();
        let scheme = if self.tls { "https" } else { "http" };
        // The URL was parsed, so its parts are valid.
        format!("{scheme}://{host}:{}/", self.port).parse().unwrap_or_default()
    }

    /// Returns the URL for an authorizer, with the scheme of HTTP. `None` if it is not a valid URL of the web.
    pub(crate) fn http_url(&self) -> Option<Url> {
        let scheme = if self.tls { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{}{}", self.authority(), self.target())).ok()
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// Returns the request target: path and query.
    pub(crate) fn target(&self) -> String {
        let query = self.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{query}", self.uri.path())
    }

    /// Returns the whole URL, which identifies the server. The query may contain secrets.
    pub(crate) fn full(&self) -> String {
        self.uri.to_string()
    }
}

/// Shows the URL without the query, which may contain secrets.
impl fmt::Display for WsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.uri.scheme_str().unwrap_or_default(), self.authority(), self.uri.path())
    }
}

impl fmt::Debug for WsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_host_a_port_and_a_target() {
        let url = WsUrl::parse("wss://example.com/mcp?key=1").unwrap();
        assert_eq!((url.host(), url.port(), &*url.target()), ("example.com", 443, "/mcp?key=1"));
        assert_eq!(
            (url.to_string().as_str(), url.full().as_str()),
            ("wss://example.com/mcp", "wss://example.com/mcp?key=1")
        );
        assert_eq!(url.dial_url(), "https://example.com:443/");
        assert_eq!(url.http_url().unwrap().as_str(), "https://example.com/mcp?key=1");
        let url = WsUrl::parse("ws://[::1]:8080").unwrap();
        assert_eq!(url.dial_url(), "http://[::1]:8080/");
        assert_eq!(url.http_url().unwrap().as_str(), "http://[::1]:8080/");
        assert_eq!((url.host(), url.port(), &*url.target()), ("::1", 8080, "/"));
        assert_eq!(url.authority(), "[::1]:8080");
        assert_eq!(WsUrl::parse("ws://localhost?a").unwrap().target(), "/?a");
    }

    #[test]
    fn url_errors_do_not_contain_secrets() {
        let problem = |url: &str| WsUrl::parse(url).unwrap_err().to_string();
        assert_eq!(
            problem("http://localhost/"),
            r#"invalid scheme "http"; a WebSocket URL begins with ws:// or wss://"#
        );
        assert_eq!(problem("localhost:8080"), r#"invalid scheme ""; a WebSocket URL begins with ws:// or wss://"#);
        assert_eq!(problem("ws://"), "invalid URL: empty string");
        assert!(!problem("ws://ann:secret@localhost/").contains("secret"));
        assert!(problem("wss://token@localhost").starts_with("the URL contains credentials"));
    }
}
