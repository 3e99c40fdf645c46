//! Tokens that are bound to a key (DPoP).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tower_layer::Layer as _;
use tower_service::Service as _;
use turms_client::Client;
use turms_oauth::dev::DevClient;
use turms_oauth::{ClientCredentials, Dpop, DpopPolicy, Jws, OAuth};

use crate::script::{Received, Reply, Script, plain_client, provider, server_metadata, tokens};
use crate::world::{Browser, ERAS, Guarded, World, call, connect, dev, guarded_with};

/// Longer than the lifetime of a token with the tolerance of the guard, and shorter than that of a proof.
const EXPIRY: Duration = Duration::from_secs(150);

async fn bound(nonces: bool) -> World {
    let dev = dev()
        .dpop_nonces(nonces)
        .access_token_lifetime(Duration::from_secs(60))
        .client(DevClient::with_secret("robot", "s3cret"));
    let world = World::with(dev).await;
    let server: Guarded = guarded_with(&world.dev, |guard| {
        let guard = guard.dpop(DpopPolicy::Required);
        if nonces { guard.dpop_nonces(&[7; 32]) } else { guard }
    })
    .await;
    World { server, ..world }
}

#[tokio::test]
async fn a_server_that_requires_proofs_gets_them_with_and_without_nonces() {
    for (version, nonces) in ERAS.into_iter().flat_map(|version| [(version, false), (version, true)]) {
        let world = bound(nonces).await;
        let builder = Client::builder("agent", "1.0.0").protocol_version(version);
        let client = connect(&world.server.url, &world.oauth(), builder).await.unwrap();
        let results = join_all((0..20).map(|_| call(&client, "whoami"))).await;
        assert!(results.iter().all(|result| result.as_ref().is_ok_and(|text| text == "alice")), "{results:?}");
        assert_eq!(world.browser.windows(), 1, "{version} {nonces}");
        let status = world.oauth().status(&world.server.url).await.unwrap().unwrap();
        assert!(status.is_bound);
        world.advance(EXPIRY);
        assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
        assert_eq!((world.dev.grants("refresh_token"), world.browser.windows()), (1, 1), "{version} {nonces}");
    }
}

#[tokio::test]
async fn a_stored_login_keeps_its_key() {
    let world = bound(true).await;
    world.oauth().login_now(&world.server.url).await.unwrap();
    let key = world.stored().await.unwrap().dpop_key;
    let client = world.connect(&world.oauth()).await;
    world.advance(EXPIRY);
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!(world.stored().await.unwrap().dpop_key, key);
    assert!(key.is_some() && world.browser.windows() == 1);
}

#[tokio::test]
async fn a_program_gets_a_bound_token() {
    let world = bound(true).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret("robot", "s3cret"));
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "robot");
}

/// A server that accepts a proof with its newest nonce only, and changes it as the test says.
struct NonceServer {
    script: Script,
    nonce: Arc<AtomicUsize>,
}

fn proof(request: &Received) -> Option<Value> {
    let mut values = request.headers.get_all("dpop").iter();
    let proof = values.next()?.to_str().unwrap();
    assert!(values.next().is_none(), "two proofs");
    Some(Jws::parse(proof).unwrap().claims().unwrap())
}

async fn nonce_server() -> NonceServer {
    let nonce = Arc::new(AtomicUsize::new(1));
    let current = nonce.clone();
    let script = Script::start(move |request| {
        let nonce = format!("nonce-{}", current.load(Ordering::SeqCst));
        let has_nonce = proof(&request).is_some_and(|claims| claims["nonce"] == *nonce);
        match &*request.path {
            "/mcp" if request.authorization().is_none() => {
                let url = format!("{}/.well-known/oauth-protected-resource/mcp", request.base);
                Reply::status(401).with("www-authenticate", &format!("DPoP resource_metadata=\"{url}\""))
            }
            "/mcp" if !has_nonce => {
                Reply::status(401).with("www-authenticate", "DPoP error=\"use_dpop_nonce\"").with("dpop-nonce", &nonce)
            }
            "/mcp" => Reply::json(200, json!({})).with("dpop-nonce", &nonce),
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = server_metadata(&request.base);
                metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
                Reply::json(200, metadata)
            }
            "/token" => {
                let mut tokens = tokens();
                tokens["token_type"] = json!("DPoP");
                Reply::json(200, tokens)
            }
            _ => provider(&request),
        }
    })
    .await;
    NonceServer { script, nonce }
}

