//! Tokens of tests: valid ones, and every kind of forged one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use turms_oauth::{Algorithm, SigningKey};

/// The time at which the clocks of the tests begin, in seconds since 1970: the time of the system.
#[expect(clippy::disallowed_methods, reason = "tokens expire at a time of day")]
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs()
}

/// Creates a key with a key id.
pub(crate) fn key(kid: &str) -> SigningKey {
    SigningKey::generate(Algorithm::Es256).unwrap().key_id(kid)
}

/// The claims of a valid token of `ann` with the scope `notes:read`, for ten minutes.
pub(crate) fn claims(issuer: &str, resource: &str) -> Value {
    let now = now();
    json!({
        "iss": issuer, "aud": resource, "sub": "ann", "client_id": "app", "scope": "notes:read", "iat": now, "exp": now + 600,
    })
}

/// Returns claims with changes. A change to `"(absent)"` removes the claim.
pub(crate) fn changed(mut claims: Value, changes: Value) -> Value {
    let members = claims.as_object_mut().unwrap();
    for (name, value) in changes.as_object().unwrap() {
        if value == "(absent)" {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    claims
}

/// Signs claims as an access token.
pub(crate) fn sign(key: &SigningKey, claims: &Value) -> String {
    key.sign(&[("typ", json!("at+jwt"))], claims)
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

/// Creates a token from its parts.
pub(crate) fn compact(
    header: impl AsRef<[u8]>,
    payload: impl AsRef<[u8]>,
    sign: impl FnOnce(&[u8]) -> Vec<u8>,
) -> String {
    let signed = format!("{}.{}", encode(header), encode(payload));
    let signature = sign(signed.as_bytes());
    format!("{signed}.{}", encode(signature))
}

/// Signs with HMAC, as a server accepts it that takes a public key for a secret.
pub(crate) fn hmac(secret: &[u8], message: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
    ring::hmac::sign(&key, message).as_ref().to_vec()
}

/// Signs the exact bytes of a header and a payload, which need not be valid JSON.
pub(crate) fn sign_bytes(key: &SigningKey, header: &str, payload: &str) -> String {
    let pkcs8 = key.to_pkcs8().unwrap();
    let random = ring::rand::SystemRandom::new();
    let algorithm = &ring::signature::ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = ring::signature::EcdsaKeyPair::from_pkcs8(algorithm, pkcs8, &random).unwrap();
    compact(header, payload, |signed| pair.sign(&random, signed).unwrap().as_ref().to_vec())
}

/// Returns the header of a valid token as a JSON object.
pub(crate) fn header(key: &SigningKey) -> Map<String, Value> {
    let jwk = key.public_jwk();
    let header = json!({ "alg": "ES256", "typ": "at+jwt", "kid": jwk.kid });
    header.as_object().unwrap().clone()
}

/// A proof of possession (DPoP).
#[derive(Clone)]
pub(crate) struct Proof<'a> {
    pub(crate) key: &'a SigningKey,
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) token: &'a str,
}

impl Proof<'_> {
    /// Signs the proof, with changes of its header and its claims.
    pub(crate) fn sign(&self, header_changes: Value, changes: Value) -> String {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let jti = format!("proof-{}", NEXT.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
        let ath = encode(ring::digest::digest(&ring::digest::SHA256, self.token.as_bytes()));
        let claims = json!({ "jti": jti, "htm": self.method, "htu": self.url, "iat": now(), "ath": ath });
        let claims = changed(claims, changes);
        let header = json!({ "typ": "dpop+jwt", "jwk": self.key.bare_jwk() });
        let header = changed(header, header_changes);
        let header: Vec<(&str, Value)> =
            header.as_object().unwrap().iter().map(|(name, value)| (&**name, value.clone())).collect();
        self.key.sign(&header, &claims)
    }
}
