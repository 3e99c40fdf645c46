//! Proofs of possession: each rule of RFC 9449, 4.3.

use serde_json::json;

use super::*;
use crate::jws::{Algorithm, SigningKey};

const URL: &str = "https://mcp.example.com/mcp";
const TOKEN: &str = "access-token";
const NOW: f64 = 1_000_000.0;

fn rules() -> ProofRules {
    ProofRules {
        urls: vec![Url::parse(URL).unwrap(), Url::parse(&format!("{URL}/sse")).unwrap()],
        window: 300.0,
        nonces: None,
        replays: Arc::new(MemoryReplayStore::new(100)),
    }
}

fn claims() -> Value {
    json!({ "jti": "id-1", "htm": "POST", "htu": URL, "iat": NOW, "ath": encode(sha256(TOKEN)) })
}

/// The claims with changes. A change to `null` removes the claim.
fn changed(changes: Value) -> Value {
    let mut claims = claims();
    let Value::Object(changes) = changes else { panic!("changes are an object") };
    for (name, value) in changes {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(&name)),
            value => claims[name] = value,
        }
    }
    claims
}

struct Prover(SigningKey);

impl Prover {
    fn new() -> Self {
        Self(SigningKey::generate(Algorithm::Es256).unwrap())
    }

    fn jkt(&self) -> String {
        self.0.bare_jwk().thumbprint().unwrap()
    }

    fn sign(&self, claims: &Value) -> String {
        self.sign_as("dpop+jwt", &serde_json::to_value(self.0.bare_jwk()).unwrap(), claims)
    }

    fn sign_as(&self, typ: &str, jwk: &Value, claims: &Value) -> String {
        self.0.sign(&[("typ", typ.into()), ("jwk", jwk.clone())], claims)
    }
}

fn check(rules: &ProofRules, prover: &Prover, proof: &str, now: f64) -> Result<(), Refusal> {
    let jkt = prover.jkt();
    let request = ProvenRequest { method: "POST", url: None, token: TOKEN, jkt: &jkt };
    let mut task = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(rules.check(proof, &request, now)).poll(&mut task) {
        std::task::Poll::Ready(checked) => checked,
        std::task::Poll::Pending => panic!("the store in memory does not wait"),
    }
}

#[test]
fn a_proof_is_accepted_once() {
    let (rules, prover) = (rules(), Prover::new());
    let proof = prover.sign(&claims());
    assert_eq!(check(&rules, &prover, &proof, NOW), Ok(()));
    assert_eq!(check(&rules, &prover, &proof, NOW), Err(Refusal::Proof("the proof was used before")));
    // Also with another time or signature: the id counts.
    let again = prover.sign(&changed(json!({ "iat": NOW + 100.0 })));
    assert_eq!(check(&rules, &prover, &again, NOW + 100.0), Err(Refusal::Proof("the proof was used before")));
    // The id of another key is another one.
    let other = Prover::new();
    assert_eq!(check(&rules, &other, &other.sign(&claims()), NOW), Ok(()));
}

#[test]
fn the_proof_of_rfc_9449_for_a_resource_is_accepted() {
    let proof = "eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19.eyJqdGkiOiJlMWozVl9iS2ljOC1MQUVCIiwiaHRtIjoiR0VUIiwiaHR1IjoiaHR0cHM6Ly9yZXNvdXJjZS5leGFtcGxlLm9yZy9wcm90ZWN0ZWRyZXNvdXJjZSIsImlhdCI6MTU2MjI2MjYxOCwiYXRoIjoiZlVIeU8ycjJaM0RaNTNFc05yV0JiMHhXWG9hTnk1OUlpS0NBcWtzbVFFbyJ9.2oW9RP35yRqzhrtNP86L-Ey71EOptxRimPPToA1plemAgR6pxHF8y6-yqyVnmcw6Fy1dqd-jfxSYoMxhAJpLjA";
    let mut rules = rules();
    rules.urls = vec![Url::parse("https://resource.example.org/protectedresource").unwrap()];
    let request = ProvenRequest {
        method: "GET",
        url: None,
        token: "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU",
        jkt: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I",
    };
    rules.check_content(proof, &request, 1_562_262_618.0).unwrap();
}

