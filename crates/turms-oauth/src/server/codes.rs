//! Authorization codes, which can be used once.

use std::time::Duration;

use parking_lot::Mutex;

use super::authorize::RequestDetails;
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
    /// The rights, without the id of the client.
    pub(crate) grant: Grant,
    pub(crate) family: Family,
    pub(crate) request: RequestDetails,
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
pub(crate) struct Codes(Mutex<CodeTable>);

/// Codes by their hash. Used ones have a table of their own, so that they never displace fresh ones.
#[derive(Debug)]
struct CodeTable {
    fresh: ExpiringMap<[u8; 32], Box<CodeRecord>>,
    used: ExpiringMap<[u8; 32], UsedCode>,
}

#[derive(Debug)]
struct UsedCode {
    family: Family,
    is_replayed: bool,
}

impl Codes {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(CodeTable { fresh: ExpiringMap::new(MAX_CODES), used: ExpiringMap::new(MAX_CODES) }))
    }

    pub(crate) fn issue(&self, record: CodeRecord, lifetime: Duration, now: u64) -> Secret {
        let code = random_token();
        self.0.lock().fresh.insert(sha256(code.expose()), Box::new(record), end_of(now, lifetime), now);
        code
    }

    /// Uses a code. An attempt that fails later also uses it, so that a verifier cannot be guessed.
    pub(crate) fn redeem(&self, code: &str, now: u64) -> Redeemed {
        let key = sha256(code);
        let mut codes = self.0.lock();
        if let Some(used) = codes.used.get_mut(&key, now) {
            used.is_replayed = true;
            return Redeemed::Replayed(used.family.clone());
        }
        let Some(record) = codes.fresh.take(&key, now) else { return Redeemed::Unknown };
        let used = UsedCode { family: record.family.clone(), is_replayed: false };
        codes.used.insert(key, used, end_of(now, USED_CODES_KEPT), now);
        Redeemed::Valid(record)
    }

    /// Returns `true` if a code was used again, which may have been while its tokens were issued.
    pub(crate) fn is_replayed(&self, code: &str, now: u64) -> bool {
        self.0.lock().used.get(&sha256(code), now).is_some_and(|used| used.is_replayed)
    }

    #[cfg(feature = "dev")]
    pub(crate) fn clear(&self) {
        let mut codes = self.0.lock();
        codes.fresh.clear();
        codes.used.clear();
    }
}
