//! Token exchange (ID-JAG) and JWT bearer at the development server.

use serde_json::{Value, json};
use turms_oauth::dev::{DevClient, DevServer};
use turms_oauth::{Algorithm, JwkSet, SigningKey};

use crate::agent::{Agent, Login, decode};

const RESOURCE: &str = "https://notes.example.com/mcp";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// An identity provider and an authorization server that trusts it.
async fn enterprise() -> (DevServer, DevServer) {
    let issuer = "https://auth.example.com";
    let provider = DevServer::builder()
        .client(DevClient::public("agent-at-idp").redirect_uri("http://127.0.0.1/callback").id_at(issuer, "agent"))
        .client(DevClient::public("other").redirect_uri("http://127.0.0.1/callback"))
        .auto_approve("alice")
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let server = DevServer::builder()
        .issuer(issuer)
        .client(DevClient::with_secret("agent", "s3cret"))
        .client(DevClient::with_secret("other", "s3cret"))
        .client(DevClient::public("public"))
        .scopes(["read", "write"])
        .identity_provider(provider.issuer(), provider.jwk_set())
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    (provider, server)
}

fn address(server: &DevServer) -> String {
    format!("http://{}", server.local_addr().unwrap())
}

async fn id_token(agent: &mut Agent, provider: &DevServer) -> String {
    let login = Login::new("agent-at-idp").with("scope", "openid");
    let code = agent.get(login.url(&provider.url("/authorize"))).await.param("code").unwrap();
    let tokens = agent.post(provider.url("/token"), &login.exchange(&code)).await.ok();
    tokens["id_token"].as_str().unwrap().to_owned()
}

fn exchange(id_token: &str) -> Vec<(&str, &str)> {
    vec![
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id-jag"),
        ("subject_token", id_token),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", "https://auth.example.com"),
        ("resource", RESOURCE),
        ("scope", "read"),
        ("client_id", "agent-at-idp"),
    ]
}

async fn bearer(agent: &mut Agent, server: &DevServer, assertion: &str, more: &[(&str, &str)]) -> crate::agent::Answer {
    let mut form = vec![("grant_type", JWT_BEARER), ("assertion", assertion)];
    form.extend_from_slice(more);
    agent.post(format!("{}/token", address(server)), &form).await
}

const AGENT: [(&str, &str); 2] = [("client_id", "agent"), ("client_secret", "s3cret")];

#[tokio::test]
async fn an_id_token_becomes_an_access_token_at_another_server() {
    let (provider, server) = enterprise().await;
    let mut agent = Agent::new();
    let id_token = id_token(&mut agent, &provider).await;
    let response = agent.post(provider.url("/token"), &exchange(&id_token)).await.ok();
    assert_eq!((&response["token_type"], &response["scope"]), (&json!("N_A"), &json!("read")));
    let assertion = response["access_token"].as_str().unwrap();
    let (header, claims) = decode(assertion);
    assert_eq!(header["typ"], "oauth-id-jag+jwt");
    assert_eq!(
        (&claims["client_id"], &claims["sub"], &claims["resource"]),
        (&json!("agent"), &json!("alice"), &json!(RESOURCE))
    );

    let foreign = [("client_id", "other"), ("client_secret", "s3cret")];
    assert_eq!(bearer(&mut agent, &server, assertion, &foreign).await.error().1, "invalid_grant");
    assert_eq!(
        bearer(&mut agent, &server, assertion, &[("client_id", "public")]).await.error().1,
        "unauthorized_client"
    );
    assert_eq!(bearer(&mut agent, &server, assertion, &[]).await.error().1, "invalid_client");
    let more = [AGENT[0], AGENT[1], ("scope", "read write")];
    assert_eq!(bearer(&mut agent, &server, assertion, &more).await.error().1, "invalid_scope");
    let more = [AGENT[0], AGENT[1], ("resource", "https://other.example.com/mcp")];
    assert_eq!(bearer(&mut agent, &server, assertion, &more).await.error().1, "invalid_target");

    let tokens = bearer(&mut agent, &server, assertion, &AGENT).await.ok();
    assert!(tokens["refresh_token"].is_null());
    let claims = decode(tokens["access_token"].as_str().unwrap()).1;
    assert_eq!((&claims["sub"], &claims["aud"], &claims["scope"]), (&json!("alice"), &json!(RESOURCE), &json!("read")));
    let replay = bearer(&mut agent, &server, assertion, &AGENT).await;
    assert_eq!(replay.error(), (400, "invalid_grant".to_owned()), "an assertion is used once");
}

