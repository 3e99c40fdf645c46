//! The checks before a request. Requests are tested with real sockets in `tests/`.

use super::*;

fn fetcher(server: &str) -> Fetcher {
    Fetcher::new(NetworkPolicy::of_server(&Url::parse(server).unwrap()), DialOptions::new())
}

#[test]
fn urls_are_checked_before_a_request() {
    let public = fetcher("https://mcp.example.com/");
    let check =
        |fetcher: &Fetcher, url: &str| fetcher.check(FetchStep::Token, url).map(|_| ()).map_err(|error| error.kind);
    assert!(check(&public, "https://auth.example.com/token").is_ok());
    assert!(matches!(check(&public, "http://auth.example.com/token"), Err(FetchErrorKind::NotHttps)));
    assert!(matches!(check(&public, "http://127.0.0.1/token"), Err(FetchErrorKind::NotHttps)));
    for address in ["127.0.0.1", "2130706433", "0x7f.1", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254"] {
        let url = format!("https://{address}/token");
        assert!(matches!(check(&public, &url), Err(FetchErrorKind::Address(_))), "{address}");
    }
    for url in ["file:///etc/passwd", "javascript:alert(1)", "data:,x", "https://", "ftp://example.com/"] {
        assert!(matches!(check(&public, url), Err(FetchErrorKind::Url)), "{url}");
    }
    let local = fetcher("http://localhost:3000/mcp");
    assert!(check(&local, "http://127.0.0.1:8080/token").is_ok());
    assert!(check(&local, "http://auth.localhost/token").is_ok());
    assert!(matches!(check(&local, "https://10.0.0.1/"), Err(FetchErrorKind::Address(_))));
    assert!(matches!(check(&local, "http://example.com/"), Err(FetchErrorKind::NotHttps)));
}

#[test]
fn an_error_shows_the_origin_only() {
    let error = FetchError::new(
        FetchStep::Token,
        "https://user:pw@auth.example.com/secret?code=1",
        FetchErrorKind::Status(StatusCode::BAD_GATEWAY),
    );
    assert_eq!(error.to_string(), "token request from https://auth.example.com: status 502 Bad Gateway");
}

#[test]
fn defaults_are_as_documented() {
    use turms_defaults::{assert_documented, bytes, count, time, when};

    let fetcher = Fetcher::for_server(&Url::parse("https://example.com/mcp").unwrap());
    let it = &fetcher.0.options;
    let code = [
        ("Fetcher::allow_private_network", when(it.policy == NetworkPolicy::Public, "no")),
        ("Fetcher::timeout", time(it.timeout)),
        ("Fetcher::max_response_bytes", bytes(it.max_response_bytes)),
        ("Fetcher::max_redirects", count(it.max_redirects)),
    ];
    assert_documented(include_str!("../fetch.rs"), &code);
}
