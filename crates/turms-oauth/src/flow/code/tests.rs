use super::*;
use crate::pkce::{pkce, random_token};

fn metadata(endpoint: &str) -> AuthorizationServerMetadata {
    AuthorizationServerMetadata {
        issuer: "https://auth.example.com".to_owned(),
        authorization_endpoint: Some(endpoint.to_owned()),
        code_challenge_methods_supported: Some(vec!["plain".to_owned(), "S256".to_owned()]),
        ..AuthorizationServerMetadata::default()
    }
}

fn fetcher(server: &str) -> Fetcher {
    Fetcher::for_server(&Url::parse(server).unwrap())
}

fn request() -> AuthorizationRequest {
    AuthorizationRequest::new("agent & co", "http://127.0.0.1:8085/callback", &Secret::new("state-1"), &pkce())
}

fn pairs(url: &Url) -> Vec<(String, String)> {
    url.query_pairs().into_owned().collect()
}

#[test]
fn the_url_has_the_parameters_and_the_query_of_the_endpoint() {
    let request = request().scopes(["a", "b:c"]).resource("http://h").extra("prompt", "consent").extra("state", "x");
    let metadata = metadata("https://auth.example.com/authorize?tenant=a%20b&client_id=other#top");
    let url = authorization_url(&fetcher("https://mcp.example.com/"), &metadata, &request).unwrap();
    assert!(url.as_str().starts_with("https://auth.example.com/authorize?tenant=a%20b&response_type=code&"), "{url}");
    let expected = [
        ("tenant", "a b"),
        ("response_type", "code"),
        ("client_id", "agent & co"),
        ("redirect_uri", "http://127.0.0.1:8085/callback"),
        ("code_challenge", &*request.challenge),
        ("code_challenge_method", "S256"),
        ("state", "state-1"),
        ("resource", "http://h"),
        ("scope", "a b:c"),
        ("prompt", "consent"),
    ];
    let expected: Vec<_> = expected.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    assert_eq!(pairs(&url), expected);
    assert_eq!(url.fragment(), None);
}

#[test]
fn scope_and_resource_are_left_out_if_there_are_none() {
    let metadata = metadata("https://auth.example.com/authorize");
    let request = request().scopes(Vec::<String>::new()).resource(None);
    let url = authorization_url(&fetcher("https://mcp.example.com/"), &metadata, &request).unwrap();
    assert!(!pairs(&url).iter().any(|(name, _)| name == "scope" || name == "resource"), "{url}");
}

#[test]
fn endpoints_that_a_browser_must_not_open_are_refused() {
    let public = fetcher("https://mcp.example.com/");
    for endpoint in [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "data:text/html,x",
        "com.example.app:/x",
        "http://auth.example.com/authorize",
        "http://localhost:8080/authorize",
        "https://127.0.0.1/authorize",
        "https://[::ffff:10.0.0.1]/authorize",
        "https://auth.example.com/a\nb",
        "https://auth.example.com/\u{1b}[2J",
        " https://auth.example.com/",
        "https://good.example@evil.example/",
        "",
    ] {
        let error = authorization_url(&public, &metadata(endpoint), &request()).unwrap_err();
        assert!(matches!(error.kind(), OAuthErrorKind::Fetch(_)), "{endpoint}");
        assert!(error.to_string().starts_with("authorization endpoint"), "{error}");
    }
    let local = fetcher("http://localhost:3000/mcp");
    authorization_url(&local, &metadata("http://localhost:8080/authorize"), &request()).unwrap();
    assert!(authorization_url(&local, &metadata("http://auth.example.com/authorize"), &request()).is_err());
}

#[test]
fn pkce_must_be_announced() {
    let public = fetcher("https://mcp.example.com/");
    let mut metadata = metadata("https://auth.example.com/authorize");
    for methods in [None, Some(vec![]), Some(vec!["plain".to_owned()])] {
        metadata.code_challenge_methods_supported = methods;
        let error = authorization_url(&public, &metadata, &request()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "authorization server https://auth.example.com does not announce PKCE with S256 \
             (`code_challenge_methods_supported`)"
        );
    }
    metadata.authorization_endpoint = None;
    let error = authorization_url(&public, &metadata, &request()).unwrap_err();
    assert!(error.to_string().ends_with("has no authorization endpoint"), "{error}");
}

