//! The login at one server: its token, and the only place where it changes.
//!
//! Requests read the current token without waiting. Changes are serialized: by a mutex in this process, and by the lock of the store
//! among processes. They run in tasks of their own, so that a request that is given up does not lose the response of a token endpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use http::{HeaderMap, HeaderValue};
use tokio::sync::{Mutex, OnceCell};
use turms_http::{AuthorizeRequest, Challenge, Credentials, RequestPurpose};
use url::Url;

use super::authorizer::describe;
use super::grant::{ClientCredentials, Enterprise, Grant, Workload};
use super::oauth::{Dpop, LoginStatus, OAuthOptions, ResourceParameter};
use crate::client_auth::ClientIdentity;
use crate::discovery::{Discovery, discover, discover_server};
use crate::dpop::{DPOP, DpopKey};
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::{FetchStep, Fetcher};
use crate::flow::{self, AuthorizationRequest, CodeExchange, IdTokenExchange, TokenKind, TokenParameters};
use crate::login::LoginKind;
use crate::metadata::{AuthorizationServerMetadata, ClientMetadata, TokenResponse};
use crate::pkce::{pkce, random_token};
use crate::registration::register;
use crate::scopes::{add_scopes, choose_scopes};
use crate::secret::Secret;
use crate::store::{LoginKey, LoginLock, StoreError, StoredClient, StoredLogin};

/// Time for which the failure of a person's login is the answer to further requests, so that browser windows do not pile up.
const FAILURE_HOLD: Duration = Duration::from_secs(60);

/// Time for which scopes that were requested in vain are not requested again.
const SCOPE_HOLD: Duration = Duration::from_secs(10 * 60);

/// Time to wait for another process in which a person logs in.
const LOGIN_WAIT: Duration = Duration::from_secs(5 * 60);

/// Time between two attempts to renew a token ahead of its end.
const EARLY_REFRESH_INTERVAL: Duration = Duration::from_secs(30);

/// The login at one server.
pub(super) struct ServerLogin {
    options: Arc<OAuthOptions>,
    server: Url,
    key: LoginKey,
    fetcher: Fetcher,
    current: ArcSwapOption<CurrentToken>,
    /// Set when the store was read.
    loaded: OnceCell<()>,
    next_serial: AtomicU64,
    /// Number of finished attempts to obtain a token.
    attempts: AtomicU64,
    changes: Mutex<Changes>,
    is_refreshing_early: AtomicBool,
    early_refresh_failed: parking_lot::Mutex<Option<Instant>>,
}

/// What concurrent requests have to know of earlier changes.
#[derive(Default)]
struct Changes {
    /// The last attempt, if it failed: its number, its error, and its time if a person was asked.
    failure: Option<(u64, OAuthError, Option<Instant>)>,
    /// Scopes that were requested and were still missing afterwards.
    missing: Vec<(Vec<String>, Instant)>,
}

/// The token that requests are sent with.
struct CurrentToken {
    serial: u64,
    login: StoredLogin,
    authorization: HeaderValue,
    dpop: Option<DpopKey>,
}

/// Reason for another token.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The server rejected a request, with the token of this serial if any.
    Rejected { sent: Option<u64> },
    /// The server asks for scopes.
    MissingScopes { sent: Option<u64>, scopes: Vec<String> },
    /// The user logs in, with a new registration if `is_fresh`.
    Login { is_fresh: bool },
}

impl CurrentToken {
    fn is_expired(&self) -> bool {
        is_expired(&self.login)
    }

    fn is_due(&self, ahead: Duration) -> bool {
        self.login.refresh_token.is_some() && self.login.expires_at.is_some_and(|at| at <= SystemTime::now() + ahead)
    }

