//! The login at one server: its token, and the only place where it changes.
//!
//! Requests read the current token without waiting. Changes are serialized: by a mutex in this process, and by the lock of the store
//! among processes. They run as separate tasks, so that the response of a token endpoint is not lost if a request is dropped.
//!
//! The changes are in other files: renewal in `refresh`, new tokens in `obtain`, and logins by a person in `ask_person`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderValue};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;
use turms_http::{AuthorizeRequest, Challenge, Credentials, RequestPurpose};
use url::Url;

use super::authorizer::describe;
use super::current_token::CurrentToken;
use super::oauth::{LoginStatus, OAuthOptions};
use super::obtain::{Cause, FAILURE_HOLD};
use super::refresh::Renewal;
use crate::dpop::DpopKey;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchStep, Fetcher};
use crate::flow::{self, TokenKind};
use crate::metadata::AuthorizationServerMetadata;
use crate::secret::Secret;
use crate::store::{LoginKey, LoginLock, StoreError, StoredLogin};

/// The login at one server.
pub(super) struct ServerLogin {
    pub(super) options: Arc<OAuthOptions>,
    pub(super) server: Url,
    pub(super) key: LoginKey,
    pub(super) fetcher: Fetcher,
    pub(super) current: ArcSwapOption<CurrentToken>,
    /// Set when the store was read.
    pub(super) loaded: OnceCell<()>,
    next_serial: AtomicU64,
    /// Number of finished attempts to obtain a token.
    pub(super) attempts: AtomicU64,
    /// Number of finished attempts to renew a token.
    pub(super) renewals: AtomicU64,
    pub(super) changes: Mutex<Changes>,
    /// `true` while a token that is still valid is renewed in the background.
    pub(super) is_renewing_early: AtomicBool,
    /// Time of the last such renewal, if it failed.
    pub(super) early_renewal_failed_at: parking_lot::Mutex<Option<Instant>>,
}

/// Failures of earlier changes, for concurrent and later requests.
#[derive(Default)]
pub(super) struct Changes {
    /// The last attempt to obtain a token, if it failed.
    pub(super) failed_attempt: Option<FailedChange>,
    /// The last renewal, if it failed.
    pub(super) failed_renewal: Option<FailedChange>,
    /// Scopes that were requested and were still missing afterwards.
    pub(super) missing: Vec<(Vec<String>, Instant)>,
}

/// A failed attempt to obtain or to renew a token.
pub(super) struct FailedChange {
    /// The number of the attempt, starting at 1.
    pub(super) number: u64,
    pub(super) error: OAuthError,
    pub(super) at: Instant,
}

impl ServerLogin {
    pub(super) fn new(options: Arc<OAuthOptions>, server: Url, key: LoginKey) -> Self {
        let fetcher = options.network.apply(Fetcher::for_server(&server));
        Self {
            options,
            server,
            key,
            fetcher,
            current: ArcSwapOption::empty(),
            loaded: OnceCell::new(),
            next_serial: AtomicU64::new(1),
            attempts: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
            changes: Mutex::default(),
            is_renewing_early: AtomicBool::new(false),
            early_renewal_failed_at: parking_lot::Mutex::default(),
        }
    }

    /// Returns the credentials for a request if the store was read and the token has not expired.
    pub(super) fn cached_credentials(self: &Arc<Self>, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        let current = self.current.load();
        match &*current {
            Some(token) if token.is_expired() && request.purpose != RequestPurpose::Close => None,
            Some(token) => {
                if request.purpose != RequestPurpose::Close {
                    self.renew_if_due(token);
                }
                Some(token.credentials(request))
            }
            // Without a login, a request is sent without a token. Its rejection names the metadata and the scopes.
            None => self.loaded.initialized().then(Credentials::none),
        }
    }

