//! Settings of the proxy.

use std::fmt;
use std::time::Duration;

use turms_core::{Error, ErrorKind};
use turms_http::__internal::DialOptions;
use url::Url;

use super::OAuthProxy;
use super::application::{ProxyState, UserFilter};
use super::attempt::Attempts;
use super::consent::Approvals;
use super::login::UpstreamLogins;
use super::provider::Provider;
use super::upstream::Upstream;
use super::user::{ProxyUser, UpstreamUser};
use crate::fetch::Fetcher;
use crate::jws::{MacKey, SigningKey};
use crate::network::{NetworkPolicy, is_loopback};
use crate::server::clients::Clients;
use crate::server::{Core, Settings, default_key, random_key};

/// Builds an [`OAuthProxy`]. Created by [`OAuthProxy::builder`].
#[must_use]
pub struct OAuthProxyBuilder {
    issuer: String,
    upstream: Option<Upstream>,
    settings: Settings,
    key: Option<[u8; 32]>,
    signing_key: Option<SigningKey>,
    has_registration: bool,
    has_documents: bool,
    schemes: Vec<String>,
    approval_lifetime: Duration,
    users: Box<UserFilter>,
}

impl OAuthProxyBuilder {
    pub(super) fn new(issuer: String) -> Self {
        Self {
            issuer,
            upstream: None,
            settings: Settings {
                scopes: Some(Vec::new()),
                access_token_lifetime: Duration::from_secs(15 * 60),
                refresh_token_lifetime: Duration::from_secs(30 * 24 * 60 * 60),
                ..Settings::default()
            },
            key: None,
            signing_key: None,
            has_registration: true,
            has_documents: true,
            schemes: Vec::new(),
            approval_lifetime: Duration::from_secs(30 * 24 * 60 * 60),
            users: Box::new(|user| Some(ProxyUser::new(user.subject()))),
        }
    }

    /// Adds a resource: the URL of an MCP server, as its guard has it. Tokens are for resources only. At least one is required; the
    /// first is used for requests without a resource.
    pub fn resource(mut self, resource: impl Into<String>) -> Self {
        let resource = resource.into();
        self.settings.default_resource.get_or_insert_with(|| resource.clone());
        self.settings.resources.push(resource);
        self
    }

    /// Sets the provider. Required.
    pub fn upstream(mut self, upstream: Upstream) -> Self {
        self.upstream = Some(upstream);
        self
    }

    /// Sets all scopes that clients may ask for. They are those of your server, not of the provider. Default: none.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the scopes of a request that asks for none. Default: all scopes.
    pub fn default_scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.settings.default_scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// Decides about people who have logged in at the provider: their subject, claims and scopes in tokens, or `None` to refuse them.
    /// Called once for each login. Without a filter, each account of the provider is accepted, with its id there as subject.
    pub fn users(mut self, users: impl Fn(&UpstreamUser) -> Option<ProxyUser> + Send + Sync + 'static) -> Self {
        self.users = Box::new(users);
        self
    }

    /// Sets the secret key for registrations of clients, remembered approvals and logins in progress. Replicas share it. Default: a random key, so that
    /// clients have to register again after a restart.
    pub fn key(mut self, key: [u8; 32]) -> Self {
        self.key = Some(key);
        self
    }

    /// Sets the key that signs tokens. Default: a new key for ES256, so that access tokens are invalid after a restart.
    pub fn signing_key(mut self, key: SigningKey) -> Self {
        self.signing_key = Some(key);
        self
    }

