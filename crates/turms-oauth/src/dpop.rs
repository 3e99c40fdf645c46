//! Proofs of possession of the client (DPoP, RFC 9449).

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderName, Method};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;
use url::Url;
use zeroize::Zeroizing;

use crate::client_auth::seconds_since_epoch;
use crate::clock::now;
use crate::jws::{Algorithm, KeyError, SigningKey, encode, sha256};
use crate::pkce::random_token;
use crate::secret::Secret;

/// The header of a proof.
pub(crate) const DPOP: HeaderName = HeaderName::from_static("dpop");

/// The header of a nonce.
pub(crate) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Maximum length of a nonce, in bytes. Longer ones are ignored.
const MAX_NONCE_LENGTH: usize = 1024;

/// Maximum number of origins with stored nonces. A login has two: the authorization server and the MCP server. When it is exceeded,
/// all nonces are dropped: a missing nonce costs one more request.
const MAX_NONCES: usize = 16;

/// The key that the tokens of a login are bound to. Keeps the newest nonce of each origin.
///
/// ```
/// use turms_oauth::DpopKey;
///
/// let key = DpopKey::generate();
/// let url = "https://auth.example.com/token".parse()?;
/// let proof = key.proof(&http::Method::POST, &url, None, key.nonce(&url).as_deref());
/// assert_eq!(proof.split('.').count(), 3);
/// # Ok::<(), url::ParseError>(())
/// ```
pub struct DpopKey {
    key: SigningKey,
    pkcs8: Zeroizing<Vec<u8>>,
    /// The public key, as the header `jwk` of a proof.
    public_jwk: Value,
    thumbprint: String,
    nonces: Mutex<HashMap<String, String>>,
    /// Seconds that the clock of the servers is ahead.
    clock_offset: AtomicI64,
}

impl DpopKey {
    /// The algorithms of keys that can be created, the preferred one first.
    const ALGORITHMS: [Algorithm; 3] = [Algorithm::Es256, Algorithm::EdDsa, Algorithm::Es384];

