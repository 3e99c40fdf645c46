//! Logins in progress at the provider. Each is in a cookie of the browser that has approved, encrypted and authenticated with a key of
//! the proxy.
//!
//! The proxy has no table of them, because anyone with a registered client could fill it and so end the logins of others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use parking_lot::Mutex;
use turms_core::__internal::random_bytes;
use zeroize::Zeroizing;

use crate::jws::{encode, sha256};
use crate::pkce::{Pkce, pkce, pkce_challenge, random_token};
use crate::secret::Secret;
use crate::server::authorize::RequestDetails;
use crate::server::expiring_map::ExpiringMap;
use crate::server::http::{HttpRequest, HttpResponse};
use crate::server::page::BrowserSessions;
use crate::server::refusal::Refusal;

/// Start of the names of the cookies. The rest is a part of the hash of `state`.
const COOKIE: &str = "login-";

/// Number of letters of the hash in the name of a cookie.
const NAME_LENGTH: usize = 16;

/// Maximum length of a cookie, in bytes. Browsers take 4 096.
const MAX_COOKIE_BYTES: usize = 3_000;

/// Maximum length of the cookies of all logins in progress in one browser, in bytes. If there are more, those of the oldest logins are
/// removed: the browser sends all of them in one header, and many web servers take 8 KiB.
const MAX_COOKIES_BYTES: usize = 2 * MAX_COOKIE_BYTES;

/// Time for a login at the provider, in seconds.
const LIFETIME: u64 = 10 * 60;

/// Maximum number of remembered logins that were completed. If there are more, the oldest are forgotten. Then their browsers could
/// complete them once more, but only with a further code of the provider.
const MAX_USED: usize = 10_000;

const NONCE_BYTES: usize = 24;

/// A login in progress, after the person has approved the client.
pub(super) struct Attempt {
    /// The request of the client.
    pub(super) request: RequestDetails,
    pub(super) state: Secret,
    pub(super) pkce: Pkce,
    /// `nonce` of the ID token.
    pub(super) nonce: Secret,
}

impl Attempt {
    pub(super) fn new(request: RequestDetails) -> Self {
        Self { request, state: random_token(), pkce: pkce(), nonce: random_token() }
    }
}

/// Seals logins in progress in cookies, and makes sure that each is completed at most once.
pub(super) struct Attempts {
    cipher: XChaCha20Poly1305,
    /// The hashes of `state` of the logins that were completed or are being completed.
    used: Mutex<ExpiringMap<[u8; 32], ()>>,
}

impl Attempts {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        Self { cipher: XChaCha20Poly1305::new(key.into()), used: Mutex::new(ExpiringMap::new(MAX_USED)) }
    }

    /// Creates the cookie of a login.
    ///
    /// # Errors
    /// If the request of the client is too long.
    pub(super) fn seal(&self, attempt: &Attempt, now: u64) -> Result<AttemptCookie, Refusal> {
        let end = now.saturating_add(LIFETIME);
        let parts = (attempt.pkce.verifier.expose(), attempt.nonce.expose(), &attempt.request);
        let too_long = || Refusal::invalid_request("the request is too long; use a shorter state, or fewer scopes");
        let text = Zeroizing::new(serde_json::to_vec(&parts).map_err(|_| too_long())?);
        let nonce = random_bytes::<NONCE_BYTES>();
        let payload = Payload { msg: &text, aad: &bound_to(end, &attempt.state) };
        let sealed = self.cipher.encrypt(&XNonce::from(nonce), payload).map_err(|_| too_long())?;
        let cookie = AttemptCookie {
            name: name_of(&attempt.state),
            value: format!("{end}.{}", encode([&nonce[..], &sealed].concat())),
        };
        if cookie.name.len() + cookie.value.len() > MAX_COOKIE_BYTES {
            return Err(too_long());
        }
        Ok(cookie)
    }

    /// Returns the login with this `state`, if this browser has begun it and it has not expired.
    pub(super) fn open(
        &self,
        sessions: &BrowserSessions,
        request: &HttpRequest,
        state: &Secret,
        now: u64,
    ) -> Option<Attempt> {
        let (end, sealed) = sessions.cookie(request, &name_of(state))?.split_once('.')?;
        let end = end.parse().ok().filter(|end| now < *end)?;
        let sealed = URL_SAFE_NO_PAD.decode(sealed).ok()?;
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let payload = Payload { msg: sealed, aad: &bound_to(end, state) };
        let text = Zeroizing::new(self.cipher.decrypt(&XNonce::from(*nonce), payload).ok()?);
        let (verifier, nonce, request): (Secret, Secret, RequestDetails) = serde_json::from_slice(&text).ok()?;
        let pkce = Pkce { challenge: pkce_challenge(verifier.expose()), verifier };
        Some(Attempt { request, state: state.clone(), pkce, nonce })
    }

    /// Begins to complete a login. Returns `false` if that was done before.
    pub(super) fn claim(&self, state: &Secret, now: u64) -> bool {
        let (key, mut used) = (sha256(state.expose()), self.used.lock());
        let is_new = used.get(&key, now).is_none();
        if is_new {
            used.insert(key, (), now.saturating_add(LIFETIME), now);
        }
        is_new
    }

    /// Forgets a login that could not be completed, so that only people who can log in at the provider can fill the memory.
    pub(super) fn release(&self, state: &Secret, now: u64) {
        self.used.lock().take(&sha256(state.expose()), now);
    }
}

/// The cookie of a login in progress.
#[derive(Debug)]
pub(super) struct AttemptCookie {
    name: String,
    value: String,
}

impl AttemptCookie {
    /// Adds the cookie to the response to a request, and removes those of the oldest logins if there are too many.
    pub(super) fn set(&self, sessions: &BrowserSessions, request: &HttpRequest, response: &mut HttpResponse, now: u64) {
        // All but the newest first. One without a valid time is none of the proxy, and the first one to be removed.
        let end_of = |value: &str| {
            let end = value.split_once('.').and_then(|(end, _)| end.parse().ok());
            end.filter(|end| (now + 1..=now.saturating_add(LIFETIME)).contains(end)).unwrap_or_default()
        };
        let mut others: Vec<_> =
            sessions.cookies(request, COOKIE).map(|(name, value)| (end_of(value), name, value)).collect();
        others.sort_unstable_by(|one, other| other.cmp(one));
        let mut length = self.name.len() + self.value.len();
        for (end, name, value) in others {
            length += COOKIE.len() + name.len() + value.len();
            if end == 0 || length > MAX_COOKIES_BYTES {
                sessions.set_cookie(response, &format!("{COOKIE}{name}"), "", 0);
            }
        }
        sessions.set_cookie(response, &self.name, &self.value, LIFETIME);
    }
}

/// Removes the cookie of a login.
pub(super) fn remove_cookie(sessions: &BrowserSessions, response: &mut HttpResponse, state: &Secret) {
    sessions.set_cookie(response, &name_of(state), "", 0);
}

/// Returns the name of the cookie of a login. Each login has one of its own, so that several can be in progress in one browser.
fn name_of(state: &Secret) -> String {
    format!("{COOKIE}{}", &encode(sha256(state.expose()))[..NAME_LENGTH])
}

/// The data that a sealed login is bound to: its end, and its `state`.
fn bound_to(end: u64, state: &Secret) -> Vec<u8> {
    format!("{end} {}", state.expose()).into_bytes()
}
