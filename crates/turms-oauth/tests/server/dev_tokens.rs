//! Refresh tokens, client credentials, introspection, revocation and keys of the development server.

use std::time::Duration;

use serde_json::{Value, json};
use turms_oauth::dev::{DevClient, DevServer, DevServerBuilder, DevUser};
use turms_oauth::{Algorithm, JwkSet, Jws, SigningKey};

use crate::agent::{Agent, Login, basic, decode};

const RESOURCE: &str = "https://notes.example.com/mcp";

fn builder() -> DevServerBuilder {
    DevServer::builder()
        .user(DevUser::new("alice").claim("email", "alice@example.com"))
        .client(DevClient::public("app").redirect_uri("http://127.0.0.1/callback"))
        .client(DevClient::public("other").redirect_uri("http://127.0.0.1/callback"))
        .client(DevClient::with_secret("robot", "a:b c%"))
        .scopes(["openid", "read", "write"])
        .auto_approve("alice")
}

async fn log_in(agent: &mut Agent, server: &DevServer) -> Value {
    let login = Login::new("app").with("resource", RESOURCE);
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    agent.post(server.url("/token"), &login.exchange(&code)).await.ok()
}

fn refresh_form<'a>(client: &'a str, token: &'a Value) -> Vec<(&'a str, &'a str)> {
    vec![("grant_type", "refresh_token"), ("client_id", client), ("refresh_token", token.as_str().unwrap())]
}

#[tokio::test]
async fn claims_of_a_user_give_no_rights() {
    let alice = DevUser::new("alice").claim("scope", "admin").claim("scp", ["admin"]).claim("cnf", json!({"jkt": "x"}));
    let server = DevServer::builder()
        .user(alice)
        .client(DevClient::public("app").redirect_uri("http://127.0.0.1/callback"))
        .scopes(["read"])
        .auto_approve("alice")
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let mut agent = Agent::new();
    let login = Login::new("app").with("scope", " ");
    let code = agent.get(login.url(&server.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(server.url("/token"), &login.exchange(&code)).await.ok();
    let claims = decode(tokens["access_token"].as_str().unwrap()).1;
    assert_eq!((claims.get("scope"), claims.get("scp"), claims.get("cnf")), (None, None, None), "{claims}");
}

#[tokio::test]
async fn a_refresh_token_is_replaced_and_its_reuse_revokes_the_login() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let first = log_in(&mut agent, &server).await;
    let mut form = refresh_form("app", &first["refresh_token"]);
    form.push(("resource", RESOURCE));
    let second = agent.post(server.url("/token"), &form).await.ok();
    assert_ne!(second["refresh_token"], first["refresh_token"]);
    assert_eq!(decode(second["access_token"].as_str().unwrap()).1["aud"], RESOURCE);
    assert_eq!(server.grants("refresh_token"), 1);

    let reuse = agent.post(server.url("/token"), &refresh_form("app", &first["refresh_token"])).await;
    assert_eq!(reuse.error(), (400, "invalid_grant".to_owned()));
    let successor = agent.post(server.url("/token"), &refresh_form("app", &second["refresh_token"])).await;
    assert_eq!(successor.error(), (400, "invalid_grant".to_owned()), "the whole login is revoked");
}

#[tokio::test]
async fn a_refresh_can_narrow_rights_and_never_widen_them() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let mut tokens = log_in(&mut agent, &server).await;
    for (name, value, error) in [
        ("scope", "read admin", "invalid_scope"),
        ("resource", "https://other.example.com/mcp", "invalid_target"),
        ("client_id", "other", "invalid_grant"),
    ] {
        let mut form = refresh_form("app", &tokens["refresh_token"]);
        form.retain(|(own, _)| *own != name);
        form.push((name, value));
        let answer = agent.post(server.url("/token"), &form).await;
        assert_eq!(answer.error(), (400, error.to_owned()), "a refused request does not use the token");
    }
    let mut form = refresh_form("app", &tokens["refresh_token"]);
    form.push(("scope", "read"));
    tokens = agent.post(server.url("/token"), &form).await.ok();
    assert_eq!(tokens["scope"], "read");
    tokens = agent.post(server.url("/token"), &refresh_form("app", &tokens["refresh_token"])).await.ok();
    assert_eq!(tokens["scope"], "openid read write");
}

#[tokio::test]
async fn logins_and_access_tokens_expire() {
    let server = builder().refresh_token_lifetime(Duration::from_secs(3600)).bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let tokens = log_in(&mut agent, &server).await;
    let introspect = [("token", tokens["access_token"].as_str().unwrap())];
    let (name, value) = basic("robot", "a%3Ab+c%25");
    assert_eq!(agent.post_with(server.url("/introspect"), &introspect, &[(name, &value)]).await.ok()["active"], true);
    server.advance(Duration::from_secs(300));
    assert_eq!(agent.post_with(server.url("/introspect"), &introspect, &[(name, &value)]).await.ok()["active"], false);
    let tokens = agent.post(server.url("/token"), &refresh_form("app", &tokens["refresh_token"])).await.ok();
    server.advance(Duration::from_secs(3300));
    let answer = agent.post(server.url("/token"), &refresh_form("app", &tokens["refresh_token"])).await;
    assert_eq!(answer.error(), (400, "invalid_grant".to_owned()), "a refresh does not prolong the login");
}