#[test]
fn wrong_proofs_are_refused() {
    let prover = Prover::new();
    let jwk = serde_json::to_value(prover.0.bare_jwk()).unwrap();
    let mut private = jwk.clone();
    private["d"] = "AAAA".into();
    let mut other_use = jwk.clone();
    other_use["use"] = "enc".into();
    let other = Prover::new();
    let signed = |changes: Value| prover.sign(&changed(changes));
    let table = [
        ("malformed", "a.b.c".to_owned()),
        ("too long", signed(json!({ "x": "x".repeat(MAX_PROOF_BYTES) }))),
        ("another type", prover.sign_as("JWT", &jwk, &claims())),
        ("no type", prover.0.sign(&[("jwk", jwk.clone())], &claims())),
        ("no key", prover.0.sign(&[("typ", "dpop+jwt".into())], &claims())),
        ("a key that is not one", prover.sign_as("dpop+jwt", &json!("key"), &claims())),
        ("a private key", prover.sign_as("dpop+jwt", &private, &claims())),
        ("a key for another use", prover.sign_as("dpop+jwt", &other_use, &claims())),
        ("another key", other.sign(&claims())),
        ("signed by another key", other.sign_as("dpop+jwt", &jwk, &claims())),
        ("another method", signed(json!({ "htm": "GET" }))),
        ("a method in lower case", signed(json!({ "htm": "post" }))),
        ("no method", signed(json!({ "htm": null }))),
        ("another path", signed(json!({ "htu": "https://mcp.example.com/other" }))),
        ("another host", signed(json!({ "htu": "https://evil.example.com/mcp" }))),
        ("another scheme", signed(json!({ "htu": "http://mcp.example.com/mcp" }))),
        ("another port", signed(json!({ "htu": "https://mcp.example.com:8443/mcp" }))),
        ("a user", signed(json!({ "htu": "https://u@mcp.example.com/mcp" }))),
        ("a path alone", signed(json!({ "htu": "/mcp" }))),
        ("no URL", signed(json!({ "htu": null }))),
        ("another token", signed(json!({ "ath": encode(sha256("other")) }))),
        ("no token", signed(json!({ "ath": null }))),
        ("too old", signed(json!({ "iat": NOW - 301.0 }))),
        ("too new", signed(json!({ "iat": NOW + 301.0 }))),
        ("no time", signed(json!({ "iat": null }))),
        ("a time as text", signed(json!({ "iat": "1000000" }))),
        ("no id", signed(json!({ "jti": null }))),
        ("an empty id", signed(json!({ "jti": "" }))),
        ("a number as id", signed(json!({ "jti": 1 }))),
        ("a long id", signed(json!({ "jti": "x".repeat(257) }))),
    ];
    let rules = rules();
    for (name, proof) in table {
        let checked = check(&rules, &prover, &proof, NOW);
        assert!(matches!(checked, Err(Refusal::Proof(_))), "{name}: {checked:?}");
    }
    let mut tampered = prover.sign(&claims());
    tampered.replace_range(tampered.len() - 10..tampered.len() - 9, "_");
    tampered.replace_range(tampered.len() - 11..tampered.len() - 10, "-");
    assert!(check(&rules, &prover, &tampered, NOW).is_err());
    assert_eq!(check(&rules, &prover, &prover.sign(&claims()), NOW), Ok(()), "refused proofs are not recorded");
}

