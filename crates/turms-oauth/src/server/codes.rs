//! Authorization codes, which can be used once.

use std::time::Duration;

use parking_lot::Mutex;

use super::clock::end_of;
use super::expiring_map::ExpiringMap;
use super::tokens::{Family, Grant};
use crate::jws::sha256;
use crate::pkce::random_token;
use crate::secret::Secret;

/// Maximum number of codes.
const MAX_CODES: usize = 10_000;

/// Time for which a used code is remembered. If it is used again, its tokens are revoked.
const USED_CODES_KEPT: Duration = Duration::from_secs(60 * 60);

/// An authorization code and what it stands for.
#[derive(Debug, Clone)]
pub(crate) struct CodeRecord {
    pub(crate) grant: Grant,
    pub(crate) family: Family,
    /// The redirect URI of the authorization request, if it had one.
    pub(crate) redirect_uri: Option<String>,
    pub(crate) challenge: String,
    /// `nonce` of OpenID Connect.
    pub(crate) nonce: Option<String>,
    /// Thumbprint of the only key that may use the code.
    pub(crate) jkt: Option<String>,
}

/// The result of using a code.
pub(crate) enum Redeemed {
    Valid(Box<CodeRecord>),
    /// It was used before. All tokens of the family must be revoked.
    Replayed(Family),
    Unknown,
}

/// The codes of an authorization server.
#[derive(Debug)]
pub(crate) struct Codes(Mutex<ExpiringMap<[u8; 32], CodeState>>);

#[derive(Debug)]
enum CodeState {
    Fresh(Box<CodeRecord>),
    Used(Family),
}

impl Codes {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(ExpiringMap::new(MAX_CODES)))
    }

    pub(crate) fn issue(&self, record: CodeRecord, lifetime: Duration, now: u64) -> Secret {
        let code = random_token();
        let state = CodeState::Fresh(Box::new(record));
        self.0.lock().insert(sha256(code.expose()), state, end_of(now, lifetime), now);
        code
    }

    /// Uses a code. An attempt that fails later also uses it, so that a verifier cannot be guessed.
    pub(crate) fn redeem(&self, code: &str, now: u64) -> Redeemed {
        let key = sha256(code);
        let mut codes = self.0.lock();
        let (redeemed, family) = match codes.take(&key, now) {
            None => return Redeemed::Unknown,
            Some(CodeState::Used(family)) => (Redeemed::Replayed(family.clone()), family),
            Some(CodeState::Fresh(record)) => {
                let family = record.family.clone();
                (Redeemed::Valid(record), family)
            }
        };
        codes.insert(key, CodeState::Used(family), end_of(now, USED_CODES_KEPT), now);
        redeemed
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
