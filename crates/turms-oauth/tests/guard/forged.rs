//! Forged and foreign tokens: each is refused over every transport, before anything runs.

use serde_json::{Value, json};
use turms_oauth::{Algorithm, SigningKey, TokenGuard};

use crate::fixture::{GuardedServer, Mount, assert_refused, bearer, guard_for};
use crate::issuer::TestIssuer;
use crate::tokens::{changed, claims, compact, decode, encode, header, hmac, key, now, sign, sign_bytes};

/// Tokens with forged headers or signatures.
fn forged_signatures(key: &SigningKey, claims: &Value) -> Vec<(&'static str, String)> {
    let payload = claims.to_string();
    let valid = sign(key, claims);
    let (signed, signature) = valid.rsplit_once('.').unwrap();
    let with_header = |changes: Value| {
        let header = changed(Value::Object(header(key)), changes);
        sign_bytes(key, &header.to_string(), &payload)
    };
    let unsigned = |alg: &str| compact(json!({ "alg": alg, "typ": "at+jwt" }).to_string(), &payload, |_| Vec::new());
    let jwk = key.public_jwk();
    let public_key = serde_json::to_string(&jwk).unwrap();
    let point = [&[4][..], &decode(jwk.x.as_ref().unwrap()), &decode(jwk.y.as_ref().unwrap())].concat();
    let confused = |secret: &[u8]| {
        let header = json!({ "alg": "HS256", "typ": "at+jwt", "kid": "k1" }).to_string();
        compact(header, &payload, |message| hmac(secret, message))
    };
    let attacker = SigningKey::generate(Algorithm::Es256).unwrap();
    let own_key = json!(attacker.bare_jwk());
    let embedded = attacker.sign(&[("typ", json!("at+jwt")), ("jwk", own_key), ("kid", json!("k1"))], claims);
    let linked = attacker.sign(&[("jku", json!("http://127.0.0.1:1/keys")), ("kid", json!("k1"))], claims);
    let other = SigningKey::generate(Algorithm::Es384).unwrap().key_id("k1");
    let second_aud = format!("{},\"aud\":\"http://localhost/other\"}}", &payload[..payload.len() - 1]);
    let mut flipped = decode(signature);
    flipped[5] ^= 1;
    let swapped_parts = payload.replace("\"ann\"", "\"bob\"");
    vec![
        ("alg none", unsigned("none")),
        ("alg None", unsigned("None")),
        ("alg NONE", unsigned("NONE")),
        ("alg none with the signature of a valid token", {
            let header = encode(json!({ "alg": "none" }).to_string());
            format!("{header}.{}.{signature}", encode(&payload))
        }),
        ("HS256 with the JWK as secret", confused(public_key.as_bytes())),
        ("HS256 with the point as secret", confused(&point)),
        ("HS256 with the x coordinate as secret", confused(jwk.x.as_ref().unwrap().as_bytes())),
        ("HS256 with an empty secret", confused(b"")),
        ("ES384 with a key for P-256", with_header(json!({ "alg": "ES384" }))),
        ("RS256 with a key for P-256", with_header(json!({ "alg": "RS256" }))),
        ("EdDSA with a key for P-256", with_header(json!({ "alg": "EdDSA" }))),
        ("alg es256", with_header(json!({ "alg": "es256" }))),
        ("alg null", with_header(json!({ "alg": null }))),
        ("no alg", with_header(json!({ "alg": "(absent)" }))),
        ("signed by a P-384 key with the same key id", sign(&other, claims)),
        ("signed by a key in its header", embedded),
        ("signed by a key at a URL in its header", linked),
        ("signed by an unknown key", sign(&attacker, claims)),
        ("signed by an unknown key with a known id", {
            let attacker = SigningKey::generate(Algorithm::Es256).unwrap().key_id("k1");
            sign(&attacker, claims)
        }),
        ("crit with an unknown extension", with_header(json!({ "crit": ["x"], "x": 1 }))),
        ("crit b64", with_header(json!({ "crit": ["b64"], "b64": false }))),
        ("crit exp", with_header(json!({ "crit": ["exp"], "exp": 1 }))),
        ("b64 that is not critical", with_header(json!({ "b64": false }))),
        ("empty crit", with_header(json!({ "crit": [] }))),
        ("crit null", with_header(json!({ "crit": null }))),
        ("kid of another type", with_header(json!({ "kid": 1 }))),
        ("typ of another type", with_header(json!({ "typ": ["at+jwt"] }))),
        ("typ dpop+jwt", with_header(json!({ "typ": "dpop+jwt" }))),
        ("typ logout+jwt", with_header(json!({ "typ": "logout+jwt" }))),
        ("typ oauth-id-jag+jwt", with_header(json!({ "typ": "oauth-id-jag+jwt" }))),
        ("alg twice", { sign_bytes(key, r#"{"alg":"none","alg":"ES256","kid":"k1"}"#, &payload) }),
        ("aud twice", sign_bytes(key, &Value::Object(header(key)).to_string(), &second_aud)),
        ("payload of another type", sign_bytes(key, &Value::Object(header(key)).to_string(), &format!("[{payload}]"))),
        ("payload that is not JSON", sign_bytes(key, &Value::Object(header(key)).to_string(), "iss")),
        ("no signature", format!("{signed}.")),
        ("two parts", signed.to_owned()),
        ("four parts", format!("{valid}.{signature}")),
        ("five parts", format!("{valid}.{signature}.{signature}")),
        ("a signature of zeros", format!("{signed}.{}", encode([0; 64]))),
        ("a flipped bit in the signature", format!("{signed}.{}", encode(&flipped))),
        ("a shortened signature", format!("{signed}.{}", encode(&decode(signature)[..63]))),
        ("a lengthened signature", format!("{signed}.{}", encode([&decode(signature)[..], &[0]].concat()))),
        ("a signature in DER", {
            let raw = decode(signature);
            let integer = |bytes: &[u8]| {
                let value = [&[0][..], bytes].concat();
                [&[2, u8::try_from(value.len()).unwrap()][..], &value].concat()
            };
            let both = [integer(&raw[..32]), integer(&raw[32..])].concat();
            let der = [&[0x30, u8::try_from(both.len()).unwrap()][..], &both].concat();
            format!("{signed}.{}", encode(der))
        }),
        ("a padded signature", format!("{signed}.{signature}==")),
        ("another subject with the signature of a valid token", {
            format!("{}.{}.{signature}", signed.split('.').next().unwrap(), encode(swapped_parts))
        }),
    ]
}

/// Tokens with a valid signature of the issuer that are not for this server, or not for now.
fn foreign_claims(issuer: &str, resource: &str) -> Vec<(&'static str, Value)> {
    let now = now();
    vec![
        ("another audience", json!({ "aud": "http://localhost/other" })),
        ("an audience with a slash more", json!({ "aud": format!("{resource}/") })),
        ("the origin as audience", json!({ "aud": "http://localhost" })),
        ("an audience in upper case", json!({ "aud": resource.to_uppercase() })),
        ("no audience", json!({ "aud": "(absent)" })),
        ("aud null", json!({ "aud": null })),
        ("aud a number", json!({ "aud": 1 })),
        ("aud an object", json!({ "aud": { "0": resource } })),
        ("aud a nested list", json!({ "aud": [[resource]] })),
        ("aud a list with a number", json!({ "aud": [resource, 1] })),
        ("an empty list of audiences", json!({ "aud": [] })),
        ("another issuer", json!({ "iss": "http://127.0.0.1:1" })),
        ("an issuer with a slash more", json!({ "iss": format!("{issuer}/") })),
        ("another tenant of the issuer", json!({ "iss": issuer.replace("tenant-a", "tenant-b") })),
        ("iss null", json!({ "iss": null })),
        ("iss a list", json!({ "iss": [issuer] })),
        ("iss an object", json!({ "iss": { "iss": issuer } })),
        ("iss a number", json!({ "iss": 1 })),
        ("no issuer", json!({ "iss": "(absent)" })),
        ("expired", json!({ "exp": now - 61 })),
        ("expired in 1970", json!({ "exp": 0 })),
        ("a negative expiry", json!({ "exp": -1 })),
        ("no expiry", json!({ "exp": "(absent)" })),
        ("exp null", json!({ "exp": null })),
        ("exp a text", json!({ "exp": (now + 600).to_string() })),
        ("exp a list", json!({ "exp": [now + 600] })),
        ("exp true", json!({ "exp": true })),
        ("not yet valid", json!({ "nbf": now + 300 })),
        ("nbf null", json!({ "nbf": null })),
        ("nbf a text", json!({ "nbf": "0" })),
        ("issued in the future", json!({ "iat": now + 300 })),
        ("iat null", json!({ "iat": null })),
        ("iat a text", json!({ "iat": "0" })),
        ("an ID token by its nonce", json!({ "nonce": "n" })),
        ("an ID token by its at_hash", json!({ "at_hash": "h" })),
        ("an ID token by its c_hash", json!({ "c_hash": "h" })),
        ("an ID token of Keycloak", json!({ "typ": "ID" })),
        ("a refresh token of Keycloak", json!({ "typ": "Refresh" })),
        ("an ID token of Cognito", json!({ "token_use": "id" })),
        ("no subject", json!({ "sub": "(absent)", "client_id": "(absent)" })),
        ("an empty subject", json!({ "sub": "" })),
        ("sub a number", json!({ "sub": 1 })),
        ("sub null", json!({ "sub": null })),
        ("scope a number", json!({ "scope": 1 })),
        ("bound to a certificate", json!({ "cnf": { "x5t#S256": "abc" } })),
    ]
}

#[tokio::test]
async fn forged_tokens_are_refused_over_every_transport() {
    for mount in Mount::ALL {
        let issuer = TestIssuer::with_path("/tenant-a").await;
        let server = GuardedServer::start(mount, guard_for(&issuer, mount).build().unwrap()).await;
        let good = issuer.token(mount.resource(), json!({}));
        let (session, pair) = (server.session(&good).await, server.pair(&good).await);
        let reached = server.reached();
        let key = issuer.key();
        let own = claims(&issuer.identifier, mount.resource());
        let mut tokens = forged_signatures(&key, &own);
        let foreign = foreign_claims(&issuer.identifier, mount.resource());
        tokens.extend(foreign.into_iter().map(|(what, changes)| (what, sign(&key, &changed(own.clone(), changes)))));
        assert!(tokens.len() > 80);
        // A token that is refused once is refused again.
        for (what, token) in tokens.iter().chain(&tokens[..3]) {
            for entry in server.entries(&session, &pair) {
                let response = entry.send(|request| bearer(request, token)).await;
                assert_refused(&response, 401, "invalid_token", &format!("{what}, {} ({mount:?})", entry.name));
            }
        }
        assert_eq!(server.reached(), reached, "nothing has run");
        for entry in server.entries(&session, &pair) {
            entry.assert_accepted(&good).await;
        }
        assert!(server.reached() > reached);
    }
}

#[tokio::test]
async fn a_token_signed_by_the_key_of_another_trusted_issuer_is_refused() {
    let (one, two) = (TestIssuer::start().await, TestIssuer::start().await);
    let guard = guard_for(&one, Mount::Listener).issuer(turms_oauth::Issuer::discover(&two.identifier));
    let server = GuardedServer::start(Mount::Listener, guard.build().unwrap()).await;
    let (good, resource) = (two.token(Mount::Listener.resource(), json!({})), Mount::Listener.resource());
    let (session, pair) = (server.session(&good).await, server.pair(&good).await);
    let mixed = sign(&two.key(), &claims(&one.identifier, resource));
    for entry in server.entries(&session, &pair) {
        let response = entry.send(|request| bearer(request, &mixed)).await;
        assert_refused(&response, 401, "invalid_token", entry.name);
    }
}

#[tokio::test]
async fn an_algorithm_that_is_not_accepted_is_refused_though_its_key_is_known() {
    let issuer = TestIssuer::start().await;
    let guard = guard_for(&issuer, Mount::Listener).algorithms([Algorithm::EdDsa]).build().unwrap();
    let server = GuardedServer::start(Mount::Listener, guard).await;
    let token = issuer.token(Mount::Listener.resource(), json!({}));
    let request = turms_testkit::messages::modern_call(1, "whoami", json!({}));
    let response = server.send(bearer(request, &token)).await;
    assert_refused(&response, 401, "invalid_token", "ES256");
    assert_eq!(issuer.key_requests(), 0, "no key is fetched for it");
}

#[tokio::test]
async fn a_key_for_encryption_or_of_another_algorithm_verifies_nothing() {
    let key = key("k1");
    let resource = Mount::Listener.resource();
    let token = sign(&key, &claims("http://127.0.0.1:1", resource));
    for changes in [json!({ "use": "enc" }), json!({ "alg": "ES384" }), json!({ "key_ops": ["sign"] })] {
        // Another key, so that the guard has one that it can use.
        let other = crate::tokens::key("k2").public_jwk();
        let jwk = changed(serde_json::to_value(key.public_jwk()).unwrap(), changes.clone());
        let keys = serde_json::from_value(json!({ "keys": [jwk, other] })).unwrap();
        let guard = TokenGuard::builder(resource).issuer(turms_oauth::Issuer::keys("http://127.0.0.1:1", keys));
        let guard = guard.build().unwrap();
        assert_eq!(guard.verify(&token).await.unwrap_err().status, 401, "{changes}");
    }
    let keys = turms_oauth::JwkSet::new([key.public_jwk()]);
    let guard = TokenGuard::builder(resource).issuer(turms_oauth::Issuer::keys("http://127.0.0.1:1", keys));
    assert!(guard.build().unwrap().verify(&token).await.is_ok());
}
