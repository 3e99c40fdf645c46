//! Renewal of tokens: before they expire, and after.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::current_token::renew;
use super::grant::Grant;
use super::server_login::{ServerLogin, in_task};
use crate::discovery::discover;
use crate::error::OAuthError;
use crate::flow::{self, TokenParameters};
use crate::metadata::AuthorizationServerMetadata;
use crate::store::{LoginLock, StoredLogin};

/// Time between two attempts to renew a token ahead of its end.
const EARLY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

impl ServerLogin {
    /// Renews a token in the background.
    pub(super) fn refresh_early(self: &Arc<Self>, serial: u64) {
        let failed = *self.early_refresh_failed.lock();
        if failed.is_some_and(|at| at.elapsed() < EARLY_REFRESH_INTERVAL)
            || self.is_refreshing_early.swap(true, Ordering::AcqRel)
        {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let renewed = this.clone().renew_now(Some(serial)).await;
            // The token is still valid, so that a failure does no harm yet.
            *this.early_refresh_failed.lock() = renewed.is_err().then(Instant::now);
            if let Err(error) = renewed {
                tracing::debug!(%error, "cannot renew a token ahead of its end");
            }
            this.is_refreshing_early.store(false, Ordering::Release);
        });
    }

    /// Renews the token of this serial, unless that has happened.
    pub(super) async fn renew(self: &Arc<Self>, serial: Option<u64>) -> Result<(), OAuthError> {
        in_task(self.clone().renew_now(serial)).await
    }

    pub(super) async fn renew_now(self: Arc<Self>, serial: Option<u64>) -> Result<(), OAuthError> {
        let _changes = self.changes.lock().await;
        let Some(current) = self.current.load_full() else { return Err(self.login_required()) };
        if Some(current.serial) != serial {
            return Ok(());
        }
        let mut lock = self.options.store.lock(&self.key).await?;
        let stored = lock.load().await?.unwrap_or_else(|| current.login.clone());
        if stored.access_token != current.login.access_token {
            return self.publish(stored);
        }
        match &self.options.grant {
            Grant::Person => {
                let renewed = self.refresh_stored(&mut *lock, stored).await?;
                self.publish(renewed)
            }
            // Programs obtain a new token as they obtained the first.
            grant => {
                let discovery = discover(&self.fetcher, &self.server, None, Some(&stored.issuer)).await?;
                let key = stored.dpop_key.clone();
                let scopes = stored.requested_scopes.clone();
                let obtained = self.obtain_by_grant(grant, &discovery, scopes, None, key).await?;
                lock.save(&obtained).await?;
                self.publish(obtained)
            }
        }
    }

    /// Renews a stored login with its refresh token, and stores it. The lock of the store is held.
    pub(super) async fn refresh_stored(
        &self,
        lock: &mut dyn LoginLock,
        mut stored: StoredLogin,
    ) -> Result<StoredLogin, OAuthError> {
        let Some(refresh_token) = stored.refresh_token.clone() else { return Err(self.login_required()) };
        let metadata = AuthorizationServerMetadata {
            issuer: stored.issuer.clone(),
            token_endpoint: Some(stored.token_endpoint.clone()),
            ..AuthorizationServerMetadata::default()
        };
        let client = self.identity(&stored.client);
        let dpop = self.stored_key(&stored)?;
        let parameters = TokenParameters::new().resource(stored.resource.as_deref()).proof(dpop.as_ref());
        let refreshed = flow::refresh(&self.fetcher, &metadata, &client, &refresh_token, &parameters).await;
        match refreshed {
            Ok(response) => {
                renew(&mut stored, response);
                lock.save(&stored).await?;
                Ok(stored)
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
