//! Renewal of tokens: before they expire, and after.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::current_token::{CurrentToken, renew};
use super::grant::Grant;
use super::server_login::{ServerLogin, in_task};
use crate::discovery::discover;
use crate::error::OAuthError;
use crate::flow::{self, TokenParameters};
use crate::metadata::AuthorizationServerMetadata;
use crate::store::{LoginLock, StoredLogin};

/// Time between two attempts to renew a token ahead of its end.
const EARLY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// Time after a failure that may pass in which the authorization server is not asked again, unless the user demands it.
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
    pub(super) fn refresh_if_due(self: &Arc<Self>, token: &CurrentToken) {
        let is_renewable = token.login.refresh_token.is_some() || !self.options.grant.is_interactive();
        if is_renewable && token.is_due(self.options.refresh_ahead) {
            self.refresh_early(token.serial);
        }
    }

    fn refresh_early(self: &Arc<Self>, serial: u64) {
        let failed = *self.early_refresh_failed.lock();
        if failed.is_some_and(|at| at.elapsed() < EARLY_REFRESH_INTERVAL)
            || self.is_refreshing_early.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let renewed = this.renew(Some(serial), Renewal::Needed).await;
            // The token is still valid, so that a failure does no harm yet.
            *this.early_refresh_failed.lock() = renewed.is_err().then(Instant::now);
            if let Err(error) = renewed {
                tracing::debug!(%error, "cannot renew a token ahead of its end");
            }
            this.is_refreshing_early.store(false, Ordering::Release);
        });
    }

    /// Renews the token of this serial, unless that has happened. All requests that wait for it get the same outcome.
    pub(super) async fn renew(self: &Arc<Self>, serial: Option<u64>, reason: Renewal) -> Result<(), OAuthError> {
        let attempt = self.renewals.load(Ordering::Acquire);
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            let Some(current) = this.current.load_full() else { return Err(this.login_required()) };
            if Some(current.serial) != serial {
                return Ok(());
            }
            if let Some((number, error, at)) = &changes.renewal_failure {
                let is_paused = error.is_transient() && at.elapsed() < RENEWAL_PAUSE;
                if *number > attempt || (is_paused && reason == Renewal::Needed) {
                    return Err(error.clone());
                }
            }
            let renewed = this.renew_current(&current).await;
            let number = this.renewals.fetch_add(1, Ordering::AcqRel) + 1;
            changes.renewal_failure = renewed.as_ref().err().map(|error| (number, error.clone(), Instant::now()));
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
            return self.publish(stored, true);
        }
        match &self.options.grant {
            Grant::Person => self.refresh_stored(&mut *lock, stored).await,
            // Programs obtain a new token as they obtained the first.
            grant => {
                let discovery = discover(&self.fetcher, &self.server, None, Some(&stored.issuer)).await?;
                if discovery.server.issuer != stored.issuer {
                    // The challenge of the server may name other metadata: its rejection leads there.
                    return Err(self.login_required());
                }
                let key = stored.dpop_key.clone();
                let scopes = stored.requested_scopes.clone();
                let obtained = self.obtain_by_grant(grant, &discovery, scopes, None, key).await?;
                // A store that failed is in the log.
                let _ = self.adopt(&mut *lock, obtained).await;
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
                renew(&mut stored, response);
                // A store that failed is in the log.
                let _ = self.adopt(lock, stored).await;
                Ok(())
            }
            Err(error) => {
                if error.is_invalid_grant() {
                    // The access token may still be valid.
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
