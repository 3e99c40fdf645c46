//! The token that requests are sent with.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use turms_http::{AuthorizeRequest, Credentials};

use crate::clock::now;
use crate::dpop::{DPOP, DpopKey};
use crate::metadata::TokenResponse;
use crate::scopes::{has_all, split_scopes};
use crate::store::StoredLogin;

/// The token that requests are sent with.
pub(super) struct CurrentToken {
    pub(super) serial: u64,
    pub(super) login: StoredLogin,
    pub(super) authorization: HeaderValue,
    /// The key of the login. Tokens of one login share it, and its nonces.
    pub(super) dpop: Option<Arc<DpopKey>>,
    /// `false` if the store failed: the token in it is older.
    pub(super) is_saved: bool,
}

impl CurrentToken {
    pub(super) fn is_expired(&self) -> bool {
        is_expired(&self.login)
    }

    /// Returns `true` if the token ends within this time. For a short-lived token, half of its lifetime is the limit: otherwise it would
    /// be due from the beginning, and each request would renew it.
    pub(super) fn is_due(&self, ahead: Duration) -> bool {
        let Some(end) = self.login.expires_at else { return false };
        let lifetime = end.duration_since(self.login.obtained_at).unwrap_or_default();
        end <= now() + ahead.min(lifetime / 2)
    }

    pub(super) fn has_requested(&self, scopes: &[String]) -> bool {
        has_all(&self.login.requested_scopes, scopes)
    }

    pub(super) fn credentials(&self, request: &AuthorizeRequest<'_>) -> Credentials {
        let credentials = Credentials::new(self.authorization.clone()).serial(self.serial);
        let Some(dpop) = &self.dpop else { return credentials };
        let nonce = dpop.nonce(request.url);
        let token = self.login.access_token.expose();
        let proof = dpop.proof(request.method, request.url, Some(token), nonce.as_deref());
        match HeaderValue::try_from(proof) {
            Ok(proof) => credentials.header(DPOP, proof),
            Err(_) => credentials,
        }
    }
}

pub(super) fn is_expired(login: &StoredLogin) -> bool {
    login.expires_at.is_some_and(|at| at <= now())
}

/// Updates a login by a token response. A refresh token and scopes that the response does not have stay as they were.
pub(super) fn apply_response(login: &mut StoredLogin, response: TokenResponse) {
    let now = now();
    login.obtained_at = now;
    login.expires_at = response.expires_in.and_then(|lifetime| now.checked_add(lifetime));
    login.access_token = response.access_token;
    login.token_type = response.token_type;
    if let Some(token) = response.refresh_token {
        login.refresh_token = Some(token);
    }
    if let Some(scope) = response.scope {
        login.scopes = split_scopes(&scope);
    }
}