#[test]
fn redirect_uris_are_on_loopback_or_https() {
    let public = fetcher("https://mcp.example.com/");
    let metadata = metadata("https://auth.example.com/authorize");
    let with = |redirect_uri: &str| {
        let request = AuthorizationRequest { redirect_uri: redirect_uri.to_owned(), ..request() };
        authorization_url(&public, &metadata, &request)
    };
    for uri in ["http://127.0.0.1:1/cb", "http://localhost/cb", "http://[::1]:1/", "https://app.example.com/cb"] {
        assert!(with(uri).is_ok(), "{uri}");
    }
    for uri in ["http://app.example.com/cb", "javascript:alert(1)", "", "http://10.0.0.1/"] {
        let error = with(uri).unwrap_err();
        assert!(error.to_string().starts_with("redirect URI "), "{error}");
    }
}

fn check(supported: Option<bool>, query: &str) -> Result<String, String> {
    let metadata = AuthorizationServerMetadata {
        authorization_response_iss_parameter_supported: supported,
        ..metadata("https://auth.example.com/authorize")
    };
    let code = Callback::parse(query).and_then(|it| check_callback(&metadata, &Secret::new("state-1"), &it));
    code.map(|code| code.expose().to_owned()).map_err(|error| error.to_string())
}

#[test]
fn the_issuer_of_a_callback_is_compared_as_text() {
    let ok = Ok("c".to_owned());
    let right = "code=c&state=state-1&iss=https%3A%2F%2Fauth.example.com";
    for supported in [Some(true), Some(false), None] {
        assert_eq!(check(supported, right), ok);
        for wrong in ["https%3A%2F%2Fauth.example.com%2F", "https%3A%2F%2Fevil.example", "HTTPS://auth.example.com", ""]
        {
            let error = check(supported, &format!("code=c&state=state-1&iss={wrong}")).unwrap_err();
            assert!(error.contains("`iss` is not the issuer"), "{error}");
        }
    }
    assert_eq!(check(None, "code=c&state=state-1"), ok);
    assert_eq!(check(Some(false), "code=c&state=state-1"), ok);
    assert!(check(Some(true), "code=c&state=state-1").unwrap_err().contains("`iss` is missing"));
}

#[test]
fn errors_of_a_callback_are_shown_only_if_it_is_ours() {
    let denied = "error=access_denied&error_description=no%0Athanks&state=state-1";
    assert_eq!(check(None, denied).unwrap_err(), "login was not completed: access_denied (nothanks)");
    for foreign in [
        "error=access_denied&error_description=phishing&state=state-1&iss=https%3A%2F%2Fevil.example",
        "error=access_denied&error_description=phishing&state=other",
        "error=access_denied&error_description=phishing",
    ] {
        let error = check(None, foreign).unwrap_err();
        assert!(!error.contains("phishing") && error.starts_with("invalid authorization response"), "{error}");
    }
    let metadata = metadata("https://auth.example.com/authorize");
    let callback = Callback::parse(denied).unwrap();
    assert!(check_callback(&metadata, &Secret::new("state-1"), &callback).unwrap_err().is_denied());
}

#[test]
fn callbacks_are_queries_or_whole_urls() {
    let code = |text: &str| Callback::parse(text).map(|it| it.code.unwrap_or_default().expose().to_owned());
    assert_eq!(code("code=a%2Bb&state=s").unwrap(), "a+b");
    assert_eq!(code(" http://127.0.0.1:1/callback?state=s&code=c#x \n").unwrap(), "c");
    assert_eq!(code("?code=c").unwrap(), "c");
    assert_eq!(code("code=a?b&state=s").unwrap(), "a?b");
    assert_eq!(code("http://127.0.0.1:1/call=back?code=a?b&state=s").unwrap(), "a?b");
    for invalid in ["", "state=s", "http://127.0.0.1:1/callback", "code=a&code=b", "code=a&state=1&state=2"] {
        assert!(code(invalid).is_err(), "{invalid}");
    }
    assert!(check(None, "code=&state=state-1").unwrap_err().contains("`code` is missing"));
    assert!(check(None, "code=c&state=").unwrap_err().contains("`state` is not"));
}

#[test]
fn secrets_are_not_shown() {
    let pkce = pkce();
    let state = random_token();
    let request = AuthorizationRequest::new("agent", "http://127.0.0.1:1/", &state, &pkce);
    let callback = Callback::parse(&format!("code=code-1234&state={}", state.expose())).unwrap();
    let exchange = CodeExchange::new(Secret::new("code-1234"), "http://127.0.0.1:1/", &pkce);
    let shown = format!("{request:?} {callback:?} {exchange:?} {pkce:?}");
    for secret in [state.expose(), pkce.verifier.expose(), "code-1234"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
