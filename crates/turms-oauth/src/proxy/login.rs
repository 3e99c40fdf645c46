//! Logins at the provider that are complete, and their tokens.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use turms_core::__internal::random_bytes;

use crate::jws::encode;
use crate::metadata::TokenResponse;
use crate::secret::Secret;
use crate::server::clock::end_of;

/// The tokens of the provider. They are dropped with the last token of the login that the proxy has issued.
pub(super) struct UpstreamLogin {
    /// The claim `sid` of tokens of the proxy.
    pub(super) sid: String,
    pub(super) tokens: tokio::sync::Mutex<UpstreamTokens>,
    /// Held while a refresh token of the proxy is used.
    pub(super) refreshing: tokio::sync::Mutex<()>,
}

/// The current tokens of the provider.
pub(super) struct UpstreamTokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    /// Second in which the access token expires. `None` if it does not.
    pub(super) expires_at: Option<u64>,
}

impl UpstreamTokens {
    pub(super) fn new(response: TokenResponse, now: u64) -> Self {
        Self {
            access: response.access_token,
            refresh: response.refresh_token.filter(|token| !token.is_empty()),
            expires_at: response.expires_in.map(|lifetime| end_of(now, lifetime)),
        }
    }

    /// Returns `true` if the access token is valid for at least some seconds.
    pub(super) fn is_valid_for(&self, seconds: u64, now: u64) -> bool {
        self.expires_at.is_none_or(|end| now.saturating_add(seconds) < end)
    }
}

impl UpstreamLogin {
    fn new(tokens: UpstreamTokens) -> Self {
        Self {
            sid: encode(random_bytes::<16>()),
            tokens: tokio::sync::Mutex::new(tokens),
            refreshing: tokio::sync::Mutex::default(),
        }
    }
}

/// Shows no tokens.
impl fmt::Debug for UpstreamLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpstreamLogin").finish_non_exhaustive()
    }
}

/// Finds logins by `sid`. The grants in codes and tokens own them.
#[derive(Default)]
pub(super) struct UpstreamLogins(Mutex<HashMap<String, Weak<UpstreamLogin>>>);

impl UpstreamLogins {
    pub(super) fn create(&self, tokens: UpstreamTokens) -> Arc<UpstreamLogin> {
        let login = Arc::new(UpstreamLogin::new(tokens));
        let mut logins = self.0.lock();
        logins.retain(|_, login| login.strong_count() > 0);
        logins.insert(login.sid.clone(), Arc::downgrade(&login));
        login
    }

    pub(super) fn find(&self, sid: &str) -> Option<Arc<UpstreamLogin>> {
        self.0.lock().get(sid)?.upgrade()
    }
}
