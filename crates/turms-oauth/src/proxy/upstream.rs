//! The settings of providers.

use std::fmt;

use url::Url;

use crate::client_auth::ClientIdentity;
use crate::metadata::AuthorizationServerMetadata;
use crate::secret::Secret;

/// The provider that people log in at, and the client that is registered there.
///
/// ```
/// use turms_oauth::proxy::Upstream;
///
/// // The redirect URI to register with each is `OAuthProxy::callback_url`.
/// let google = Upstream::google("id.apps.googleusercontent.com", "secret");
/// let github = Upstream::github("id", "secret");
/// let entra = Upstream::entra("8f1c1a34-0000-0000-0000-000000000000", "id", "secret");
/// let other = Upstream::new("https://login.example.com", "id", "secret").scopes(["openid", "offline_access"]);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Upstream {
    pub(super) name: String,
    pub(super) location: Location,
    pub(super) client: ClientIdentity,
    pub(super) scopes: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
    /// Member of the user information that identifies a person.
    pub(super) subject: String,
    pub(super) allows_private_network: bool,
}

/// The place of a provider's endpoints.
#[derive(Debug, Clone)]
pub(super) enum Location {
    /// In the metadata of this issuer.
    Issuer(String),
    Known(Box<AuthorizationServerMetadata>),
}

impl Upstream {
    /// Creates the settings for a provider with OpenID Connect. Its endpoints are found by its metadata.
    pub fn new(issuer: impl Into<String>, client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        let issuer = issuer.into();
        let host = Url::parse(&issuer).ok().and_then(|url| url.host_str().map(str::to_owned));
        let name = host.unwrap_or_else(|| issuer.clone());
        Self::with(name, Location::Issuer(issuer), ClientIdentity::with_secret(client_id, secret))
    }

    /// Creates the settings for a provider whose endpoints are known. `userinfo_endpoint` is needed if the scopes do not contain
    /// `openid`.
    pub fn with_metadata(metadata: AuthorizationServerMetadata, client: ClientIdentity) -> Self {
        Self::with(metadata.issuer.clone(), Location::Known(Box::new(metadata)), client)
    }

    fn with(name: String, location: Location, client: ClientIdentity) -> Self {
        Self {
            name,
            location,
            client,
            scopes: vec!["openid".to_owned()],
            parameters: Vec::new(),
            subject: "sub".to_owned(),
            allows_private_network: false,
        }
    }

    /// Creates the settings for Google. The person is asked for consent each time, because Google sends a refresh token only then.
    pub fn google(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self::new("https://accounts.google.com", client_id, secret)
            .name("Google")
            .scopes(["openid", "email", "profile"])
            .parameter("access_type", "offline")
            .parameter("prompt", "consent")
    }

    /// Creates the settings for GitHub. The subject is the number of the account, and the claims are those of the user information, such
    /// as `login`.
    pub fn github(client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        let own = |path: &str| format!("https://github.com/login/oauth{path}");
        let metadata = AuthorizationServerMetadata {
            authorization_endpoint: Some(own("/authorize")),
            userinfo_endpoint: Some("https://api.github.com/user".to_owned()),
            token_endpoint_auth_methods_supported: Some(vec!["client_secret_post".to_owned()]),
            ..AuthorizationServerMetadata::new(own(""), own("/access_token"))
        };
        Self::with_metadata(metadata, ClientIdentity::with_secret(client_id, secret))
            .name("GitHub")
            .scopes(["read:user"])
            .subject_member("id")
    }

    /// Creates the settings for Microsoft Entra with the id of a tenant. `common` and `organizations` are not supported, because their
    /// tokens are from other issuers.
    pub fn entra(tenant: impl AsRef<str>, client_id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        let issuer = format!("https://login.microsoftonline.com/{}/v2.0", tenant.as_ref());
        Self::new(issuer, client_id, secret).name("Microsoft").scopes(["openid", "profile", "email", "offline_access"])
    }

    /// Sets the name of the provider that people see. Default: the host of its issuer.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sets the scopes at the provider. With `openid`, the person is known by the ID token, otherwise by the user information. Default:
    /// `openid`.
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a parameter to authorization requests at the provider, such as `prompt`. Default: none.
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Sets the member of the user information that identifies a person: a text or a number. Default: `sub`.
    pub fn subject_member(mut self, name: impl Into<String>) -> Self {
        self.subject = name.into();
        self
    }

    /// Allows a provider at an address of a private network, and without TLS there. Default: HTTPS at public addresses, and loopback if
    /// the issuer of the provider is on loopback.
    pub fn allow_private_network(mut self) -> Self {
        self.allows_private_network = true;
        self
    }

    /// Returns the issuer.
    pub(super) fn issuer(&self) -> &str {
        match &self.location {
            Location::Issuer(issuer) => issuer,
            Location::Known(metadata) => &metadata.issuer,
        }
    }

    /// Returns `true` if the provider sends ID tokens.
    pub(super) fn has_id_token(&self) -> bool {
        self.scopes.iter().any(|scope| scope == "openid")
    }
}

/// Shows no secret.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("issuer", &self.issuer()).field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, when};

        let it = Upstream::new("https://login.example.com", "proxy", "secret");
        let code = [
            ("Upstream::name", when(it.name == "login.example.com", "the host of its issuer")),
            ("Upstream::scopes", when(it.scopes == ["openid"], "`openid`")),
            ("Upstream::parameter", when(it.parameters.is_empty(), "none")),
            ("Upstream::subject_member", when(it.subject == "sub", "`sub`")),
            (
                "Upstream::allow_private_network",
                when(
                    !it.allows_private_network,
                    "HTTPS at public addresses, and loopback if the issuer of the provider is on loopback",
                ),
            ),
        ];
        assert_documented(include_str!("upstream.rs"), &code);
    }
}
