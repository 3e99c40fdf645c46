//! More attacks on the client: secrets that a server repeats or lures away, endless logins, and texts that a terminal would obey.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use http::Request;
use http_body_util::Full;
use serde_json::json;
use tower_layer::Layer as _;
use tower_service::Service as _;
use turms_client::Client;
use turms_http::HttpConnector;
use turms_oauth::{
    AuthorizationRequest, AuthorizationServerMetadata, ClientCredentials, ClientIdentity, Fetcher, Login, LoginKey,
    MemoryStore, OAuth, StoredClient, StoredLogin, TokenParameters, TokenStore, add_scopes, authorization_url,
    discover_server, pkce, random_token, refresh,
};
use turms_testkit::proxy::{DOMAIN, Proxy};
use turms_testkit::tls::{CERTIFICATE, tls_in_front_of};

use crate::script::{Reply, Script, callback, plain_client, provider, resource_metadata, server_metadata, tokens};
use crate::world::{Browser, chain, connect};

/// Returns a token of usual length: longer than what errors show.
fn long_token() -> String {
    format!("access-{}", "s3cret".repeat(150))
}

fn get(url: &str) -> Request<Full<bytes::Bytes>> {
    Request::get(url).body(Full::default()).unwrap()
}

/// Returns the login of a person whose browser needs no server.
fn person_at(issuer: &str) -> Login {
    let iss = issuer.to_owned();
    Login::with(move |prompt| {
        let (_, state) = prompt.url.query_pairs().find(|(name, _)| name == "state").unwrap();
        let callback = format!("http://127.0.0.1/callback?code=c&state={state}&iss={iss}");
        async { Ok::<_, String>(callback) }
    })
}

async fn save(store: &MemoryStore, server: &str, login: &StoredLogin) {
    let key = LoginKey::new(&server.parse().unwrap(), "");
    store.lock(&key).await.unwrap().save(login).await.unwrap();
}

#[tokio::test]
async fn a_long_token_that_a_rejection_repeats_is_not_shown_in_part() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::json(200, json!({ "access_token": long_token(), "token_type": "Bearer" })),
        "/mcp" if request.authorization().is_some() => {
            let token = request.authorization().unwrap().split_once(' ').unwrap().1.to_owned();
            Reply::status(401)
                .with("www-authenticate", &format!("Bearer error=\"invalid_token\", error_description=\"bad {token}\""))
        }
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    let error = connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    let text = format!("{} {error:?}", chain(&error));
    assert!(text.contains("invalid_token: bad") && !text.contains("s3cret"), "{text}");
}

#[tokio::test]
async fn a_rejection_that_repeats_the_token_in_its_body_does_not_show_it() {
    for status in [401, 403] {
        for token in ["access-s3cret".to_owned(), long_token()] {
            let given = token.clone();
            let server = Script::start(move |request| match &*request.path {
                "/token" => Reply::json(200, json!({ "access_token": given, "token_type": "Bearer" })),
                "/mcp" if request.authorization().is_some() => {
                    let sent = request.authorization().unwrap();
                    Reply::text(status, "text/plain", format!("what is {sent}?"))
                        .with("www-authenticate", &format!("Basic error_description=\"what is {sent}?\""))
                }
                _ => provider(&request),
            })
            .await;
            let auth = OAuth::new("agent").login(Browser::new().login());
            let error = connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
            let text = format!("{} {error:?} {error:#?}", chain(&error));
            assert!(!text.contains("s3cret"), "{status}: {text}");
        }
    }
}

#[tokio::test]
async fn a_secret_that_is_repeated_in_its_encoded_form_is_not_shown() {
    let server = Script::start(|request| match &*request.path {
        "/token" => {
            let sent = String::from_utf8(request.body.to_vec()).unwrap();
            Reply::json(400, json!({ "error": "invalid_request", "error_description": sent }))
        }
        _ => provider(&request),
    })
    .await;
    let base = server.url("");
    let fetcher = Fetcher::for_server(&base.parse().unwrap());
    let metadata = AuthorizationServerMetadata::new(&base, server.url("/token"));
    let client = ClientIdentity::public("agent");
    let error = refresh(&fetcher, &metadata, &client, &"4/s3 cret+s3==".into(), &TokenParameters::new()).await;
    let text = error.unwrap_err().to_string();
    assert!(!text.contains("s3"), "{text}");
}

