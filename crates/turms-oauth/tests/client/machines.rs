//! Grants without a person: client credentials, identity assertions of an enterprise, and identities of workloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use turms_client::Client;
use turms_oauth::dev::{DevClient, DevServer};
use turms_oauth::{
    Algorithm, AuthorizationRequest, Callback, ClientCredentials, ClientIdentity, CodeExchange, Enterprise, Fetcher,
    Jwk, JwkSet, Jws, OAuth, Secret, SigningKey, TokenParameters, Workload, authorization_url, check_callback,
    discover_server, exchange_code, pkce, random_token,
};
use turms_testkit::eventually;

use crate::script::{Received, Reply, Script, provider, resource_metadata, server_metadata};
use crate::world::{World, call, chain, connect, dev, open};

#[tokio::test]
async fn a_program_logs_in_with_its_secret() {
    let world = World::with(dev().client(DevClient::with_secret("robot", "a:b c%"))).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret("robot", "a:b c%"));
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "robot");
    assert_eq!((world.dev.grants("client_credentials"), world.dev.requests("/register")), (1, 0));
    // The token expires, and another one is obtained as the first was.
    world.expire_at_server();
    assert_eq!(call(&client, "whoami").await.unwrap(), "robot");
    assert_eq!(world.dev.grants("client_credentials"), 2);
}

#[tokio::test]
async fn a_program_logs_in_with_its_key() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let keys: JwkSet = serde_json::from_value(json!({ "keys": [key.public_jwk()] })).unwrap();
    let world = World::with(dev().client(DevClient::with_keys("robot", keys))).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::key("robot", key));
    let client = world.connect(&auth).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "robot");
    // Each assertion can be used once: a second request has another.
    auth.refresh_now(&world.server.url).await.unwrap();
    assert_eq!(world.dev.grants("client_credentials"), 2);
}

#[tokio::test]
async fn a_secret_is_sent_in_the_way_that_the_metadata_lists() {
    for (methods, is_basic) in
        [(json!(["client_secret_basic"]), true), (json!(["client_secret_post"]), false), (Value::Null, true)]
    {
        let server = Script::start(move |request| match &*request.path {
            "/.well-known/oauth-authorization-server" => {
                let mut metadata = server_metadata(&request.base);
                metadata["token_endpoint_auth_methods_supported"] = methods.clone();
                Reply::json(200, metadata)
            }
            _ => provider(&request),
        })
        .await;
        OAuth::new("r").grant(ClientCredentials::secret("robot", "s3cret")).token(server.url("/mcp")).await.unwrap();
        let request = &server.at("/token")[0];
        assert_eq!(request.field("grant_type").as_deref(), Some("client_credentials"));
        assert_eq!(request.field("scope").as_deref(), Some("notes:read"));
        assert_eq!(request.field("resource"), Some(server.url("/mcp")));
        if is_basic {
            assert_eq!((request.basic().as_deref(), request.field("client_secret")), (Some("robot:s3cret"), None));
        } else {
            assert_eq!((request.basic(), request.field("client_secret").as_deref()), (None, Some("s3cret")));
        }
    }
}

#[tokio::test]
async fn credentials_for_one_issuer_are_not_sent_to_another() {
    let grants = |issuer: &str| {
        let key = SigningKey::generate(Algorithm::Es256).unwrap();
        [
            OAuth::new("r").grant(ClientCredentials::secret("robot", "s3cret").issuer(issuer)),
            OAuth::new("r").grant(ClientCredentials::key("robot", key).issuer(issuer)),
            OAuth::new("r").grant(Workload::token("s3cret").issuer(issuer)),
            OAuth::new("r").grant(Enterprise::new("http://127.0.0.1:1", "s3cret").issuer(issuer)),
        ]
    };
    let evil = Script::start(|request| provider(&request)).await;
    for auth in grants("https://auth.example.com") {
        let error = auth.token(evil.url("/mcp")).await.unwrap_err().to_string();
        assert!(
            error.ends_with("is not https://auth.example.com, which the credentials of the client are for"),
            "{error}"
        );
    }
    assert!(evil.at("/token").is_empty());
    let [secret, key, workload, _] = grants(&evil.url(""));
    for auth in [secret, key, workload] {
        auth.token(evil.url("/mcp")).await.unwrap();
    }
}

