//! Proofs of possession (DPoP, RFC 9449) at the resource server.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use turms_core::BoxFuture;
use url::Url;

use super::clock::system_time;
use super::rejection::Refusal;
use crate::jws::{Jws, MacKey, decode_base64url, encode, sha256};

/// Maximum length of a proof, in bytes.
const MAX_PROOF_BYTES: usize = 8 * 1024;

/// Maximum length of a `jti`, in bytes.
const MAX_JTI_BYTES: usize = 256;

/// The acceptance of tokens without a proof of possession.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DpopPolicy {
    /// Tokens that are bound to a key need a proof. Others are accepted as bearer tokens.
    #[default]
    Optional,
    /// All tokens must be bound to a key, and need a proof.
    Required,
}

/// Remembers proofs of possession until they are too old to be accepted, so that each is accepted once.
///
/// Servers with several replicas share a store. Otherwise a proof is accepted once by each replica.
pub trait ReplayStore: Send + Sync + 'static {
    /// Records a proof until a time. Returns `false` if it was recorded before and that time has not passed.
    ///
    /// If the store fails, the request is refused with status 503.
    fn record<'a>(
        &'a self,
        proof: &'a [u8; 32],
        now: SystemTime,
        until: SystemTime,
    ) -> BoxFuture<'a, Result<bool, ReplayStoreError>>;
}

impl<S: ReplayStore + ?Sized> ReplayStore for Arc<S> {
    fn record<'a>(
        &'a self,
        proof: &'a [u8; 32],
        now: SystemTime,
        until: SystemTime,
    ) -> BoxFuture<'a, Result<bool, ReplayStoreError>> {
        (**self).record(proof, now, until)
    }
}

/// Error of a [`ReplayStore`].
#[derive(Debug, thiserror::Error)]
#[error("cannot record a proof of possession")]
pub struct ReplayStoreError(#[source] Box<dyn Error + Send + Sync>);

impl ReplayStoreError {
    /// Creates an error.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(error.into())
    }
}

/// A [`ReplayStore`] in memory. If it is full, further proofs are refused until others have become too old.
pub struct MemoryReplayStore {
    recorded: Mutex<RecordedProofs>,
    capacity: usize,
}

#[derive(Default)]
struct RecordedProofs {
    /// Proofs by the minute in which they become too old.
    minutes: BTreeMap<u64, HashSet<[u8; 32]>>,
    count: usize,
}

impl MemoryReplayStore {
    /// Default maximum number of proofs.
    pub const DEFAULT_CAPACITY: usize = 100_000;

    /// Creates a store for a maximum number of proofs.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { recorded: Mutex::default(), capacity }
    }

    fn record_now(&self, proof: &[u8; 32], now: SystemTime, until: SystemTime) -> Result<bool, ReplayStoreError> {
        let minute = |time: SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() / 60);
        let recorded = &mut *self.recorded.lock();
        let current = recorded.minutes.split_off(&minute(now));
        let expired = std::mem::replace(&mut recorded.minutes, current);
        recorded.count -= expired.values().map(HashSet::len).sum::<usize>();
        if recorded.minutes.values().any(|proofs| proofs.contains(proof)) {
            return Ok(false);
        }
        if recorded.count >= self.capacity {
            return Err(ReplayStoreError::new(format!("the limit of {} recorded proofs is reached", self.capacity)));
        }
        recorded.minutes.entry(minute(until)).or_default().insert(*proof);
        recorded.count += 1;
        Ok(true)
    }
}

/// Creates a store for 100 000 proofs.
impl Default for MemoryReplayStore {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CAPACITY)
    }
}

impl ReplayStore for MemoryReplayStore {
    fn record<'a>(
        &'a self,
        proof: &'a [u8; 32],
        now: SystemTime,
        until: SystemTime,
    ) -> BoxFuture<'a, Result<bool, ReplayStoreError>> {
        Box::pin(std::future::ready(self.record_now(proof, now, until)))
    }
}

impl fmt::Debug for MemoryReplayStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryReplayStore").field("count", &self.recorded.lock().count).finish_non_exhaustive()
    }
}

/// Nonces for proofs: the time and its authentication code. Replicas that share a key accept each other's nonces.
pub(super) struct Nonces {
    pub(super) key: MacKey,
    /// Lifetime, in seconds.
    pub(super) lifetime: f64,
}

impl Nonces {
    const CODE_BYTES: usize = 16;