#[tokio::test]
async fn refresh_tokens_can_be_disabled() {
    let server = builder().refresh_tokens(false).bind("127.0.0.1:0").await.unwrap();
    let tokens = log_in(&mut Agent::new(), &server).await;
    assert!(tokens["refresh_token"].is_null());
}

#[tokio::test]
async fn a_client_gets_a_token_for_itself_by_its_secret() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let form = [("grant_type", "client_credentials"), ("scope", "read"), ("resource", RESOURCE)];
    let (name, value) = basic("robot", "a%3Ab+c%25");
    let tokens = agent.post_with(server.url("/token"), &form, &[(name, &value)]).await.ok();
    let claims = decode(tokens["access_token"].as_str().unwrap()).1;
    assert_eq!((&claims["sub"], &claims["aud"], &claims["scope"]), (&json!("robot"), &json!(RESOURCE), &json!("read")));
    assert!(tokens["refresh_token"].is_null() && tokens["id_token"].is_null());

    let in_form = [form[0], ("client_id", "robot"), ("client_secret", "a:b c%")];
    assert_eq!(agent.post(server.url("/token"), &in_form).await.ok()["scope"], "openid read write");
    let twice = agent.post_with(server.url("/token"), &in_form, &[(name, &value)]).await;
    assert_eq!(twice.error(), (400, "invalid_request".to_owned()));
    for (user, password) in [("robot", "wrong"), ("nobody", "x"), ("robot", "")] {
        let (name, value) = basic(user, password);
        let answer = agent.post_with(server.url("/token"), &form, &[(name, &value)]).await;
        assert_eq!(answer.error(), (401, "invalid_client".to_owned()));
        assert!(answer.header("www-authenticate").starts_with("Basic "));
    }
    let public = [form[0], ("client_id", "app")];
    assert_eq!(agent.post(server.url("/token"), &public).await.error(), (400, "unauthorized_client".to_owned()));
    let without_secret = [form[0], ("client_id", "robot")];
    assert_eq!(agent.post(server.url("/token"), &without_secret).await.error(), (401, "invalid_client".to_owned()));
    let bad_scope = [form[0], ("scope", "admin"), in_form[1], in_form[2]];
    assert_eq!(agent.post(server.url("/token"), &bad_scope).await.error(), (400, "invalid_scope".to_owned()));
}

#[tokio::test]
async fn a_client_authenticates_with_a_signed_assertion() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap().key_id("k1");
    let keys = JwkSet::new([key.public_jwk()]);
    let server = builder().client(DevClient::with_keys("signer", keys)).bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let now = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let assertion = |changes: Value| {
        let mut claims = json!({"iss": "signer", "sub": "signer", "aud": server.issuer(), "exp": now + 60, "iat": now, "jti": "one"});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&[("typ", json!("JWT"))], &claims)
    };
    let mut send = async |assertion: &str| {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"),
            ("client_assertion", assertion),
        ];
        agent.post(server.url("/token"), &form).await
    };
    let good = assertion(json!({}));
    assert_eq!(decode(send(&good).await.ok()["access_token"].as_str().unwrap()).1["sub"], "signer");
    assert_eq!(send(&good).await.error(), (401, "invalid_client".to_owned()), "an assertion is used once");
    for changes in [
        json!({"jti": "2", "aud": "https://other.example.com"}),
        json!({"jti": "2b", "aud": [server.issuer(), "https://other.example.com"]}),
        json!({"jti": "3", "exp": now - 100}),
        json!({"jti": "4", "exp": now + 86400}),
        json!({"jti": "5", "iss": "robot"}),
        json!({"jti": "6", "nbf": now + 600}),
        json!({"jti": null}),
    ] {
        assert_eq!(send(&assertion(changes.clone())).await.error(), (401, "invalid_client".to_owned()), "{changes}");
    }
    let foreign = SigningKey::generate(Algorithm::Es256).unwrap().key_id("k1");
    let claims = json!({"iss": "signer", "sub": "signer", "aud": server.issuer(), "exp": now + 60, "jti": "7"});
    assert_eq!(send(&foreign.sign(&[], &claims)).await.error(), (401, "invalid_client".to_owned()));
    assert_eq!(send("not a token").await.error(), (401, "invalid_client".to_owned()));
    send(&assertion(json!({"jti": "8", "aud": [server.url("/token")]}))).await.ok();
}

