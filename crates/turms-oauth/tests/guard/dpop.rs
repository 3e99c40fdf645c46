//! Tokens that are bound to a key: each request needs a proof of possession (RFC 9449).

use std::time::Duration;

use serde_json::{Value, json};
use turms_oauth::{DpopPolicy, MemoryReplayStore, SigningKey};
use turms_testkit::messages::modern_call;
use turms_testkit::raw_http::{Request, Response};

use crate::fixture::{GuardedServer, Mount, assert_refused, bearer, challenge, guard_for, proven};
use crate::issuer::TestIssuer;
use crate::tokens::{Proof, key, now};

/// A client with a key, and a token that is bound to it.
struct Bound {
    key: SigningKey,
    token: String,
    url: &'static str,
}

impl Bound {
    fn new(issuer: &TestIssuer, mount: Mount) -> Self {
        let key = key("own");
        let jkt = key.bare_jwk().thumbprint().unwrap();
        let token = issuer.token(mount.resource(), json!({ "cnf": { "jkt": jkt } }));
        Self { key, token, url: mount.resource() }
    }

    fn proof(&self) -> Proof<'_> {
        Proof { key: &self.key, method: "POST", url: self.url, token: &self.token }
    }

    /// Signs a proof with changes of its claims.
    fn prove(&self, changes: Value) -> String {
        self.proof().sign(json!({}), changes)
    }
}

fn whoami() -> Request {
    modern_call(1, "whoami", json!({}))
}

#[tokio::test]
async fn each_transport_accepts_a_bound_token_with_a_proof_for_its_url() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::start().await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let bound = Bound::new(&issuer, mount);
        let good = issuer.token(mount.resource(), json!({}));
        let (session, pair) = (server.session(&good).await, server.pair(&good).await);
        let url = mount.resource();
        for entry in server.entries(&session, &pair) {
            let (htu, method) = match entry.name {
                "the stream of HTTP+SSE" => (format!("{url}/sse"), "GET"),
                "a message of HTTP+SSE" => (format!("{url}/messages"), "POST"),
                "WebSocket" => (url.replace("http://", "ws://"), "GET"),
                "the stream of a session" => (url.to_owned(), "GET"),
                "the end of a session" => (url.to_owned(), "DELETE"),
                _ => (url.to_owned(), "POST"),
            };
            let prove = |method, url: &str| {
                Proof { key: &bound.key, method, url, token: &bound.token }.sign(json!({}), json!({}))
            };
            let wrong_method = if method == "POST" { "GET" } else { "POST" };
            for (what, proof) in [
                ("another method", prove(wrong_method, &htu)),
                ("another path", prove(method, "http://localhost/other")),
                ("another host", prove(method, &htu.replace("localhost", "127.0.0.1"))),
                ("another scheme", prove(method, &htu.replace("http://", "https://").replace("ws://", "wss://"))),
                ("another port", prove(method, &htu.replace("localhost", "localhost:1"))),
            ] {
                let refused = entry.send(|request| proven(request, &bound.token, &proof)).await;
                assert_refused(&refused, 401, "invalid_dpop_proof", &format!("{what}, {}", entry.name));
                assert!(challenge(&refused).starts_with("DPoP "), "{what}");
            }
            let unproven = entry.send(|request| bearer(request, &bound.token)).await;
            assert_refused(&unproven, 401, "invalid_token", entry.name);
            assert!(challenge(&unproven).starts_with("DPoP "), "{}", entry.name);
            let proof = prove(method, &htu);
            assert_eq!(
                entry.status(|request| proven(request, &bound.token, &proof)).await,
                entry.status,
                "{}",
                entry.name
            );
            let replayed = entry.send(|request| proven(request, &bound.token, &proof)).await;
            assert_refused(&replayed, 401, "invalid_dpop_proof", entry.name);
        }
    }
}

/// Sends a call with a proof.
async fn send(server: &GuardedServer, bound: &Bound, proof: &str) -> Response {
    server.send(proven(whoami(), &bound.token, proof)).await
}

