//! Redirect URIs.

use std::fmt;

use turms_core::__internal::random_bytes;
use url::{Host, Url};

use super::LoginError;
use crate::network::is_loopback;

/// A redirect URI: `http` on loopback, or `https`.
#[derive(Debug, Clone)]
pub(super) struct RedirectUri {
    /// The URI as it was written: the parser adds a slash to a URI without path, and authorization servers compare strings.
    text: String,
    url: Url,
}

impl RedirectUri {
    pub(super) const DEFAULT: &'static str = "http://127.0.0.1:0/callback";

    /// Checks a redirect URI. One that is listened on has to be `http` on loopback.
    pub(super) fn parse(uri: &str, needs_listener: bool) -> Result<Self, LoginError> {
        let url = Url::parse(uri).map_err(|_| LoginError::redirect(uri, "not a valid URL"))?;
        let is_local = url.scheme() == "http" && is_loopback(&url);
        if uri.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(LoginError::redirect(uri, "has control characters or spaces"));
        }
        if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
            return Err(LoginError::redirect(uri, "must not have user information or a fragment"));
        }
        if needs_listener && !(is_local && loopback_host(&url).is_some()) {
            return Err(LoginError::redirect(
                uri,
                "must begin with http://127.0.0.1, http://[::1] or http://localhost; use Login::with for another",
            ));
        }
        if !is_local && url.scheme() != "https" {
            return Err(LoginError::redirect(uri, "must be https, or http on loopback"));
        }
        Ok(Self { text: uri.to_owned(), url })
    }

    /// Returns `true` if another URI differs at most in the port, which this one leaves open.
    pub(super) fn allows(&self, other: &Self) -> bool {
        self.text == other.text || (self.port() == 0 && self.with_port(other.port()).text == other.text)
    }

    /// Returns the port. 0 if any will do.
    pub(super) fn port(&self) -> u16 {
        self.url.port_or_known_default().unwrap_or(0)
    }

    /// Returns the path of the callback.
    pub(super) fn path(&self) -> &str {
        self.url.path()
    }

    /// Returns the host as it is written in a `Host` header, without port.
    pub(super) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the loopback host.
    pub(super) fn loopback(&self) -> Option<LoopbackHost> {
        loopback_host(&self.url)
    }

    /// Returns this URI with another port.
    pub(super) fn with_port(&self, port: u16) -> Self {
        let (_, rest) = self.text.split_once("://").unwrap_or_default();
        let rest = rest.find(['/', '?']).map_or("", |at| &rest[at..]);
        let text = format!("{}://{}:{port}{rest}", self.url.scheme(), self.host());
        let mut url = self.url.clone();
        // Fails only for URLs without host.
        let _ = url.set_port(Some(port));
        Self { text, url }
    }

    /// Returns this URI with a port, if it leaves it open: one that nothing is expected to listen on.
    pub(super) fn with_any_port(&self) -> Self {
        if self.port() != 0 {
            return self.clone();
        }
        // The range of RFC 6335 for ports that are not registered.
        self.with_port(49152 + u16::from_be_bytes(random_bytes()) % 16384)
    }
}

/// The host of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoopbackHost {
    V4,
    V6,
    /// The name `localhost`, which browsers resolve to either.
    Name,
}

fn loopback_host(url: &Url) -> Option<LoopbackHost> {
    match url.host()? {
        Host::Ipv4(ip) => (ip == std::net::Ipv4Addr::LOCALHOST).then_some(LoopbackHost::V4),
        Host::Ipv6(ip) => (ip == std::net::Ipv6Addr::LOCALHOST).then_some(LoopbackHost::V6),
        Host::Domain(name) => (name == "localhost").then_some(LoopbackHost::Name),
    }
}

impl Default for RedirectUri {
    fn default() -> Self {
        Self { text: Self::DEFAULT.to_owned(), url: Url::parse(Self::DEFAULT).expect("a valid URL") }
    }
}

impl fmt::Display for RedirectUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_not_sent_over_a_network_without_tls() {
        for uri in ["https://app.example.com/cb", "http://127.0.0.1/cb", "http://[::1]:80/cb", "http://localhost/cb"] {
            assert!(RedirectUri::parse(uri, false).is_ok(), "{uri}");
        }
        for uri in [
            "http://app.example.com/cb",
            "http://10.0.0.1/cb",
            "http://localhost.example.com/cb",
            "custom:/cb",
            "javascript:alert(1)",
            "https://app.example.com/cb#part",
            "https://ann@app.example.com/cb",
            "https://app.example.com/c b",
            "cb",
        ] {
            assert!(RedirectUri::parse(uri, false).is_err(), "{uri}");
        }
        // This program listens only on loopback.
        for uri in
            ["https://app.example.com/cb", "https://127.0.0.1/cb", "http://127.0.0.2/cb", "http://x.localhost/cb"]
        {
            assert!(RedirectUri::parse(uri, true).is_err(), "{uri}");
        }
    }
}