    /// Creates a key for ES256.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn generate() -> Self {
        Self::generate_for(None).expect("ES256 is supported")
    }

    /// Creates a key for an algorithm that a server lists in `dpop_signing_alg_values_supported`; ES256 without a list. `None` if the
    /// server lists no algorithm of ES256, EdDSA and ES384.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn generate_for(algorithms: Option<&[String]>) -> Option<Self> {
        let is_listed = |algorithm: &Algorithm| {
            algorithms.is_none_or(|listed| listed.iter().any(|name| name == algorithm.as_str()))
        };
        let algorithm = Self::ALGORITHMS.into_iter().find(is_listed)?;
        let key = SigningKey::generate(algorithm).expect("the algorithm is supported");
        let pkcs8 = key.to_pkcs8().expect("the key was created here").to_vec();
        Some(Self::new(key, pkcs8))
    }

    /// Reads a key that [`to_secret`](Self::to_secret) has written.
    ///
    /// # Errors
    /// When it is not such a key.
    pub fn from_secret(secret: &Secret) -> Result<Self, KeyError> {
        let pkcs8 = URL_SAFE_NO_PAD.decode(secret.expose()).map_err(|_| KeyError::Form)?;
        let key = SigningKey::from_pkcs8(&pkcs8, None)?;
        Ok(Self::new(key, pkcs8))
    }

    fn new(key: SigningKey, pkcs8: Vec<u8>) -> Self {
        let public = key.bare_jwk();
        Self {
            thumbprint: public.thumbprint().expect("the key is complete"),
            public_jwk: serde_json::to_value(&public).expect("a key is JSON"),
            pkcs8: Zeroizing::new(pkcs8),
            nonces: Mutex::default(),
            clock_offset: AtomicI64::new(0),
            key,
        }
    }

    /// Returns the key in base64url of PKCS #8, for a token store.
    #[must_use]
    pub fn to_secret(&self) -> Secret {
        Secret::new(encode(&*self.pkcs8))
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.key.algorithm()
    }

    /// Returns the thumbprint of the public key (RFC 7638), which bound tokens have as `cnf.jkt`.
    #[must_use]
    pub fn thumbprint(&self) -> &str {
        &self.thumbprint
    }

    /// Creates a proof for one request. A proof for an MCP server has the hash of the access token; a proof for a token endpoint does
    /// not. The query and fragment of the URL are left out, and `ws` and `wss` are written as `http` and `https`.
    ///
    /// # Panics
    /// If the operating system provides no random numbers.
    #[must_use]
    pub fn proof(&self, method: &Method, url: &Url, access_token: Option<&str>, nonce: Option<&str>) -> String {
        #[derive(Serialize)]
        struct Claims<'a> {
            jti: &'a str,
            htm: &'a str,
            htu: &'a str,
            iat: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            ath: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            nonce: Option<&'a str>,
        }
        let (id, now) = (random_token(), seconds_since_epoch(now()));
        let claims = Claims {
            jti: id.expose(),
            htm: method.as_str(),
            htu: &htu(url),
            iat: now.saturating_add_signed(self.clock_offset.load(Ordering::Relaxed)),
            ath: access_token.map(|token| encode(sha256(token))),
            nonce,
        };
        self.key.sign(&[("typ", "dpop+jwt".into()), ("jwk", self.public_jwk.clone())], &claims)
    }

    /// Returns the newest nonce of the origin of a URL.
    #[must_use]
    pub fn nonce(&self, url: &Url) -> Option<String> {
        self.nonces.lock().get(&origin(url)).cloned()
    }

    /// Keeps the `DPoP-Nonce` of a response for the origin of its URL. Returns `true` if it has one.
    pub fn observe(&self, url: &Url, headers: &HeaderMap) -> bool {
        let Some(nonce) = headers.get(DPOP_NONCE).and_then(|value| value.to_str().ok()) else { return false };
        if nonce.is_empty() || nonce.len() > MAX_NONCE_LENGTH {
            return false;
        }
        let (mut nonces, origin) = (self.nonces.lock(), origin(url));
        if nonces.get(&origin).is_some_and(|known| known == nonce) {
            return true;
        }
        if nonces.len() >= MAX_NONCES && !nonces.contains_key(&origin) {
            nonces.clear();
        }
        nonces.insert(origin, nonce.to_owned());
        true
    }

    /// Corrects the time of later proofs by the `Date` of a response. Returns `true` if that changes it by more than one second.
    pub fn correct_clock(&self, headers: &HeaderMap) -> bool {
        let date = headers.get(http::header::DATE).and_then(|value| value.to_str().ok());
        let Some(date) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else { return false };
        let (server, here) = (seconds_since_epoch(date), seconds_since_epoch(now()));
        let offset = i64::try_from(server).unwrap_or(i64::MAX).saturating_sub_unsigned(here);
        let before = self.clock_offset.swap(offset, Ordering::Relaxed);
        before.abs_diff(offset) > 1
    }
}

