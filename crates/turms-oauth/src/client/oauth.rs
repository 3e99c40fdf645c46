//! The OAuth client and its options.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use url::Url;

use super::authorizer::LoginAuthorizer;
use super::grant::Grant;
use super::server_login::ServerLogin;
use crate::client_auth::ClientIdentity;
use crate::clock::now;
use crate::error::{OAuthError, OAuthErrorKind};
use crate::fetch::Fetcher;
use crate::login::Login;
use crate::secret::Secret;
use crate::store::{LoginKey, MemoryStore, TokenStore};

/// OAuth for clients: obtains, stores and renews the tokens of any number of servers. Cheap to clone.
///
/// ```no_run
/// use turms_http::HttpConnector;
/// use turms_oauth::{FileStore, OAuth};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let auth = OAuth::new("notes-agent").store(FileStore::open()?).scopes(["notes:read"]);
/// // Opens the browser if a login is needed, and waits for it.
/// let connector = HttpConnector::new("https://notes.example.com/mcp")?.authorizer(auth.clone());
///
/// let token = auth.token("https://notes.example.com/mcp").await?;
/// # Ok(())
/// # }
/// ```
///
/// Options apply to the value they are set on: set them before it is cloned.
#[doc(alias = "token_manager")]
#[doc(alias = "TokenManager")]
#[derive(Clone)]
pub struct OAuth(Arc<OAuthState>);

struct OAuthState {
    options: Arc<OAuthOptions>,
    logins: Mutex<HashMap<String, Arc<ServerLogin>>>,
}

#[derive(Clone)]
pub(super) struct OAuthOptions {
    pub(super) client_name: String,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) scopes: Vec<String>,
    pub(super) clients: Vec<(String, ClientIdentity)>,
    pub(super) client_metadata: Option<String>,
    pub(super) login: Login,
    pub(super) grant: Grant,
    pub(super) dpop: Dpop,
    pub(super) resource: ResourceParameter,
    pub(super) profile: String,
    pub(super) refresh_ahead: Duration,
    pub(super) login_advice: Option<String>,
    pub(super) network: NetworkOptions,
}

/// Options of connections to authorization servers.
#[derive(Clone, Default)]
pub(super) struct NetworkOptions {
    is_private_allowed: bool,
    proxy: ProxyOption,
    /// In PEM.
    root_certificates: Vec<u8>,
}

#[derive(Clone, Default)]
enum ProxyOption {
    #[default]
    System,
    None,
    Url(String),
}

impl NetworkOptions {
    pub(super) fn apply(&self, mut fetcher: Fetcher) -> Fetcher {
        if self.is_private_allowed {
            fetcher = fetcher.allow_private_network();
        }
        fetcher = match &self.proxy {
            ProxyOption::System => fetcher,
            ProxyOption::None => fetcher.no_proxy(),
            ProxyOption::Url(url) => fetcher.proxy(url),
        };
        if !self.root_certificates.is_empty() {
            fetcher = fetcher.root_certificates(&self.root_certificates);
        }
        fetcher
    }
}

/// Use of proofs of possession (DPoP, RFC 9449).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dpop {
    /// If the server asks for it. The default.
    #[default]
    WhenAsked,
    /// Always. An authorization server that issues other tokens is an error.
    Always,
    /// Never.
    Never,
}

/// The parameter `resource` of authorization and token requests (RFC 8707).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResourceParameter {
    /// The identifier in the metadata of the server. The default.
    #[default]
    FromMetadata,
    /// This value.
    Exactly(String),
    /// None. Microsoft Entra rejects it.
    Omit,
}

/// The state of a login.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoginStatus {
    /// URL of the MCP server.
    pub server: String,
    /// Profile of the login.
    pub profile: String,
    /// The authorization server.
    pub issuer: String,
    /// The granted scopes.
    pub scopes: Vec<String>,
    /// End of the access token's validity, if it is known.
    pub expires_at: Option<SystemTime>,
    /// `true` if the token can be renewed without a login.
    pub is_renewable: bool,
    /// `true` if the token is bound to a key (DPoP).
    pub is_bound: bool,
}

impl LoginStatus {
    /// Returns `true` if the access token has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.expires_at.is_some_and(|at| at <= now())
    }
}