#[tokio::test]
async fn an_expired_token_of_a_program_is_replaced_before_the_request() {
    let server = Script::start(|request| match &*request.path {
        "/token" => {
            let mut tokens = crate::script::tokens();
            tokens["expires_in"] = json!(0);
            Reply::json(200, tokens)
        }
        _ => provider(&request),
    })
    .await;
    let auth = OAuth::new("r").grant(ClientCredentials::secret("robot", "s3cret"));
    let first = auth.token(server.url("/mcp")).await.unwrap();
    assert_ne!(auth.token(server.url("/mcp")).await.unwrap(), first);
    assert_eq!(server.at("/token").len(), 2);
}

#[tokio::test]
async fn a_token_of_a_program_is_replaced_ahead_of_its_end() {
    let world = World::with(dev().client(DevClient::with_secret("robot", "s3cret"))).await;
    let auth = |store| OAuth::new("robot").store(store).grant(ClientCredentials::secret("robot", "s3cret"));
    let first = auth(world.store.clone()).token(&world.server.url).await.unwrap();
    world
        .change_stored(|login| {
            login.obtained_at = SystemTime::now() - Duration::from_secs(200);
            login.expires_at = Some(SystemTime::now() + Duration::from_secs(100));
        })
        .await;
    let auth = auth(world.store.clone());
    assert_eq!(auth.token(&world.server.url).await.unwrap(), first, "the call waits for the renewal");
    eventually("the renewal", async || world.stored().await.unwrap().access_token != first).await;
    assert_eq!(world.dev.grants("client_credentials"), 2);
}

#[tokio::test]
async fn a_rejected_secret_is_an_error_of_the_authorization_server() {
    let world = World::with(dev().client(DevClient::with_secret("robot", "s3cret"))).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::secret("robot", "wr0ng-s3cret"));
    let error = auth.token(&world.server.url).await.unwrap_err();
    assert!(error.is_invalid_client() && !chain(&error).contains("wr0ng-s3cret"), "{}", chain(&error));
}