#[tokio::test]
async fn introspection_needs_credentials_and_describes_tokens() {
    let server = builder().opaque_tokens(true).bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let tokens = log_in(&mut agent, &server).await;
    let token = tokens["access_token"].as_str().unwrap();
    assert!(!token.contains('.'), "the token is opaque");
    let url = server.url("/introspect");
    assert_eq!(agent.post(&url, &[("token", token)]).await.error(), (401, "invalid_client".to_owned()));
    let public = agent.post(&url, &[("token", token), ("client_id", "app")]).await;
    assert_eq!(public.error(), (401, "invalid_client".to_owned()));
    let by_robot = |token: &str| vec![("token".to_owned(), token.to_owned())];
    let (name, value) = basic("robot", "a%3Ab+c%25");
    let mut introspect = async |token: &str| {
        let form = by_robot(token);
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (&**name, &**value)).collect();
        agent.post_with(&url, &form, &[(name, &value)]).await.ok()
    };
    let answer = introspect(token).await;
    assert_eq!((&answer["active"], &answer["sub"], &answer["aud"]), (&json!(true), &json!("alice"), &json!(RESOURCE)));
    assert_eq!((&answer["token_type"], &answer["client_id"]), (&json!("Bearer"), &json!("app")));
    assert_eq!(introspect("unknown").await, json!({"active": false}));
    server.revoke_all();
    assert_eq!(introspect(token).await, json!({"active": false}));
    let refresh = agent.post(server.url("/token"), &refresh_form("app", &tokens["refresh_token"])).await;
    assert_eq!(refresh.error(), (400, "invalid_grant".to_owned()));
}

#[tokio::test]
async fn a_client_revokes_its_own_tokens_only() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let tokens = log_in(&mut agent, &server).await;
    let (access, refresh) = (tokens["access_token"].as_str().unwrap(), tokens["refresh_token"].as_str().unwrap());
    let url = server.url("/revoke");
    let foreign = agent.post(&url, &[("token", refresh), ("client_id", "other")]).await;
    assert_eq!(foreign.error(), (400, "invalid_grant".to_owned()));
    assert_eq!(agent.post(&url, &[("token", refresh)]).await.error(), (401, "invalid_client".to_owned()));
    let info = |token: &str| vec![("authorization", format!("Bearer {token}"))];
    let user_info = async |token: &str| {
        let headers = info(token);
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, &**value)).collect();
        Agent::new().send(http::Method::GET, &server.url("/userinfo"), &headers, bytes::Bytes::new()).await
    };
    assert_eq!(user_info(access).await.ok(), json!({"sub": "alice", "email": "alice@example.com"}));
    assert_eq!(agent.post(&url, &[("token", "unknown"), ("client_id", "app")]).await.status, 200);
    assert_eq!(agent.post(&url, &[("token", access), ("client_id", "app")]).await.status, 200);
    assert_eq!(user_info(access).await.error(), (401, "invalid_token".to_owned()));
    let renewed = agent.post(server.url("/token"), &refresh_form("app", &tokens["refresh_token"])).await.ok();
    let form = [("token", renewed["refresh_token"].as_str().unwrap()), ("client_id", "app")];
    assert_eq!(agent.post(&url, &form).await.status, 200);
    let access = renewed["access_token"].as_str().unwrap();
    assert_eq!(user_info(access).await.error(), (401, "invalid_token".to_owned()), "revoked with the refresh token");
}

#[tokio::test]
async fn keys_rotate_and_the_previous_one_stays_until_the_next_time() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let first = server.mint(json!({"sub": "alice"}));
    let mut keys = async || {
        let keys: JwkSet = serde_json::from_value(agent.get(server.url("/jwks")).await.ok()).unwrap();
        keys
    };
    let verifies =
        |token: &str, keys: &JwkSet| keys.keys.iter().any(|key| Jws::parse(token).unwrap().verify(key).is_ok());
    assert!(verifies(&first, &keys().await));
    server.rotate_keys();
    let second = server.mint(json!({"sub": "alice"}));
    assert_ne!(decode(&first).0["kid"], decode(&second).0["kid"]);
    let now = keys().await;
    assert!(verifies(&first, &now) && verifies(&second, &now));
    server.rotate_keys();
    let now = keys().await;
    assert!(!verifies(&first, &now) && verifies(&second, &now));
    assert_eq!(server.requests("/jwks"), 3);
}

#[tokio::test]
async fn a_person_with_many_logins_does_not_displace_those_of_others() {
    let server = builder().bind("127.0.0.1:0").await.unwrap();
    let mut agent = Agent::new();
    let first = log_in(&mut agent, &server).await;
    let second = log_in(&mut agent, &server).await;
    for _ in 0..99 {
        log_in(&mut agent, &server).await;
    }
    let oldest = agent.post(server.url("/token"), &refresh_form("app", &first["refresh_token"])).await;
    assert_eq!(oldest.error(), (400, "invalid_grant".to_owned()));
    agent.post(server.url("/token"), &refresh_form("app", &second["refresh_token"])).await.ok();
}
