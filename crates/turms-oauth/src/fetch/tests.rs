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

/// All steps. A new one has to be added here.
const STEPS: [FetchStep; 13] = [
    FetchStep::Server,
    FetchStep::ResourceMetadata,
    FetchStep::ServerMetadata,
    FetchStep::Registration,
    FetchStep::Authorization,
    FetchStep::Token,
    FetchStep::IdentityProvider,
    FetchStep::DeviceAuthorization,
    FetchStep::Revocation,
    FetchStep::Introspection,
    FetchStep::Keys,
    FetchStep::ClientDocument,
    FetchStep::UserInfo,
];

#[tokio::test]
async fn no_step_and_no_kind_of_request_skips_the_check_of_its_url() {
    let public = fetcher("https://mcp.example.com/");
    for step in STEPS {
        for url in [
            "https://ann@auth.example.com/",
            "https://auth.example.com/a\nb",
            "http://auth.example.com/",
            "https://10.0.0.1/",
            "ftp://auth.example.com/",
        ] {
            let expected = match public.check(step, url) {
                Ok(_) => panic!("{step}: {url} is not refused"),
                Err(error) => error.to_string(),
            };
            let is_refused = |result: Result<FetchResponse, FetchError>| match result {
                Ok(_) => panic!("{step}: {url} was requested"),
                // The error of a request that was sent is another one.
                Err(error) => assert_eq!(error.to_string(), expected),
            };
            is_refused(public.get(step, url).await);
            is_refused(public.post_form(step, url, &[], HeaderMap::new()).await);
            is_refused(public.post_json(step, url, &(), HeaderMap::new()).await);
            #[cfg(feature = "server")]
            is_refused(public.get_direct(step, url).await);
        }
    }
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

#[test]
fn addresses_that_are_never_allowed_stay_so_with_the_option() {
    let private = fetcher("https://mcp.example.com/").allow_private_network();
    for url in [
        "http://10.0.0.1/",
        "https://192.168.0.1:8443/",
        "http://127.0.0.1/",
        "http://auth:8080/",
        "https://[fd12::1]/",
    ] {
        assert!(private.check(FetchStep::Token, url).is_ok(), "{url}");
    }
    for url in [
        "http://169.254.169.254/",
        "https://[::ffff:169.254.169.254]/",
        "https://[fe80::1]/",
        "https://100.100.100.200/",
        "https://[fd00:ec2::254]/",
        "https://0.0.0.0/",
        "https://255.255.255.255/",
        "http://8.8.8.8/",
    ] {
        let error = private.check(FetchStep::Token, url).unwrap_err();
        assert!(matches!(error.kind, FetchErrorKind::Address(_)), "{url}: {error}");
    }
}

#[test]
fn urls_with_a_user_or_control_characters_are_refused() {
    let public = fetcher("https://mcp.example.com/");
    for url in [
        "https://user@auth.example.com/",
        "https://:pw@auth.example.com/",
        "https://good.example\\@evil.example/ ",
        "https://auth.example.com/\r\nHost: evil",
        "https://auth.exa\tmple.com/",
        " https://auth.example.com/",
        "https://auth.example.com/\u{85}",
    ] {
        let error = public.check(FetchStep::Keys, url).unwrap_err();
        assert!(matches!(error.kind, FetchErrorKind::Url), "{url:?}: {error}");
    }
}

fn response(content_type: &'static str, body: &'static str) -> FetchResponse {
    FetchResponse {
        status: StatusCode::OK,
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]),
        body: Bytes::from_static(body.as_bytes()),
        step: FetchStep::Keys,
        url: "https://auth.example.com/jwks?secret".to_owned(),
    }
}

#[test]
fn json_is_told_by_its_media_type() {
    for media_type in ["application/json", "Application/JSON; charset=utf-8", "application/jwk-set+json"] {
        assert!(response(media_type, "{}").is_json(), "{media_type}");
    }
    for media_type in ["text/html", "application/jsonp", "text/json+x", "json", ""] {
        assert!(!response(media_type, "{}").is_json(), "{media_type}");
        assert!(response(media_type, "{}").any_json::<serde_json::Value>().is_err(), "{media_type}");
    }
}

#[test]
fn an_error_of_json_has_a_place_and_no_content() {
    let nested: &'static str = "[".repeat(1000).leak();
    for (body, expected) in [
        ("{\"a\": s3cret}", "invalid JSON at line 1, column 7"),
        (nested, "invalid JSON at line 1, column 128"),
        ("", "invalid JSON at line 1, column 0"),
    ] {
        let error = response("application/json", body).json::<serde_json::Value>().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("keys of the issuer from https://auth.example.com: the response is not valid: {expected}")
        );
    }
    let error = response("application/json", "\"s3cret\"").json::<u32>().unwrap_err().to_string();
    assert!(error.ends_with("unexpected JSON at line 1, column 8"), "{error}");
}

#[test]
fn failures_that_may_pass_are_transient() {
    let is_transient = |kind| FetchError::new(FetchStep::Token, "https://auth.example.com", kind).is_transient();
    let io = || Arc::new(std::io::Error::other("reset"));
    for kind in [FetchErrorKind::Connect(io()), FetchErrorKind::Closed(io()), FetchErrorKind::Timeout(DEFAULT_TIMEOUT)]
    {
        assert!(is_transient(kind));
    }
    for (status, expected) in
        [(500, true), (503, true), (429, true), (408, true), (400, false), (401, false), (302, false)]
    {
        assert_eq!(is_transient(FetchErrorKind::Status(StatusCode::from_u16(status).unwrap())), expected, "{status}");
    }
    assert!(!is_transient(FetchErrorKind::Compressed) && !is_transient(FetchErrorKind::TooLarge(1)));
}