#[tokio::test]
async fn a_person_is_not_asked_again_for_a_token_without_lifetime() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::json(200, json!({ "access_token": "access-1", "token_type": "Bearer", "expires_in": 0 })),
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let mut client = OAuth::new("agent").login(browser.login()).layer().layer(plain_client());
    for _ in 0..3 {
        assert_eq!(client.call(get(&server.url("/mcp"))).await.unwrap().status(), 200);
    }
    assert_eq!(browser.windows(), 1);
}

#[tokio::test]
async fn a_server_that_rejects_each_token_does_not_open_a_window_for_each_call() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" => Reply::status(401).with("www-authenticate", "Bearer error=\"invalid_token\""),
        "/token" => Reply::json(200, json!({ "access_token": "access-1", "token_type": "Bearer", "expires_in": 3600 })),
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let mut client = auth.layer().layer(plain_client());
    for _ in 0..5 {
        let error = client.call(get(&server.url("/mcp"))).await.unwrap_err();
        assert!(chain(&*error).contains("the server rejects the token"), "{}", chain(&*error));
    }
    assert_eq!(browser.windows(), 1);
    // The person can log in all the same.
    auth.login_now(server.url("/mcp")).await.unwrap();
    assert_eq!(browser.windows(), 2);
}

#[tokio::test]
async fn the_secret_of_a_program_does_not_go_to_a_server_that_loses_its_metadata() {
    let has_lost = Arc::new(AtomicBool::new(false));
    let issuer = Script::start(|request| provider(&request)).await;
    let (lost, base) = (has_lost.clone(), issuer.url(""));
    let server = Script::start(move |request| match &*request.path {
        "/mcp" if lost.load(Ordering::SeqCst) => Reply::status(401),
        "/.well-known/oauth-protected-resource/mcp" if !lost.load(Ordering::SeqCst) => {
            let mut metadata = resource_metadata(&request.base);
            metadata["authorization_servers"] = json!([base]);
            Reply::json(200, metadata)
        }
        path if path.starts_with("/.well-known/") => Reply::status(404),
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret("robot", "s3cret"));
    let mut client = auth.layer().layer(plain_client());
    assert_eq!(client.call(get(&server.url("/mcp"))).await.unwrap().status(), 200);
    has_lost.store(true, Ordering::SeqCst);
    let outcome = client.call(get(&server.url("/mcp"))).await;
    assert!(server.at("/token").is_empty(), "{:?}", server.at("/token")[0].basic());
    let text = chain(&*outcome.unwrap_err());
    assert!(text.contains("which got the credentials before"), "{text}");
}

#[tokio::test]
async fn the_secret_of_a_program_does_not_go_to_an_issuer_that_chose_the_same_id() {
    let evil = Script::start(|request| provider(&request)).await;
    let store = MemoryStore::new();
    // A login of a person, whose authorization server named the client at registration.
    let mut login =
        StoredLogin::new("access-1", SystemTime::now(), evil.url("/token"), StoredClient::new(evil.url(""), "robot"));
    login.revocation_endpoint = Some(evil.url("/revoke"));
    save(&store, &evil.url("/mcp"), &login).await;
    let grant = ClientCredentials::secret("robot", "s3cret").issuer("https://auth.example.com");
    let auth = OAuth::new("robot").store(store).grant(grant);
    assert!(auth.logout(evil.url("/mcp")).await.unwrap());
    let requests = evil.at("/revoke");
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].basic(), None, "the secret went to another issuer");
}

