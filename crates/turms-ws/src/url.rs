use std::fmt;

use http::Uri;

/// Where a server is: a `ws` or `wss` URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct WsUrl {
    uri: Uri,
    host: String,
    port: u16,
    tls: bool,
}

/// Why a URL is not one of a WebSocket server.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum WsUrlError {
    /// It is no URL.
    #[error("this is not a URL")]
    Invalid(#[source] http::uri::InvalidUri),
    /// Its scheme is another one.
    #[error("a WebSocket URL begins with ws:// or wss://, not with {0:?}")]
    Scheme(String),
    /// It names no host.
    #[error("the URL names no host")]
    NoHost,
    /// It holds a name or a password, which would end up in logs.
    #[error("the URL holds credentials before an `@`: put them into an `Authorization` header instead")]
    Credentials,
}

/// The message with its causes, so that an error that leaves `main` reads as a sentence.
impl fmt::Debug for WsUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&turms_core::error_chain(self))
    }
}

impl WsUrl {
    pub(crate) fn parse(url: &str) -> Result<Self, WsUrlError> {
        let uri: Uri = url.parse().map_err(WsUrlError::Invalid)?;
        let tls = match uri.scheme_str() {
            Some("ws") => false,
            Some("wss") => true,
            other => return Err(WsUrlError::Scheme(other.unwrap_or_default().to_owned())),
        };
        let authority = uri.authority().ok_or(WsUrlError::NoHost)?;
        if authority.as_str().contains('@') {
            return Err(WsUrlError::Credentials);
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(WsUrlError::NoHost);
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        Ok(Self { uri, host, port, tls })
    }

    /// Without the brackets that an IPv6 address has in a URL.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The URL that is dialled: its scheme is that of HTTP, and its port is written.
    pub(crate) fn dialed(&self) -> Uri {
        let host = self.uri.host().unwrap_or_default();
        let scheme = if self.tls { "https" } else { "http" };
        // The URL was parsed, so its parts make one.
        format!("{scheme}://{host}:{}/", self.port).parse().unwrap_or_default()
    }

    /// What the `Host` header says.
    pub(crate) fn authority(&self) -> &str {
        self.uri.authority().map_or("", |authority| authority.as_str())
    }

    /// What is asked for there.
    pub(crate) fn target(&self) -> String {
        let query = self.uri.query().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}{query}", self.uri.path())
    }

    /// All of it, as what tells this server from others.
    pub(crate) fn full(&self) -> String {
        self.uri.to_string()
    }
}

/// For people: without the query, in which some put secrets.
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
    fn a_url_says_where_to_go() {
        let url = WsUrl::parse("wss://example.com/mcp?key=1").unwrap();
        assert_eq!((url.host(), url.port(), &*url.target()), ("example.com", 443, "/mcp?key=1"));
        assert_eq!(
            (url.to_string().as_str(), url.full().as_str()),
            ("wss://example.com/mcp", "wss://example.com/mcp?key=1")
        );
        assert_eq!(url.dialed(), "https://example.com:443/");
        let url = WsUrl::parse("ws://[::1]:8080").unwrap();
        assert_eq!(url.dialed(), "http://[::1]:8080/");
        assert_eq!((url.host(), url.port(), &*url.target()), ("::1", 8080, "/"));
        assert_eq!(url.authority(), "[::1]:8080");
        assert_eq!(WsUrl::parse("ws://localhost?a").unwrap().target(), "/?a");
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said_without_telling_secrets() {
        let problem = |url: &str| WsUrl::parse(url).unwrap_err().to_string();
        assert_eq!(problem("http://localhost/"), r#"a WebSocket URL begins with ws:// or wss://, not with "http""#);
        assert_eq!(problem("localhost:8080"), r#"a WebSocket URL begins with ws:// or wss://, not with """#);
        assert_eq!(problem("ws://"), "this is not a URL");
        assert!(!problem("ws://ann:secret@localhost/").contains("secret"));
        assert!(matches!(WsUrl::parse("wss://token@localhost"), Err(WsUrlError::Credentials)));
    }
}
