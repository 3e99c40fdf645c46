//! Settings of common identity providers, as data.
//!
//! | provider | issuer | audience of access tokens | `resource` parameter | registration |
//! |---|---|---|---|---|
//! | [Keycloak](Provider::keycloak) | `https://HOST/realms/REALM` | set by an audience mapper; use the resource | ignored | yes |
//! | [Auth0](Provider::auth0) | `https://DOMAIN/` | the identifier of the API; use the resource | if the compatibility profile is on | if it is on |
//! | [Okta](Provider::okta) | `https://DOMAIN/oauth2/SERVER` | that of the authorization server | ignored | with an API token only |
//! | [Microsoft Entra](Provider::entra) | `https://login.microsoftonline.com/TENANT/v2.0` | the id of the application | rejected | no |

#[cfg(feature = "client")]
use crate::client::{OAuth, ResourceParameter};
#[cfg(feature = "remote")]
use crate::guard::{Issuer, TokenGuard, TokenGuardBuilder};

/// Settings of an identity provider for guards and clients. All members can be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provider {
    /// The issuer, exactly as in the claim `iss`.
    pub issuer: String,
    /// The audiences of its access tokens, besides the resource.
    pub audiences: Vec<String>,
    /// The prefix of scopes in requests, which the scopes of tokens do not have.
    pub scope_prefix: Option<String>,
    /// `true` if requests may have the parameter `resource` (RFC 8707).
    pub accepts_resource: bool,
    /// `true` if clients can register by themselves. Otherwise they need a client id that is registered by hand, or a proxy.
    pub has_registration: bool,
}

impl Provider {
    /// Returns the settings of a realm of Keycloak at a base URL, such as `https://sso.example.com`.
    ///
    /// Keycloak knows no resource indicators. Add a client scope with an *Audience* mapper whose *Included Custom Audience* is the
    /// resource. Without it, `aud` is `account`, and the guard refuses the tokens.
    ///
    /// ```
    /// use turms_oauth::provider::Provider;
    ///
    /// # fn example() -> Result<(), turms_oauth::GuardError> {
    /// let provider = Provider::keycloak("https://sso.example.com", "staff");
    /// assert_eq!(provider.issuer, "https://sso.example.com/realms/staff");
    /// let guard = provider.guard("https://notes.example.com/mcp").scopes(["notes:read"]).build()?;
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    #[must_use]
    pub fn keycloak(base_url: &str, realm: &str) -> Self {
        Self { has_registration: true, ..Self::of(format!("{}/realms/{realm}", base_url.trim_end_matches('/'))) }
    }

    /// Returns the settings of a tenant of Auth0, by its domain, such as `example.eu.auth0.com`.
    ///
    /// Create an API whose *Identifier* is the resource, and turn the *Resource Parameter Compatibility Profile* on: otherwise Auth0
    /// ignores `resource` and issues opaque tokens. The issuer ends with a slash.
    ///
    /// ```
    /// use turms_oauth::provider::Provider;
    ///
    /// # fn example() -> Result<(), turms_oauth::GuardError> {
    /// let provider = Provider::auth0("example.eu.auth0.com");
    /// assert_eq!(provider.issuer, "https://example.eu.auth0.com/");
    /// let guard = provider.guard("https://notes.example.com/mcp").scopes(["notes:read"]).build()?;
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    #[must_use]
    pub fn auth0(domain: &str) -> Self {
        Self { has_registration: true, ..Self::of(format!("https://{domain}/")) }
    }

    /// Returns the settings of a custom authorization server of Okta, such as `default`, with the audience that it is configured with,
    /// such as `api://default`.
    ///
    /// The authorization server of the organization itself cannot be used: its access tokens are only for Okta.
    ///
    /// ```
    /// use turms_oauth::provider::Provider;
    ///
    /// # fn example() -> Result<(), turms_oauth::GuardError> {
    /// let provider = Provider::okta("example.okta.com", "default", "api://default");
    /// assert_eq!(provider.issuer, "https://example.okta.com/oauth2/default");
    /// let guard = provider.guard("https://notes.example.com/mcp").scopes(["notes:read"]).build()?;
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    #[must_use]
    pub fn okta(domain: &str, authorization_server: &str, audience: impl Into<String>) -> Self {
        Self { audiences: vec![audience.into()], ..Self::of(format!("https://{domain}/oauth2/{authorization_server}")) }
    }

    /// Returns the settings of an application of Microsoft Entra, by the ids of its tenant and of itself.
    ///
    /// The application needs *Expose an API* with the URI `api://APPLICATION`, and `requestedAccessTokenVersion` 2 in its manifest.
    /// Clients ask for scopes as `api://APPLICATION/notes.read`; in tokens they are `notes.read`. The guard is set up with the short
    /// form. Clients must not send `resource`.
    ///
    /// ```
    /// use turms_oauth::provider::Provider;
    /// use turms_oauth::OAuth;
    ///
    /// # fn example() -> Result<(), turms_oauth::GuardError> {
    /// let tenant = "4ff7e2a0-52ce-4b1a-a3f2-52cb9a36b2c0";
    /// let provider = Provider::entra(tenant, "11112222-bbbb-3333-cccc-4444dddd5555");
    /// let guard = provider.guard("https://notes.example.com/mcp").scopes(["notes.read"]).build()?;
    /// let oauth = provider.client(OAuth::new("notes-agent"));
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    #[must_use]
    pub fn entra(tenant: &str, application: &str) -> Self {
        let uri = format!("api://{application}");
        Self {
            audiences: vec![application.to_owned(), uri.clone()],
            scope_prefix: Some(format!("{uri}/")),
            accepts_resource: false,
            ..Self::of(format!("https://login.microsoftonline.com/{tenant}/v2.0"))
        }
    }

    fn of(issuer: String) -> Self {
        Self { issuer, audiences: Vec::new(), scope_prefix: None, accepts_resource: true, has_registration: false }
    }

    /// Returns a builder of a guard that accepts the tokens of the provider. Further issuers can be added.
    #[cfg(feature = "remote")]
    pub fn guard(&self, resource: impl Into<String>) -> TokenGuardBuilder {
        let mut builder = TokenGuard::builder(resource).issuer(Issuer::discover(&self.issuer));
        for audience in &self.audiences {
            builder = builder.audience(audience);
        }
        match &self.scope_prefix {
            Some(prefix) => builder.scope_prefix(prefix),
            None => builder,
        }
    }

    /// Sets the options of a client for servers that use the provider.
    #[cfg(feature = "client")]
    #[must_use]
    pub fn client(&self, oauth: OAuth) -> OAuth {
        if self.accepts_resource { oauth } else { oauth.resource(ResourceParameter::Omit) }
    }
}
