//! Renewal of tokens: in the background before they expire, and when they have expired.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::current_token::{CurrentToken, apply_response};
use super::grant::Grant;
use super::server_login::{FailedChange, ServerLogin, in_task};
use crate::discovery::discover;
use crate::error::OAuthError;
use crate::flow::{self, TokenParameters};
use crate::metadata::AuthorizationServerMetadata;
use crate::store::{LoginLock, StoredLogin};

/// Time after a failed renewal of a token that is still valid, until the next attempt.
const EARLY_RENEWAL_PAUSE: Duration = Duration::from_secs(30);

/// Time after a transient failure of a renewal, until the next attempt. A renewal that the user demands does not wait.
const RENEWAL_PAUSE: Duration = Duration::from_secs(2);

/// Reason for a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The token has expired, or will soon.
    Needed,
    /// The user demands it.
    Demanded,
}

impl ServerLogin {
    /// Renews a token in the background if it will expire soon, and can be renewed without a person.
    pub(super) fn renew_if_due(self: &Arc<Self>, token: &CurrentToken) {
        let is_renewable = token.login.refresh_token.is_some() || !self.options.grant.is_interactive();
        if is_renewable && token.is_due(self.options.refresh_ahead) {
            self.renew_early(token.serial);
        }
    }

    fn renew_early(self: &Arc<Self>, serial: u64) {
        let failed_at = *self.early_renewal_failed_at.lock();
        if failed_at.is_some_and(|at| at.elapsed() < EARLY_RENEWAL_PAUSE) {
            return;
        }
        if self.is_renewing_early.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let renewed = this.renew(Some(serial), Renewal::Needed).await;
            // The token is still valid, so a failure is not an error of a request.
            *this.early_renewal_failed_at.lock() = renewed.is_err().then(Instant::now);
            if let Err(error) = renewed {
                tracing::debug!(%error, "cannot renew a token ahead of its end");
            }
            this.is_renewing_early.store(false, Ordering::Release);
        });
    }

    /// Renews the current token if it still has this serial. Concurrent calls share one renewal and its result.
    pub(super) async fn renew(self: &Arc<Self>, serial: Option<u64>, reason: Renewal) -> Result<(), OAuthError> {
        let finished_before = self.renewals.load(Ordering::Acquire);
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            let Some(current) = this.current.load_full() else { return Err(this.login_required()) };
            if Some(current.serial) != serial {
                return Ok(());
            }
            if let Some(failed) = &changes.failed_renewal {
                // It has failed while this call was waiting for the mutex.
                let is_shared = failed.number > finished_before;
                let is_paused = failed.error.is_transient() && failed.at.elapsed() < RENEWAL_PAUSE;
                if is_shared || (is_paused && reason == Renewal::Needed) {
                    return Err(failed.error.clone());
                }
            }
            let renewed = this.renew_current(&current).await;
            let number = this.renewals.fetch_add(1, Ordering::AcqRel) + 1;
            let failed = |error: &OAuthError| FailedChange { number, error: error.clone(), at: Instant::now() };
            changes.failed_renewal = renewed.as_ref().err().map(failed);
            renewed
        })
        .await
    }

    async fn renew_current(&self, current: &CurrentToken) -> Result<(), OAuthError> {
        let mut lock = self.options.store.lock(&self.key).await?;
        let Some(stored) = self.load_locked(&mut *lock).await? else {
            // Another process has logged out.
            self.forget(Some(current.serial));
            return Err(self.login_required());
        };
        if stored.access_token != current.login.access_token {
            // Another process has renewed the token.
            return self.publish(stored, true);
        }
        match &self.options.grant {
            Grant::Person => self.refresh_stored(&mut *lock, stored).await,
            // Other grants obtain a new token in the same way as the first one.
            grant => {
                let discovery = discover(&self.fetcher, &self.server, None, Some(&stored.issuer)).await?;
                if discovery.server.issuer != stored.issuer {
                    // The metadata may have moved. The next rejected request has a challenge, which may name its new URL.
                    return Err(self.login_required());
                }
                let key = stored.dpop_key.clone();
                let scopes = stored.requested_scopes.clone();
                let obtained = self.obtain_by_grant(grant, &discovery, scopes, None, key).await?;
                // An error of the store is logged. The token is used.
                let _ = self.save_and_publish(&mut *lock, obtained).await;
                Ok(())
            }
        }
    }

    /// Renews a stored login with its refresh token, stores it, and makes it the current one. The lock of the store is held.
    pub(super) async fn refresh_stored(
        &self,
        lock: &mut dyn LoginLock,
        mut stored: StoredLogin,
    ) -> Result<(), OAuthError> {
        let Some(refresh_token) = stored.refresh_token.clone() else { return Err(self.login_required()) };
        let metadata = AuthorizationServerMetadata {
            issuer: stored.issuer.clone(),
            token_endpoint: Some(stored.token_endpoint.clone()),
            ..AuthorizationServerMetadata::default()
        };
        let client = self.identity(&stored.client);
        let dpop = self.stored_key(&stored)?;
        let parameters = TokenParameters::new().resource(stored.resource.as_deref()).proof(dpop.as_deref());
        match flow::refresh(&self.fetcher, &metadata, &client, &refresh_token, &parameters).await {
            Ok(response) => {
                apply_response(&mut stored, response);
                // An error of the store is logged. The token is used.
                let _ = self.save_and_publish(lock, stored).await;
                Ok(())
            }
            Err(error) => {
                if error.is_invalid_grant() {
                    // Only the refresh token is removed: the access token may still be valid.
                    stored.refresh_token = None;
                    lock.save(&stored).await?;
                }
                if error.is_invalid_client() {
                    self.options.store.remove_client(&stored.issuer, &self.options.profile).await?;
                }
                Err(error)
            }
        }
    }
}
