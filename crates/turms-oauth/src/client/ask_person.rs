//! Logins by a person: with a redirect of the browser, or with a device code.

use std::time::{Duration, UNIX_EPOCH};

use turms_http::Challenge;

use super::current_token::is_expired;
use super::server_login::ServerLogin;
use crate::client_auth::ClientIdentity;
use crate::clock::now;
use crate::discovery::Discovery;
use crate::dpop::DpopKey;
use crate::error::OAuthError;
use crate::flow::{self, AuthorizationRequest, CodeExchange, TokenParameters};
use crate::login::LoginKind;
use crate::metadata::{ClientMetadata, TokenResponse};
use crate::pkce::{pkce, random_token};
use crate::registration::register;
use crate::scopes::split_scopes;
use crate::secret::Secret;
use crate::store::{StoredClient, StoredLogin};

const DEVICE_CODE: &str = "urn:ietf:params:oauth:grant-type:device_code";

impl ServerLogin {
    /// Lets a person log in. Registers the client again if the authorization server has forgotten it, or allows it only the scopes of
    /// its registration.
    pub(super) async fn ask_person(
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
        let mut attempt = self.ask_once(discovery, &scopes, dpop.as_deref()).await;
        if let Err((error, Some(client))) = &attempt
            && client.is_registered
        {
            let lacks_scopes = error.is_invalid_scope() && scopes.iter().any(|scope| !client.scopes.contains(scope));
            let is_unusable = error.is_invalid_client() || lacks_scopes;
            // Providers show an unknown client in the browser only, so that the login never returns. Another window would be one too
            // many.
            if is_unusable || error.is_login_timeout() {
                self.options.store.remove_client(issuer, &self.options.profile).await?;
            }
            if is_unusable {
                attempt = self.ask_once(discovery, &scopes, dpop.as_deref()).await;
            }
        }
        let (client, response) = attempt.map_err(|(error, _)| error.with_server(&self.key.server))?;
        let mut login = self.new_login(discovery, client, scopes, response, dpop.as_deref());
        if login.refresh_token.is_none() && is_expired(&login) {
            // It could be neither used nor renewed, and the next request would ask the person again. The server decides instead.
            login.expires_at = None;
        }
        Ok(login)
    }

    /// Lets a person log in once. An error comes with the client that was used.
    pub(super) async fn ask_once(
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

    pub(super) async fn ask_by_redirect(
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
        let client = used.insert(self.client(discovery, Some(&redirect_uri), scopes).await?);
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

    pub(super) async fn ask_by_device(
        &self,
        discovery: &Discovery,
        scopes: &[String],
        dpop: Option<&DpopKey>,
        used: &mut Option<StoredClient>,
    ) -> Result<TokenResponse, OAuthError> {
        let metadata = &discovery.server;
        if metadata.device_authorization_endpoint.is_none() {
            return Err(metadata.lacks("device authorization endpoint"));
        }
        let client = used.insert(self.client(discovery, None, scopes).await?);
        let identity = self.identity(client);
        let (scope, resource) = (scopes.join(" "), self.resource(discovery));
        let parameters = TokenParameters::new().scope(&*scope).resource(resource.as_deref()).proof(dpop);
        let device = flow::device_authorization(&self.fetcher, metadata, &identity, &parameters).await?;
        self.options.login.show_device_code(&device)?;
        flow::wait_for_device_token(&self.fetcher, metadata, &identity, &device, &parameters).await
    }

    /// Returns the client for an authorization server: a given one, a metadata document, a stored registration, or a new one.
    pub(super) async fn client(
        &self,
        discovery: &Discovery,
        redirect_uri: Option<&str>,
        scopes: &[String],
    ) -> Result<StoredClient, OAuthError> {
        let (options, metadata) = (&self.options, &discovery.server);
        if let Some((issuer, client)) = options.clients.iter().find(|(issuer, _)| *issuer == metadata.issuer) {
            let mut stored = StoredClient::new(issuer, client.id());
            stored.method = client.chosen_method(metadata).map(str::to_owned);
            return Ok(stored);
        }
        if let Some(url) = &options.client_metadata
            && metadata.client_id_metadata_document_supported == Some(true)
        {
            return Ok(StoredClient::new(&metadata.issuer, url));
        }
        if let Some(client) = options.store.load_client(&metadata.issuer, &options.profile).await?
            && client.redirect_uri.as_deref() == redirect_uri
            && client.secret_expires_at.is_none_or(|at| at > now())
        {
            return Ok(client);
        }
        let mut request = ClientMetadata::new(&options.client_name, redirect_uri.unwrap_or_default());
        if redirect_uri.is_none() {
            request.redirect_uris.clear();
            request.grant_types = [DEVICE_CODE, "refresh_token"].map(str::to_owned).into();
        }
        request.scope = (!scopes.is_empty()).then(|| scopes.join(" "));
        let mut registered = register(&self.fetcher, metadata, &request).await;
        if request.scope.is_some() && registered.as_ref().is_err_and(OAuthError::is_invalid_registration) {
            // Some servers reject registrations that name scopes.
            request.scope = None;
            registered = register(&self.fetcher, metadata, &request).await;
        }
        let response = registered?;
        let mut client = StoredClient::new(&metadata.issuer, &response.client_id);
        client.redirect_uri = redirect_uri.map(str::to_owned);
        client.scopes = request.scope.as_deref().map(split_scopes).unwrap_or_default();
        client.method = response.token_endpoint_auth_method;
        client.client_secret = response.client_secret;
        // 0 is "never".
        let expires_at = response.client_secret_expires_at.filter(|at| *at > 0);
        client.secret_expires_at = expires_at.and_then(|at| UNIX_EPOCH.checked_add(Duration::from_secs(at)));
        client.is_registered = true;
        options.store.save_client(&options.profile, &client).await?;
        Ok(client)
    }

    /// Returns the identity of a client. The credentials of a given client, or of a grant, are not in the store. They are only for their
    /// issuer: at another one, a registration may have the same id.
    pub(super) fn identity(&self, client: &StoredClient) -> ClientIdentity {
        let (clients, grant) = (&self.options.clients, &self.options.grant);
        let given = clients.iter().filter(|(issuer, _)| *issuer == client.issuer).map(|(_, given)| given);
        let is_of_grant = !client.is_registered && grant.issuer().is_none_or(|issuer| issuer == client.issuer);
        let mut given = grant.client().filter(|_| is_of_grant).into_iter().chain(given);
        let method = client.method.as_deref();
        given.find(|given| given.id() == client.client_id).map_or_else(
            || ClientIdentity::with_method(&client.client_id, client.client_secret.clone(), method),
            |given| given.with_chosen_method(method),
        )
    }
}