/// Responds as the identity provider of an enterprise.
fn identity_provider(request: &Received) -> Reply {
    match &*request.path {
        "/.well-known/openid-configuration" => Reply::json(200, server_metadata(&request.base)),
        "/token" => Reply::json(
            200,
            json!({
                "access_token": "id-jag-1", "token_type": "N_A",
                "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            }),
        ),
        _ => Reply::status(404),
    }
}

#[tokio::test]
async fn an_id_token_of_an_enterprise_is_exchanged_for_a_token() {
    let idp = Script::start(|request| identity_provider(&request)).await;
    let server = Script::start(|request| provider(&request)).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let asked = calls.clone();
    let id_token = move || {
        asked.fetch_add(1, Ordering::SeqCst);
        async { Ok(Secret::new("id-token-1")) }
    };
    let grant = Enterprise::with(idp.url(""), id_token)
        .identity_provider_client(ClientIdentity::public("agent-at-idp"))
        .client("agent", "s3cret");
    let token = OAuth::new("agent").grant(grant).token(server.url("/mcp")).await.unwrap();
    assert!(token.expose().starts_with("access-") && calls.load(Ordering::SeqCst) == 1);

    let exchange = &idp.at("/token")[0];
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", "id-token-1"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", &server.url("")),
        ("resource", &server.url("/mcp")),
        ("scope", "notes:read"),
        ("client_id", "agent-at-idp"),
    ] {
        assert_eq!(exchange.field(name).as_deref(), Some(value), "{name}");
    }
    let bearer = &server.at("/token")[0];
    assert_eq!(bearer.field("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    assert_eq!(bearer.field("assertion").as_deref(), Some("id-jag-1"));
    assert_eq!(bearer.basic().as_deref(), Some("agent:s3cret"));
    assert!(bearer.field("subject_token").is_none(), "the ID token leaves the enterprise");
}

/// Logs alice in at the identity provider of her enterprise.
async fn id_token(idp: &DevServer) -> Secret {
    let fetcher = Fetcher::for_server(&idp.issuer().parse().unwrap());
    let metadata = discover_server(&fetcher, idp.issuer()).await.unwrap();
    let (pkce, state, redirect) = (pkce(), random_token(), "http://127.0.0.1/callback");
    let request = AuthorizationRequest::new("agent", redirect, &state, &pkce).scopes(["openid"]);
    let url = authorization_url(&fetcher, &metadata, &request).unwrap();
    let callback = Callback::parse(&open(&url).await.unwrap()).unwrap();
    let exchange = CodeExchange::new(check_callback(&metadata, &state, &callback).unwrap(), redirect, &pkce);
    let (client, parameters) = (ClientIdentity::public("agent"), TokenParameters::new());
    exchange_code(&fetcher, &metadata, &client, &exchange, &parameters).await.unwrap().id_token.unwrap()
}

#[tokio::test]
async fn a_member_of_an_enterprise_calls_a_tool_without_another_login() {
    let idp = DevServer::builder()
        .client(DevClient::public("agent").redirect_uri("http://127.0.0.1/callback"))
        .auto_approve("alice")
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let client = DevClient::with_secret("agent", "s3cret");
    let world = World::with(dev().client(client).identity_provider(idp.issuer(), idp.jwk_set())).await;
    let grant = Enterprise::new(idp.issuer(), id_token(&idp).await.expose())
        .identity_provider_client(ClientIdentity::public("agent"))
        .client("agent", "s3cret");
    let client = world.connect(&OAuth::new("agent").grant(grant)).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "alice");
    assert_eq!(world.browser.windows(), 0);
}

#[tokio::test]
async fn a_workload_calls_a_tool_with_the_token_of_its_platform() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let platform = "https://platform.example.com";
    let world = World::with(dev().workload_issuer(platform, JwkSet::new([key.public_jwk()]))).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({ "iss": platform, "sub": "pod-1", "aud": world.dev.issuer(), "exp": now + 600 });
    let token = key.sign(&[("typ", json!("JWT"))], &claims);
    let client = world.connect(&OAuth::new("job").grant(Workload::token(token))).await;
    assert_eq!(call(&client, "whoami").await.unwrap(), "pod-1");
}

#[tokio::test]
async fn a_token_that_is_no_identity_assertion_is_not_sent_on() {
    for issued in [Value::Null, json!("urn:ietf:params:oauth:token-type:access_token")] {
        let idp = Script::start(move |_| {
            Reply::json(200, json!({ "access_token": "t", "token_type": "N_A", "issued_token_type": issued }))
        })
        .await;
        let server = Script::start(|request| provider(&request)).await;
        let grant = Enterprise::new(idp.url(""), "id-token-1").token_endpoint(idp.url("/token"));
        let error = OAuth::new("agent").grant(grant).token(server.url("/mcp")).await.unwrap_err().to_string();
        assert!(error.contains("token exchange with the identity provider") && error.contains("ID-JAG"), "{error}");
        assert!(server.at("/token").is_empty());
    }
}

#[tokio::test]
async fn a_workload_exchanges_the_token_of_its_platform() {
    let server = Script::start(|request| provider(&request)).await;
    let auth = OAuth::new("job").grant(Workload::assertion(|| async { Ok(Secret::new("platform-1")) }));
    auth.token(server.url("/mcp")).await.unwrap();
    let request = &server.at("/token")[0];
    assert_eq!(request.field("grant_type").as_deref(), Some("urn:ietf:params:oauth:grant-type:jwt-bearer"));
    assert_eq!(request.field("assertion").as_deref(), Some("platform-1"));
    assert_eq!(request.field("resource"), Some(server.url("/mcp")));
    assert_eq!((request.field("client_id"), request.authorization()), (None, None));

    OAuth::new("job").grant(Workload::token("platform-2").client("job-1")).token(server.url("/mcp")).await.unwrap();
    assert_eq!(server.at("/token")[1].field("client_id").as_deref(), Some("job-1"));
}