fn request(server: &Script) -> http::Request<http_body_util::Full<bytes::Bytes>> {
    http::Request::get(format!("{}?x=1", server.url("/mcp"))).body(http_body_util::Full::default()).unwrap()
}

#[tokio::test]
async fn concurrent_requests_that_need_the_same_new_nonce_cause_no_refresh() {
    let NonceServer { script, nonce } = nonce_server().await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login());
    let client = auth.layer().layer(plain_client());
    client.clone().call(request(&script)).await.unwrap();
    for _ in 0..5 {
        nonce.fetch_add(1, Ordering::SeqCst);
        let calls = (0..10).map(|_| {
            let mut client = client.clone();
            client.call(request(&script))
        });
        for response in join_all(calls).await {
            assert_eq!(response.unwrap().status(), 200);
        }
    }
    assert_eq!((script.at("/token").len(), browser.windows()), (1, 1));
}

#[tokio::test]
async fn each_proof_is_for_its_request_and_used_once() {
    let NonceServer { script, .. } = nonce_server().await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    let mut client = auth.layer().layer(plain_client());
    for _ in 0..3 {
        client.call(request(&script)).await.unwrap();
    }
    auth.refresh_now(script.url("/mcp")).await.unwrap();
    client.call(request(&script)).await.unwrap();
    let mut ids = HashSet::new();
    for received in script.received() {
        let Some(claims) = proof(&received) else { continue };
        assert!(ids.insert(claims["jti"].as_str().unwrap().to_owned()), "a proof is used twice");
        assert_eq!(claims["htm"], received.method.as_str());
        assert_eq!(claims["htu"], script.url(&received.path));
        assert_eq!(claims.get("ath").is_some(), received.path == "/mcp");
        assert!(!received.authorization().is_some_and(|value| value.starts_with("Bearer ")));
    }
    // The nonce of the server is known from the first rejection on, also after a refresh: one request for the challenge, one for the
    // nonce, and four that succeed.
    assert_eq!(script.at("/mcp").len(), 6);
}

#[tokio::test]
async fn a_server_that_is_never_content_with_a_nonce_is_not_asked_for_ever() {
    let NonceServer { script, .. } = nonce_server().await;
    let numbers = AtomicUsize::new(0);
    let base = script.url("");
    let server = Script::start(move |request| match &*request.path {
        "/mcp" if request.authorization().is_some() => Reply::status(401)
            .with("www-authenticate", "DPoP error=\"use_dpop_nonce\"")
            .with("dpop-nonce", &format!("n-{}", numbers.fetch_add(1, Ordering::SeqCst))),
        "/mcp" => Reply::status(401).with("www-authenticate", "DPoP"),
        "/.well-known/oauth-protected-resource/mcp" => {
            Reply::json(200, json!({ "resource": format!("{}/mcp", request.base), "authorization_servers": [base] }))
        }
        _ => Reply::status(404),
    })
    .await;
    let browser = Browser::new();
    let mut client = OAuth::new("agent").login(browser.login()).layer().layer(plain_client());
    assert_eq!(client.call(request(&server)).await.unwrap().status(), 401);
    assert_eq!((server.at("/mcp").len(), script.at("/token").len(), browser.windows()), (3, 1, 1));
}