    /// Lifetime of access tokens. Default: 15 min.
    pub fn access_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.access_token_lifetime = lifetime;
        self
    }

    /// Lifetime of a login, after which its refresh token is invalid. Default: 30 days.
    pub fn refresh_token_lifetime(mut self, lifetime: Duration) -> Self {
        self.settings.refresh_token_lifetime = lifetime;
        self
    }

    /// Enables refresh tokens. Default: `true`.
    pub fn refresh_tokens(mut self, enabled: bool) -> Self {
        self.settings.issues_refresh_tokens = enabled;
        self
    }

    /// Requires a nonce in DPoP proofs. Default: `false`.
    pub fn dpop_nonces(mut self, enabled: bool) -> Self {
        self.settings.needs_dpop_nonce = enabled;
        self
    }

    /// Time for which the approval of a client is remembered. Zero asks each time. Default: 30 days.
    pub fn remember_approvals(mut self, lifetime: Duration) -> Self {
        self.approval_lifetime = lifetime;
        self
    }

    /// Enables dynamic registration. Default: `true`.
    pub fn registration(mut self, enabled: bool) -> Self {
        self.has_registration = enabled;
        self
    }

    /// Enables client ID metadata documents. They are fetched from public addresses only, or from loopback if the issuer is there.
    /// Default: `true`.
    pub fn client_documents(mut self, enabled: bool) -> Self {
        self.has_documents = enabled;
        self
    }

    /// Allows redirect URIs with these schemes, such as `cursor`. Default: `https`, and `http` for loopback.
    pub fn redirect_schemes<S: Into<String>>(mut self, schemes: impl IntoIterator<Item = S>) -> Self {
        self.schemes = schemes.into_iter().map(Into::into).collect();
        self
    }

    /// Creates the proxy. The provider is not contacted before the first login.
    ///
    /// # Errors
    /// If the resource or the provider is missing, or the issuer is not an `https://` URL. On loopback, `http://` is allowed.
    pub fn build(self) -> Result<OAuthProxy, Error> {
        let invalid = |reason: &str| Error::new(ErrorKind::Setup, format!("OAuth proxy: {reason}"));
        let upstream = self.upstream.ok_or_else(|| invalid("the upstream is missing"))?;
        if self.settings.resources.is_empty() {
            return Err(invalid("the resource is missing; add the URL of the MCP server"));
        }
        let url = Url::parse(&self.issuer).map_err(|_| invalid("the issuer is not a URL"))?;
        if url.scheme() != "https" && !is_loopback(&url) {
            return Err(invalid("the issuer is not an https:// URL"));
        }
        let provider_url =
            Url::parse(upstream.issuer()).map_err(|_| invalid("the issuer of the provider is not a URL"))?;
        let documents =
            self.has_documents.then(|| Fetcher::new(NetworkPolicy::of_server(&url), DialOptions::default()));
        let policy = if upstream.allows_private_network {
            NetworkPolicy::Private
        } else {
            NetworkPolicy::of_server(&provider_url)
        };
        let master = MacKey::new(&self.key.unwrap_or_else(random_key));
        let registration = self.has_registration.then(|| derive(&master, "registrations"));
        let clients = Clients::new([], registration, documents, self.schemes);
        let key = self.signing_key.unwrap_or_else(default_key);
        let core = Core::new(self.issuer, clients, key, &derive(&master, "forms"), self.settings);
        let core = core.map_err(|error| invalid(&error.to_string()))?;
        let fetcher = Fetcher::new(policy, DialOptions::default());
        let provider = Provider::new(upstream, fetcher, core.url("/callback"));
        Ok(OAuthProxy(
            ProxyState {
                core,
                provider: provider.into(),
                approvals: Approvals::new(&derive(&master, "approvals"), self.approval_lifetime.as_secs()),
                attempts: Attempts::new(&derive(&master, "logins")),
                logins: UpstreamLogins::default(),
                users: self.users,
            }
            .into(),
        ))
    }
}

/// Derives the key for one purpose.
fn derive(master: &MacKey, purpose: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(&master.sign(purpose.as_bytes()));
    key
}

/// Shows no keys.
impl fmt::Debug for OAuthProxyBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthProxyBuilder")
            .field("issuer", &self.issuer)
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};

        let it = OAuthProxyBuilder::new("https://auth.example.com".to_owned());
        let settings = &it.settings;
        let code = [
            ("OAuthProxyBuilder::scopes", when(settings.scopes.as_ref().is_some_and(Vec::is_empty), "none")),
            ("OAuthProxyBuilder::default_scopes", when(settings.default_scopes.is_none(), "all scopes")),
            (
                "OAuthProxyBuilder::key",
                when(it.key.is_none(), "a random key, so that clients have to register again after a restart"),
            ),
            (
                "OAuthProxyBuilder::signing_key",
                when(
                    it.signing_key.is_none(),
                    "a new key for ES256, so that access tokens are invalid after a restart",
                ),
            ),
            ("OAuthProxyBuilder::access_token_lifetime", time(settings.access_token_lifetime)),
            ("OAuthProxyBuilder::refresh_token_lifetime", time(settings.refresh_token_lifetime)),
            ("OAuthProxyBuilder::refresh_tokens", when(settings.issues_refresh_tokens, "`true`")),
            ("OAuthProxyBuilder::dpop_nonces", when(!settings.needs_dpop_nonce, "`false`")),
            ("OAuthProxyBuilder::remember_approvals", time(it.approval_lifetime)),
            ("OAuthProxyBuilder::registration", when(it.has_registration, "`true`")),
            ("OAuthProxyBuilder::client_documents", when(it.has_documents, "`true`")),
            ("OAuthProxyBuilder::redirect_schemes", when(it.schemes.is_empty(), "`https`, and `http` for loopback")),
        ];
        assert_documented(include_str!("builder.rs"), &code);
    }
}
