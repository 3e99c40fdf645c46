//! Tokens and secrets are in no log line, error or debug output.

use std::fmt::Write as _;

use serde_json::json;
use turms_oauth::{Issuer, JwkSet, Secret, TokenGuard};
use turms_testkit::TraceEvents;
use turms_testkit::messages::modern_call;

use crate::fixture::{GuardedServer, Mount, RESOURCE, bearer, guard_for, proven};
use crate::issuer::{GUARD, Mode, TestIssuer};
use crate::tokens::{Proof, claims, key, sign};

#[tokio::test]
async fn no_log_line_has_a_token_a_proof_or_the_secret_of_the_guard() {
    let (log, _recording) = TraceEvents::record_all();
    let (issuer, opaque) = (TestIssuer::start().await, TestIssuer::start().await);
    let (id, secret) = GUARD;
    let introspecting = Issuer::introspect(&opaque.identifier, opaque.introspection_url(), id, secret);
    let guard = guard_for(&issuer, Mount::Listener).issuer(introspecting).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    let good = issuer.token(RESOURCE, json!({}));
    let foreign = issuer.token("http://localhost/other", json!({}));
    let forged = sign(&key("k1"), &claims(&issuer.identifier, RESOURCE));
    let own = key("own");
    let bound = issuer.token(RESOURCE, json!({ "cnf": { "jkt": own.bare_jwk().thumbprint().unwrap() } }));
    let proof = Proof { key: &own, method: "POST", url: RESOURCE, token: &bound }.sign(json!({}), json!({}));
    let mut response = claims(&opaque.identifier, RESOURCE);
    response["active"] = true.into();
    opaque.opaque("opaque-token-that-is-good", response);
    let whoami = || modern_call(1, "whoami", json!({}));
    for mode in [Mode::Failing, Mode::Up] {
        opaque.set_mode(mode);
        for token in [&good, &foreign, &forged, &bound, "opaque-token-that-is-good", "opaque-token-that-is-unknown"] {
            server.send(bearer(whoami(), token)).await;
            server.send(bearer(whoami(), &format!("{token} {token}"))).await;
            server.send(whoami().path(format!("/mcp?access_token={token}"))).await;
        }
        for _ in 0..2 {
            server.send(proven(whoami(), &bound, &proof)).await;
        }
    }
    let mut text = String::new();
    for event in log.take() {
        writeln!(text, "{} {:?}", event.level, event.fields).unwrap();
    }
    assert!(text.contains("cannot verify a token"), "the log is recorded: {text}");
    let signature = |token: &str| token.rsplit('.').next().unwrap().to_owned();
    let secrets = [&good, &foreign, &forged, &bound, &proof].map(|token| signature(token));
    let opaque =
        ["opaque-token-that-is-good", "opaque-token-that-is-unknown", secret, "a%3Asecret", "Z3VhcmQ6YSUzQXNlY3JldC"];
    for secret in secrets.iter().map(String::as_str).chain(opaque) {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
}

#[tokio::test]
async fn no_debug_output_has_a_secret() {
    let (issuer, key) = (TestIssuer::start().await, key("k1"));
    let introspecting = || Issuer::introspect(&issuer.identifier, issuer.introspection_url(), "guard", "hidden-secret");
    let builder = TokenGuard::builder(RESOURCE).issuer(introspecting()).dpop_nonces(&[7; 32]);
    let mut text = format!("{:?} {builder:?} {:?}", introspecting(), Secret::new("hidden-secret"));
    let guard = builder.build().unwrap();
    let rejection = guard.verify("hidden-token").await.unwrap_err();
    let set = JwkSet::new([key.public_jwk()]);
    write!(text, "{guard:?} {rejection:?} {rejection} {key:?} {set:?}").unwrap();
    for secret in ["hidden-secret", "hidden-token", "7, 7", "\u{7}\u{7}"] {
        assert!(!text.contains(secret), "{text}");
    }
}
