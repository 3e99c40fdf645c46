//! Signing keys, access tokens and refresh tokens.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use turms_core::__internal::random_bytes;

use super::claims::{Claims, date, text};
use super::clock::end_of;
use super::expiring_map::ExpiringMap;
use crate::jws::{JwkSet, SigningKey, encode, sha256};
use crate::pkce::random_token;
use crate::secret::Secret;

/// Maximum number of access tokens that are known to introspection and revocation.
const MAX_ACCESS_TOKENS: usize = 10_000;

/// Maximum number of logins with a refresh token.
const MAX_FAMILIES: usize = 10_000;

/// Maximum number of logins of one subject, so that a single person cannot displace the logins of others. The oldest is revoked.
const MAX_FAMILIES_OF_SUBJECT: usize = 100;

/// Maximum number of access tokens of one login that introspection and revocation know, so that a client that refreshes all the time
/// cannot displace the tokens of others.
const MAX_ACCESS_TOKENS_OF_LOGIN: usize = 20;

/// Maximum number of access tokens without a refresh token of one subject that introspection and revocation know. The subject of client
/// credentials is the client.
const MAX_LONE_TOKENS_OF_SUBJECT: usize = 100;

/// Data of the application about a login. It is dropped with the last token of the login.
pub(crate) type LoginData = Option<Arc<dyn Any + Send + Sync>>;

/// The rights that were granted to a client.
#[derive(Debug, Clone)]
pub(crate) struct Grant {
    pub(crate) client_id: String,
    pub(crate) subject: String,
    pub(crate) scopes: Vec<String>,
    /// Audiences of access tokens.
    pub(crate) audiences: Vec<String>,
    /// Further claims of tokens.
    pub(crate) claims: Claims,
    pub(crate) login_data: LoginData,
    /// Second of the login.
    pub(crate) since: u64,
}

/// The id of all tokens that come from one login.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Family(pub(crate) Arc<str>);

impl Family {
    pub(crate) fn new() -> Self {
        Self(encode(random_bytes::<16>()).into())
    }
}

/// An access token that was issued.
struct AccessRecord {
    family: Family,
    claims: Claims,
    _login_data: LoginData,
}

/// A login with a refresh token.
#[derive(Clone)]
pub(crate) struct RefreshRecord {
    /// Hash of the current refresh token.
    hash: [u8; 32],
    /// Hashes of the access tokens, the oldest first.
    access: VecDeque<[u8; 32]>,
    pub(crate) grant: Grant,
    /// Thumbprint of the key that must be used, for public clients.
    pub(crate) jkt: Option<String>,
}

/// The result of looking up a refresh token.
pub(crate) enum Refresh {
    Valid(Family, Box<RefreshRecord>),
    /// It was replaced by another one, so that it was stolen or used twice. The family has been revoked.
    Reused,
    Unknown,
}

/// Issues tokens, and knows which ones are valid.
pub(crate) struct Tokens(Mutex<TokenState>);

struct TokenState {
    key: Arc<SigningKey>,
    previous: Option<Arc<SigningKey>>,
    access: ExpiringMap<[u8; 32], AccessRecord>,
    families: ExpiringMap<Family, RefreshRecord>,
    /// Hashes of the access tokens without a refresh token by their subject, the oldest first.
    lone: ExpiringMap<String, VecDeque<[u8; 32]>>,
}

impl Tokens {
    pub(crate) fn new(key: SigningKey) -> Self {
        Self(Mutex::new(TokenState {
            key: Arc::new(with_key_id(key)),
            previous: None,
            access: ExpiringMap::new(MAX_ACCESS_TOKENS),
            families: ExpiringMap::new(MAX_FAMILIES),
            lone: ExpiringMap::new(MAX_ACCESS_TOKENS),
        }))
    }

    /// Signs with another key from now on. The previous one remains in the key set.
    #[cfg(feature = "dev")]
    pub(crate) fn rotate_key(&self, key: SigningKey) {
        let mut state = self.0.lock();
        let previous = std::mem::replace(&mut state.key, Arc::new(with_key_id(key)));
        state.previous = Some(previous);
    }

    pub(crate) fn key(&self) -> Arc<SigningKey> {
        self.0.lock().key.clone()
    }

    pub(crate) fn jwk_set(&self) -> JwkSet {
        let state = self.0.lock();
        let keys = [Some(&state.key), state.previous.as_ref()];
        JwkSet::new(keys.into_iter().flatten().map(|key| key.public_jwk()))
    }