/// A server that is reached by a name over HTTP without TLS, through a proxy, with metadata at an `https` URL.
#[tokio::test]
async fn no_token_is_obtained_for_a_server_without_tls() {
    let proxy = Proxy::start(None).await;
    let front = Arc::new(std::sync::OnceLock::<(String, String)>::new());
    let urls = front.clone();
    let server = Script::start(move |request| {
        let (mcp, tls) = urls.get().unwrap();
        match &*request.path {
            "/mcp" if request.authorization().is_none() => {
                Reply::status(401).with("www-authenticate", &format!("Bearer resource_metadata=\"{tls}/metadata\""))
            }
            "/metadata" => Reply::json(200, json!({ "resource": mcp, "authorization_servers": [tls] })),
            "/.well-known/oauth-authorization-server" => Reply::json(200, server_metadata(tls)),
            _ => provider(&request),
        }
    })
    .await;
    let tls = format!("https://localhost:{}", tls_in_front_of(server.address).await.port());
    let mcp = format!("http://{DOMAIN}:{}/mcp", server.address.port());
    front.set((mcp.clone(), tls.clone())).unwrap();
    let login = person_at(&tls);
    let proxy_url = format!("http://{}", proxy.address);
    let auth = OAuth::new("agent").login(login).proxy(&proxy_url).root_certificates(CERTIFICATE);
    let connector = HttpConnector::new(&mcp).unwrap().proxy(&proxy_url).authorizer(auth);
    let error = Client::builder("agent", "1.0.0").connect(connector).await;
    let sent: Vec<_> = server.at("/mcp").iter().filter_map(|it| it.authorization().map(str::to_owned)).collect();
    assert!(sent.is_empty(), "sent without TLS: {sent:?}");
    let text = chain(&error.unwrap_err());
    assert!(text.contains("tokens are not sent to a server without TLS"), "{text}");
}

#[tokio::test]
async fn names_of_this_machine_are_refused_before_a_proxy_resolves_them() {
    let trap = Script::start(|request| provider(&request)).await;
    let port = tls_in_front_of(trap.address).await.port();
    let proxy = Proxy::start(None).await;
    let public = Fetcher::for_server(&"https://mcp.example.com/mcp".parse().unwrap())
        .proxy(format!("http://{}", proxy.address))
        .root_certificates(CERTIFICATE);
    for host in ["localhost", "LOCALHOST", "localhost.", "auth.localhost"] {
        let outcome = discover_server(&public, &format!("https://{host}:{port}")).await;
        let text = outcome.map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("is not allowed"), "{host}: {text}");
        let mut metadata = AuthorizationServerMetadata::new("https://auth.example.com", "https://auth.example.com/t");
        metadata.authorization_endpoint = Some(format!("https://{host}:{port}/authorize"));
        metadata.code_challenge_methods_supported = Some(vec!["S256".to_owned()]);
        let request = AuthorizationRequest::new("a", "http://127.0.0.1:1/cb", &random_token(), &pkce());
        assert!(authorization_url(&public, &metadata, &request).is_err(), "a browser would open {host}");
    }
    assert!(trap.received().is_empty() && proxy.received().is_empty(), "{:?}", proxy.received());
}

#[tokio::test]
async fn an_issuer_with_control_characters_does_not_reach_a_terminal() {
    for issuer in ["/\u{1b}[2Jevil", "/a\u{9b}1m", "/\n", "/a\u{202e}b"] {
        let server = Script::start(move |request| {
            let own = format!("{}{issuer}", request.base);
            match &*request.path {
                "/.well-known/oauth-protected-resource/mcp" => {
                    let mut metadata = resource_metadata(&request.base);
                    metadata["authorization_servers"] = json!([own]);
                    Reply::json(200, metadata)
                }
                path if path.starts_with("/.well-known/oauth-authorization-server") => {
                    let mut metadata = server_metadata(&request.base);
                    metadata["issuer"] = json!(own);
                    Reply::json(200, metadata)
                }
                "/authorize" => Reply::redirect(302, &callback(&request, &[("code", "c"), ("iss", &own)])),
                "/mcp" => Reply::status(401).with("www-authenticate", "Bearer error=\"invalid_token\""),
                _ => provider(&request),
            }
        })
        .await;
        let auth = OAuth::new("agent").login(Browser::new().login());
        let mut client = auth.layer().layer(plain_client());
        let text = chain(&*client.call(get(&server.url("/mcp"))).await.unwrap_err());
        assert!(!text.contains(|c: char| c.is_control() || c == '\u{202e}'), "{text:?}");
        let status = auth.status(server.url("/mcp")).await.unwrap();
        assert!(status.is_none(), "{status:?}");
    }
}