#[test]
fn equal_urls_are_accepted() {
    let (rules, prover) = (rules(), Prover::new());
    let equal = [
        "HTTPS://MCP.example.com:443/mcp",
        "https://mcp.example.com/mcp?query=1",
        "https://mcp.example.com/mcp#fragment",
        "https://mcp.example.com/x/../mcp",
        "wss://mcp.example.com/mcp",
        "https://mcp.example.com/mcp/sse",
    ];
    for (index, htu) in equal.into_iter().enumerate() {
        let proof = prover.sign(&changed(json!({ "htu": htu, "jti": format!("{index}") })));
        assert_eq!(check(&rules, &prover, &proof, NOW), Ok(()), "{htu}");
    }
    let jkt = prover.jkt();
    let other = Url::parse("https://mcp.example.com/other").unwrap();
    let request = ProvenRequest { method: "POST", url: Some(other.clone()), token: TOKEN, jkt: &jkt };
    assert!(rules.check_content(&prover.sign(&claims()), &request, NOW).is_err());
    let proof = prover.sign(&changed(json!({ "htu": other.as_str() })));
    assert!(rules.check_content(&proof, &request, NOW).is_ok());
}

#[test]
fn nonces_are_required_if_there_is_a_key() {
    let nonces = |key: u8| Nonces { key: MacKey::new(&[key; 32]), lifetime: 300.0 };
    let prover = Prover::new();
    let mut rules = rules();
    rules.nonces = Some(nonces(1));
    let refused = |nonce: Value, now: f64| match check(&rules, &prover, &prover.sign(&changed(nonce)), now) {
        Err(Refusal::Nonce(nonce)) => nonce.to_str().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let fresh = refused(json!({}), NOW);
    for (wrong, now) in [
        ("x".to_owned(), NOW),
        (String::new(), NOW),
        (fresh.replacen('A', "B", 1), NOW),
        (fresh[..20].to_owned(), NOW),
        (nonces(2).create(NOW).to_str().unwrap().to_owned(), NOW),
        (nonces(1).create(NOW - 300.0).to_str().unwrap().to_owned(), NOW),
        (nonces(1).create(NOW + 301.0).to_str().unwrap().to_owned(), NOW),
    ] {
        refused(json!({ "nonce": wrong }), now);
    }
    // Of this guard, and of a replica with the same key.
    let replica = nonces(1).create(NOW - 299.0);
    for (id, nonce) in [("a", &*fresh), ("b", replica.to_str().unwrap())] {
        let proof = prover.sign(&changed(json!({ "nonce": nonce, "jti": id })));
        assert_eq!(check(&rules, &prover, &proof, NOW), Ok(()));
    }
}

#[test]
fn a_full_store_refuses_further_proofs_until_others_are_too_old() {
    let prover = Prover::new();
    let mut rules = rules();
    rules.replays = Arc::new(MemoryReplayStore::new(2));
    let proof = |id: &str, now: f64| prover.sign(&changed(json!({ "jti": id, "iat": now })));
    for id in ["a", "b"] {
        assert_eq!(check(&rules, &prover, &proof(id, NOW), NOW), Ok(()));
    }
    assert!(matches!(check(&rules, &prover, &proof("c", NOW), NOW), Err(Refusal::Unavailable(_))));
    assert!(matches!(check(&rules, &prover, &proof("a", NOW), NOW), Err(Refusal::Proof(_))));
    let later = NOW + 400.0;
    assert_eq!(check(&rules, &prover, &proof("c", later), later), Ok(()));
}

#[test]
fn proofs_are_remembered_as_long_as_they_are_accepted() {
    let store = MemoryReplayStore::default();
    let (now, minute) = (system_time(NOW), std::time::Duration::from_secs(60));
    let until = now + 10 * minute;
    assert!(store.record_now(&[1; 32], now, until).unwrap());
    assert!(!store.record_now(&[1; 32], now + 10 * minute, until).unwrap());
    assert!(store.record_now(&[2; 32], now + 12 * minute, now + 20 * minute).unwrap());
    assert_eq!(store.recorded.lock().count, 1, "old ones are removed");
}