#[tokio::test]
async fn a_forged_proof_is_refused() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let bound = Bound::new(&issuer, mount);
    assert_eq!(send(&server, &bound, &bound.prove(json!({}))).await.status(), 200);
    let reached = server.reached();
    let other = key("other");
    let (now, other_jwk) = (now(), json!(other.bare_jwk()));
    let with_header = |changes| bound.proof().sign(changes, json!({}));
    let mut private = json!(bound.key.bare_jwk());
    private["d"] = "x".into();
    let other_token = issuer.token(mount.resource(), json!({ "cnf": { "jkt": "x" }, "sub": "bob" }));
    let proofs = [
        ("another key", Proof { key: &other, ..bound.proof() }.sign(json!({}), json!({}))),
        ("the right key in the header, signed by another", {
            Proof { key: &other, ..bound.proof() }.sign(json!({ "jwk": bound.key.bare_jwk() }), json!({}))
        }),
        ("another key in the header", with_header(json!({ "jwk": other_jwk }))),
        ("no key", with_header(json!({ "jwk": "(absent)" }))),
        ("a private key", with_header(json!({ "jwk": private }))),
        ("another type", with_header(json!({ "typ": "JWT" }))),
        ("no type", with_header(json!({ "typ": "(absent)" }))),
        ("alg none", with_header(json!({ "alg": "none" }))),
        ("alg HS256", with_header(json!({ "alg": "HS256" }))),
        ("crit", with_header(json!({ "crit": ["x"], "x": 1 }))),
        ("for another token", Proof { token: &other_token, ..bound.proof() }.sign(json!({}), json!({}))),
        ("no ath", bound.prove(json!({ "ath": "(absent)" }))),
        ("ath null", bound.prove(json!({ "ath": null }))),
        ("too old", bound.prove(json!({ "iat": now - 301 }))),
        ("from the future", bound.prove(json!({ "iat": now + 302 }))),
        ("no time", bound.prove(json!({ "iat": "(absent)" }))),
        ("a time that is a text", bound.prove(json!({ "iat": now.to_string() }))),
        ("no id", bound.prove(json!({ "jti": "(absent)" }))),
        ("an empty id", bound.prove(json!({ "jti": "" }))),
        ("a long id", bound.prove(json!({ "jti": "x".repeat(257) }))),
        ("an id that is a number", bound.prove(json!({ "jti": 1 }))),
        ("no method", bound.prove(json!({ "htm": "(absent)" }))),
        ("a method in lower case", bound.prove(json!({ "htm": "post" }))),
        ("no URL", bound.prove(json!({ "htu": "(absent)" }))),
        ("a path as URL", bound.prove(json!({ "htu": "/mcp" }))),
        ("the access token as proof", bound.token.clone()),
        ("no signed token", "proof".to_owned()),
        ("empty", String::new()),
    ];
    for (what, proof) in &proofs {
        let refused = send(&server, &bound, proof).await;
        assert_refused(&refused, 401, "invalid_dpop_proof", what);
    }
    let proof = bound.prove(json!({}));
    for (what, request) in [
        ("no proof", whoami().header("Authorization", format!("DPoP {}", bound.token))),
        ("two proofs", proven(whoami(), &bound.token, &proof).also("DPoP", bound.prove(json!({})))),
        ("two proofs in one header", proven(whoami(), &bound.token, &format!("{proof}, {proof}"))),
    ] {
        assert_refused(&server.send(request).await, 401, "invalid_dpop_proof", what);
    }
    assert_eq!(server.reached(), reached, "nothing has run");
}

#[tokio::test]
async fn a_bound_token_without_its_proof_is_refused_also_when_it_is_known() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let bound = Bound::new(&issuer, mount);
    for _ in 0..2 {
        let stripped = server.send(bearer(whoami(), &bound.token)).await;
        assert_refused(&stripped, 401, "invalid_token", "stripped to Bearer");
        // A proof beside the scheme Bearer does not help.
        let request = bearer(whoami(), &bound.token).header("DPoP", bound.prove(json!({})));
        assert_refused(&server.send(request).await, 401, "invalid_token", "Bearer with a proof");
        assert_eq!(send(&server, &bound, &bound.prove(json!({}))).await.status(), 200);
    }
}

#[tokio::test]
async fn a_token_that_is_not_bound_is_not_taken_for_a_bound_one() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let token = issuer.token(mount.resource(), json!({}));
    let bound = Bound { key: key("own"), token, url: mount.resource() };
    for _ in 0..2 {
        let refused = send(&server, &bound, &bound.prove(json!({}))).await;
        assert_refused(&refused, 401, "invalid_token", "not bound");
        assert_eq!(server.send(bearer(whoami(), &bound.token)).await.status(), 200);
    }
    let required = guard_for(&issuer, mount).dpop(DpopPolicy::Required).build().unwrap();
    let server = GuardedServer::start(mount, required).await;
    for _ in 0..2 {
        let refused = server.send(bearer(whoami(), &bound.token)).await;
        assert_refused(&refused, 401, "invalid_token", "a bearer token where proofs are required");
        assert!(challenge(&refused).starts_with("DPoP "), "{refused}");
    }
    let bound = Bound::new(&issuer, mount);
    assert_eq!(send(&server, &bound, &bound.prove(json!({}))).await.status(), 200);
}