    fn create(&self, now: f64) -> HeaderValue {
        let time = (now as u64).to_be_bytes();
        let nonce = encode([&time[..], &self.code(&time)].concat());
        HeaderValue::try_from(nonce).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    fn code(&self, time: &[u8]) -> Vec<u8> {
        let mut code = self.key.sign(time);
        code.truncate(Self::CODE_BYTES);
        code
    }

    fn is_valid(&self, nonce: &str, now: f64) -> bool {
        let Some(bytes) = decode_base64url(nonce) else { return false };
        let Some((time, code)) = bytes.split_first_chunk::<8>() else { return false };
        let is_ours: bool = subtle::ConstantTimeEq::ct_eq(code, &*self.code(time)).into();
        let age = now - u64::from_be_bytes(*time) as f64;
        // Other replicas may be a little ahead.
        is_ours && (-self.lifetime..self.lifetime).contains(&age)
    }
}

/// The check of proofs.
pub(super) struct ProofRules {
    /// URLs that a proof may be for.
    pub(super) urls: Vec<Url>,
    /// Maximum difference of the time of a proof and now, in seconds.
    pub(super) window: f64,
    pub(super) nonces: Option<Nonces>,
    pub(super) replays: Arc<dyn ReplayStore>,
}

/// The request that a proof has to be for.
pub(super) struct ProvenRequest<'a> {
    pub(super) method: &'a str,
    /// The URL, if it is none of the resource.
    pub(super) url: Option<Url>,
    pub(super) token: &'a str,
    /// Thumbprint of the key that the token is bound to.
    pub(super) jkt: &'a str,
}

impl ProofRules {
    /// Checks a proof, and records it.
    pub(super) async fn check(&self, proof: &str, request: &ProvenRequest<'_>, now: f64) -> Result<(), Refusal> {
        let (id, until) = self.check_content(proof, request, now)?;
        match self.replays.record(&id, system_time(now), system_time(until)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::Proof("the proof was used before")),
            Err(error) => {
                tracing::error!(
                    error = turms_core::__internal::error_chain(&error),
                    "a proof of possession cannot be recorded"
                );
                Err(Refusal::Unavailable(std::time::Duration::from_secs(5)))
            }
        }
    }

    /// Checks a proof. Returns its id and the time at which it becomes too old.
    fn check_content(&self, proof: &str, request: &ProvenRequest<'_>, now: f64) -> Result<([u8; 32], f64), Refusal> {
        if proof.len() > MAX_PROOF_BYTES {
            return Err(Refusal::Proof("the proof is too long"));
        }
        let jws = Jws::parse(proof).map_err(|_| Refusal::Proof("the proof is not a signed token"))?;
        if !jws.header("typ").is_some_and(|typ| typ.eq_ignore_ascii_case("dpop+jwt")) {
            return Err(Refusal::Proof("the proof has another type"));
        }
        let jwk = jws.jwk().filter(|jwk| !jwk.is_private()).ok_or(Refusal::Proof("the proof has no public key"))?;
        if jwk.thumbprint().ok().as_deref() != Some(request.jkt) {
            return Err(Refusal::Proof("the token is bound to another key"));
        }
        jws.verify(&jwk).map_err(|_| Refusal::Proof("the signature of the proof is wrong"))?;
        let claims: Map<String, Value> =
            jws.claims().map_err(|_| Refusal::Proof("the claims of the proof are malformed"))?;
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("htm") != Some(request.method) {
            return Err(Refusal::Proof("the proof is for another method"));
        }
        if !text("htu").is_some_and(|htu| self.is_url(htu, request)) {
            return Err(Refusal::Proof("the proof is for another URL"));
        }
        if text("ath") != Some(&*encode(sha256(request.token))) {
            return Err(Refusal::Proof("the proof is for another token"));
        }
        let iat = claims.get("iat").and_then(Value::as_f64).ok_or(Refusal::Proof("the proof has no time"))?;
        if (now - iat).abs() > self.window {
            return Err(Refusal::Proof("the time of the proof is too far from that of the server"));
        }
        let jti = text("jti").filter(|jti| (1..=MAX_JTI_BYTES).contains(&jti.len()));
        let jti = jti.ok_or(Refusal::Proof("the proof has no id of 1 to 256 bytes"))?;
        if let Some(nonces) = &self.nonces
            && !text("nonce").is_some_and(|nonce| nonces.is_valid(nonce, now))
        {
            return Err(Refusal::Nonce(nonces.create(now)));
        }
        Ok((sha256(format!("{}\0{jti}", request.jkt)), iat + self.window))
    }

    /// Returns `true` if a proof is for a URL of the resource. Query and fragment do not count, and the URL of a WebSocket counts as that
    /// of its handshake.
    fn is_url(&self, htu: &str, request: &ProvenRequest<'_>) -> bool {
        let Ok(mut url) = Url::parse(htu) else { return false };
        let is_http = match url.scheme() {
            "ws" => url.set_scheme("http").is_ok(),
            "wss" => url.set_scheme("https").is_ok(),
            _ => true,
        };
        url.set_query(None);
        url.set_fragment(None);
        is_http
            && match &request.url {
                Some(expected) => url == *expected,
                None => self.urls.contains(&url),
            }
    }
}

#[cfg(test)]
mod tests;
