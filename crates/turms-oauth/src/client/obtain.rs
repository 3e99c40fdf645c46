//! New tokens: the reasons for one, discovery, the choice of scopes, and grants without a person.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use turms_http::Challenge;

use super::current_token::{apply_response, is_expired};
use super::grant::{ClientCredentials, Enterprise, Grant, Workload};
use super::oauth::{Dpop, ResourceParameter};
use super::server_login::{Changes, FailedChange, ServerLogin, in_task};
use crate::client_auth::ClientIdentity;
use crate::clock::now;
use crate::discovery::{Discovery, discover, discover_server};
use crate::dpop::DpopKey;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::flow::{self, IdTokenExchange, TokenParameters};
use crate::login::LoginKind;
use crate::metadata::{AuthorizationServerMetadata, TokenResponse, printable};
use crate::scopes::{add_scopes, choose_scopes, has_all};
use crate::secret::Secret;
use crate::store::{LoginLock, StoreError, StoredClient, StoredLogin};

/// Time for which other requests fail with the same error after a person's login has failed. Otherwise each of them would open a browser
/// window.
pub(super) const FAILURE_HOLD: Duration = Duration::from_secs(60);

/// Time for which scopes that the authorization server has not granted are not requested again.
const SCOPE_HOLD: Duration = Duration::from_secs(10 * 60);

/// Time to wait for a login by a person in another process.
const LOGIN_WAIT: Duration = Duration::from_secs(5 * 60);

/// Reason for another token.
#[derive(Debug, Clone)]
pub(super) enum Cause {
    /// The server rejected a request. `sent` is the serial of its token.
    Rejected { sent: Option<u64> },
    /// The server requires scopes. `sent` is the serial of the token of the request.
    MissingScopes { sent: Option<u64>, scopes: Vec<String> },
    /// The user logs in, with a new registration if `is_fresh`.
    Login { is_fresh: bool },
}