    /// Returns the credentials for a request. Reads the store first, and renews an expired token.
    pub(super) async fn credentials(
        self: &Arc<Self>,
        request: &AuthorizeRequest<'_>,
    ) -> Result<Credentials, OAuthError> {
        self.load().await?;
        if let Some(credentials) = self.cached_credentials(request) {
            return Ok(credentials);
        }
        let serial = self.current.load().as_ref().map(|token| token.serial);
        match self.renew(serial, Renewal::Needed).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => return Err(error),
            // The request is sent without a token, and its rejection leads to another login.
            Err(_) => self.forget(serial),
        }
        Ok(self.current.load().as_ref().map_or_else(Credentials::none, |token| token.credentials(request)))
    }

    /// Returns `true` if this is the serial of the current token.
    pub(super) fn is_current(&self, serial: Option<u64>) -> bool {
        serial.is_some() && serial == self.current.load().as_ref().map(|token| token.serial)
    }

    /// Keeps the nonce of a response for the next proof. Returns `true` if it has one, and proofs are used.
    pub(super) fn keep_nonce(&self, url: &Url, headers: &HeaderMap) -> bool {
        let current = self.current.load();
        let dpop = current.as_ref().and_then(|token| token.dpop.as_ref());
        dpop.is_some_and(|dpop| dpop.observe(url, headers))
    }

    /// Corrects the clock of proofs by the `Date` of a response. Returns `true` if that changes it.
    pub(super) fn correct_clock(&self, headers: &HeaderMap) -> bool {
        let current = self.current.load();
        let dpop = current.as_ref().and_then(|token| token.dpop.as_ref());
        dpop.is_some_and(|dpop| dpop.correct_clock(headers))
    }

    /// Returns `true` if the current token is bound to a key.
    pub(super) fn is_bound(&self) -> bool {
        self.current.load().as_ref().is_some_and(|token| token.dpop.is_some())
    }

    /// Returns the error for a new token that the server rejects. If a person has just obtained it and only a person could obtain
    /// another, further requests fail with it, too: each would open a browser window in vain.
    pub(super) fn reject_new_token(&self, challenge: Option<&Challenge>) -> OAuthError {
        let error = self.rejected_token(challenge);
        // The token may as well be an older one of another process.
        let is_in_vain = self.current.load().as_ref().is_some_and(|token| {
            let is_recent = token.login.obtained_at.elapsed().is_ok_and(|age| age < FAILURE_HOLD);
            is_recent && token.login.refresh_token.is_none()
        });
        // While it is locked, another token is being obtained, whose outcome counts.
        if self.options.grant.is_interactive()
            && is_in_vain
            && let Ok(mut changes) = self.changes.try_lock()
        {
            let number = self.attempts.load(Ordering::Acquire);
            changes.failed_attempt = Some(FailedChange { number, error: error.clone(), at: Instant::now() });
        }
        error
    }

    /// Returns the error for a new token that the server rejects.
    pub(super) fn rejected_token(&self, challenge: Option<&Challenge>) -> OAuthError {
        let current = self.current.load();
        let login = current.as_ref().map(|token| &token.login);
        self.error(OAuthErrorKind::TokenRejected {
            issuer: login.map(|login| login.issuer.clone()).unwrap_or_default(),
            resource: login.and_then(|login| login.resource.clone()),
            scopes: login.map(|login| login.scopes.clone()).unwrap_or_default(),
            response: describe(challenge, login.map(|login| &login.access_token)),
        })
    }

    pub(super) fn error(&self, kind: OAuthErrorKind) -> OAuthError {
        OAuthError::new(kind).with_server(&self.key.server)
    }

    /// Returns the error for a login that a person has to make.
    pub(super) fn login_required(&self) -> OAuthError {
        self.login_required_for(&[])
    }

    /// Returns the error for a login that a person has to make because scopes are missing.
    pub(super) fn login_required_for(&self, scopes: &[String]) -> OAuthError {
        let advice = self.options.login_advice.clone();
        self.error(OAuthErrorKind::LoginRequired { scopes: scopes.to_vec(), advice })
    }

    /// Reads the store once.
    pub(super) async fn load(&self) -> Result<(), OAuthError> {
        let load = async || {
            if self.fetcher.allows_tokens(&self.server)
                && let Some(login) = self.options.store.load(&self.key).await?
                && self.current.load().is_none()
            {
                self.publish(login, true)?;
            }
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.copied()
    }

    /// Returns the login in the store, or the current one if it could not be saved and is newer.
    pub(super) async fn load_locked(&self, lock: &mut dyn LoginLock) -> Result<Option<StoredLogin>, OAuthError> {
        let stored = lock.load().await?;
        let current = self.current.load();
        let is_older = |login: &StoredLogin| stored.as_ref().is_none_or(|it| it.obtained_at < login.obtained_at);
        Ok(match &*current {
            Some(token) if !token.is_saved && is_older(&token.login) => Some(token.login.clone()),
            _ => stored,
        })
    }

    /// Saves a login and makes it the current one. A token that cannot be saved is used, too: the previous one may have been revoked
    /// by its renewal. Errors are logged; the result is that of saving.
    pub(super) async fn save_and_publish(
        &self,
        lock: &mut dyn LoginLock,
        login: StoredLogin,
    ) -> Result<(), StoreError> {
        let saved = lock.save(&login).await;
        if let Err(error) = &saved {
            tracing::warn!(error = %turms_core::__internal::error_chain(error), "cannot save a login; it is lost when this process ends");
        }
        // Does not happen: a response whose token is invalid in a header is an error of the token request.
        if let Err(error) = self.publish(login, saved.is_ok()) {
            tracing::warn!(%error, "a new token cannot be used");
        }
        saved
    }

    /// Makes a login the current one.
    pub(super) fn publish(&self, login: StoredLogin, is_saved: bool) -> Result<(), OAuthError> {
        let dpop = self.stored_key(&login)?;
        let scheme = if dpop.is_some() { "DPoP" } else { "Bearer" };
        let authorization = HeaderValue::try_from(format!("{scheme} {}", login.access_token.expose()));
        let mut authorization = authorization.map_err(|_| {
            let reason = "it has characters that are invalid in a header".to_owned();
            let origin = login.issuer.clone();
            self.error(OAuthErrorKind::InvalidToken { step: FetchStep::Token, origin, reason })
        })?;
        authorization.set_sensitive(true);
        let serial = self.next_serial.fetch_add(1, Ordering::Relaxed);
        self.current.store(Some(Arc::new(CurrentToken { serial, login, authorization, dpop, is_saved })));
        Ok(())
    }

    /// Returns the key of a login. That of the current token is shared, because it knows the nonces and the clock of the servers.
    pub(super) fn stored_key(&self, login: &StoredLogin) -> Result<Option<Arc<DpopKey>>, OAuthError> {
        if let Some(token) = &*self.current.load()
            && token.login.dpop_key == login.dpop_key
        {
            return Ok(token.dpop.clone());
        }
        let key = login.dpop_key.as_ref().map(DpopKey::from_secret).transpose();
        key.map(|key| key.map(Arc::new)).map_err(|error| self.error(OAuthErrorKind::Store(Arc::new(error))))
    }

    /// Removes the current token if it has this serial, so that requests are sent without one.
    pub(super) fn forget(&self, serial: Option<u64>) {
        // A login that could not be saved is kept: it exists only here.
        let is_forgotten = |token: &Arc<CurrentToken>| Some(token.serial) == serial && token.is_saved;
        self.current.rcu(|current| current.as_ref().filter(|token| !is_forgotten(token)).cloned());
    }

    /// Returns a valid access token. Renews an expired one, and obtains one if there is none or it cannot be renewed.
    pub(super) async fn token(self: &Arc<Self>) -> Result<Secret, OAuthError> {
        self.load().await?;
        let current = self.current.load_full();
        match current {
            Some(token) if !token.is_expired() => self.renew_if_due(&token),
            Some(token) => match self.renew(Some(token.serial), Renewal::Needed).await {
                Ok(()) => {}
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => self.probe_and_obtain(Cause::Rejected { sent: Some(token.serial) }).await?,
            },
            None => self.probe_and_obtain(Cause::Rejected { sent: None }).await?,
        }
        self.access_token()
    }

    /// Obtains a token when there is no rejected request, and so no challenge.
    async fn probe_and_obtain(self: &Arc<Self>, cause: Cause) -> Result<(), OAuthError> {
        let challenge = self.probe().await;
        self.obtain(cause, challenge, true).await
    }

    /// Sends a request without a token, and returns the challenge in the response: it may name the metadata and the scopes.
    async fn probe(&self) -> Option<Challenge> {
        let response = self.fetcher.get(FetchStep::Server, self.server.as_str()).await.ok()?;
        let values = response.headers.get_all(http::header::WWW_AUTHENTICATE);
        let challenges = Challenge::parse_all(values.iter());
        challenges.into_iter().find(|it| it.is_scheme("DPoP") || it.is_scheme("Bearer"))
    }

    pub(super) async fn refresh_now(self: &Arc<Self>) -> Result<Secret, OAuthError> {
        self.load().await?;
        let serial = self.current.load().as_ref().map(|token| token.serial);
        self.renew(serial, Renewal::Demanded).await?;
        self.access_token()
    }

    fn access_token(&self) -> Result<Secret, OAuthError> {
        let current = self.current.load();
        current.as_ref().map(|token| token.login.access_token.clone()).ok_or_else(|| self.login_required())
    }

    /// Logs in, with a new registration of this client if `is_fresh`.
    pub(super) async fn log_in(self: &Arc<Self>, is_fresh: bool) -> Result<LoginStatus, OAuthError> {
        self.load().await?;
        self.probe_and_obtain(Cause::Login { is_fresh }).await?;
        self.status().await?.ok_or_else(|| self.login_required())
    }

    /// Removes the login and revokes its tokens. Returns `false` if there was none.
    pub(super) async fn log_out(self: &Arc<Self>) -> Result<bool, OAuthError> {
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            *changes = Changes::default();
            let mut lock = this.options.store.lock(&this.key).await?;
            let stored = this.load_locked(&mut *lock).await?;
            lock.clear().await?;
            this.current.store(None);
            let Some(stored) = stored else { return Ok(false) };
            if let Err(error) = this.revoke(&stored).await {
                tracing::warn!(%error, "the login is removed, but its tokens could not be revoked");
            }
            Ok(true)
        })
        .await
    }

    async fn revoke(&self, stored: &StoredLogin) -> Result<(), OAuthError> {
        if stored.revocation_endpoint.is_none() {
            return Ok(());
        }
        let metadata = AuthorizationServerMetadata {
            issuer: stored.issuer.clone(),
            revocation_endpoint: stored.revocation_endpoint.clone(),
            ..AuthorizationServerMetadata::default()
        };
        let client = self.identity(&stored.client);
        if let Some(token) = &stored.refresh_token {
            flow::revoke(&self.fetcher, &metadata, &client, token, TokenKind::Refresh).await?;
        }
        flow::revoke(&self.fetcher, &metadata, &client, &stored.access_token, TokenKind::Access).await
    }

    pub(super) async fn status(&self) -> Result<Option<LoginStatus>, OAuthError> {
        let stored = self.options.store.load(&self.key).await?;
        Ok(stored.map(|login| LoginStatus {
            server: self.key.server.clone(),
            profile: self.key.profile.clone(),
            issuer: login.issuer,
            scopes: login.scopes,
            expires_at: login.expires_at,
            is_renewable: login.refresh_token.is_some(),
            is_bound: login.dpop_key.is_some(),
        }))
    }
}

/// Runs a future as a task, which continues if the caller is dropped.
pub(super) async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, OAuthError>> + Send + 'static,
) -> Result<T, OAuthError> {
    tokio::spawn(work).await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(OAuthError::new(OAuthErrorKind::Stopped)),
    })
}