#[tokio::test]
async fn a_proof_may_have_a_query_a_fragment_and_another_writing_of_the_url() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
    let bound = Bound::new(&issuer, mount);
    for url in
        ["http://localhost/mcp?a=b#c", "HTTP://LOCALHOST/mcp", "http://localhost:80/mcp", "http://localhost/x/../mcp"]
    {
        let response = send(&server, &bound, &bound.prove(json!({ "htu": url }))).await;
        assert_eq!(response.status(), 200, "{url}: {response}");
    }
    // The host of the request does not matter: a proxy changes it.
    let request = proven(whoami(), &bound.token, &bound.prove(json!({}))).header("Host", "127.0.0.1:1234");
    assert_eq!(server.send(request).await.status(), 200);
}

#[tokio::test]
async fn a_replayed_proof_is_refused_until_it_is_too_old() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let clock = turms_oauth::__internal::GuardClock::standing_at(now());
    let guard = guard_for(&issuer, mount).clock(clock.clone()).build().unwrap();
    let server = GuardedServer::start(mount, guard).await;
    let bound = Bound::new(&issuer, mount);
    let proof = bound.prove(json!({ "iat": now() }));
    assert_eq!(send(&server, &bound, &proof).await.status(), 200);
    for _ in 0..6 {
        assert_refused(&send(&server, &bound, &proof).await, 401, "invalid_dpop_proof", "replayed");
        clock.advance(Duration::from_secs(55));
    }
    // The same id with another time is the same proof.
    let again = bound.prove(json!({ "jti": "one", "iat": now() + 300 }));
    assert_eq!(send(&server, &bound, &again).await.status(), 200);
    let again = bound.prove(json!({ "jti": "one", "iat": now() + 310 }));
    assert_refused(&send(&server, &bound, &again).await, 401, "invalid_dpop_proof", "the same id");
    // Ids are those of a key.
    let other = Bound::new(&issuer, mount);
    let proof = other.prove(json!({ "jti": "one", "iat": now() + 300 }));
    assert_eq!(send(&server, &other, &proof).await.status(), 200);
}

#[tokio::test]
async fn a_full_replay_store_refuses_proofs_and_does_not_forget_any() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let guard = guard_for(&issuer, mount).replay_store(MemoryReplayStore::new(2)).build().unwrap();
    let server = GuardedServer::start(mount, guard).await;
    let bound = Bound::new(&issuer, mount);
    let first = bound.prove(json!({}));
    assert_eq!(send(&server, &bound, &first).await.status(), 200);
    assert_eq!(send(&server, &bound, &bound.prove(json!({}))).await.status(), 200);
    let full = send(&server, &bound, &bound.prove(json!({}))).await;
    assert_eq!((full.status(), full.header("retry-after")), (503, Some("5")));
    assert_refused(&send(&server, &bound, &first).await, 401, "invalid_dpop_proof", "replayed");
}

#[tokio::test]
async fn a_guard_with_nonces_accepts_only_proofs_with_a_fresh_one_of_its_own() {
    let (mount, issuer) = (Mount::Listener, TestIssuer::start().await);
    let clock = turms_oauth::__internal::GuardClock::standing_at(now());
    let nonces = |key: u8, clock: &turms_oauth::__internal::GuardClock| {
        let guard = guard_for(&issuer, mount).dpop_nonces(&[key; 32]).clock(clock.clone());
        guard.dpop_nonce_lifetime(Duration::from_secs(60)).build().unwrap()
    };
    let server = GuardedServer::start(mount, nonces(1, &clock)).await;
    let replica = GuardedServer::start(mount, nonces(1, &clock)).await;
    let stranger = GuardedServer::start(mount, nonces(2, &clock)).await;
    let bound = Bound::new(&issuer, mount);
    let ask = async |server: &GuardedServer, nonce: Value| {
        send(server, &bound, &bound.prove(json!({ "nonce": nonce }))).await
    };
    let asked = ask(&server, json!("(absent)")).await;
    assert_refused(&asked, 401, "use_dpop_nonce", "no nonce");
    let nonce = asked.header("dpop-nonce").unwrap().to_owned();
    assert_eq!(ask(&server, json!(nonce)).await.status(), 200);
    assert_eq!(ask(&replica, json!(nonce)).await.status(), 200, "replicas share a key");
    assert_refused(&ask(&stranger, json!(nonce)).await, 401, "use_dpop_nonce", "the nonce of another server");
    let forged = format!("B{}", &nonce[1..]);
    for wrong in [json!(""), json!(null), json!(1), json!("x"), json!(forged), json!(format!("{nonce}A"))] {
        let refused = ask(&server, wrong.clone()).await;
        assert_refused(&refused, 401, "use_dpop_nonce", &wrong.to_string());
    }
    clock.advance(Duration::from_secs(59));
    assert_eq!(ask(&server, json!(nonce)).await.status(), 200);
    clock.advance(Duration::from_secs(1));
    let late = ask(&server, json!(nonce)).await;
    assert_refused(&late, 401, "use_dpop_nonce", "an old nonce");
    assert_ne!(late.header("dpop-nonce"), Some(&*nonce));
}