impl OAuth {
    /// Creates a client with a name that consent pages show. Tokens are kept in memory, and a person logs in with the browser.
    pub fn new(client_name: impl Into<String>) -> Self {
        Self::with_options(OAuthOptions {
            client_name: client_name.into(),
            store: Arc::new(MemoryStore::new()),
            scopes: Vec::new(),
            clients: Vec::new(),
            client_metadata: None,
            login: Login::browser(),
            grant: Grant::Person,
            dpop: Dpop::WhenAsked,
            resource: ResourceParameter::FromMetadata,
            profile: String::new(),
            refresh_ahead: Duration::from_secs(5 * 60),
            login_advice: None,
            network: NetworkOptions::default(),
        })
    }

    fn with_options(options: OAuthOptions) -> Self {
        Self(Arc::new(OAuthState { options: Arc::new(options), logins: Mutex::default() }))
    }

    fn with(self, change: impl FnOnce(&mut OAuthOptions)) -> Self {
        let mut options = (*self.0.options).clone();
        change(&mut options);
        Self::with_options(options)
    }

    /// Sets the store of tokens, instead of one in memory.
    #[must_use]
    pub fn store(self, store: impl TokenStore) -> Self {
        self.with(|options| options.store = Arc::new(store))
    }

    /// Adds scopes to those that servers ask for. Default: none.
    #[must_use]
    pub fn scopes<S: Into<String>>(self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.with(|options| options.scopes.extend(scopes.into_iter().map(Into::into)))
    }

    /// Adds a client that is registered with an issuer. Default: dynamic registration.
    #[must_use]
    pub fn client(self, issuer: impl Into<String>, client: ClientIdentity) -> Self {
        self.with(|options| options.clients.push((issuer.into(), client)))
    }

    /// Sets the URL of the client ID metadata document, which is the client id where it is supported.
    #[must_use]
    pub fn client_metadata(self, url: impl Into<String>) -> Self {
        self.with(|options| options.client_metadata = Some(url.into()))
    }

    /// Sets the way a person logs in. Default: [`Login::browser`].
    #[must_use]
    pub fn login(self, login: Login) -> Self {
        self.with(|options| options.login = login)
    }

    /// Sets a grant without a person. Default: a person logs in.
    #[must_use]
    pub fn grant(self, grant: impl Into<Grant>) -> Self {
        self.with(|options| options.grant = grant.into())
    }

    /// Sets the use of proofs of possession. Default: [`Dpop::WhenAsked`].
    #[must_use]
    pub fn dpop(self, dpop: Dpop) -> Self {
        self.with(|options| options.dpop = dpop)
    }

    /// Sets the parameter `resource`. Default: [`ResourceParameter::FromMetadata`].
    #[must_use]
    pub fn resource(self, resource: ResourceParameter) -> Self {
        self.with(|options| options.resource = resource)
    }

    /// Sets the profile: several logins at one server are kept apart by it. Default: none.
    #[must_use]
    pub fn profile(self, profile: impl Into<String>) -> Self {
        self.with(|options| options.profile = profile.into())
    }

    /// Time before the end of a token at which it is renewed in the background; at most half of its lifetime. Default: 5 min.
    #[must_use]
    pub fn refresh_ahead(self, time: Duration) -> Self {
        self.with(|options| options.refresh_ahead = time)
    }

    /// Sets the advice in errors for a missing login, such as the command to run. Default: none.
    #[must_use]
    pub fn login_advice(self, advice: impl Into<String>) -> Self {
        self.with(|options| options.login_advice = Some(advice.into()))
    }

    /// Allows metadata and authorization servers at private addresses, on loopback, and without TLS there; and tokens for an MCP server
    /// without TLS. Default: public addresses with HTTPS; and loopback, if the MCP server itself is on loopback.
    #[must_use]
    pub fn allow_private_network(self) -> Self {
        self.with(|options| options.network.is_private_allowed = true)
    }

    /// Connects to authorization servers through this proxy. Default: the proxies of the system.
    #[must_use]
    pub fn proxy(self, url: impl AsRef<str>) -> Self {
        self.with(|options| options.network.proxy = ProxyOption::Url(url.as_ref().to_owned()))
    }

    /// Connects to authorization servers without a proxy. Default: the proxies of the system.
    #[must_use]
    pub fn no_proxy(self) -> Self {
        self.with(|options| options.network.proxy = ProxyOption::None)
    }

    /// Trusts these PEM certificates in addition to those of the system.
    #[must_use]
    pub fn root_certificates(self, pem: impl AsRef<[u8]>) -> Self {
        self.with(|options| options.network.root_certificates.extend_from_slice(pem.as_ref()))
    }

