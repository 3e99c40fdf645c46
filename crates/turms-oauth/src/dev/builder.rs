//! Settings of the development server.

use std::time::Duration;

use tokio::sync::oneshot;
use turms_core::{Error, ErrorKind};
use turms_http::__internal::DialOptions;
use turms_http::Listener;
use url::Url;

use super::application::{Approval, DevState};
use super::device::DeviceLogins;
use super::grants::{GRANT_TYPES, TrustedIssuer};
use super::{DevClient, DevServer, DevUser};
use crate::fetch::Fetcher;
use crate::jws::{JwkSet, SigningKey};
use crate::network::NetworkPolicy;
use crate::server::clients::Clients;
use crate::server::{Core, Settings, default_key, random_key};

/// Creates a [`DevServer`].
#[derive(Debug)]
#[must_use]
pub struct DevServerBuilder {
    issuer: Option<String>,
    path: String,
    users: Vec<DevUser>,
    clients: Vec<DevClient>,
    pub(super) settings: Settings,
    approval: Approval,
    key: Option<SigningKey>,
    has_registration: bool,
    has_documents: bool,
    allows_private_network: bool,
    schemes: Vec<String>,
    identity_providers: Vec<TrustedIssuer>,
    workload_issuers: Vec<TrustedIssuer>,
    device_interval: Duration,
}

impl DevServerBuilder {
    pub(super) fn new() -> Self {
        Self {
            issuer: None,
            path: String::new(),
            users: Vec::new(),
            clients: Vec::new(),
            settings: Settings { grant_types: &GRANT_TYPES, has_user_info: true, ..Settings::default() },
            approval: Approval::Ask,
            key: None,
            has_registration: true,
            has_documents: true,
            allows_private_network: false,
            schemes: Vec::new(),
            identity_providers: Vec::new(),
            workload_issuers: Vec::new(),
            device_interval: Duration::from_secs(5),
        }
    }

    /// Sets the issuer. Default: `http://` and the bound address.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }

    /// Sets the path of the default issuer, such as `/tenant1`. Default: none.
    pub fn issuer_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Adds a user. Default: none.
    pub fn user(mut self, user: impl Into<DevUser>) -> Self {
        self.users.push(user.into());
        self
    }

    /// Adds a client. Default: none.
    pub fn client(mut self, client: DevClient) -> Self {
        self.clients.push(client);
        self
    }

    /// Sets all scopes; requests for others are refused. Default: any scope is granted.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.scopes = Some(texts(scopes));
        self
    }

    /// Sets the scopes of a request that asks for none. Default: all scopes.
    pub fn default_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.default_scopes = Some(texts(scopes));
        self
    }

    /// Sets all resources; requests for others are refused. Default: any resource.
    pub fn resources<S: Into<String>>(mut self, resources: impl IntoIterator<Item = S>) -> Self {
        self.settings.resources = texts(resources);
        self
    }

    /// Sets the audience of tokens for a request without a resource. Default: the issuer.
    pub fn default_resource(mut self, resource: impl Into<String>) -> Self {
        self.settings.default_resource = Some(resource.into());
        self
    }

    /// Logs this user in and approves each request, without a page. Default: a page asks.
    pub fn auto_approve(mut self, user: impl Into<String>) -> Self {
        self.approval = Approval::Approve(user.into());
        self
    }

    /// Denies each request, without a page. Default: a page asks.
    pub fn auto_deny(mut self) -> Self {
        self.approval = Approval::Deny;
        self
    }

    /// Lifetime of access tokens. Default: 5 min.
    pub fn access_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.access_token_lifetime = lifetime;
        self
    }

    /// Lifetime of a login, after which its refresh token is invalid. Default: 8 h.
    pub fn refresh_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.refresh_token_lifetime = lifetime;
        self
    }

    /// Lifetime of authorization codes. Default: 1 min.
    pub fn code_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.code_lifetime = lifetime;
        self
    }

    /// Minimum time between two requests of a client that waits for a device login, in whole seconds. Default: 5 s.
    pub fn device_interval(mut self, interval: Duration) -> Self {
        self.device_interval = interval;
        self
    }

    /// Enables refresh tokens. Default: `true`.
    pub fn refresh_tokens(mut self, enabled: bool) -> Self {
        self.settings.issues_refresh_tokens = enabled;
        self
    }

    /// Issues access tokens that only introspection can read. Default: `false`.
    pub fn opaque_tokens(mut self, enabled: bool) -> Self {
        self.settings.has_opaque_tokens = enabled;
        self
    }

    /// Requires a nonce in DPoP proofs. Default: `false`.
    pub fn dpop_nonces(mut self, enabled: bool) -> Self {
        self.settings.needs_dpop_nonce = enabled;
        self
    }

    /// Enables dynamic registration. Default: `true`.
    pub fn registration(mut self, enabled: bool) -> Self {
        self.has_registration = enabled;
        self
    }

    /// Enables client ID metadata documents. Default: `true`.
    pub fn client_documents(mut self, enabled: bool) -> Self {
        self.has_documents = enabled;
        self
    }

    /// Allows client ID metadata documents at addresses of private networks. Default: public addresses; and loopback, if
    /// the issuer is on loopback.
    pub fn allow_private_network(mut self) -> Self {
        self.allows_private_network = true;
        self
    }

    /// Allows redirect URIs with these schemes, such as `cursor`. Default: `https`, and `http` for loopback.
    pub fn redirect_schemes<S: Into<String>>(mut self, schemes: impl IntoIterator<Item = S>) -> Self {
        self.schemes = texts(schemes);
        self
    }

    /// Sets the key that signs tokens. Default: a new key for ES256.
    pub fn signing_key(mut self, key: SigningKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Accepts ID-JAG assertions of this identity provider. Default: none.
    pub fn identity_provider(mut self, issuer: impl Into<String>, keys: JwkSet) -> Self {
        self.identity_providers.push(TrustedIssuer { issuer: issuer.into(), keys });
        self
    }

    /// Accepts assertions of workloads on the platform of this issuer. Default: none.
    pub fn workload_issuer(mut self, issuer: impl Into<String>, keys: JwkSet) -> Self {
        self.workload_issuers.push(TrustedIssuer { issuer: issuer.into(), keys });
        self
    }

    /// Listens on an address such as `127.0.0.1:0`, and serves until the server is dropped.
    ///
    /// # Errors
    /// If the address cannot be bound, or the issuer is invalid.
    pub async fn bind(self, address: impl Into<String>) -> Result<DevServer, Error> {
        let listener = Listener::bind(address).await?;
        self.listen(listener)
    }

    /// Serves with a listener, which may have TLS, until the server is dropped.
    ///
    /// # Errors
    /// If the issuer is invalid.
    pub fn listen(mut self, listener: Listener) -> Result<DevServer, Error> {
        let address = listener.local_addr();
        let default = format!("http://{}{}", listener.address(), self.path);
        self.issuer.get_or_insert(default);
        let mut server = self.build()?;
        let (sender, stopped) = oneshot::channel();
        let listener = listener.max_connections(256).drain_timeout(Duration::from_secs(1));
        let listener = listener.with_graceful_shutdown(async move {
            // An error means that the server was dropped.
            let _ = stopped.await;
        });
        tokio::spawn(listener.serve_tower(server.service()));
        (server.address, server._shutdown) = (address, Some(sender));
        Ok(server)
    }

    /// Creates the server without a listener, to be mounted with [`DevServer::service`]. Needs an [`issuer`](Self::issuer).
    ///
    /// # Errors
    /// If the issuer is missing or invalid.
    pub fn build(self) -> Result<DevServer, Error> {
        let invalid = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Setup, error.to_string());
        let issuer = self.issuer.ok_or_else(|| invalid(&"development server: the issuer is missing"))?;
        let url = Url::parse(&issuer).map_err(|error| invalid(&error))?;
        let policy = if self.allows_private_network { NetworkPolicy::Private } else { NetworkPolicy::of_server(&url) };
        let documents = self.has_documents.then(|| Fetcher::new(policy, DialOptions::default()));
        let registration = self.has_registration.then(random_key);
        let clients = self.clients.into_iter().map(|client| client.0);
        let clients = Clients::new(clients, registration, documents, self.schemes);
        let key = self.key.unwrap_or_else(default_key);
        let core = Core::new(issuer, clients, key, &random_key(), self.settings).map_err(|error| invalid(&error))?;
        tracing::warn!(issuer = core.issuer, "development authorization server started; it is not for production");
        let devices = DeviceLogins::new(self.device_interval);
        let (providers, workloads) = (self.identity_providers, self.workload_issuers);
        let state = DevState::new(core, self.users, self.approval, providers, workloads, devices);
        Ok(DevServer { state: state.into(), address: None, _shutdown: None })
    }
}