    /// Signs claims with the current key.
    pub(crate) fn sign(&self, kind: &str, claims: &Claims) -> String {
        self.key().sign(&[("typ", json!(kind))], claims)
    }

    /// Issues an access token: signed, or opaque.
    pub(crate) fn issue_access(
        &self,
        family: &Family,
        claims: Claims,
        login_data: LoginData,
        is_opaque: bool,
        now: u64,
    ) -> Secret {
        let token = if is_opaque { random_token() } else { Secret::new(self.sign("at+jwt", &claims)) };
        self.remember_access(token.expose(), family, claims, login_data, now);
        token
    }

    /// Adds an access token to those that are valid.
    pub(crate) fn remember_access(
        &self,
        token: &str,
        family: &Family,
        claims: Claims,
        login_data: LoginData,
        now: u64,
    ) {
        let expires_at = date(&claims, "exp").unwrap_or(now);
        let subject = text(&claims, "sub").unwrap_or_default().to_owned();
        let record = AccessRecord { family: family.clone(), claims, _login_data: login_data };
        let (hash, mut state) = (sha256(token), self.0.lock());
        let state = &mut *state;
        state.access.insert(hash, record, expires_at, now);
        let displaced = match state.families.get_mut(family, now) {
            Some(login) => push_bounded(&mut login.access, hash, MAX_ACCESS_TOKENS_OF_LOGIN),
            None => {
                let mut hashes = state.lone.take(&subject, now).unwrap_or_default();
                let displaced = push_bounded(&mut hashes, hash, MAX_LONE_TOKENS_OF_SUBJECT);
                state.lone.insert(subject, hashes, expires_at, now);
                displaced
            }
        };
        if let Some(oldest) = displaced {
            state.access.take(&oldest, now);
        }
    }

    /// Returns the claims of an access token that is valid.
    pub(crate) fn access_claims(&self, token: &str, now: u64) -> Option<Claims> {
        self.0.lock().access.get(&sha256(token), now).map(|record| record.claims.clone())
    }

    /// Issues the first refresh token of a login.
    pub(crate) fn issue_refresh(
        &self,
        family: &Family,
        grant: Grant,
        jkt: Option<String>,
        lifetime: Duration,
        now: u64,
    ) -> Secret {
        let (token, hash) = refresh_token(family);
        let expires_at = end_of(now, lifetime);
        let mut state = self.0.lock();
        let of_subject = state.families.keys_where(|record| record.grant.subject == grant.subject);
        for oldest in of_subject.iter().take((of_subject.len() + 1).saturating_sub(MAX_FAMILIES_OF_SUBJECT)) {
            state.revoke(oldest, now);
        }
        let record = RefreshRecord { hash, access: VecDeque::new(), grant, jkt };
        state.families.insert(family.clone(), record, expires_at, now);
        token
    }

    /// Looks a refresh token up. One that has been replaced revokes its family.
    pub(crate) fn find_refresh(&self, token: &str, now: u64) -> Refresh {
        let Some((family, _)) = token.split_once('.') else { return Refresh::Unknown };
        let family = Family(family.into());
        let mut state = self.0.lock();
        match state.families.get(&family, now) {
            None => Refresh::Unknown,
            Some(record) if record.hash == sha256(token) => Refresh::Valid(family, Box::new(record.clone())),
            Some(_) => {
                state.revoke(&family, now);
                Refresh::Reused
            }
        }
    }

    /// Replaces a refresh token. `None` if another request was faster; the family is revoked then.
    pub(crate) fn rotate_refresh(&self, family: &Family, record: &RefreshRecord, now: u64) -> Option<Secret> {
        let mut state = self.0.lock();
        let current = state.families.get_mut(family, now)?;
        if current.hash != record.hash {
            state.revoke(family, now);
            return None;
        }
        let (token, hash) = refresh_token(family);
        current.hash = hash;
        Some(token)
    }

    /// Returns the client of a token, and the family of a refresh token.
    pub(crate) fn owner(&self, token: &str, now: u64) -> Option<(String, Option<Family>)> {
        if let Some(claims) = self.access_claims(token, now) {
            return Some((claims.get("client_id")?.as_str()?.to_owned(), None));
        }
        match self.find_refresh(token, now) {
            Refresh::Valid(family, record) => Some((record.grant.client_id, Some(family))),
            _ => None,
        }
    }