#[tokio::test]
async fn a_description_cannot_change_the_direction_of_the_text() {
    let server = Script::start(|request| match &*request.path {
        "/token" => {
            let description = "a\u{202e}b\u{2066}c\u{2028}d\u{200b}e";
            Reply::json(400, json!({ "error": "invalid_request", "error_description": description }))
        }
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    let text = auth.token(server.url("/mcp")).await.unwrap_err().to_string();
    assert!(text.contains("(abcde)"), "{text:?}");
}

#[tokio::test]
async fn a_giant_description_of_a_rejection_is_not_shown_whole() {
    let server = Script::start(|request| match &*request.path {
        "/mcp" => Reply::status(403).with(
            "www-authenticate",
            &format!("Bearer error=\"{}\", error_description=\"{}\"", "e".repeat(50_000), "d".repeat(50_000)),
        ),
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    let error = connect(&server.url("/mcp"), &auth, Client::builder("agent", "1.0.0")).await.unwrap_err();
    assert!(chain(&error).len() < 4000, "{} bytes", chain(&error).len());
}

#[tokio::test]
async fn many_scopes_do_not_stop_the_program() {
    let many = (0..40_000).map(|number| format!("{number:x}")).collect::<Vec<_>>().join(" ");
    let list = many.clone();
    let server = Script::start(move |request| match &*request.path {
        "/mcp" if request.authorization().is_some() => Reply::status(403)
            .with("www-authenticate", &format!("Bearer error=\"insufficient_scope\", scope=\"{list}\"")),
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(person_at(&server.url("")));
    let mut client = auth.layer().layer(plain_client());
    let begin = Instant::now();
    let error = client.call(get(&server.url("/mcp"))).await.unwrap_err();
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    assert!(chain(&*error).len() < 1000, "{} bytes", chain(&*error).len());
    let begin = Instant::now();
    assert_eq!(add_scopes(&[], &many).len(), 40_000);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
}

#[tokio::test]
async fn scopes_that_a_terminal_would_obey_are_not_kept() {
    let server = Script::start(|request| match &*request.path {
        "/.well-known/oauth-protected-resource/mcp" => {
            let mut metadata = resource_metadata(&request.base);
            metadata["scopes_supported"] = json!(["notes:read", "\u{1b}[2J", "a\u{202e}b"]);
            Reply::json(200, metadata)
        }
        "/token" => {
            let mut tokens = tokens();
            tokens["scope"] = json!("notes:read \u{1b}[2J \u{9b}1m");
            Reply::json(200, tokens)
        }
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let status = auth.login_now(server.url("/mcp")).await.unwrap();
    assert_eq!(status.scopes, ["notes:read"]);
    assert_eq!(browser.param("scope").as_deref(), Some("notes:read"));
}

#[tokio::test]
async fn a_refresh_with_a_list_of_scopes_keeps_the_rotated_token() {
    let server = Script::start(|request| match &*request.path {
        "/token" => {
            let mut tokens = tokens();
            tokens["scope"] = json!(["notes:read", "notes:write"]);
            Reply::json(200, tokens)
        }
        _ => provider(&request),
    })
    .await;
    let (store, url) = (MemoryStore::new(), server.url("/mcp"));
    let client = StoredClient::new(server.url(""), "agent");
    let mut login = StoredLogin::new("access-0", SystemTime::now(), server.url("/token"), client);
    login.refresh_token = Some("refresh-0".into());
    save(&store, &url, &login).await;
    let auth = OAuth::new("agent").store(store.clone()).login(Login::never());
    auth.refresh_now(&url).await.unwrap();
    let login = store.load(&LoginKey::new(&url.parse().unwrap(), "")).await.unwrap().unwrap();
    assert_ne!(login.refresh_token, Some("refresh-0".into()), "the rotated token is lost");
    assert_eq!(login.scopes, ["notes:read", "notes:write"]);
}