fn texts<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Vec<String> {
    texts.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};

        let it = DevServerBuilder::new();
        let settings = &it.settings;
        let asks = matches!(it.approval, Approval::Ask);
        let code = [
            ("DevServerBuilder::device_interval", time(it.device_interval)),
            ("DevServerBuilder::issuer", when(it.issuer.is_none(), "`http://` and the bound address")),
            ("DevServerBuilder::issuer_path", when(it.path.is_empty(), "none")),
            ("DevServerBuilder::user", when(it.users.is_empty(), "none")),
            ("DevServerBuilder::client", when(it.clients.is_empty(), "none")),
            ("DevServerBuilder::scopes", when(settings.scopes.is_none(), "any scope is granted")),
            ("DevServerBuilder::default_scopes", when(settings.default_scopes.is_none(), "all scopes")),
            ("DevServerBuilder::resources", when(settings.resources.is_empty(), "any resource")),
            ("DevServerBuilder::default_resource", when(settings.default_resource.is_none(), "the issuer")),
            ("DevServerBuilder::auto_approve", when(asks, "a page asks")),
            ("DevServerBuilder::auto_deny", when(asks, "a page asks")),
            ("DevServerBuilder::access_token_lifetime", time(settings.access_token_lifetime)),
            ("DevServerBuilder::refresh_token_lifetime", time(settings.refresh_token_lifetime)),
            ("DevServerBuilder::code_lifetime", time(settings.code_lifetime)),
            ("DevServerBuilder::refresh_tokens", when(settings.issues_refresh_tokens, "`true`")),
            ("DevServerBuilder::opaque_tokens", when(!settings.has_opaque_tokens, "`false`")),
            ("DevServerBuilder::dpop_nonces", when(!settings.needs_dpop_nonce, "`false`")),
            ("DevServerBuilder::registration", when(it.has_registration, "`true`")),
            ("DevServerBuilder::client_documents", when(it.has_documents, "`true`")),
            ("DevServerBuilder::allow_private_network", when(!it.allows_private_network, "public addresses")),
            ("DevServerBuilder::redirect_schemes", when(it.schemes.is_empty(), "`https`, and `http` for loopback")),
            ("DevServerBuilder::signing_key", when(it.key.is_none(), "a new key for ES256")),
            ("DevServerBuilder::identity_provider", when(it.identity_providers.is_empty(), "none")),
            ("DevServerBuilder::workload_issuer", when(it.workload_issuers.is_empty(), "none")),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