/// Returns the claim `htu` for a URL (RFC 9449, 4.2).
fn htu(url: &Url) -> String {
    let scheme = match url.scheme() {
        "ws" => "http",
        "wss" => "https",
        other => other,
    };
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    format!("{scheme}://{authority}{}", url.path())
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Shows no private key and no nonce.
impl fmt::Debug for DpopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DpopKey")
            .field("algorithm", &self.algorithm())
            .field("thumbprint", &self.thumbprint)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jws::Jws;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn claims(proof: &str) -> Value {
        Jws::parse(proof).unwrap().claims().unwrap()
    }

    #[test]
    fn a_proof_has_the_claims_of_rfc_9449() {
        let key = DpopKey::generate();
        let endpoint = url("https://u:p@Auth.example.com:8443/token?x=1#f");
        let proof = key.proof(&Method::POST, &endpoint, None, None);
        let jws = Jws::parse(&proof).unwrap();
        assert_eq!(jws.header("typ"), Some("dpop+jwt"));
        let jwk = jws.jwk().unwrap();
        assert!(!jwk.is_private());
        jws.verify(&jwk).unwrap();
        assert_eq!(jwk.thumbprint().unwrap(), key.thumbprint());
        let claims: Value = jws.claims().unwrap();
        assert_eq!(claims["htm"], "POST");
        assert_eq!(claims["htu"], "https://auth.example.com:8443/token");
        assert!(claims.get("ath").is_none() && claims.get("nonce").is_none());
        assert!(claims["iat"].as_u64().unwrap().abs_diff(seconds_since_epoch(now())) <= 2);
    }

    #[test]
    fn a_proof_for_a_resource_has_the_hash_of_the_token_and_each_has_its_own_id() {
        let key = DpopKey::generate();
        let server = url("wss://h.example/mcp");
        // RFC 9449, 7.1.
        let token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU";
        let proof = claims(&key.proof(&Method::GET, &server, Some(token), Some("n1")));
        assert_eq!(proof["ath"], "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo");
        assert_eq!(proof["nonce"], "n1");
        assert_eq!(proof["htu"], "https://h.example/mcp");
        let other = claims(&key.proof(&Method::GET, &server, Some(token), Some("n1")));
        assert_ne!(proof["jti"], other["jti"]);
    }

    #[test]
    fn nonces_are_kept_per_origin() {
        let key = DpopKey::generate();
        let (one, other) = (url("https://a.example/token?x"), url("https://b.example/"));
        let headers = |nonce: &str| HeaderMap::from_iter([(DPOP_NONCE, nonce.parse().unwrap())]);
        assert!(key.observe(&one, &headers("n1")));
        assert!(key.observe(&one, &headers("n1")));
        assert!(key.observe(&one, &headers("n2")));
        assert!(!key.observe(&other, &HeaderMap::new()));
        assert!(!key.observe(&other, &headers(&"n".repeat(MAX_NONCE_LENGTH + 1))));
        assert_eq!(key.nonce(&url("https://a.example/mcp")).as_deref(), Some("n2"));
        assert_eq!(key.nonce(&other), None);
        for port in 1..100 {
            key.observe(&url(&format!("https://c.example:{port}/")), &headers("n"));
        }
        assert!(key.nonces.lock().len() <= MAX_NONCES);
    }

    #[test]
    fn the_clock_follows_the_server() {
        let key = DpopKey::generate();
        let date = now() + std::time::Duration::from_secs(3600);
        let headers = HeaderMap::from_iter([(http::header::DATE, httpdate::fmt_http_date(date).parse().unwrap())]);
        assert!(!key.correct_clock(&HeaderMap::new()));
        assert!(key.correct_clock(&headers));
        assert!(!key.correct_clock(&headers));
        let iat = claims(&key.proof(&Method::GET, &url("https://h.example/"), None, None))["iat"].as_u64().unwrap();
        assert!(iat.abs_diff(seconds_since_epoch(date)) <= 2);
    }

    #[test]
    fn a_stored_key_is_the_same_key() {
        let listed = ["RS256".to_owned(), "EdDSA".to_owned()];
        let key = DpopKey::generate_for(Some(&listed)).unwrap();
        assert_eq!(key.algorithm(), Algorithm::EdDsa);
        let stored = DpopKey::from_secret(&key.to_secret()).unwrap();
        assert_eq!(stored.thumbprint(), key.thumbprint());
        assert_eq!(stored.to_secret(), key.to_secret());
        assert!(DpopKey::generate_for(Some(&listed[..1])).is_none());
        assert!(DpopKey::from_secret(&Secret::new("AAAA")).is_err());
    }

    #[test]
    fn debug_does_not_show_the_key() {
        let key = DpopKey::generate();
        key.observe(&url("https://a.example/"), &HeaderMap::from_iter([(DPOP_NONCE, "nonce-1".parse().unwrap())]));
        let shown = format!("{key:?} {key:#?}");
        assert!(!shown.contains(key.to_secret().expose()) && !shown.contains("nonce-1"), "{shown}");
    }
}
