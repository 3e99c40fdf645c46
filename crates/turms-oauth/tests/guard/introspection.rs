//! Opaque tokens: introspection (RFC 7662), and verifiers of the application.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use turms_oauth::__internal::GuardClock;
use turms_oauth::{Introspection, Issuer, Secret, TokenGuard, TokenGuardBuilder, VerifyError};
use turms_testkit::eventually;
use turms_testkit::messages::modern_call;
use turms_testkit::raw_http::{Request, Response};

use crate::fixture::{GuardedServer, Mount, RESOURCE, assert_refused, bearer};
use crate::issuer::{GUARD, Mode, TestIssuer};
use crate::tokens::{changed, claims, now};

fn introspecting(issuer: &TestIssuer) -> TokenGuardBuilder {
    let (id, secret) = GUARD;
    TokenGuard::builder(RESOURCE)
        .issuer(Issuer::introspect(&issuer.identifier, issuer.introspection_url(), id, secret))
        .scopes(["notes:read"])
}

/// Returns the response for a valid token, with changes.
fn active(issuer: &TestIssuer, changes: Value) -> Value {
    let mut response = claims(&issuer.identifier, RESOURCE);
    response["active"] = true.into();
    changed(response, changes)
}

fn whoami() -> Request {
    modern_call(1, "whoami", json!({}))
}

async fn ask(server: &GuardedServer, token: &str) -> Response {
    server.send(bearer(whoami(), token)).await
}

#[tokio::test]
async fn an_opaque_token_is_introspected_once_and_its_claims_reach_handlers() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let guard = introspecting(&issuer).audience(mount.resource()).build().unwrap();
        let server = GuardedServer::start(mount, guard).await;
        issuer.opaque("opaque-1", active(&issuer, json!({ "tenant": "t1" })));
        let (session, pair) = (server.session("opaque-1").await, server.pair("opaque-1").await);
        for entry in server.entries(&session, &pair) {
            entry.assert_accepted("opaque-1").await;
        }
        let seen: Value = serde_json::from_str(&ask(&server, "opaque-1").await.text()).unwrap();
        let expected = json!({
            "subject": "ann", "issuer": issuer.identifier, "client": "app", "scopes": ["notes:read"], "tenant": "t1",
        });
        assert_eq!(seen, expected);
        assert_eq!(issuer.introspections(), 1, "the verdict is cached");
    }
}

#[tokio::test]
async fn a_token_is_accepted_only_if_the_response_says_that_it_is_valid_here() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, introspecting(&issuer).build().unwrap()).await;
    let now = now();
    let table = [
        ("inactive", json!({ "active": false })),
        ("inactive with claims of an active one", active(&issuer, json!({ "active": false }))),
        ("for another audience", active(&issuer, json!({ "aud": "http://localhost/other" }))),
        ("without an audience", active(&issuer, json!({ "aud": "(absent)" }))),
        ("of another issuer", active(&issuer, json!({ "iss": "http://127.0.0.1:1" }))),
        ("expired", active(&issuer, json!({ "exp": now - 61 }))),
        ("without an expiry", active(&issuer, json!({ "exp": "(absent)" }))),
        ("not yet valid", active(&issuer, json!({ "nbf": now + 300 }))),
        ("a refresh token", active(&issuer, json!({ "token_use": "refresh_token" }))),
        ("without a subject", active(&issuer, json!({ "sub": "(absent)", "client_id": "(absent)" }))),
    ];
    for (index, (what, response)) in table.into_iter().enumerate() {
        let token = format!("opaque-{index}");
        issuer.opaque(&token, response);
        for _ in 0..2 {
            assert_refused(&ask(&server, &token).await, 401, "invalid_token", what);
        }
    }
    assert_refused(&ask(&server, "unknown").await, 401, "invalid_token", "unknown");
    assert_eq!(server.reached(), 0);
    // RFC 7662 requires only `active`; the issuer may be left out, and machines have no subject.
    for changes in [json!({ "iss": "(absent)" }), json!({ "sub": "(absent)" }), json!({ "iat": "(absent)" })] {
        let token = format!("good-{}", changes.to_string().len());
        issuer.opaque(&token, active(&issuer, changes.clone()));
        assert_eq!(ask(&server, &token).await.status(), 200, "{changes}");
    }
}

#[tokio::test]
async fn a_response_that_is_not_one_is_no_permission() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, introspecting(&issuer).build().unwrap()).await;
    for (index, response) in [
        json!({}),
        json!([]),
        json!("active"),
        active(&issuer, json!({ "active": "true" })),
        active(&issuer, json!({ "active": 1 })),
        active(&issuer, json!({ "active": "(absent)" })),
    ]
    .into_iter()
    .enumerate()
    {
        let token = format!("opaque-{index}");
        issuer.opaque(&token, response.clone());
        assert_eq!(ask(&server, &token).await.status(), 503, "{response}");
    }
    assert_eq!(server.reached(), 0);
}

