//! Proofs of possession at the endpoints (RFC 9449).

use http::HeaderValue;
use http::header::HeaderName;
use parking_lot::Mutex;
use turms_core::__internal::random_bytes;
use url::Url;

use super::claims::{Claims, date, text};
use super::expiring_map::ExpiringMap;
use super::http::HttpRequest;
use super::refusal::Refusal;
use crate::jws::{Jws, MacKey, decode_base64url, encode, sha256};

pub(crate) const DPOP: HeaderName = HeaderName::from_static("dpop");
pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Largest difference between `iat` and the time of the server, in seconds.
const WINDOW: u64 = 300;

/// Maximum number of remembered proofs. Further ones are refused.
const MAX_PROOFS: usize = 100_000;

/// A valid proof, which is remembered.
#[derive(Clone)]
pub(crate) struct Proven {
    /// Thumbprint of its key.
    pub(crate) jkt: String,
    id: [u8; 32],
}

/// Checks proofs.
pub(crate) struct ProofCheck {
    proofs: Mutex<ExpiringMap<[u8; 32], ()>>,
    /// The key of nonces. `None` if none are needed.
    nonces: Option<MacKey>,
}

impl ProofCheck {
    pub(crate) fn new(needs_nonce: bool) -> Self {
        let nonces = needs_nonce.then(|| MacKey::new(&random_bytes()));
        Self { proofs: Mutex::new(ExpiringMap::new(MAX_PROOFS)), nonces }
    }

    /// Checks the proof of a request, and remembers it. `None` if there is no proof.
    pub(crate) fn check(
        &self,
        request: &HttpRequest,
        url: &str,
        access_token: Option<&str>,
        now: u64,
    ) -> Result<Option<Proven>, Refusal> {
        let invalid = |reason: &str| Refusal::new("invalid_dpop_proof", format!("DPoP proof: {reason}"));
        if !request.headers.contains_key(DPOP) {
            return Ok(None);
        }
        let proof = request.header(&DPOP).ok_or_else(|| invalid("there is more than one header"))?;
        let jws = Jws::parse(proof).map_err(|error| invalid(&error.to_string()))?;
        if jws.header("typ") != Some("dpop+jwt") {
            return Err(invalid("typ is not dpop+jwt"));
        }
        let key = jws.jwk().filter(|key| !key.is_private()).ok_or_else(|| invalid("jwk is not a public key"))?;
        jws.verify(&key).map_err(|error| invalid(&error.to_string()))?;
        let claims: Claims = jws.claims().map_err(|error| invalid(&error.to_string()))?;
        if text(&claims, "htm") != Some(request.method.as_str()) {
            return Err(invalid("htm is another method"));
        }
        if !text(&claims, "htu").is_some_and(|own| is_same_url(own, url)) {
            return Err(invalid("htu is another URL"));
        }
        if date(&claims, "iat").is_none_or(|issued| issued.abs_diff(now) > WINDOW) {
            return Err(invalid("iat is too far from the time of the server"));
        }
        let hash = access_token.map(|token| encode(sha256(token)));
        if text(&claims, "ath") != hash.as_deref() {
            return Err(invalid("ath is not the hash of the access token"));
        }
        let thumbprint = key.thumbprint().map_err(|error| invalid(&error.to_string()))?;
        let jti = text(&claims, "jti").ok_or_else(|| invalid("jti is missing"))?;
        if !self.is_nonce_valid(text(&claims, "nonce"), now) {
            return Err(Refusal::new("use_dpop_nonce", "a nonce of this server is required")
                .header(DPOP_NONCE, self.nonce(now).unwrap_or(HeaderValue::from_static(""))));
        }
        let id = sha256(format!("{thumbprint} {jti}"));
        if self.proofs.lock().insert_new(id, (), now + 2 * WINDOW, now) {
            Ok(Some(Proven { jkt: thumbprint, id }))
        } else {
            Err(invalid("jti was used before"))
        }
    }

    /// Forgets the proof of a request that was refused. Nothing was issued for it, and requests that anyone can send must not fill the
    /// memory that the proofs of others need.
    pub(crate) fn forget(&self, proof: &Proven, now: u64) {
        self.proofs.lock().take(&proof.id, now);
    }

    /// Returns a nonce, if they are needed: the time and its authentication code.
    pub(crate) fn nonce(&self, now: u64) -> Option<HeaderValue> {
        let code = encode(self.nonces.as_ref()?.sign(&now.to_be_bytes()));
        HeaderValue::try_from(format!("{now}.{code}")).ok()
    }

    fn is_nonce_valid(&self, nonce: Option<&str>, now: u64) -> bool {
        let Some(key) = &self.nonces else { return true };
        let parts = nonce.and_then(|nonce| nonce.split_once('.'));
        let parts = parts.and_then(|(issued, code)| Some((issued.parse::<u64>().ok()?, decode_base64url(code)?)));
        parts.is_some_and(|(issued, code)| key.is_valid(&issued.to_be_bytes(), &code) && issued.abs_diff(now) <= WINDOW)
    }
}

/// Compares two URLs without query and fragment, after normalisation (RFC 9449, 4.3).
fn is_same_url(one: &str, other: &str) -> bool {
    let normal = |url: &str| {
        let mut url = Url::parse(url).ok()?;
        url.set_query(None);
        url.set_fragment(None);
        Some(url)
    };
    normal(one).is_some_and(|one| normal(other) == Some(one))
}