#[tokio::test]
async fn an_assertion_that_is_rejected_is_not_sent_again() {
    let server = Script::start(|request| match &*request.path {
        "/token" => Reply::error(400, "invalid_grant"),
        _ => provider(&request),
    })
    .await;
    let error = OAuth::new("job").grant(Workload::token("platform-1")).token(server.url("/mcp")).await.unwrap_err();
    assert!(error.is_invalid_grant(), "{error}");
    assert_eq!(server.at("/token").len(), 1);
}

#[tokio::test]
async fn a_source_of_tokens_that_fails_is_named() {
    let server = Script::start(|request| provider(&request)).await;
    let source = || async { Err("the metadata service is down".into()) };
    let error = OAuth::new("job").grant(Workload::assertion(source)).token(server.url("/mcp")).await.unwrap_err();
    assert!(
        chain(&error).ends_with("cannot obtain the token to exchange: the metadata service is down"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn an_assertion_of_a_client_is_for_the_issuer_and_used_once() {
    let key = SigningKey::generate(Algorithm::EdDsa).unwrap();
    let public: Jwk = key.public_jwk();
    let server = Script::start(|request| provider(&request)).await;
    let auth = OAuth::new("robot").grant(ClientCredentials::key("robot", key));
    auth.token(server.url("/mcp")).await.unwrap();
    auth.refresh_now(server.url("/mcp")).await.unwrap();
    let ids: Vec<Value> = server
        .at("/token")
        .iter()
        .map(|request| {
            let assertion = request.field("client_assertion").unwrap();
            let jws = Jws::parse(&assertion).unwrap();
            jws.verify(&public).unwrap();
            let claims: Value = jws.claims().unwrap();
            assert_eq!([&claims["iss"], &claims["sub"], &claims["aud"]], ["robot", "robot", &server.url("")]);
            claims["jti"].clone()
        })
        .collect();
    assert_eq!(ids.len(), 2);
    assert_ne!(ids[0], ids[1]);
}

#[tokio::test]
async fn credentials_are_not_sent_to_an_issuer_that_the_server_names_later() {
    let evil = Script::start(|request| provider(&request)).await;
    for lifetime in [3600, 0] {
        let is_evil = Arc::new(AtomicBool::new(false));
        let (turned, issuer) = (is_evil.clone(), evil.url(""));
        let server = Script::start(move |request| match &*request.path {
            "/mcp" if turned.load(Ordering::SeqCst) => Reply::status(401).with("www-authenticate", "Bearer"),
            "/.well-known/oauth-protected-resource/mcp" if turned.load(Ordering::SeqCst) => {
                let mut metadata = resource_metadata(&request.base);
                metadata["authorization_servers"] = json!([issuer]);
                Reply::json(200, metadata)
            }
            "/token" => {
                let mut tokens = crate::script::tokens();
                tokens["expires_in"] = json!(lifetime);
                Reply::json(200, tokens)
            }
            _ => provider(&request),
        })
        .await;
        let auth = OAuth::new("r").grant(ClientCredentials::secret("robot", "s3cret"));
        auth.token(server.url("/mcp")).await.unwrap();
        is_evil.store(true, Ordering::SeqCst);
        // By a token that has expired, or by a token that the server rejects.
        let error = match lifetime {
            0 => chain(&auth.token(server.url("/mcp")).await.unwrap_err()),
            _ => chain(&connect(&server.url("/mcp"), &auth, Client::builder("r", "1.0.0")).await.unwrap_err()),
        };
        let expected = "which got the credentials before; set the issuer of the grant";
        assert!(error.contains(expected), "{lifetime}: {error}");
    }
    assert!(evil.at("/token").is_empty(), "{:?}", evil.paths());
}