#[tokio::test]
async fn a_revoked_token_is_refused_when_its_verdict_is_too_old() {
    let issuer = TestIssuer::start().await;
    let clock = GuardClock::standing_at(now());
    let server =
        GuardedServer::start(Mount::Listener, introspecting(&issuer).clock(clock.clone()).build().unwrap()).await;
    issuer.opaque("opaque", active(&issuer, json!({})));
    assert_eq!(ask(&server, "opaque").await.status(), 200);
    issuer.opaque("opaque", json!({ "active": false }));
    clock.advance(Duration::from_secs(29));
    assert_eq!((ask(&server, "opaque").await.status(), issuer.introspections()), (200, 1));
    clock.advance(Duration::from_secs(1));
    assert_refused(&ask(&server, "opaque").await, 401, "invalid_token", "revoked");
    // A refusal is cached for a shorter time: a token may be used before its issuer has written it down everywhere.
    issuer.opaque("opaque", active(&issuer, json!({})));
    clock.advance(Duration::from_secs(4));
    assert_refused(&ask(&server, "opaque").await, 401, "invalid_token", "refused before");
    assert_eq!(issuer.introspections(), 2);
    clock.advance(Duration::from_secs(1));
    assert_eq!(ask(&server, "opaque").await.status(), 200);
}

#[tokio::test]
async fn a_verdict_is_not_cached_longer_than_the_token_is_valid() {
    let issuer = TestIssuer::start().await;
    let (clock, now) = (GuardClock::standing_at(now()), now());
    let guard = introspecting(&issuer).clock(clock.clone()).leeway(Duration::ZERO).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    issuer.opaque("opaque", active(&issuer, json!({ "exp": now + 10 })));
    assert_eq!(ask(&server, "opaque").await.status(), 200);
    clock.advance(Duration::from_secs(11));
    assert_refused(&ask(&server, "opaque").await, 401, "invalid_token", "expired");
}

#[tokio::test]
async fn an_unreachable_endpoint_is_503_and_never_a_permission() {
    let issuer = TestIssuer::start().await;
    let guard = introspecting(&issuer).fetch_timeout(Duration::from_secs(2)).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    issuer.opaque("opaque", active(&issuer, json!({})));
    for mode in [Mode::Failing, Mode::Silent] {
        issuer.set_mode(mode);
        let refused = ask(&server, "opaque").await;
        assert_eq!((refused.status(), refused.header("retry-after")), (503, Some("5")), "{mode:?}: {refused}");
        assert_eq!(refused.json()["error"]["code"], -32053);
    }
    let wrong = Issuer::introspect(&issuer.identifier, issuer.introspection_url(), "guard", "another secret");
    let wrong = TokenGuard::builder(RESOURCE).issuer(wrong).build().unwrap();
    issuer.set_mode(Mode::Up);
    assert_eq!(wrong.verify("opaque").await.unwrap_err().status, 503, "the guard is not let in");
    assert_eq!(server.reached(), 0);
    assert_eq!(ask(&server, "opaque").await.status(), 200);
}

#[tokio::test]
async fn requests_with_the_same_new_token_cause_one_introspection() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, introspecting(&issuer).build().unwrap()).await;
    issuer.opaque("opaque", active(&issuer, json!({})));
    issuer.state.is_gated.store(true, Ordering::SeqCst);
    let mut connections = Vec::new();
    for _ in 0..20 {
        connections.push(server.open(bearer(whoami(), "opaque")).await);
    }
    eventually("an introspection", async || issuer.introspections() == 1).await;
    issuer.state.gate.add_permits(100);
    for mut connection in connections {
        assert_eq!(turms_testkit::within("a response", connection.response()).await.status(), 200);
    }
    assert_eq!(issuer.introspections(), 1);
}

#[tokio::test]
async fn a_flood_of_opaque_tokens_is_bounded() {
    let issuer = TestIssuer::start().await;
    let guard = introspecting(&issuer).max_introspections(4).fetch_timeout(Duration::from_secs(2));
    let server = GuardedServer::start(Mount::Listener, guard.build().unwrap()).await;
    issuer.state.is_gated.store(true, Ordering::SeqCst);
    let mut connections = Vec::new();
    for index in 0..40 {
        connections.push(server.open(bearer(whoami(), &format!("flood-{index}"))).await);
    }
    // None of them is answered, and none waits for ever: those in progress for the endpoint, and the others for these.
    for mut connection in connections {
        assert_eq!(turms_testkit::within("a response", connection.response()).await.status(), 503);
    }
    assert!(issuer.state.most_running.load(Ordering::SeqCst) <= 8, "each of 4 is followed by one more at most");
    assert!(issuer.introspections() <= 12, "{}", issuer.introspections());
    assert_eq!(server.reached(), 0);
}

