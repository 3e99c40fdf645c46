//! Redirect URIs: which ones a client may register, and which ones match.

use url::Url;

use crate::network::is_loopback;

/// Maximum length of a redirect URI, in bytes.
const MAX_LENGTH: usize = 1024;

/// Returns the reason if a redirect URI cannot be registered. Allowed are `https`, `http` for loopback, and the schemes that the
/// operator allows.
pub(crate) fn check_redirect_uri(uri: &str, schemes: &[String]) -> Result<(), &'static str> {
    if uri.len() > MAX_LENGTH {
        return Err("a redirect URI is too long");
    }
    if uri.chars().any(|letter| letter.is_control() || letter == ' ' || letter == '\\') {
        return Err("a redirect URI has invalid characters");
    }
    let url = Url::parse(uri).map_err(|_| "a redirect URI is not a URL")?;
    if uri.contains('#') {
        return Err("a redirect URI has a fragment");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a redirect URI has a user name or a password");
    }
    match url.scheme() {
        "https" => Ok(()),
        "http" if is_loopback(&url) => Ok(()),
        // Browsers run or show their content on the page that redirects.
        "about" | "blob" | "data" | "file" | "javascript" | "vbscript" => {
            Err("the scheme of a redirect URI is not allowed")
        }
        scheme if schemes.iter().any(|allowed| allowed == scheme) => Ok(()),
        _ => Err("a redirect URI has neither https nor a loopback host"),
    }
}

/// Returns `true` if a redirect URI is the registered one. Only the port of a loopback host may differ (RFC 8252, 7.3). Both are
/// compared as texts, so that no two parsers can disagree about them.
pub(crate) fn matches(registered: &str, requested: &str) -> bool {
    registered == requested
        || split_loopback(registered)
            .zip(split_loopback(requested))
            .is_some_and(|(registered, requested)| registered == requested)
}

/// Splits `http://127.0.0.1:port/rest` into the part before the port and that after it.
fn split_loopback(uri: &str) -> Option<(&str, &str)> {
    let host =
        ["http://127.0.0.1", "http://[::1]", "http://localhost"].into_iter().find(|host| uri.starts_with(host))?;
    let rest = &uri[host.len()..];
    let rest = match rest.strip_prefix(':') {
        Some(port) => {
            let digits = port.bytes().take_while(u8::is_ascii_digit).count();
            port[..digits].parse::<u16>().ok()?;
            &port[digits..]
        }
        None => rest,
    };
    (rest.is_empty() || rest.starts_with(['/', '?'])).then_some((host, rest))
}

/// Returns a redirect URI without the port of a loopback host, which differs from login to login.
#[cfg(feature = "proxy")]
pub(crate) fn without_port(uri: &str) -> String {
    split_loopback(uri).map_or_else(|| uri.to_owned(), |(host, rest)| format!("{host}{rest}"))
}

/// Returns the host of a redirect URI for people, and `true` if it is of this machine.
pub(crate) fn host_of(uri: &str) -> (String, bool) {
    match Url::parse(uri) {
        Ok(url) => match url.host_str() {
            Some(host) if matches!(url.scheme(), "http" | "https") => (host.to_owned(), is_loopback(&url)),
            _ => (format!("an application for {}: links", url.scheme()), true),
        },
        Err(_) => (String::new(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_loopback_can_be_registered() {
        let schemes = ["cursor", "javascript", "data"].map(str::to_owned);
        for good in [
            "https://app.example.com/cb?x=1",
            "http://127.0.0.1/callback",
            "http://localhost:8080/cb",
            "http://[::1]:1/cb",
            "cursor://app/callback",
        ] {
            assert_eq!(check_redirect_uri(good, &schemes), Ok(()), "{good}");
        }
        for bad in [
            "http://example.com/cb",
            "https://app.example.com/cb#part",
            "https://app.example.com/cb#",
            "https://user@app.example.com/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "vscode://app/cb",
            "https://a b/",
            "https://example.com\\@evil.example/",
            "/callback",
            "",
        ] {
            assert!(check_redirect_uri(bad, &schemes).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_whole_name_of_a_host_is_loopback() {
        for uri in [
            "http://127.0.0.1.evil.example/cb",
            "http://localhost.evil.example/cb",
            "http://localhostile.example/cb",
            "http://127.0.0.1@evil.example/cb",
            "http://localhost:80@evil.example/cb",
            "http://localhost:99999/cb",
            "https://127.0.0.1/cb",
        ] {
            assert_eq!(split_loopback(uri), None, "{uri}");
        }
        assert_eq!(split_loopback("http://localhost:80?a"), Some(("http://localhost", "?a")));
    }

    #[test]
    fn redirect_uris_match_exactly_but_for_the_port_of_loopback() {
        for (registered, requested) in [
            ("https://app.example.com/cb", "https://app.example.com/cb"),
            ("http://127.0.0.1/callback", "http://127.0.0.1:51234/callback"),
            ("http://127.0.0.1:1/callback", "http://127.0.0.1/callback"),
            ("http://localhost:3000/cb?a=1", "http://localhost:3001/cb?a=1"),
            ("http://[::1]/cb", "http://[::1]:9/cb"),
        ] {
            assert!(matches(registered, requested), "{registered} {requested}");
        }
        for (registered, requested) in [
            ("https://app.example.com/cb", "https://app.example.com/cb/"),
            ("https://app.example.com/cb", "https://app.example.com:444/cb"),
            ("https://app.example.com/cb", "https://app.example.com/cb?x=1"),
            ("https://app.example.com/cb", "https://APP.example.com/cb"),
            ("http://127.0.0.1/callback", "http://127.0.0.1:51234/other"),
            ("http://127.0.0.1/callback", "http://localhost/callback"),
            ("http://127.0.0.1/callback", "https://127.0.0.1/callback"),
            ("http://127.0.0.1/callback", "http://127.0.0.1.evil.example/callback"),
            ("http://127.0.0.1/callback", "http://127.0.0.1:80@evil.example/callback"),
            ("http://127.0.0.1/callback", "http://127.0.0.1@evil.example/callback"),
            ("http://127.0.0.1/callback", "http://127.0.0.1:99999/callback"),
            ("http://127.0.0.1", "http://127.0.0.1:/x"),
            ("http://localhost/cb", "http://localhost:8\\@evil.example/cb"),
        ] {
            assert!(!matches(registered, requested), "{registered} {requested}");
        }
    }
}