    pub(crate) fn revoke_access(&self, token: &str, now: u64) {
        self.0.lock().access.take(&sha256(token), now);
    }

    /// Revokes all tokens of a login.
    pub(crate) fn revoke_family(&self, family: &Family, now: u64) {
        self.0.lock().revoke(family, now);
    }

    #[cfg(feature = "dev")]
    pub(crate) fn revoke_all(&self) {
        let mut state = self.0.lock();
        state.access.clear();
        state.families.clear();
        state.lone.clear();
    }
}

impl TokenState {
    fn revoke(&mut self, family: &Family, now: u64) {
        self.families.take(family, now);
        self.access.retain(|record| record.family != *family);
    }
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

/// Adds a hash, and returns the oldest one if there are too many.
fn push_bounded(hashes: &mut VecDeque<[u8; 32]>, hash: [u8; 32], max: usize) -> Option<[u8; 32]> {
    hashes.push_back(hash);
    if hashes.len() > max { hashes.pop_front() } else { None }
}

/// Creates a refresh token, which names its family, and returns its hash.
fn refresh_token(family: &Family) -> (Secret, [u8; 32]) {
    let token = Secret::new(format!("{}.{}", family.0, random_token().expose()));
    let hash = sha256(token.expose());
    (token, hash)
}

/// Gives a key its thumbprint as id.
fn with_key_id(key: SigningKey) -> SigningKey {
    match key.bare_jwk().thumbprint() {
        Ok(thumbprint) => key.key_id(thumbprint),
        Err(_) => key,
    }
}

/// Returns the value of `aud`: one text, or a list.
pub(crate) fn audience_claim(audiences: &[String]) -> Value {
    match audiences {
        [audience] => json!(audience),
        audiences => json!(audiences),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::default_key;

    fn grant(subject: &str) -> Grant {
        Grant {
            client_id: "app".to_owned(),
            subject: subject.to_owned(),
            scopes: Vec::new(),
            audiences: Vec::new(),
            claims: Claims::new(),
            login_data: None,
            since: 0,
        }
    }

    #[test]
    fn a_subject_without_refresh_tokens_displaces_no_tokens_of_others() {
        let tokens = Tokens::new(default_key());
        let issue = |subject: &str, until: u64, now: u64| {
            let claims = json!({ "exp": until, "sub": subject });
            tokens.issue_access(&Family::new(), claims.as_object().unwrap().clone(), None, true, now)
        };
        let of_robot = issue("robot", 100, 1);
        let of_eve: Vec<Secret> = (0..2 * MAX_ACCESS_TOKENS).map(|_| issue("eve", 100, 1)).collect();
        let is_known = |token: &Secret, now: u64| tokens.access_claims(token.expose(), now).is_some();
        assert!(is_known(&of_robot, 1));
        assert_eq!(of_eve.iter().filter(|token| is_known(token, 1)).count(), MAX_LONE_TOKENS_OF_SUBJECT);
        assert!(of_eve.last().is_some_and(|token| is_known(token, 1)), "the newest ones are known");
        // Expired tokens do not count.
        let later = issue("eve", 200, 100);
        assert!(is_known(&later, 100) && !of_eve.iter().any(|token| is_known(token, 100)));
        assert_eq!(tokens.0.lock().lone.get("eve", 100).map(VecDeque::len), Some(1));
    }

    #[test]
    fn a_client_that_refreshes_all_the_time_displaces_no_tokens_of_others() {
        let tokens = Tokens::new(default_key());
        let claims = Claims::from_iter([("exp".to_owned(), json!(100))]);
        let issue = |family: &Family| tokens.issue_access(family, claims.clone(), None, true, 1);
        let (ann, eve) = (Family::new(), Family::new());
        for (family, subject) in [(&ann, "ann"), (&eve, "eve")] {
            tokens.issue_refresh(family, grant(subject), None, Duration::from_secs(1000), 1);
        }
        let of_ann = issue(&ann);
        let of_eve: Vec<Secret> = (0..2 * MAX_ACCESS_TOKENS).map(|_| issue(&eve)).collect();
        let is_known = |token: &Secret| tokens.access_claims(token.expose(), 1).is_some();
        assert!(is_known(&of_ann));
        assert_eq!(of_eve.iter().filter(|token| is_known(token)).count(), MAX_ACCESS_TOKENS_OF_LOGIN);
        assert!(of_eve.last().is_some_and(is_known), "the newest ones are known");
    }
}
