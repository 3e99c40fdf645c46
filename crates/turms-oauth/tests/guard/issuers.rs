//! Several issuers, claims in handlers, and the development server as issuer.

use std::time::Duration;

use serde_json::{Value, json};
use turms_oauth::dev::{DevClient, DevServer};
use turms_oauth::{Introspection, Issuer, JwkSet, Secret, TokenGuard, VerifyError};
use turms_testkit::messages::{call, modern_call};
use turms_testkit::raw_http::Request;

use crate::fixture::{GuardedServer, Mount, RESOURCE, assert_refused, bearer, guard_for};
use crate::issuer::{GUARD, TestIssuer};
use crate::tokens::{claims, key, sign};

fn whoami() -> Request {
    modern_call(1, "whoami", json!({}))
}

async fn seen(server: &GuardedServer, token: &str) -> Value {
    serde_json::from_str(&server.send(bearer(whoami(), token)).await.text()).unwrap()
}

#[tokio::test]
async fn the_principal_and_its_claims_reach_handlers_over_every_transport() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let token = issuer.token(mount.resource(), json!({ "scope": "notes:write x", "tenant": "t1" }));
        let expected = json!({
            "subject": "ann", "issuer": issuer.identifier, "client": "app",
            "scopes": ["notes:write", "x", "notes:read"], "tenant": "t1",
        });
        let check = |text: &str, what: &str| {
            assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected, "{what} ({mount:?})");
        };
        let whoami = || call(7, "whoami", json!({}));
        let session = server.session(&token).await;
        check(&server.send(bearer(self::whoami(), &token)).await.text(), "2026-07-28");
        check(&server.send(bearer(session.post(whoami()), &token)).await.text(), "2025-11-25");
        let mut pair = server.initialized_pair(&token).await;
        server.send(bearer(pair.post(whoami()), &token)).await.assert_accepted();
        check(pair.stream.message().await["result"]["content"][0]["text"].as_str().unwrap(), "HTTP+SSE");
        let mut socket = server.socket(&token).await;
        socket.text(&whoami().to_string()).await;
        let answer: Value = serde_json::from_str(&socket.message().await.0).unwrap();
        check(answer["result"]["content"][0]["text"].as_str().unwrap(), "WebSocket");
    }
}

#[tokio::test]
async fn each_call_of_a_session_has_the_principal_of_its_own_token() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let one = issuer.token(RESOURCE, json!({ "tenant": "one" }));
    let two = issuer.token(RESOURCE, json!({ "tenant": "two", "client_id": "other" }));
    let session = server.session(&one).await;
    let mut pair = server.initialized_pair(&one).await;
    for (token, tenant) in [(&one, "one"), (&two, "two"), (&one, "one")] {
        let request = || call(7, "whoami", json!({}));
        let text = server.send(bearer(session.post(request()), token)).await.text();
        assert!(text.contains(tenant), "{text}");
        server.send(bearer(pair.post(request()), token)).await.assert_accepted();
        let text = pair.stream.message().await.to_string();
        assert!(text.contains(tenant), "{text}");
    }
}