impl ServerLogin {
    /// Obtains another token. Concurrent calls share one attempt and its result.
    ///
    /// A person is asked to log in only if `may_ask`.
    pub(super) async fn obtain(
        self: &Arc<Self>,
        cause: Cause,
        challenge: Option<Challenge>,
        may_ask: bool,
    ) -> Result<(), OAuthError> {
        let finished_before = self.attempts.load(Ordering::Acquire);
        let this = self.clone();
        in_task(async move {
            let mut changes = this.changes.lock().await;
            if this.is_satisfied(&cause) {
                return Ok(());
            }
            if let Some(failed) = &changes.failed_attempt
                && !matches!(cause, Cause::Login { .. })
            {
                // It has failed while this call was waiting for the mutex.
                let is_shared = failed.number > finished_before;
                let is_held = was_person_asked(&failed.error) && failed.at.elapsed() < FAILURE_HOLD;
                if is_shared || is_held {
                    return Err(failed.error.clone());
                }
            }
            let obtained = this.obtain_token(&mut changes, &cause, challenge.as_ref(), may_ask).await;
            let number = this.attempts.fetch_add(1, Ordering::AcqRel) + 1;
            changes.failed_attempt = match &obtained {
                Err(error) if may_ask => Some(FailedChange { number, error: error.clone(), at: Instant::now() }),
                // The error of a call that may not ask a person is not shared: another call may ask.
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
        if !self.fetcher.allows_tokens(&self.server) {
            let reason = "tokens are not sent to a server without TLS; use https, or allow_private_network";
            return Err(self.error(OAuthErrorKind::InvalidParameter(reason.to_owned())));
        }
        if let Cause::MissingScopes { scopes, .. } = cause {
            self.check_scopes(changes, scopes)?;
        }
        let mut lock = self.lock_store().await?;
        let stored = self.load_locked(&mut *lock).await?;
        if let Some(stored) = &stored
            && self.is_satisfied_by(cause, stored)
        {
            // Another process has logged in or renewed the token.
            return self.publish(stored.clone(), true);
        }
        let issuer = stored.as_ref().map(|stored| stored.issuer.as_str());
        let metadata_url = challenge.and_then(|challenge| challenge.get("resource_metadata"));
        let discovery = discover(&self.fetcher, &self.server, metadata_url, issuer).await?;
        let stored = self.remove_if_moved(&mut *lock, stored, &discovery).await?;
        if let (Some(stored), Cause::Rejected { .. }) = (&stored, cause)
            && self.refresh_rejected(&mut *lock, stored).await?
        {
            return Ok(());
        }
        let stored = stored.filter(|stored| stored.issuer == discovery.server.issuer);
        let scopes = self.scopes_to_request(cause, challenge, &discovery, stored.as_ref());
        let key = stored.as_ref().and_then(|stored| stored.dpop_key.clone());
        let login = match &self.options.grant {
            Grant::Person if !may_ask || self.options.login.kind() == LoginKind::Never => {
                return Err(self.login_required_because(cause, stored.as_ref()));
            }
            Grant::Person => {
                let is_fresh = matches!(cause, Cause::Login { is_fresh: true });
                self.ask_person(&discovery, scopes, challenge, key, is_fresh).await?
            }
            grant => self.obtain_by_grant(grant, &discovery, scopes, challenge, key).await?,
        };
        match self.save_and_publish(&mut *lock, login).await {
            // The user logs in to store the login. Other callers need only the token.
            Err(error) if matches!(cause, Cause::Login { .. }) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes a stored login if the MCP server now uses another authorization server: its tokens are useless, and must not be sent to
    /// the new one. Returns the login otherwise.
    async fn remove_if_moved(
        &self,
        lock: &mut dyn LoginLock,
        stored: Option<StoredLogin>,
        discovery: &Discovery,
    ) -> Result<Option<StoredLogin>, OAuthError> {
        let Some(stored) = stored else { return Ok(None) };
        if stored.issuer == discovery.server.issuer {
            return Ok(Some(stored));
        }
        if !self.options.grant.is_interactive() && self.options.grant.issuer().is_none() {
            // A malicious MCP server could name an authorization server of its own, or be one, to get the credentials.
            let before = printable(&stored.issuer);
            let reason = format!("is not {before}, which got the credentials before; set the issuer of the grant");
            return Err(OAuthError::unsupported(&discovery.server.issuer, reason));
        }
        // Without metadata, the issuer is only assumed: the metadata may be missing for a moment.
        if discovery.is_legacy {
            return Ok(Some(stored));
        }
        lock.clear().await?;
        self.current.store(None);
        Ok(None)
    }

    /// Refreshes a login whose access token was rejected. Returns `false` if it needs a new login.
    async fn refresh_rejected(&self, lock: &mut dyn LoginLock, stored: &StoredLogin) -> Result<bool, OAuthError> {
        if !self.options.grant.is_interactive() || stored.refresh_token.is_none() {
            return Ok(false);
        }
        match self.refresh_stored(lock, stored.clone()).await {
            Ok(()) => Ok(true),
            Err(error) if error.is_transient() => Err(error),
            Err(error) => {
                tracing::debug!(%error, "the refresh token is not accepted; a login is needed");
                Ok(false)
            }
        }
    }

    /// Returns the scopes to request: those of the login with the missing ones, or those of a first login.
    fn scopes_to_request(
        &self,
        cause: &Cause,
        challenge: Option<&Challenge>,
        discovery: &Discovery,
        stored: Option<&StoredLogin>,
    ) -> Vec<String> {
        if let Cause::MissingScopes { scopes, .. } = cause {
            let requested = stored.map(|stored| stored.requested_scopes.as_slice()).unwrap_or_default();
            return add_scopes(requested, &scopes.join(" "));
        }
        let challenged = challenge.and_then(|challenge| challenge.get("scope"));
        let (resource, configured) = (discovery.resource.as_ref(), &self.options.scopes);
        choose_scopes(challenged, resource, &discovery.server, configured, self.options.grant.is_interactive())
    }

    /// Returns the error for a login that a person has to make. It names the scopes that the stored login does not have.
    fn login_required_because(&self, cause: &Cause, stored: Option<&StoredLogin>) -> OAuthError {
        let (Cause::MissingScopes { scopes, .. }, Some(stored)) = (cause, stored) else {
            return self.login_required();
        };
        let missing = scopes.iter().filter(|scope| !stored.scopes.contains(scope));
        self.login_required_for(&missing.cloned().collect::<Vec<_>>())
    }

    /// Returns `true` if a login in the store is not the current one, is valid, and has the missing scopes.
    fn is_satisfied_by(&self, cause: &Cause, stored: &StoredLogin) -> bool {
        let current = self.current.load();
        let is_other = current.as_ref().is_none_or(|token| token.login.access_token != stored.access_token);
        let fits = match cause {
            Cause::Rejected { .. } => true,
            Cause::MissingScopes { scopes, .. } => has_all(&stored.requested_scopes, scopes),
            Cause::Login { .. } => false,
        };
        is_other && fits && !is_expired(stored)
    }

    /// Returns an error if the current token was requested with these scopes a short time ago: the authorization server has not granted
    /// them. Later, a person may grant them.
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

    /// Takes the lock of the store. Another process may hold it while a person logs in, which takes longer than the timeout of the store.
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
    pub(super) async fn obtain_by_grant(
        &self,
        grant: &Grant,
        discovery: &Discovery,
        scopes: Vec<String>,
        challenge: Option<&Challenge>,
        key: Option<Secret>,
    ) -> Result<StoredLogin, OAuthError> {
        let metadata = &discovery.server;
        if let Some(issuer) = grant.issuer()
            && issuer != metadata.issuer
        {
            let reason = format!("is not {}, which the credentials of the client are for", printable(issuer));
            return Err(OAuthError::unsupported(&metadata.issuer, reason));
        }
        let resource = self.resource(discovery);
        let dpop = self.dpop_key(discovery, challenge, key)?;
        let scope = scopes.join(" ");
        let parameters = TokenParameters::new().scope(&*scope).resource(resource.as_deref()).proof(dpop.as_deref());
        let (client, response) = match grant {
            Grant::ClientCredentials(ClientCredentials { client, .. }) => {
                let response = flow::client_credentials(&self.fetcher, metadata, client, &parameters).await?;
                (Some(client), response)
            }
            Grant::Enterprise(enterprise) => {
                let assertion = self.identity_assertion(enterprise, discovery, &scope).await?;
                let client = enterprise.client.as_ref();
                // Without `resource`: the assertion names it.
                let parameters = TokenParameters::new().scope(&*scope).proof(dpop.as_deref());
                (client, flow::jwt_bearer(&self.fetcher, metadata, client, &assertion, &parameters).await?)
            }
            Grant::Workload(Workload { assertion, client, .. }) => {
                let (assertion, client) = (assertion.get().await?, client.as_ref());
                (client, flow::jwt_bearer(&self.fetcher, metadata, client, &assertion, &parameters).await?)
            }
            Grant::Person => return Err(self.login_required()),
        };
        let mut stored_client = StoredClient::new(&metadata.issuer, client.map(ClientIdentity::id).unwrap_or_default());
        stored_client.method = client.and_then(|client| client.chosen_method(metadata)).map(str::to_owned);
        Ok(self.new_login(discovery, stored_client, scopes, response, dpop.as_deref()))
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

    /// Returns the parameter `resource` of authorization and token requests.
    pub(super) fn resource(&self, discovery: &Discovery) -> Option<String> {
        match &self.options.resource {
            ResourceParameter::FromMetadata => discovery.resource_identifier().map(str::to_owned),
            ResourceParameter::Exactly(resource) => Some(resource.clone()),
            ResourceParameter::Omit => None,
        }
    }

    /// Returns the key for proofs of possession: the stored one or a new one. `None` if proofs are not used.
    pub(super) fn dpop_key(
        &self,
        discovery: &Discovery,
        challenge: Option<&Challenge>,
        stored_key: Option<Secret>,
    ) -> Result<Option<Arc<DpopKey>>, OAuthError> {
        let is_asked = challenge.is_some_and(|challenge| challenge.is_scheme("DPoP"))
            || discovery.resource.as_ref().is_some_and(|it| it.dpop_bound_access_tokens_required == Some(true))
            || stored_key.is_some();
        let is_wanted = match self.options.dpop {
            Dpop::Always => true,
            Dpop::WhenAsked => is_asked,
            Dpop::Never => false,
        };
        let algorithms = discovery.server.dpop_signing_alg_values_supported.as_deref();
        match (is_wanted, stored_key) {
            (false, _) => Ok(None),
            (true, Some(secret)) => {
                let key = DpopKey::from_secret(&secret).map(Arc::new);
                key.map(Some).map_err(|error| self.error(OAuthErrorKind::Store(Arc::new(error))))
            }
            (true, None) => DpopKey::generate_for(algorithms).map(|key| Some(Arc::new(key))).ok_or_else(|| {
                let reason = "lists no algorithm for DPoP that is supported (ES256, EdDSA, ES384)";
                OAuthError::unsupported(&discovery.server.issuer, reason)
            }),
        }
    }

    /// Creates the login of a token response.
    pub(super) fn new_login(
        &self,
        discovery: &Discovery,
        client: StoredClient,
        requested_scopes: Vec<String>,
        response: TokenResponse,
        dpop: Option<&DpopKey>,
    ) -> StoredLogin {
        let metadata = &discovery.server;
        let endpoint = metadata.token_endpoint.clone().unwrap_or_default();
        let mut login = StoredLogin::new(response.access_token.clone(), now(), endpoint, client);
        login.scopes = requested_scopes.clone();
        login.requested_scopes = requested_scopes;
        login.resource = self.resource(discovery);
        login.revocation_endpoint = metadata.revocation_endpoint.clone();
        login.dpop_key = dpop.map(DpopKey::to_secret);
        apply_response(&mut login, response);
        login
    }
}

/// Returns `true` if a person was asked, and the login failed or its token was rejected.
fn was_person_asked(error: &OAuthError) -> bool {
    let is_of_login = matches!(error.kind(), OAuthErrorKind::Login(_) | OAuthErrorKind::TokenRejected { .. });
    is_of_login || error.is_denied() || error.is_login_timeout()
}