    /// Returns a valid access token for a server: the stored one, a renewed one, or that of a new login.
    ///
    /// A token that is bound to a key (DPoP) is of no use alone; use [`OAuth`] as an authorizer or [`layer`](Self::layer).
    ///
    /// # Errors
    /// When the URL is invalid, or no token can be obtained.
    #[doc(alias = "get_token")]
    pub async fn token(&self, server: impl AsRef<str>) -> Result<Secret, OAuthError> {
        self.server_login(server.as_ref())?.token().await
    }

    /// Renews the access token now, and returns it.
    ///
    /// # Errors
    /// When there is no login, or it cannot be renewed.
    pub async fn refresh_now(&self, server: impl AsRef<str>) -> Result<Secret, OAuthError> {
        self.server_login(server.as_ref())?.refresh_now().await
    }

    /// Logs in now, even if there is a valid login.
    ///
    /// # Errors
    /// When the login fails.
    pub async fn login_now(&self, server: impl AsRef<str>) -> Result<LoginStatus, OAuthError> {
        self.server_login(server.as_ref())?.log_in(false).await
    }

    /// Logs in with a new registration of this client, for providers that have forgotten the old one.
    ///
    /// # Errors
    /// When the login fails.
    pub async fn login_with_new_registration(&self, server: impl AsRef<str>) -> Result<LoginStatus, OAuthError> {
        self.server_login(server.as_ref())?.log_in(true).await
    }

    /// Removes the login of a server, and revokes its tokens if the authorization server supports that. Returns `false` if there
    /// was no login.
    ///
    /// # Errors
    /// When the store fails. A failed revocation is logged; the login is removed in any case.
    pub async fn logout(&self, server: impl AsRef<str>) -> Result<bool, OAuthError> {
        self.server_login(server.as_ref())?.log_out().await
    }

    /// Returns the stored login of a server.
    ///
    /// # Errors
    /// When the store fails.
    #[doc(alias = "get_token_info")]
    pub async fn status(&self, server: impl AsRef<str>) -> Result<Option<LoginStatus>, OAuthError> {
        self.server_login(server.as_ref())?.status().await
    }

    fn server_login(&self, server: &str) -> Result<Arc<ServerLogin>, OAuthError> {
        let url = Url::parse(server).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let url = url.ok_or_else(|| {
            // The text may contain a secret.
            OAuthError::new(OAuthErrorKind::InvalidParameter(
                "the server is not a valid http:// or https:// URL".to_owned(),
            ))
        })?;
        Ok(self.login_of(&url))
    }

    fn login_of(&self, server: &Url) -> Arc<ServerLogin> {
        let options = &self.0.options;
        let key = LoginKey::new(server, &options.profile);
        let mut logins = self.0.logins.lock();
        let new = || Arc::new(ServerLogin::new(options.clone(), server.clone(), key.clone()));
        logins.entry(key.server.clone()).or_insert_with(new).clone()
    }

    pub(super) fn authorizer_of(&self, server: &Url) -> LoginAuthorizer {
        LoginAuthorizer::new(self.login_of(server))
    }
}

impl fmt::Debug for OAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.0.options;
        f.debug_struct("OAuth")
            .field("client_name", &options.client_name)
            .field("profile", &options.profile)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_as_documented() {
        use turms_defaults::{assert_documented, time, when};

        let client = OAuth::new("app");
        let it = &client.0.options;
        let is_system_proxy = matches!(it.network.proxy, ProxyOption::System);
        let code = [
            ("OAuth::proxy", when(is_system_proxy, "the proxies of the system")),
            ("OAuth::no_proxy", when(is_system_proxy, "the proxies of the system")),
            ("OAuth::scopes", when(it.scopes.is_empty(), "none")),
            ("OAuth::client", when(it.clients.is_empty(), "dynamic registration")),
            ("OAuth::login", when(format!("{:?}", it.login).contains("browser"), "[`Login::browser`]")),
            ("OAuth::grant", when(matches!(it.grant, Grant::Person), "a person logs in")),
            ("OAuth::dpop", when(it.dpop == Dpop::WhenAsked, "[`Dpop::WhenAsked`]")),
            (
                "OAuth::resource",
                when(it.resource == ResourceParameter::FromMetadata, "[`ResourceParameter::FromMetadata`]"),
            ),
            ("OAuth::profile", when(it.profile.is_empty(), "none")),
            ("OAuth::refresh_ahead", time(it.refresh_ahead)),
            ("OAuth::login_advice", when(it.login_advice.is_none(), "none")),
            ("OAuth::allow_private_network", when(!it.network.is_private_allowed, "public addresses with HTTPS")),
        ];
        assert_documented(include_str!("oauth.rs"), &code);
    }
}