#[tokio::test]
async fn only_an_id_token_of_the_client_itself_can_be_exchanged() {
    let (provider, _server) = enterprise().await;
    let mut agent = Agent::new();
    let good = id_token(&mut agent, &provider).await;
    let access = provider.mint(json!({"sub": "alice", "aud": "agent-at-idp"}));
    let expired = provider.mint_as("JWT", json!({"sub": "alice", "aud": "agent-at-idp", "exp": 1}));
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let forged = key.sign(&[("typ", json!("JWT"))], &decode(&good).1);
    for (name, value, error) in [
        ("subject_token", &*access, "invalid_request"),
        ("subject_token", &expired, "invalid_request"),
        ("subject_token", &forged, "invalid_request"),
        ("client_id", "other", "invalid_request"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token", "invalid_request"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:access_token", "invalid_request"),
        ("audience", "not a url", "invalid_target"),
    ] {
        let mut form = exchange(&good);
        form.retain(|(own, _)| *own != name);
        form.push((name, value));
        assert_eq!(agent.post(provider.url("/token"), &form).await.error(), (400, error.to_owned()), "{name}={value}");
    }
    agent.post(provider.url("/token"), &exchange(&good)).await.ok();
}

#[tokio::test]
async fn forged_and_foreign_identity_assertions_are_refused() {
    let (provider, server) = enterprise().await;
    let mut agent = Agent::new();
    let now = decode(&provider.mint(json!({}))).1["iat"].as_u64().unwrap();
    let with = |changes: Value| {
        let mut claims =
            json!({"sub": "alice", "aud": "https://auth.example.com", "client_id": "agent", "exp": now + 60});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        claims
    };
    let typed = "oauth-id-jag+jwt";
    for changes in [
        json!({"aud": "https://other.example.com"}),
        json!({"aud": ["https://auth.example.com", "https://other.example.com"]}),
        json!({"aud": null}),
        json!({"client_id": "other"}),
        json!({"client_id": null}),
        json!({"exp": now - 100}),
        json!({"exp": null}),
        json!({"exp": now + 86400}),
        json!({"nbf": now + 600}),
        json!({"jti": null}),
        json!({"sub": null}),
        json!({"iss": "https://unknown.example.com"}),
        // Rights in a form that is not understood must not count as no restriction.
        json!({"scope": ["read"]}),
        json!({"scope": 1}),
        json!({"resource": {"uri": RESOURCE}}),
        json!({"resource": [RESOURCE, 1]}),
        json!({"resource": 1}),
        json!({"aud": ["https://auth.example.com", 1]}),
    ] {
        let assertion = provider.mint_as(typed, with(changes.clone()));
        assert_eq!(bearer(&mut agent, &server, &assertion, &AGENT).await.error().1, "invalid_grant", "{changes}");
    }
    let untyped = provider.mint_as("JWT", with(json!({})));
    assert_eq!(bearer(&mut agent, &server, &untyped, &AGENT).await.error().1, "invalid_grant", "another type");
    let key = SigningKey::generate(Algorithm::Es256).unwrap();
    let forged = key.sign(&[("typ", json!(typed))], &with(json!({"iss": provider.issuer(), "jti": "1"})));
    assert_eq!(bearer(&mut agent, &server, &forged, &AGENT).await.error().1, "invalid_grant", "another key");
    let good = provider.mint_as(typed, with(json!({})));
    assert_eq!(bearer(&mut agent, &server, &good, &AGENT).await.ok()["scope"], "read write");
}

#[tokio::test]
async fn a_workload_gets_a_token_for_the_token_of_its_platform() {
    let key = SigningKey::generate(Algorithm::Es256).unwrap().key_id("p");
    let server = DevServer::builder()
        .workload_issuer("https://platform.example.com", JwkSet::new([key.public_jwk()]))
        .scopes(["read"])
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let mut agent = Agent::new();
    let now = decode(&server.mint(json!({}))).1["iat"].as_u64().unwrap();
    let sign = |changes: Value| {
        let mut claims =
            json!({"iss": "https://platform.example.com", "sub": "pod-1", "aud": server.issuer(), "exp": now + 600});
        claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        key.sign(&[("typ", json!("JWT"))], &claims)
    };
    let good = sign(json!({}));
    for _ in 0..2 {
        let tokens = bearer(&mut agent, &server, &good, &[("resource", RESOURCE)]).await.ok();
        let claims = decode(tokens["access_token"].as_str().unwrap()).1;
        assert_eq!(
            (&claims["sub"], &claims["aud"], &claims["client_id"]),
            (&json!("pod-1"), &json!(RESOURCE), &json!("pod-1"))
        );
    }
    for changes in [json!({"aud": "https://other.example.com"}), json!({"exp": now - 100}), json!({"iss": "https://x"})]
    {
        assert_eq!(
            bearer(&mut agent, &server, &sign(changes.clone()), &[]).await.error().1,
            "invalid_grant",
            "{changes}"
        );
    }
}
