//! Settings of a guard that would weaken it: each is an error when the guard is built, and nothing is sent.

use std::time::Duration;

use serde_json::json;
use turms_oauth::{Algorithm, Issuer, Jwk, JwkSet, TokenGuard, TokenGuardBuilder};

use crate::tokens::{changed, key};

const PUBLIC: &str = "https://notes.example.com/mcp";

fn keys() -> JwkSet {
    JwkSet::new([key("k1").public_jwk()])
}

/// A guard of a server on the internet, with an issuer whose keys it has.
fn guard() -> TokenGuardBuilder {
    guard_of(PUBLIC)
}

fn guard_of(resource: &str) -> TokenGuardBuilder {
    TokenGuard::builder(resource).issuer(Issuer::keys("https://auth.example.com", keys()))
}

#[track_caller]
fn assert_refused(builder: TokenGuardBuilder, expected: &str) {
    let error = builder.build().map(|_| ()).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test]
async fn the_resource_is_a_plain_https_url() {
    assert_refused(guard_of("http://notes.example.com/mcp"), "https is required");
    for resource in [
        "https://notes.example.com/mcp?tenant=1",
        "https://notes.example.com/mcp#part",
        "https://ann@notes.example.com/mcp",
        "https://ann:pw@notes.example.com/mcp",
    ] {
        assert_refused(guard_of(resource), "a query, a fragment or a user is not allowed");
    }
    for resource in ["ftp://notes.example.com/mcp", "urn:notes", "notes"] {
        assert_refused(guard_of(resource), "invalid resource");
    }
    for resource in [PUBLIC, "http://localhost/mcp", "http://127.0.0.1:8000/"] {
        guard_of(resource).build().unwrap();
    }
    guard_of("http://10.0.0.1/mcp").allow_private_network().build().unwrap();
}

#[tokio::test]
async fn no_url_of_an_issuer_leads_into_a_private_network() {
    for url in [
        "http://auth.example.com",
        "https://127.0.0.1",
        "https://[::1]",
        "https://10.0.0.1/keys",
        "https://169.254.169.254/latest",
        "https://user@auth.example.com",
        "ftp://auth.example.com",
        "file:///etc/passwd",
        "auth",
    ] {
        let issuer = "https://other.example.com";
        for (what, issuer) in [
            ("authorization server metadata", Issuer::discover(url)),
            ("keys of the issuer", Issuer::jwks_uri(issuer, url)),
            ("token introspection", Issuer::introspect(issuer, url, "guard", "s3cret")),
        ] {
            assert_refused(guard().issuer(issuer), what);
        }
    }
    for issuer in ["https://other.example.com?tenant=1", "https://other.example.com#part"] {
        assert_refused(guard().issuer(Issuer::discover(issuer)), "a query or a fragment is not allowed");
    }
    guard().issuer(Issuer::discover("https://other.example.com/tenant")).build().unwrap();
}

#[tokio::test]
async fn an_issuer_has_public_keys_of_accepted_algorithms() {
    let of = |keys| TokenGuard::builder(PUBLIC).issuer(Issuer::keys("https://auth.example.com", keys));
    let public = serde_json::to_value(key("k1").public_jwk()).unwrap();
    let private: Jwk = serde_json::from_value(changed(public, json!({ "d": "AA" }))).unwrap();
    assert_refused(of(JwkSet::new([private.clone()])), "use the public key");
    assert_refused(of(JwkSet::new([key("k1").public_jwk(), private])), "use the public key");
    assert_refused(of(JwkSet::default()), "it has no key for the accepted algorithms");
    assert_refused(guard().algorithms([Algorithm::EdDsa]), "it has no key for the accepted algorithms");
    assert_refused(guard().algorithms([]), "the guard accepts no signature algorithm");
}

#[tokio::test]
async fn each_issuer_is_added_once() {
    assert_refused(TokenGuard::builder(PUBLIC), "the guard has no issuer");
    assert_refused(guard().issuer(Issuer::keys("https://auth.example.com", keys())), "it was added twice");
    assert_refused(guard().issuer(Issuer::discover("https://auth.example.com")), "it was added twice");
    assert_refused(guard().issuer(Issuer::keys("", keys())), "the identifier is empty");
    // It may introspect its opaque tokens.
    let introspecting = Issuer::introspect("https://auth.example.com", "https://auth.example.com/introspect", "g", "s");
    guard().issuer(introspecting).build().unwrap();
}

#[tokio::test]
async fn tolerances_scopes_and_audiences_are_sensible() {
    let (day, longer) = (Duration::from_secs(86_400), Duration::from_secs(86_401));
    assert_refused(guard().leeway(longer), "setting leeway of the guard");
    assert_refused(guard().dpop_window(longer), "setting dpop_window of the guard");
    assert_refused(guard().dpop_nonce_lifetime(longer), "setting dpop_nonce_lifetime of the guard");
    guard().leeway(day).dpop_window(day).dpop_nonce_lifetime(day).build().unwrap();
    for scope in ["", "a b", "a\"b", "a\\b", "a\nb", "ä"] {
        assert_refused(guard().scopes([scope]), "invalid scope");
        assert_refused(guard().implies("notes", [scope]), "invalid scope");
        assert_refused(guard().implies(scope, ["notes"]), "invalid scope");
    }
    assert_refused(guard().scope_prefix("a b"), "invalid scope");
    assert_refused(guard().audience(""), "an audience of the guard is empty");
}
