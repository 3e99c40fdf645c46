//! Checks of `Origin` and `Host`, against web pages that access local servers (basic/transports, "Security warning").

use http::HeaderMap;
use http::header::{HOST, HeaderName, HeaderValue, ORIGIN};
use http::uri::Authority;
use turms_proto::header::HeaderLookup;

use super::RequestHead;
use super::headers::KnownHeader;

/// The hosts that a server accepts, and the origins of pages that may use it. Without a list, these are loopback hosts with any port.
///
/// This prevents web pages from accessing a local server, directly or by DNS rebinding. It is not authentication: other
/// clients can send any `Host`.
#[derive(Debug, Clone, Default)]
pub struct AccessPolicy {
    hosts: AllowedNames,
    origins: AllowedNames,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum AllowedNames {
    #[default]
    Loopback,
    Listed(Vec<String>),
    Any,
}

/// Error for a request that the access policy rejects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AccessDenied {
    /// The origin of the page is not allowed.
    #[error("the origin {0:?} may not use this server")]
    Origin(String),
    /// The host is not allowed.
    #[error("this server does not serve the host {0:?}")]
    Host(String),
}

impl AccessPolicy {
    /// Allows these hosts instead of loopback hosts.
    pub fn set_hosts<S: Into<String>>(&mut self, hosts: impl IntoIterator<Item = S>) {
        let hosts: Vec<String> = hosts.into_iter().map(|host| host.into().to_ascii_lowercase()).collect();
        for host in hosts.iter().filter(|host| host.is_empty() || host.contains(['/', '*', ' '])) {
            tracing::warn!(
                "no request can match the host {host:?}: use the form of the Host header, such as example.com"
            );
        }
        self.hosts = AllowedNames::Listed(hosts);
    }

    /// Allows every host.
    pub fn set_any_host(&mut self) {
        self.hosts = AllowedNames::Any;
    }

    /// Allows pages of these origins instead of loopback origins.
    pub fn set_origins<S: Into<String>>(&mut self, origins: impl IntoIterator<Item = S>) {
        self.origins =
            AllowedNames::Listed(origins.into_iter().map(|origin| origin.into().to_ascii_lowercase()).collect());
    }

    /// Allows pages of every origin.
    pub fn set_any_origin(&mut self) {
        self.origins = AllowedNames::Any;
    }

    /// Checks a request. A request without `Origin` does not come from a web page.
    ///
    /// # Errors
    /// If the host or the origin is not allowed.
    pub fn check(&self, headers: &HeaderMap, authority: Option<&Authority>) -> Result<(), AccessDenied> {
        if let Some(origin) = single_origin(headers, ORIGIN)? {
            let text = text_of(origin);
            if !self.origins.allow_origin(&text) {
                return Err(AccessDenied::Origin(text));
            }
        }
        // HTTP/1.0 has no `Host`, but browsers always send one. All values must be allowed, and a repeated header is
        // rejected.
        let sent = headers.get_all(HOST).iter().map(|host| String::from_utf8_lossy(host.as_bytes()));
        let named = authority.map(|authority| authority.as_str().into());
        for (count, host) in sent.chain(named).enumerate() {
            let is_repeated = count > 0 && count < headers.get_all(HOST).iter().count();
            if is_repeated || !self.hosts.allow_host(&host) {
                return Err(AccessDenied::Host(host.to_ascii_lowercase()));
            }
        }
        Ok(())
    }

    /// Same as [`AccessPolicy::check`], without building a header map in the usual case.
    pub(in crate::server) fn check_request(&self, head: &RequestHead) -> Result<(), AccessDenied> {
        let authority = head.authority();
        if let (HeaderLookup::Absent, HeaderLookup::One(host), None) =
            (head.lookup(KnownHeader::Origin), head.lookup(KnownHeader::Host), &authority)
            && self.hosts.allow_host(host)
        {
            return Ok(());
        }
        self.check(&head.headers(), authority.as_deref())
    }

    /// Returns `true` if pages of this origin may read responses.
    pub(crate) fn allows_origin(&self, origin: &HeaderValue) -> bool {
        self.origins.allow_origin(&text_of(origin))
    }
}

fn single_origin(headers: &HeaderMap, name: HeaderName) -> Result<Option<&HeaderValue>, AccessDenied> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    match values.next() {
        Some(second) => Err(AccessDenied::Origin(text_of(second))),
        None => Ok(first),
    }
}

fn text_of(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase()
}

impl AllowedNames {
    fn allow_host(&self, host: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => is_loopback(without_port(host)),
            Self::Listed(names) => {
                let matches_host =
                    |name: &String| name.eq_ignore_ascii_case(host) || name.eq_ignore_ascii_case(without_port(host));
                names.iter().any(matches_host)
            }
        }
    }

    fn allow_origin(&self, origin: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => {
                let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
                host.is_some_and(|host| is_loopback(without_port(host)))
            }
            Self::Listed(names) => names.iter().any(|name| name == origin),
        }
    }
}

fn is_loopback(host: &str) -> bool {
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(policy: &AccessPolicy, host: &str, origin: Option<&str>) -> Result<(), AccessDenied> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_str(host).unwrap());
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).unwrap());
        }
        policy.check(&headers, None)
    }

    #[test]
    fn only_loopback_is_allowed_by_default() {
        let policy = AccessPolicy::default();
        for host in ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]", "[::1]:8080", "LOCALHOST"] {
            assert_eq!(check(&policy, host, None), Ok(()), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "", "[::2]", "localhost:x"]
        {
            assert!(matches!(check(&policy, host, None), Err(AccessDenied::Host(_))), "{host}");
        }
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173"] {
            assert_eq!(check(&policy, "localhost", Some(origin)), Ok(()), "{origin}");
        }
        for origin in ["http://evil.example", "null", "file://", "http://localhost.evil.example", "http://localhost/x"]
        {
            assert!(matches!(check(&policy, "localhost", Some(origin)), Err(AccessDenied::Origin(_))), "{origin}");
        }
    }

    #[test]
    fn configured_names_replace_the_defaults() {
        let mut policy = AccessPolicy::default();
        policy.set_hosts(["mcp.example.com", "alt.example.com:8443"]);
        policy.set_origins(["https://app.example.com"]);
        assert_eq!(check(&policy, "MCP.example.com:443", Some("https://app.example.com")), Ok(()));
        assert_eq!(check(&policy, "alt.example.com:8443", None), Ok(()));
        assert!(check(&policy, "alt.example.com:80", None).is_err());
        assert!(check(&policy, "localhost", None).is_err());
        assert!(check(&policy, "mcp.example.com", Some("http://app.example.com")).is_err());
        policy.set_any_host();
        policy.set_any_origin();
        assert_eq!(check(&policy, "x", Some("null")), Ok(()));
    }

    #[test]
    fn two_origins_are_one_too_many() {
        let mut headers = HeaderMap::new();
        headers.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        headers.append(ORIGIN, HeaderValue::from_static("http://evil.example"));
        assert!(AccessPolicy::default().check(&headers, None).is_err());
    }
}