    fn has_requested(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.login.requested_scopes.contains(scope))
    }

    fn credentials(&self, request: &AuthorizeRequest<'_>) -> Credentials {
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
            changes: Mutex::default(),
            is_refreshing_early: AtomicBool::new(false),
            early_refresh_failed: parking_lot::Mutex::default(),
        }
    }

    // Reading

    /// Returns the credentials for a request if that needs no waiting.
    pub(super) fn credentials_at_hand(self: &Arc<Self>, request: &AuthorizeRequest<'_>) -> Option<Credentials> {
        let current = self.current.load();
        match &*current {
            Some(token) if token.is_expired() && request.purpose != RequestPurpose::Close => None,
            Some(token) => {
                if token.is_due(self.options.refresh_ahead) && request.purpose != RequestPurpose::Close {
                    self.refresh_early(token.serial);
                }
                Some(token.credentials(request))
            }
            // Without a login, the first request goes without a token; its rejection tells what is needed.
            None => self.loaded.initialized().then(Credentials::none),
        }
    }

    /// Returns the credentials for a request. Reads the store first, and renews an expired token.
    pub(super) async fn credentials(
        self: &Arc<Self>,
        request: &AuthorizeRequest<'_>,
    ) -> Result<Credentials, OAuthError> {
        self.load().await?;
        if let Some(credentials) = self.credentials_at_hand(request) {
            return Ok(credentials);
        }
        let serial = self.current.load().as_ref().map(|token| token.serial);
        match self.renew(serial).await {
            Ok(()) => {}
            Err(error) if error.is_transient() => return Err(error),
            // The rejection of the request leads to another login.
            Err(_) => self.forget(serial),
        }
        Ok(self.current.load().as_ref().map_or_else(Credentials::none, |token| token.credentials(request)))
    }

    /// Returns `true` if this is the serial of the current token.
    pub(super) fn is_current(&self, serial: Option<u64>) -> bool {
        serial.is_some() && serial == self.current.load().as_ref().map(|token| token.serial)
    }

    /// Returns `true` if the current token is bound to a key.
    pub(super) fn is_bound(&self) -> bool {
        self.current.load().as_ref().is_some_and(|token| token.dpop.is_some())
    }

    /// Keeps the nonce of a response for the next proof. Returns `true` if it is new.
    pub(super) fn keep_nonce(&self, url: &Url, headers: &HeaderMap) -> bool {
        let current = self.current.load();
        let dpop = current.as_ref().and_then(|token| token.dpop.as_ref());
        dpop.is_some_and(|dpop| dpop.observe(url, headers))
    }

    /// Corrects the clock of proofs by a response. Returns `true` if that changes it.
    pub(super) fn correct_clock(&self, headers: &HeaderMap) -> bool {
        let current = self.current.load();
        let dpop = current.as_ref().and_then(|token| token.dpop.as_ref());
        dpop.is_some_and(|dpop| dpop.correct_clock(headers))
    }

    /// Returns the error for a new token that the server rejects.
    pub(super) fn rejected_token(&self, challenge: Option<&Challenge>) -> OAuthError {
        let current = self.current.load();
        let login = current.as_ref().map(|token| &token.login);
        self.error(OAuthErrorKind::TokenRejected {
            issuer: login.map(|login| login.issuer.clone()).unwrap_or_default(),
            resource: login.and_then(|login| login.resource.clone()),
            scopes: login.map(|login| login.scopes.clone()).unwrap_or_default(),
            response: describe(challenge),
        })
    }

    fn error(&self, kind: OAuthErrorKind) -> OAuthError {
        OAuthError::new(kind).with_server(&self.key.server)
    }

    /// Returns the error for a login that a person has to make.
    fn login_required(&self) -> OAuthError {
        self.error(OAuthErrorKind::LoginRequired(self.options.login_advice.clone()))
    }

    /// Reads the store once.
    async fn load(&self) -> Result<(), OAuthError> {
        let load = async || {
            if let Some(login) = self.options.store.load(&self.key).await?
                && self.current.load().is_none()
            {
                self.publish(login)?;
            }
            Ok(())
        };
        self.loaded.get_or_try_init(load).await.map(|()| ())
    }

    /// Makes a login the current one.
    fn publish(&self, login: StoredLogin) -> Result<(), OAuthError> {
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
        self.current.store(Some(Arc::new(CurrentToken { serial, login, authorization, dpop })));
        Ok(())
    }

    fn stored_key(&self, login: &StoredLogin) -> Result<Option<DpopKey>, OAuthError> {
        let key = login.dpop_key.as_ref().map(DpopKey::from_secret).transpose();
        key.map_err(|error| self.error(OAuthErrorKind::Store(Arc::new(error))))
    }

    fn forget(&self, serial: Option<u64>) {
        let forgotten = |token: &Arc<CurrentToken>| Some(token.serial) == serial;
        self.current.rcu(|current| current.as_ref().filter(|token| !forgotten(token)).cloned());
    }

    // Renewing

    /// Renews a token in the background.
    fn refresh_early(self: &Arc<Self>, serial: u64) {
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
    async fn renew(self: &Arc<Self>, serial: Option<u64>) -> Result<(), OAuthError> {
        in_task(self.clone().renew_now(serial)).await
    }

    async fn renew_now(self: Arc<Self>, serial: Option<u64>) -> Result<(), OAuthError> {
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
    async fn refresh_stored(
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

    // Obtaining

    /// Obtains another token. All requests that wait for it get the same outcome.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        cause: Cause,
        challenge: Option<Challenge>,
        may_ask: bool,
    ) -> Result<(), OAuthError> {
        let attempt = self.attempts.load(Ordering::Acquire);
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            if this.is_satisfied(&cause) {
                return Ok(());
            }
            if let Some((number, error, asked)) = &changes.failure {
                let is_shared = *number > attempt;
                let is_held = asked.is_some_and(|at| at.elapsed() < FAILURE_HOLD);
                if !matches!(cause, Cause::Login { .. }) && (is_shared || is_held) {
                    return Err(error.clone());
                }
            }
            let obtained = this.obtain_token(&mut changes, &cause, challenge.as_ref(), may_ask).await;
            let number = this.attempts.fetch_add(1, Ordering::AcqRel) + 1;
            changes.failure = match &obtained {
                // A request that may not ask a person fails alone.
                Err(error) if may_ask => Some((number, error.clone(), is_of_person(error).then(Instant::now))),
                _ => None,
            };
            obtained
        })
        .await
    }

    /// Returns `true` if the current token is newer than the rejected one, and has the missing scopes.
    fn is_satisfied(&self, cause: &Cause) -> bool {
        let current = self.current.load();
        let Some(token) = &*current else { return false };
        match cause {
            Cause::Rejected { sent } => Some(token.serial) != *sent && !token.is_expired(),
            Cause::MissingScopes { sent, scopes } => Some(token.serial) != *sent && token.has_requested(scopes),
            Cause::Login { .. } => false,
        }
    }

    async fn obtain_token(
        &self,
        changes: &mut Changes,
        cause: &Cause,
        challenge: Option<&Challenge>,
        may_ask: bool,
    ) -> Result<(), OAuthError> {
        let is_interactive = self.options.grant.is_interactive();
        if let Cause::MissingScopes { scopes, .. } = cause {
            self.check_scopes(changes, scopes)?;
        }
        let mut lock = self.lock_store().await?;
        let stored = lock.load().await?;
        let current = self.current.load_full();
        if let Some(stored) = &stored
            && !matches!(cause, Cause::Login { .. })
            && current.as_ref().is_none_or(|token| token.login.access_token != stored.access_token)
            && !is_expired(stored)
            && matches!(cause, Cause::Rejected { .. })
        {
            // Another process has logged in or renewed the token.
            return self.publish(stored.clone());
        }
        let issuer = stored.as_ref().map(|stored| stored.issuer.as_str());
        let metadata_url = challenge.and_then(|challenge| challenge.get("resource_metadata"));
        let discovery = discover(&self.fetcher, &self.server, metadata_url, issuer).await?;
        let stored = match stored {
            Some(stored) if stored.issuer != discovery.server.issuer => {
                // The server uses another authorization server now: its tokens are of no use, and must not be sent there.
                lock.clear().await?;
                self.current.store(None);
                None
            }
            stored => stored,
        };
        if let (Some(stored), Cause::Rejected { .. }, true) = (&stored, cause, is_interactive)
            && stored.refresh_token.is_some()
        {
            match self.refresh_stored(&mut *lock, stored.clone()).await {
                Ok(renewed) => return self.publish(renewed),
                Err(error) if error.is_transient() => return Err(error),
                Err(error) => tracing::debug!(%error, "the refresh token is not accepted; a login is needed"),
            }
        }
        let requested = stored.as_ref().map(|stored| stored.requested_scopes.clone()).unwrap_or_default();
        let scopes = match cause {
            Cause::MissingScopes { scopes, .. } => add_scopes(&requested, &scopes.join(" ")),
            _ => {
                let challenged = challenge.and_then(|challenge| challenge.get("scope"));
                let (resource, own) = (discovery.resource.as_ref(), &self.options.scopes);
                choose_scopes(challenged, resource, &discovery.server, own, is_interactive)
            }
        };
        let key = stored.as_ref().and_then(|stored| stored.dpop_key.clone());
        let login = match &self.options.grant {
            Grant::Person if !may_ask => return Err(self.login_required()),
            Grant::Person => {
                let is_fresh = matches!(cause, Cause::Login { is_fresh: true });
                self.ask_person(&discovery, scopes, challenge, key, is_fresh).await?
            }
            grant => self.obtain_by_grant(grant, &discovery, scopes, challenge, key).await?,
        };
        lock.save(&login).await?;
        self.publish(login)
    }

    /// Refuses to request scopes again that were requested in vain.
    fn check_scopes(&self, changes: &mut Changes, scopes: &[String]) -> Result<(), OAuthError> {
        let current = self.current.load();
        let Some(token) = current.as_ref().filter(|token| token.has_requested(scopes)) else { return Ok(()) };
        changes.missing.retain(|(_, at)| at.elapsed() < SCOPE_HOLD);
        let is_held = changes.missing.iter().any(|(missing, _)| missing == scopes);
        let is_recent = token.login.obtained_at.elapsed().is_ok_and(|age| age < SCOPE_HOLD);
        if is_held || is_recent || !self.options.grant.is_interactive() {
            if !is_held {
                changes.missing.push((scopes.to_vec(), Instant::now()));
            }
            return Err(self.error(OAuthErrorKind::InsufficientScope(scopes.to_vec())));
        }
        Ok(())
    }

    /// Takes the lock of the store. Another process may hold it while a person logs in.
    async fn lock_store(&self) -> Result<Box<dyn LoginLock>, OAuthError> {
        let deadline = Instant::now() + LOGIN_WAIT;
        loop {
            match self.options.store.lock(&self.key).await {
                Ok(lock) => return Ok(lock),
                Err(StoreError::Locked(_)) if Instant::now() < deadline => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Obtains a token without a person.
    async fn obtain_by_grant(
        &self,
        grant: &Grant,
        discovery: &Discovery,
        scopes: Vec<String>,
        challenge: Option<&Challenge>,
        key: Option<Secret>,
    ) -> Result<StoredLogin, OAuthError> {
        let metadata = &discovery.server;
        let resource = self.resource(discovery);
        let dpop = self.dpop_key(discovery, challenge, key)?;
        let scope = scopes.join(" ");
        let parameters = TokenParameters::new().scope(&*scope).resource(resource.as_deref()).proof(dpop.as_ref());
        let (client, response) = match grant {
            Grant::ClientCredentials(ClientCredentials { client }) => {
                let response = flow::client_credentials(&self.fetcher, metadata, client, &parameters).await?;
                (Some(client), response)
            }
            Grant::Enterprise(enterprise) => {
                let assertion = self.identity_assertion(enterprise, discovery, &scope).await?;
                let client = enterprise.client.as_ref();
                let parameters = TokenParameters::new().scope(&*scope).proof(dpop.as_ref());
                (client, flow::jwt_bearer(&self.fetcher, metadata, client, &assertion, &parameters).await?)
            }
            Grant::Workload(Workload { assertion, client }) => {
                let (assertion, client) = (assertion.get().await?, client.as_ref());
                (client, flow::jwt_bearer(&self.fetcher, metadata, client, &assertion, &parameters).await?)
            }
            Grant::Person => return Err(self.login_required()),
        };
        let client = StoredClient::new(&metadata.issuer, client.map(ClientIdentity::id).unwrap_or_default());
        Ok(self.stored_login(discovery, client, scopes, response, dpop.as_ref()))
    }

    /// Exchanges the ID token of a person for an assertion of the identity provider (ID-JAG).
    async fn identity_assertion(
        &self,
        enterprise: &Enterprise,
        discovery: &Discovery,
        scope: &str,
    ) -> Result<Secret, OAuthError> {
        let provider = match &enterprise.token_endpoint {
            Some(url) => AuthorizationServerMetadata {
                issuer: enterprise.identity_provider.clone(),
                token_endpoint: Some(url.clone()),
                ..AuthorizationServerMetadata::default()
            },
            None => discover_server(&self.fetcher, &enterprise.identity_provider).await?,
        };
        let exchange = IdTokenExchange::new(enterprise.id_token.get().await?, &discovery.server.issuer);
        let resource = discovery.resource_identifier().unwrap_or(&self.key.server);
        let parameters = TokenParameters::new().scope(scope).resource(resource);
        flow::exchange_id_token(&self.fetcher, &provider, &enterprise.identity_client, &exchange, &parameters).await
    }

    /// Lets a person log in. Registers the client again if the authorization server has forgotten it.
    async fn ask_person(
        &self,
        discovery: &Discovery,
        scopes: Vec<String>,
        challenge: Option<&Challenge>,
        key: Option<Secret>,
        is_fresh: bool,
    ) -> Result<StoredLogin, OAuthError> {
        let issuer = &discovery.server.issuer;
        if is_fresh {
            self.options.store.remove_client(issuer, &self.options.profile).await?;
        }
        let dpop = self.dpop_key(discovery, challenge, key)?;
        let mut attempt = self.ask_once(discovery, &scopes, dpop.as_ref()).await;
        if let Err((error, Some(client))) = &attempt
            && client.is_registered
            && (error.is_invalid_client() || error.is_login_timeout())
        {
            self.options.store.remove_client(issuer, &self.options.profile).await?;
            // Providers show an unknown client in the browser only. Another window would be one too many.
            if error.is_invalid_client() {
                attempt = self.ask_once(discovery, &scopes, dpop.as_ref()).await;
            }
        }
        let (client, response) = attempt.map_err(|(error, _)| error.with_server(&self.key.server))?;
        Ok(self.stored_login(discovery, client, scopes, response, dpop.as_ref()))
    }

    /// Lets a person log in once. An error comes with the client that was used.
    async fn ask_once(
        &self,
        discovery: &Discovery,
        scopes: &[String],
        dpop: Option<&DpopKey>,
    ) -> Result<(StoredClient, TokenResponse), (OAuthError, Option<StoredClient>)> {
        let mut used = None;
        let asked = match self.options.login.kind() {
            LoginKind::Never => Err(self.login_required()),
            LoginKind::Device => self.ask_by_device(discovery, scopes, dpop, &mut used).await,
            LoginKind::Redirect => self.ask_by_redirect(discovery, scopes, dpop, &mut used).await,
        };
        match (asked, used) {
            (Ok(response), Some(client)) => Ok((client, response)),
            (Ok(_), None) => Err((self.login_required(), None)),
            (Err(error), used) => Err((error, used)),
        }
    }

    async fn ask_by_redirect(
        &self,
        discovery: &Discovery,
        scopes: &[String],
        dpop: Option<&DpopKey>,
        used: &mut Option<StoredClient>,
    ) -> Result<TokenResponse, OAuthError> {
        let (options, metadata) = (&self.options, &discovery.server);
        let stored = options.store.load_client(&metadata.issuer, &options.profile).await?;
        let stored = stored.and_then(|client| client.redirect_uri);
        let attempt = options.login.prepare(stored.as_deref()).await?;
        let redirect_uri = attempt.redirect_uri().to_owned();
        let client = used.insert(self.client(discovery, Some(&redirect_uri)).await?);
        let identity = self.identity(client);
        let (pkce, state, resource) = (pkce(), random_token(), self.resource(discovery));
        let request = AuthorizationRequest::new(&client.client_id, &redirect_uri, &state, &pkce)
            .scopes(scopes)
            .resource(resource.as_deref());
        let url = flow::authorization_url(&self.fetcher, metadata, &request)?;
        let callback = attempt.run(&url, &state).await?;
        let code = flow::check_callback(metadata, &state, &callback)?;
        let exchange = CodeExchange::new(code, &redirect_uri, &pkce);
        let parameters = TokenParameters::new().resource(resource.as_deref()).proof(dpop);
        flow::exchange_code(&self.fetcher, metadata, &identity, &exchange, &parameters).await
    }

    async fn ask_by_device(
        &self,
        discovery: &Discovery,
        scopes: &[String],
        dpop: Option<&DpopKey>,
        used: &mut Option<StoredClient>,
    ) -> Result<TokenResponse, OAuthError> {
        let metadata = &discovery.server;
        let client = used.insert(self.client(discovery, None).await?);
        let identity = self.identity(client);
        let (scope, resource) = (scopes.join(" "), self.resource(discovery));
        let parameters = TokenParameters::new().scope(&*scope).resource(resource.as_deref()).proof(dpop);
        let device = flow::device_authorization(&self.fetcher, metadata, &identity, &parameters).await?;
        self.options.login.show_device_code(&device)?;
        flow::wait_for_device_token(&self.fetcher, metadata, &identity, &device, &parameters).await
    }

    /// Returns the client for an authorization server: a given one, a metadata document, a stored registration, or a new one.
    async fn client(&self, discovery: &Discovery, redirect_uri: Option<&str>) -> Result<StoredClient, OAuthError> {
        let (options, metadata) = (&self.options, &discovery.server);
        if let Some((issuer, client)) = options.clients.iter().find(|(issuer, _)| *issuer == metadata.issuer) {
            return Ok(StoredClient::new(issuer, client.id()));
        }
        if let Some(url) = &options.client_metadata
            && metadata.client_id_metadata_document_supported == Some(true)
        {
            return Ok(StoredClient::new(&metadata.issuer, url));
        }
        if let Some(client) = options.store.load_client(&metadata.issuer, &options.profile).await?
            && client.redirect_uri.as_deref() == redirect_uri
            && client.secret_expires_at.is_none_or(|at| at > SystemTime::now())
        {
            return Ok(client);
        }
        let mut request = ClientMetadata::new(&options.client_name, redirect_uri.unwrap_or_default());
        if redirect_uri.is_none() {
            request.redirect_uris.clear();
            request.grant_types = [DEVICE_CODE, "refresh_token"].map(str::to_owned).into();
        }
        let response = register(&self.fetcher, metadata, &request).await?;
        let mut client = StoredClient::new(&metadata.issuer, &response.client_id);
        client.redirect_uri = redirect_uri.map(str::to_owned);
        client.method = response.token_endpoint_auth_method;
        client.client_secret = response.client_secret;
        // 0 is "never".
        let expires_at = response.client_secret_expires_at.filter(|at| *at > 0);
        client.secret_expires_at = expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        client.is_registered = true;
        options.store.save_client(&options.profile, &client).await?;
        Ok(client)
    }

    /// Returns the identity of a client. The credentials of a given client are not in the store.
    fn identity(&self, client: &StoredClient) -> ClientIdentity {
        let given = self.options.clients.iter();
        let mut given = given.filter(|(issuer, given)| *issuer == client.issuer && given.id() == client.client_id);
        given.next().map_or_else(
            || ClientIdentity::with_method(&client.client_id, client.client_secret.clone(), client.method.as_deref()),
            |(_, given)| given.clone(),
        )
    }

    fn resource(&self, discovery: &Discovery) -> Option<String> {
        match &self.options.resource {
            ResourceParameter::FromMetadata => discovery.resource_identifier().map(str::to_owned),
            ResourceParameter::Exactly(resource) => Some(resource.clone()),
            ResourceParameter::Omit => None,
        }
    }

    /// Returns the key for proofs of possession, if there is to be one.
    fn dpop_key(
        &self,
        discovery: &Discovery,
        challenge: Option<&Challenge>,
        stored: Option<Secret>,
    ) -> Result<Option<DpopKey>, OAuthError> {
        let is_asked = challenge.is_some_and(|challenge| challenge.is_scheme("DPoP"))
            || discovery.resource.as_ref().is_some_and(|it| it.dpop_bound_access_tokens_required == Some(true))
            || stored.is_some();
        let is_wanted = match self.options.dpop {
            Dpop::Always => true,
            Dpop::WhenAsked => is_asked,
            Dpop::Never => false,
        };
        let algorithms = discovery.server.dpop_signing_alg_values_supported.as_deref();
        match (is_wanted, stored) {
            (false, _) => Ok(None),
            (true, Some(stored)) => {
                let key = DpopKey::from_secret(&stored);
                key.map(Some).map_err(|error| self.error(OAuthErrorKind::Store(Arc::new(error))))
            }
            (true, None) => DpopKey::generate_for(algorithms).map(Some).ok_or_else(|| {
                let reason = "lists no algorithm for DPoP that is supported (ES256, EdDSA, ES384)";
                OAuthError::unsupported(&discovery.server.issuer, reason)
            }),
        }
    }

    fn stored_login(
        &self,
        discovery: &Discovery,
        client: StoredClient,
        requested_scopes: Vec<String>,
        response: TokenResponse,
        dpop: Option<&DpopKey>,
    ) -> StoredLogin {
        let metadata = &discovery.server;
        let endpoint = metadata.token_endpoint.clone().unwrap_or_default();
        let mut login = StoredLogin::new(response.access_token.clone(), SystemTime::now(), endpoint, client);
        login.scopes = requested_scopes.clone();
        login.requested_scopes = requested_scopes;
        login.resource = self.resource(discovery);
        login.revocation_endpoint = metadata.revocation_endpoint.clone();
        login.dpop_key = dpop.map(DpopKey::to_secret);
        renew(&mut login, response);
        login
    }

    // Operations of users

    pub(super) async fn token(self: &Arc<Self>) -> Result<Secret, OAuthError> {
        self.load().await?;
        let current = self.current.load_full();
        match current {
            Some(token) if !token.is_expired() => {
                if token.is_due(self.options.refresh_ahead) {
                    self.refresh_early(token.serial);
                }
            }
            Some(token) => match self.renew(Some(token.serial)).await {
                Ok(()) => {}
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => self.obtain_unasked(Cause::Rejected { sent: Some(token.serial) }).await?,
            },
            None => self.obtain_unasked(Cause::Rejected { sent: None }).await?,
        }
        self.access_token()
    }

    /// Obtains a token before the server has rejected a request.
    async fn obtain_unasked(self: &Arc<Self>, cause: Cause) -> Result<(), OAuthError> {
        let challenge = self.probe().await;
        self.obtain(cause, challenge, true).await
    }

    /// Returns the challenge of the server to a request without a token. Servers name their metadata there.
    async fn probe(&self) -> Option<Challenge> {
        let response = self.fetcher.get(FetchStep::Server, self.server.as_str()).await.ok()?;
        let values = response.headers.get_all(http::header::WWW_AUTHENTICATE);
        let challenges = Challenge::parse_all(values.iter());
        challenges.into_iter().find(|it| it.is_scheme("DPoP") || it.is_scheme("Bearer"))
    }

    pub(super) async fn refresh_now(self: &Arc<Self>) -> Result<Secret, OAuthError> {
        self.load().await?;
        let serial = self.current.load().as_ref().map(|token| token.serial);
        self.renew(serial).await?;
        self.access_token()
    }

    fn access_token(&self) -> Result<Secret, OAuthError> {
        let current = self.current.load();
        current.as_ref().map(|token| token.login.access_token.clone()).ok_or_else(|| self.login_required())
    }

    pub(super) async fn log_in(self: &Arc<Self>, is_fresh: bool) -> Result<LoginStatus, OAuthError> {
        self.load().await?;
        self.obtain_unasked(Cause::Login { is_fresh }).await?;
        self.status().await?.ok_or_else(|| self.login_required())
    }

    pub(super) async fn log_out(self: &Arc<Self>) -> Result<bool, OAuthError> {
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            *changes = Changes::default();
            let mut lock = this.options.store.lock(&this.key).await?;
            let stored = lock.load().await?;
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

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

fn is_expired(login: &StoredLogin) -> bool {
    login.expires_at.is_some_and(|at| at <= SystemTime::now())
}

/// Takes the tokens of a response. What it does not repeat stays as it was.
fn renew(login: &mut StoredLogin, response: TokenResponse) {
    let now = SystemTime::now();
    login.obtained_at = now;
    login.expires_at = response.expires_in.and_then(|lifetime| now.checked_add(lifetime));
    login.access_token = response.access_token;
    login.token_type = response.token_type;
    if let Some(token) = response.refresh_token {
        login.refresh_token = Some(token);
    }
    if let Some(scope) = response.scope {
        login.scopes = scope.split_ascii_whitespace().map(str::to_owned).collect();
    }
}

/// Returns `true` if a person was asked, and the login failed.
fn is_of_person(error: &OAuthError) -> bool {
    error.is_denied() || error.is_login_timeout() || matches!(error.kind(), OAuthErrorKind::Login(_))
}

/// Runs work to its end, even if the caller stops waiting.
async fn in_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, OAuthError>> + Send + 'static,
) -> Result<T, OAuthError> {
    tokio::spawn(work).await.unwrap_or_else(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(OAuthError::new(OAuthErrorKind::Stopped)),
    })
}