#[tokio::test]
async fn the_clock_of_proofs_follows_the_server() {
    let date = std::time::SystemTime::now() + Duration::from_secs(3600);
    let NonceServer { script, .. } = nonce_server().await;
    let base = script.url("");
    let server = Script::start(move |request| match &*request.path {
        "/mcp" if request.authorization().is_none() => Reply::status(401).with("www-authenticate", "DPoP"),
        "/mcp" => {
            let now = date.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            let is_right = proof(&request).unwrap()["iat"].as_u64().unwrap().abs_diff(now) < 60;
            let reply = if is_right { Reply::status(200) } else { Reply::status(401) };
            reply
                .with("www-authenticate", "DPoP error=\"invalid_dpop_proof\"")
                .with("date", &httpdate::fmt_http_date(date))
        }
        "/.well-known/oauth-protected-resource/mcp" => {
            Reply::json(200, json!({ "resource": format!("{}/mcp", request.base), "authorization_servers": [base] }))
        }
        _ => Reply::status(404),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login());
    let mut client = auth.layer().layer(plain_client());
    assert_eq!(client.call(request(&server)).await.unwrap().status(), 200);
    // Also after a refresh, which has the same key.
    auth.refresh_now(server.url("/mcp")).await.unwrap();
    assert_eq!(client.call(request(&server)).await.unwrap().status(), 200);
    assert_eq!(server.at("/mcp").len(), 4);
}

#[tokio::test]
async fn the_clock_of_proofs_for_tokens_follows_the_authorization_server() {
    let date = std::time::SystemTime::now() + Duration::from_secs(3600);
    let server = Script::start(move |request| match &*request.path {
        "/token" => {
            let now = date.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
            let is_right = proof(&request).unwrap()["iat"].as_u64().unwrap().abs_diff(now) < 60;
            let mut tokens = tokens();
            tokens["token_type"] = json!("DPoP");
            let reply = if is_right { Reply::json(200, tokens) } else { Reply::error(400, "invalid_dpop_proof") };
            reply.with("date", &httpdate::fmt_http_date(date))
        }
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("agent").login(Browser::new().login()).dpop(Dpop::Always);
    auth.token(server.url("/mcp")).await.unwrap();
    assert_eq!(server.at("/token").len(), 2);
}

#[tokio::test]
async fn a_demanded_proof_that_is_answered_with_a_bearer_token_is_an_error() {
    let server = Script::start(|request| provider(&request)).await;
    let auth = OAuth::new("agent").login(Browser::new().login()).dpop(Dpop::Always);
    let error = auth.token(server.url("/mcp")).await.unwrap_err().to_string();
    assert!(error.contains("it is not bound to the key (DPoP), although that was demanded"), "{error}");
}

#[tokio::test]
async fn no_algorithm_in_common_is_an_error_before_the_login() {
    let server = Script::start(|request| match &*request.path {
        "/.well-known/oauth-authorization-server" => {
            let mut metadata = server_metadata(&request.base);
            metadata["dpop_signing_alg_values_supported"] = json!(["RS256"]);
            Reply::json(200, metadata)
        }
        _ => provider(&request),
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login()).dpop(Dpop::Always);
    let error = auth.token(server.url("/mcp")).await.unwrap_err().to_string();
    assert!(error.contains("lists no algorithm for DPoP that is supported"), "{error}");
    assert_eq!(browser.windows(), 0);
}

#[tokio::test]
async fn a_demand_for_a_nonce_beside_another_challenge_needs_no_other_token() {
    let server = Script::start(|request| {
        let nonce = proof(&request).and_then(|claims| Some(claims["nonce"].as_str()?.to_owned()));
        match &*request.path {
            "/mcp" if request.authorization().is_some() && nonce.as_deref() == Some("nonce-2") => {
                Reply::json(200, json!({}))
            }
            "/mcp" => {
                let reply = Reply::status(401).with("www-authenticate", "Bearer realm=\"notes\"");
                let reply = reply.with("www-authenticate", "DPoP algs=\"ES256\", error=\"use_dpop_nonce\"");
                reply.with("dpop-nonce", "nonce-2")
            }
            "/token" => {
                let token = json!({ "access_token": "access-1", "token_type": "DPoP", "expires_in": 3600 });
                Reply::json(200, token)
            }
            _ => provider(&request),
        }
    })
    .await;
    let browser = Browser::new();
    let auth = OAuth::new("agent").login(browser.login()).dpop(Dpop::Always);
    let mut client = auth.layer().layer(plain_client());
    assert_eq!(client.call(request(&server)).await.unwrap().status(), 200);
    assert_eq!((server.at("/token").len(), browser.windows()), (1, 1));
}
