//! Grants without a person.

use std::fmt;
use std::sync::Arc;

use turms_core::BoxFuture;

use crate::client_auth::ClientIdentity;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::jws::SigningKey;
use crate::secret::Secret;

/// The way to obtain tokens.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Grant {
    /// A person logs in, as [`OAuth::login`](super::OAuth::login) says.
    #[default]
    Person,
    /// The client authenticates itself.
    ClientCredentials(ClientCredentials),
    /// The identity provider of an enterprise vouches for a person.
    Enterprise(Enterprise),
    /// The platform that the program runs on vouches for it.
    Workload(Workload),
}

impl Grant {
    /// Returns the client that authenticates itself at the authorization server of the MCP server.
    pub(super) fn client(&self) -> Option<&ClientIdentity> {
        match self {
            Self::Person => None,
            Self::ClientCredentials(grant) => Some(&grant.client),
            Self::Enterprise(grant) => grant.client.as_ref(),
            Self::Workload(grant) => grant.client.as_ref(),
        }
    }

    /// Returns `true` if a person has to be asked.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self, Self::Person)
    }

    /// Returns the only issuer that gets the credentials of the grant.
    pub(super) fn issuer(&self) -> Option<&str> {
        match self {
            Self::Person => None,
            Self::ClientCredentials(grant) => grant.issuer.as_deref(),
            Self::Enterprise(grant) => grant.issuer.as_deref(),
            Self::Workload(grant) => grant.issuer.as_deref(),
        }
    }
}

/// Client credentials: a program with an id and a secret or key of its own.
#[derive(Debug, Clone)]
pub struct ClientCredentials {
    pub(super) client: ClientIdentity,
    issuer: Option<String>,
}

impl ClientCredentials {
    /// Authenticates with a secret.
    pub fn secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { client: ClientIdentity::with_secret(id, secret), issuer: None }
    }

    /// Authenticates with a signed assertion (`private_key_jwt`).
    pub fn key(id: impl Into<String>, key: SigningKey) -> Self {
        Self { client: ClientIdentity::with_key(id, key), issuer: None }
    }

    /// Sets the only authorization server that gets the secret or assertion. Default: any that the MCP server names, so set it for MCP servers
    /// that you do not trust.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }
}

impl From<ClientCredentials> for Grant {
    fn from(grant: ClientCredentials) -> Self {
        Self::ClientCredentials(grant)
    }
}

/// Enterprise-managed authorization: an ID token of the enterprise's identity provider is exchanged for an identity assertion
/// (ID-JAG), and that for an access token.
#[derive(Debug, Clone)]
pub struct Enterprise {
    /// Issuer of the identity provider.
    pub(super) identity_provider: String,
    pub(super) token_endpoint: Option<String>,
    /// The client at the identity provider.
    pub(super) identity_client: ClientIdentity,
    pub(super) id_token: TokenSource,
    /// The client at the authorization server.
    pub(super) client: Option<ClientIdentity>,
    issuer: Option<String>,
}

impl Enterprise {
    /// Uses this ID token of the identity provider with this issuer.
    pub fn new(identity_provider: impl Into<String>, id_token: impl Into<Secret>) -> Self {
        Self::with_source(identity_provider.into(), TokenSource::fixed(id_token.into()))
    }

    /// Asks for an ID token each time one is needed.
    pub fn with<F, T>(identity_provider: impl Into<String>, id_token: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<Secret, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Self::with_source(identity_provider.into(), TokenSource::from_fn(id_token))
    }

    fn with_source(identity_provider: String, id_token: TokenSource) -> Self {
        let identity_client = ClientIdentity::public("");
        Self { identity_provider, token_endpoint: None, identity_client, id_token, client: None, issuer: None }
    }

    /// Sets the token endpoint of the identity provider. Default: that of its metadata.
    #[must_use]
    pub fn token_endpoint(mut self, url: impl Into<String>) -> Self {
        self.token_endpoint = Some(url.into());
        self
    }

    /// Sets the client at the identity provider.
    #[must_use]
    pub fn identity_provider_client(mut self, client: ClientIdentity) -> Self {
        self.identity_client = client;
        self
    }

    /// Sets the client at the authorization server of the MCP server.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        self.client = Some(ClientIdentity::with_secret(id, secret));
        self
    }

    /// Sets the only authorization server that gets the assertion and the secret. Default: any that the MCP server names, so set it for MCP servers
    /// that you do not trust.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }
}

impl From<Enterprise> for Grant {
    fn from(grant: Enterprise) -> Self {
        Self::Enterprise(grant)
    }
}

/// Workload identity: a signed token of the platform, such as a service account token, is exchanged for an access token.
#[derive(Debug, Clone)]
pub struct Workload {
    pub(super) assertion: TokenSource,
    pub(super) client: Option<ClientIdentity>,
    issuer: Option<String>,
}

impl Workload {
    /// Uses this token of the platform.
    pub fn token(assertion: impl Into<Secret>) -> Self {
        Self { assertion: TokenSource::fixed(assertion.into()), client: None, issuer: None }
    }

    /// Asks for a token of the platform each time one is needed.
    pub fn assertion<F, T>(assertion: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = Result<Secret, Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        Self { assertion: TokenSource::from_fn(assertion), client: None, issuer: None }
    }

    /// Sets the client id. Default: none.
    #[must_use]
    pub fn client(mut self, id: impl Into<String>) -> Self {
        self.client = Some(ClientIdentity::public(id));
        self
    }

    /// Sets the only authorization server that gets the token of the platform. Default: any that the MCP server names, so set it for MCP servers
    /// that you do not trust.
    #[must_use]
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.issuer = Some(issuer.into());
        self
    }
}

impl From<Workload> for Grant {
    fn from(grant: Workload) -> Self {
        Self::Workload(grant)
    }
}

/// A source of tokens of another party.
#[derive(Clone)]
pub(super) struct TokenSource(Arc<dyn Fn() -> BoxFuture<'static, TokenResult> + Send + Sync>);

type TokenResult = Result<Secret, Box<dyn std::error::Error + Send + Sync>>;

impl TokenSource {
    fn fixed(token: Secret) -> Self {
        Self(Arc::new(move || Box::pin(std::future::ready(Ok(token.clone())))))
    }

    fn from_fn<F, T>(source: F) -> Self
    where
        F: Fn() -> T + Send + Sync + 'static,
        T: Future<Output = TokenResult> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(source())))
    }

    pub(super) async fn get(&self) -> Result<Secret, OAuthError> {
        (self.0)().await.map_err(|error| OAuthError::new(OAuthErrorKind::TokenSource(Arc::from(error))))
    }
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSource(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let enterprise = Enterprise::new("https://idp.example.com", "token");
        let workload = Workload::token("token");
        let credentials = ClientCredentials::secret("app", "secret");
        let any_issuer = |issuer: &Option<String>| {
            when(issuer.is_none(), "any that the MCP server names, so set it for MCP servers that you do not trust")
        };
        let code = [
            ("ClientCredentials::issuer", any_issuer(&credentials.issuer)),
            ("Enterprise::issuer", any_issuer(&enterprise.issuer)),
            ("Workload::issuer", any_issuer(&workload.issuer)),
            ("Enterprise::token_endpoint", when(enterprise.token_endpoint.is_none(), "that of its metadata")),
            ("Workload::client", when(workload.client.is_none(), "none")),
        ];
        assert_documented(include_str!("grant.rs"), &code);
    }
}