#[tokio::test]
async fn several_issuers_of_every_kind_are_told_apart() {
    let (remote, opaque) = (TestIssuer::start().await, TestIssuer::start().await);
    let local = key("local");
    let (id, secret) = GUARD;
    let api_key = |token: Secret| async move {
        if token.expose() != "api-key" {
            return Ok::<_, VerifyError>(Introspection::inactive());
        }
        let claims = json!({ "sub": "ann", "aud": RESOURCE, "exp": 4_102_444_800_u64, "scope": "notes:read" });
        Ok(Introspection::active(claims.as_object().unwrap().clone()))
    };
    let guard = guard_for(&remote, Mount::Listener)
        .issuer(Issuer::keys("https://keys.example.com", JwkSet::new([local.public_jwk()])))
        .issuer(Issuer::introspect(&opaque.identifier, opaque.introspection_url(), id, secret))
        .issuer(Issuer::without_identifier(api_key));
    let server = GuardedServer::start(Mount::Listener, guard.build().unwrap()).await;
    let mut response = claims(&opaque.identifier, RESOURCE);
    response["active"] = true.into();
    opaque.opaque("opaque", response);
    let of_remote = remote.token(RESOURCE, json!({}));
    let of_local = sign(&local, &claims("https://keys.example.com", RESOURCE));
    let table = [
        (&*of_remote, json!(remote.identifier)),
        (&*of_local, json!("https://keys.example.com")),
        ("opaque", json!(opaque.identifier)),
        ("api-key", Value::Null),
    ];
    for (token, issuer) in &table {
        assert_eq!(seen(&server, token).await["issuer"], *issuer);
    }
    // Each is the same subject to its issuer, and another principal to the server.
    for (index, (token, _)) in table.iter().enumerate() {
        let session = server.session(token).await;
        for (other, (stranger, _)) in table.iter().enumerate() {
            let status = server.send(bearer(session.post(call(1, "whoami", json!({}))), stranger)).await.status();
            assert_eq!(status, if index == other { 200 } else { 404 });
        }
    }
    assert_refused(&server.send(bearer(whoami(), "unknown")).await, 401, "invalid_token", "unknown to all");
    // A remote key does not sign for the local issuer.
    let mixed = sign(&remote.key(), &claims("https://keys.example.com", RESOURCE));
    assert_refused(&server.send(bearer(whoami(), &mixed)).await, 401, "invalid_token", "mixed up");
}

#[tokio::test]
async fn a_guard_accepts_tokens_of_the_development_server_and_finds_its_new_keys() {
    let dev = DevServer::builder().user("alice").bind("127.0.0.1:0").await.unwrap();
    let guard = TokenGuard::builder(RESOURCE).issuer(Issuer::discover(dev.issuer())).scopes(["notes:read"]);
    let server = GuardedServer::start(Mount::Listener, guard.build().unwrap()).await;
    for _ in 0..3 {
        let token = dev.access_token("alice", RESOURCE, &["notes:read"]);
        assert_eq!(seen(&server, &token).await["subject"], "alice");
        dev.rotate_keys();
    }
    for (what, token) in [
        ("another audience", dev.access_token("alice", "http://localhost/other", &["notes:read"])),
        ("an ID token", dev.mint_as("JWT", json!({ "sub": "alice", "aud": RESOURCE, "nonce": "n" }))),
        ("no expiry", dev.mint(json!({ "sub": "alice", "aud": RESOURCE, "exp": null }))),
    ] {
        assert_refused(&server.send(bearer(whoami(), &token)).await, 401, "invalid_token", what);
    }
    let poor = dev.access_token("alice", RESOURCE, &["other"]);
    assert_eq!(server.send(bearer(whoami(), &poor)).await.status(), 403);
}

#[tokio::test]
async fn a_token_that_the_development_server_revokes_is_refused() {
    let dev = DevServer::builder()
        .user("alice")
        .client(DevClient::with_secret("guard", "secret"))
        .opaque_tokens(true)
        .bind("127.0.0.1:0")
        .await
        .unwrap();
    let issuer = Issuer::introspect(dev.issuer(), dev.url("/introspect"), "guard", "secret");
    let clock = turms_oauth::__internal::GuardClock::standing_at(crate::tokens::now());
    let guard = TokenGuard::builder(RESOURCE).issuer(issuer).clock(clock.clone()).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    let token = dev.access_token("alice", RESOURCE, &["notes:read"]);
    assert!(!token.contains('.'), "an opaque token");
    assert_eq!(seen(&server, &token).await["subject"], "alice");
    dev.revoke_all();
    clock.advance(Duration::from_secs(30));
    assert_refused(&server.send(bearer(whoami(), &token)).await, 401, "invalid_token", "revoked");
}