#[tokio::test]
async fn signed_tokens_of_unknown_issuers_are_not_introspected() {
    let (issuer, other) = (TestIssuer::start().await, TestIssuer::start().await);
    let server = GuardedServer::start(Mount::Listener, introspecting(&issuer).build().unwrap()).await;
    let token = other.token(RESOURCE, json!({}));
    issuer.opaque(&token, active(&issuer, json!({})));
    assert_refused(&ask(&server, &token).await, 401, "invalid_token", "another issuer");
    assert_eq!(issuer.introspections(), 0);
    // Those of its own are: so revocation works for them, too.
    let token = issuer.token(RESOURCE, json!({}));
    issuer.opaque(&token, active(&issuer, json!({})));
    assert_eq!(ask(&server, &token).await.status(), 200);
    assert_eq!((issuer.introspections(), issuer.key_requests()), (1, 0));
}

#[tokio::test]
async fn a_bound_opaque_token_needs_a_proof() {
    let issuer = TestIssuer::start().await;
    let server = GuardedServer::start(Mount::Listener, introspecting(&issuer).build().unwrap()).await;
    let own = crate::tokens::key("own");
    let jkt = own.bare_jwk().thumbprint().unwrap();
    issuer.opaque("bound", active(&issuer, json!({ "cnf": { "jkt": jkt }, "token_type": "DPoP" })));
    assert_refused(&ask(&server, "bound").await, 401, "invalid_token", "without a proof");
    let proof = crate::tokens::Proof { key: &own, method: "POST", url: RESOURCE, token: "bound" };
    let request = crate::fixture::proven(whoami(), "bound", &proof.sign(json!({}), json!({})));
    assert_eq!(server.send(request).await.status(), 200);
}

/// A verifier of API keys that counts its calls.
fn api_keys(calls: Arc<AtomicUsize>) -> impl turms_oauth::Verifier {
    move |token: Secret| {
        let calls = calls.clone();
        async move {
            calls.fetch_add(1, Ordering::SeqCst);
            let claims = |sub: &str, aud: &str| {
                let claims =
                    json!({ "sub": sub, "aud": aud, "exp": now() + 600, "scope": "notes:read", "tenant": "t2" });
                claims.as_object().unwrap().clone()
            };
            match token.expose() {
                "key-of-ann" => Ok(Introspection::active(claims("ann", RESOURCE))),
                "key-for-other" => Ok(Introspection::active(claims("ann", "http://localhost/other"))),
                "key-in-trouble" => Err(VerifyError::new("the database is down")),
                _ => Ok(Introspection::inactive()),
            }
        }
    }
}

#[tokio::test]
async fn tokens_may_be_verified_by_the_application() {
    let calls = Arc::new(AtomicUsize::new(0));
    let guard =
        TokenGuard::builder(RESOURCE).issuer(Issuer::without_identifier(api_keys(calls.clone()))).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    for _ in 0..2 {
        let seen: Value = serde_json::from_str(&ask(&server, "key-of-ann").await.text()).unwrap();
        assert_eq!((&seen["subject"], &seen["issuer"], &seen["tenant"]), (&json!("ann"), &Value::Null, &json!("t2")));
    }
    assert_eq!(calls.load(Ordering::SeqCst), 1, "the verdict is cached");
    assert_refused(&ask(&server, "key-for-other").await, 401, "invalid_token", "another audience");
    assert_refused(&ask(&server, "key-of-eve").await, 401, "invalid_token", "unknown");
    assert_eq!(ask(&server, "key-in-trouble").await.status(), 503);
}

#[tokio::test]
async fn a_verifier_that_panics_permits_nothing_and_blocks_nothing() {
    for mount in Mount::ALL {
        let panics = Arc::new(AtomicUsize::new(0));
        let count = panics.clone();
        let verify = move |token: Secret| {
            let is_first = token.expose() == "broken" && count.fetch_add(1, Ordering::SeqCst) < 3;
            async move {
                assert!(!is_first, "a bug of the verifier");
                let claims = json!({ "sub": "ann", "aud": [RESOURCE, crate::fixture::MOUNTED], "exp": now() + 600 });
                Ok(Introspection::active(claims.as_object().unwrap().clone()))
            }
        };
        let guard = TokenGuard::builder(mount.resource()).issuer(Issuer::without_identifier(verify)).build().unwrap();
        let server = GuardedServer::start(mount, guard).await;
        for _ in 0..3 {
            let mut connection = server.open(bearer(whoami(), "broken")).await;
            let response = turms_testkit::within("a response or the end", connection.try_response()).await;
            assert!(response.is_none_or(|response| response.status() >= 500), "{mount:?}");
            assert_eq!(ask(&server, "other").await.status(), 200, "{mount:?}");
        }
        assert_eq!(server.reached(), 3);
        assert_eq!(ask(&server, "broken").await.status(), 200, "{mount:?}: the token is not blocked");
    }
}
